// SPDX-License-Identifier: Apache-2.0
// sinter bench MODEL
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/inputs.h"
#include "cli/runner.h"
#include "cli/verbs.h"
#include "engine/base/memory.h"
#include "engine/base/str.h"

namespace sinter::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model;
  size_t runs = 20, warmup = 3;
  int64_t batch = 0;
  bool profile = false;
};

/// The symbol that is the first dimension of the first input.
Result<std::vector<std::pair<std::string, int64_t>>> batch_dims(const Options& options) {
  std::vector<std::pair<std::string, int64_t>> dims;
  if (options.batch == 0) return dims;
  const ModelFile model = SINTER_TRY(open_model_file(options.model));
  const auto graph = SINTER_TRY(load_graph(model.source(), options.common.session_options(), nullptr));
  for (const ValueId id : graph->inputs) {
    const Value& input = graph->values[id];
    if (!input.shape || input.shape->rank() == 0) continue;
    const int64_t dim = (*input.shape)[0];
    if (is_symbol(dim)) {
      dims.push_back({graph->symbols[symbol_of(dim)], options.batch});
    } else if (dim != options.batch) {
      return fail(Code::InvalidInput,
                  StrCat("the first dimension of input '", input.name, "' is fixed to ", dim,
                         ", so the batch cannot be ", options.batch),
                  "export the model with a symbolic first dimension");
    }
    break;
  }
  return dims;
}

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

Json node_rows(const Session& session) {
  Json rows = Json::array();
  const auto plan = session.plan();
  if (!plan) return rows;
  for (const plan::Step& step : plan->steps) {
    if (step.node == kNone) continue;
    const Node& node = session.graph().nodes[step.node];
    const bool device = step.kind == plan::Step::Kind::dispatch;
    std::string kernel = device             ? step.kernel.name
                         : step.host_kernel ? std::string(step.host_kernel->name)
                                            : std::string("reference");
    rows.push_back({{"node", node.name}, {"op", node.op->name}, {"on", device ? "webgpu" : "cpu"}, {"kernel", kernel}});
  }
  return rows;
}

Result<Outcome> bench(const Options& options) {
  const auto dims = SINTER_TRY(batch_dims(options));
  const auto runner = SINTER_TRY(Runner::make(options.common));
  SessionOptions session_options = options.common.session_options();
  session_options.dims = dims;
  reset_memory_peak();
  const auto session = SINTER_TRY(runner->open(options.model, std::move(session_options)));
  const std::vector<NamedTensor> inputs = SINTER_TRY(make_inputs(*session, {}, dims, 1));
  std::vector<double> times;
  double first_ms = 0;
  for (size_t i = 0; i < 1 + options.warmup + options.runs; ++i) {
    const double start = trace::now_ms();
    SINTER_TRY(runner->wait(session->run(inputs, {.cancel = runner->cancel()})));
    const double ms = trace::now_ms() - start;
    if (i == 0) first_ms = ms;
    if (i > options.warmup) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  const SessionReport& report = session->report();
  report_fallbacks(report);
  const double min = times.front(), median = quantile(times, 0.5), p95 = quantile(times, 0.95);
  if (!options.common.json) {
    std::printf(
        "%s on %s\n  load %.2f ms, prepare %.2f ms, first run %.2f ms\n  warm: min %.2f ms, median %.2f ms, p95 %.2f "
        "ms (%zu runs)\n"
        "  peak %.1f MB, %zu dispatches, %zu pipelines\n",
        options.model.c_str(), std::string(plan::name_of(report.backend)).c_str(), report.load_ms, report.prepare_ms,
        first_ms, min, median, p95, times.size(), static_cast<double>(report.peak_bytes) / 1e6, report.dispatches,
        report.pipelines);
  }
  Json nodes = options.profile ? node_rows(*session) : Json::array();
  if (options.profile && !options.common.json) {
    for (const Json& row : nodes) {
      std::printf("  %-6s %-40s %s (%s)\n", row["on"].get<std::string>().c_str(),
                  row["kernel"].get<std::string>().c_str(), row["node"].get<std::string>().c_str(),
                  row["op"].get<std::string>().c_str());
    }
  }
  return Outcome{{{"model", options.model},
                  {"backend", plan::name_of(report.backend)},
                  {"load_ms", report.load_ms},
                  {"prepare_ms", report.prepare_ms},
                  {"first_ms", first_ms},
                  {"warm_ms", {{"min", min}, {"median", median}, {"p95", p95}}},
                  {"peak_bytes", report.peak_bytes},
                  {"dispatches", report.dispatches},
                  {"pipelines", report.pipelines},
                  {"nodes", nodes}}};
}

}  // namespace

Verb add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("bench", "time a model; every run reads its outputs back");
  verb->add_option("MODEL", options->model, "the ONNX file")->required();
  verb->add_option("--runs", options->runs, "timed runs")->check(CLI::Range(1, 1000000))->capture_default_str();
  verb->add_option("--warmup", options->warmup, "runs between the first and the timed ones")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  verb->add_option("--batch", options->batch, "size of the first dimension")->check(CLI::Range(1, 1 << 20));
  verb->add_flag("--profile", options->profile, "list the steps with their kernels");
  add_common(*verb, options->common);
  return {verb, [options] { return bench(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
