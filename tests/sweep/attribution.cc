// SPDX-License-Identifier: Apache-2.0
// sweep_attribution MODEL --backend cpu|webgpu|reference [--sample N] [--seed S] [--kinds wrong,nan,error] [--threads N]
//
// Injects each kind of fault at each node in turn (or at N of them) and asks whether compare, bisect and the error itself name
// exactly that node. One JSON line per fault on standard output; progress on standard error. The model is mapped once and the
// good side runs once. Exit code 0: every fault attributed; 1: not; 2: usage or a broken good side.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine/async/block_on_native.h"
#include "engine/base/json.h"
#include "engine/base/str.h"
#include "engine/diag/bisect.h"
#include "engine/diag/cut.h"
#include "engine/onnx/external_data.h"

namespace sinter {
namespace {

const Tolerance kTolerance = diag::default_tolerance({}, {});

// Nothing here hangs on purpose, and software adapters on busy machines are slow.
constexpr double kTimeoutMs = 600'000;

struct Options {
  std::string model;
  BackendChoice backend = BackendChoice::cpu;
  std::vector<std::string> kinds = {"wrong", "nan", "error"};
  size_t sample = 0;
  uint32_t seed = 1;
  unsigned threads = 1;
};

struct Row {
  std::string node, op, kind;
  std::string compared, bisected, error;  // the node that was named; "" where none
  bool inert = false;                     // the fault does not reach an output of the model
  bool attributed = false;
  int runs = 0;
};

class Sweep {
 public:
  explicit Sweep(const Options& options)
      : options_(options),
        engine_(std::make_shared<Engine>(EngineOptions{.threads = options.threads, .timeout_ms = kTimeoutMs})) {
    spec_.backend = options.backend;
  }

  Result<int> run() {
    file_ = SINTER_TRY(onnx::map_file(options_.model));
    const diag::Cutter cutter = SINTER_TRY(diag::Cutter::make(source()));
    SINTER_CHECK_OK(make_inputs(cutter.graph()));
    std::vector<Row> faults = list_faults(cutter.graph());
    const double bound = 2 * std::log2(static_cast<double>(node_count_)) + 4;
    const double start = trace::now_ms();
    size_t done = 0, wrong = 0, inert = 0;
    for (Row& row : faults) {
      SINTER_CHECK_OK(probe(row));
      if (row.runs > bound) row.attributed = false;
      print(row);
      wrong += !row.attributed;
      inert += row.inert;
      if (++done % 20 == 0 || done == faults.size()) {
        std::fprintf(stderr, "%s %s: %zu of %zu faults, %zu not attributed, %zu inert, %.0f s\n",
                     options_.model.c_str(), std::string(diag::backend_name(options_.backend)).c_str(), done,
                     faults.size(), wrong, inert, (trace::now_ms() - start) / 1e3);
      }
    }
    return wrong ? 1 : 0;
  }

 private:
  ModelSource source() const { return {file_.bytes, file_.owner, nullptr}; }

  template <class T>
  Result<T> wait(Task<T> task) {
    return block_on(engine_->executor(), std::move(task), [this] { return engine_->poll(); });
  }

  Result<> make_inputs(const Graph& graph) {
    std::mt19937 random(11);
    for (ValueId id : graph.inputs) {
      const Value& value = graph.values[id];
      Shape shape = *value.shape;
      for (size_t i = 0; i < shape.rank(); ++i) shape[i] = is_known(shape[i]) ? shape[i] : 1;
      Tensor tensor = SINTER_TRY(Tensor::alloc(value.dtype, shape));
      std::normal_distribution<double> normal;
      for (size_t i = 0; i < tensor.numel(); ++i) set_f64(tensor, i, normal(random));
      inputs_.push_back({value.name, tensor});
    }
    return {};
  }

  // Every kind at every node that computes something from the inputs, or at a sample of those nodes per kind.
  std::vector<Row> list_faults(const Graph& graph) {
    const std::vector<bool> constant = constant_values(graph);
    std::vector<Row> nodes;
    for (const Node& node : graph.nodes) {
      if (node.outputs.empty() || node.outputs[0] == kNone || constant[node.outputs[0]]) continue;
      nodes.push_back({node.name, std::string(node.op->name), "", "", "", "", false, false, 0});
    }
    node_count_ = nodes.size();
    std::mt19937 random(options_.seed);
    std::vector<Row> faults;
    for (const std::string& kind : options_.kinds) {
      std::vector<Row> chosen = nodes;
      if (options_.sample && options_.sample < chosen.size()) {
        std::shuffle(chosen.begin(), chosen.end(), random);
        chosen.resize(options_.sample);
      }
      for (Row& row : chosen) {
        row.kind = kind;
        faults.push_back(row);
      }
    }
    return faults;
  }

  Result<> probe(Row& row) {
    diag::Spec bad = spec_;
    bad.inject = Fault{row.node, row.kind};
    if (row.kind == "error") return probe_error(row, bad);
    const auto compared = SINTER_TRY(wait(diag::compare(engine_, source(), spec_, bad, inputs_, kTolerance, &kept_)));
    if (compared.first && compared.first->nodes.size() == 1) row.compared = compared.first->nodes[0];
    const auto found = SINTER_TRY(wait(diag::bisect(engine_, source(), spec_, bad, inputs_, kTolerance, &kept_)));
    row.runs = found.runs;
    row.inert = found.kind == diag::BisectResult::Kind::none;
    if (found.kind == diag::BisectResult::Kind::node && found.nodes.size() == 1) row.bisected = found.nodes[0];
    row.attributed = row.compared == row.node && (row.inert || row.bisected == row.node);
    return {};
  }

  Result<> probe_error(Row& row, const diag::Spec& bad) {
    const auto outputs = wait(run_once(engine_, source(), bad, inputs_));
    if (outputs) return {};
    const std::string text = to_string(outputs.error());
    const size_t from = text.find("node '"), to = from == std::string::npos ? from : text.find("' failed", from);
    if (to != std::string::npos) row.error = text.substr(from + 6, to - from - 6);
    row.attributed = row.error == row.node;
    return {};
  }

  static Task<std::vector<NamedTensor>> run_once(std::shared_ptr<Engine> engine, ModelSource source, diag::Spec spec,
                                                 std::vector<NamedTensor> inputs) {
    const auto session = SINTER_CO_TRY(co_await open_session(engine, source, diag::options_for(spec)));
    co_return co_await session->run(std::move(inputs), {});
  }

  static void print(const Row& row) {
    Json json;
    json.open('{').field("node", row.node).field("op", row.op).field("kind", row.kind);
    if (row.kind == "error") {
      json.field("error", row.error);
    } else {
      json.field("compare", row.compared).field("bisect", row.bisected).field("runs", row.runs);
    }
    json.key("inert").raw(row.inert ? "true" : "false").key("attributed").raw(row.attributed ? "true" : "false");
    std::printf("%s\n", json.close('}').text().c_str());
    std::fflush(stdout);
  }

  Options options_;
  std::shared_ptr<Engine> engine_;
  onnx::FileBytes file_;
  diag::Spec spec_;
  std::vector<NamedTensor> inputs_;
  diag::KeptRuns kept_;
  size_t node_count_ = 0;
};

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (!flag.starts_with("--")) {
      options.model = flag;
      continue;
    }
    if (++i == argc) return std::nullopt;
    const std::string value = argv[i];
    if (flag == "--backend" && value == "cpu") {
      options.backend = BackendChoice::cpu;
    } else if (flag == "--backend" && value == "webgpu") {
      options.backend = BackendChoice::webgpu;
    } else if (flag == "--backend" && value == "reference") {
      options.backend = BackendChoice::reference;
    } else if (flag == "--sample") {
      options.sample = std::strtoul(value.c_str(), nullptr, 10);
    } else if (flag == "--seed") {
      options.seed = static_cast<uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (flag == "--threads") {
      options.threads = static_cast<unsigned>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (flag == "--kinds") {
      options.kinds.clear();
      for (size_t at = 0; at <= value.size();) {
        const size_t end = std::min(value.find(',', at), value.size());
        options.kinds.push_back(value.substr(at, end - at));
        at = end + 1;
      }
    } else {
      return std::nullopt;
    }
  }
  return options.model.empty() ? std::nullopt : std::optional(options);
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  const auto options = sinter::parse(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: sweep_attribution MODEL --backend cpu|webgpu|reference [--sample N] [--seed S] "
                 "[--kinds wrong,nan,error] [--threads N]\n");
    return 2;
  }
  const auto status = sinter::Sweep(*options).run();
  if (status) return *status;
  std::fprintf(stderr, "%s\n", sinter::to_string(status.error()).c_str());
  return 2;
}
