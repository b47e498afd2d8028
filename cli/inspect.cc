// SPDX-License-Identifier: Apache-2.0
// sinter inspect MODEL
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>

#include "cli/runner.h"
#include "cli/verbs.h"
#include "engine/base/str.h"
#include "engine/cpu/kernels.h"
#include "engine/onnx/import.h"
#include "engine/onnx/parse.h"
#include "engine/runtime/inputs.h"

namespace sinter::cli {
namespace {

struct Options {
  CommonOptions common;
  std::string model;
  std::vector<std::string> dims;
};

using Dims = std::vector<std::pair<std::string, int64_t>>;

Json describe(const std::vector<onnx::ValueInfoProto>& infos, const std::set<std::string_view>& initializers) {
  Json rows = Json::array();
  for (const onnx::ValueInfoProto& info : infos) {
    if (initializers.contains(info.name)) continue;
    Json shape = Json::array();
    for (const onnx::DimProto& dim : info.dims) {
      if (dim.known) {
        shape.push_back(dim.value);
      } else {
        shape.push_back(dim.symbol.empty() ? "?" : std::string(dim.symbol));
      }
    }
    rows.push_back({{"name", info.name},
                    {"dtype", info.kind == "tensor" ? onnx::type_name(info.element_type) : std::string(info.kind)},
                    {"shape", info.has_shape ? shape : Json()}});
  }
  return rows;
}

Json describe(const onnx::Model& model) {
  std::set<std::string_view> initializers;
  uint64_t parameters = 0;
  for (const onnx::TensorProto& tensor : model.graph.initializers) {
    initializers.insert(tensor.name);
    uint64_t elements = 1;
    for (const int64_t dim : tensor.dims) elements *= static_cast<uint64_t>(dim);
    parameters += elements;
  }
  std::map<std::string, size_t> ops;
  for (const onnx::NodeProto& node : model.graph.nodes) {
    const bool standard = node.domain.empty() || node.domain == "ai.onnx";
    ++ops[standard ? std::string(node.op) : StrCat(node.domain, ".", node.op)];
  }
  Json opsets = Json::object();
  for (const onnx::Opset& opset : model.opsets)
    opsets[opset.domain.empty() ? "ai.onnx" : std::string(opset.domain)] = opset.version;
  return {{"ir", model.ir_version},
          {"opsets", opsets},
          {"producer", StrCat(model.producer, model.producer_version.empty() ? "" : " ", model.producer_version)},
          {"inputs", describe(model.graph.inputs, initializers)},
          {"outputs", describe(model.graph.outputs, {})},
          {"ops", ops},
          {"nodes", model.graph.nodes.size()},
          {"parameters", parameters},
          {"bytes", model.file_bytes}};
}

template <class Row>
Json refusals(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows) {
    list.push_back({{"node", row.node}, {"op", row.op}, {"reason", row.reason}, {"hint", row.hint}});
  }
  return list;
}

uint64_t weight_bytes(const plan::Plan& plan, const plan::WeightUse& use) {
  const plan::PlannedValue& value = plan.values[use.value];
  const auto elements = static_cast<uint64_t>(checked_numel(value.shape).value_or(0));
  return use.on_device ? wgsl::device_bytes(value.dtype, elements, plan.target.gpu) : elements * size_of(value.dtype);
}

struct Planned {
  Json json;
  size_t dispatches = 0;
};

Planned describe(const plan::Plan& plan) {
  uint64_t weights = 0, largest = std::max(plan.host_arena_bytes, plan.device_arena_bytes);
  for (const plan::WeightUse& use : plan.weights) {
    const uint64_t bytes = weight_bytes(plan, use);
    weights += bytes;
    largest = std::max(largest, bytes);
  }
  // Inputs must go up and outputs come down in any case: a crossing is what an island on the CPU adds.
  const auto listed = [](const std::vector<ValueId>& ids, const plan::Step& step) {
    return !step.inputs.empty() && std::find(ids.begin(), ids.end(), step.inputs[0]) != ids.end();
  };
  size_t crossings = 0, host_steps = 0;
  for (const plan::Step& step : plan.steps) {
    crossings += step.kind == plan::Step::Kind::upload && !listed(plan.graph->inputs, step);
    crossings += step.kind == plan::Step::Kind::download && !listed(plan.graph->outputs, step);
    host_steps += step.kind == plan::Step::Kind::host;
  }
  return {{{"supported", true},
           {"unsupported", Json::array()},
           {"peak_bytes", plan.host_arena_bytes + plan.device_arena_bytes + plan.max_scratch_bytes + weights},
           {"largest_buffer", largest},
           {"pipelines", plan.pipelines()},
           {"dispatches", plan.dispatches()},
           {"crossings", crossings},
           {"steps", plan.steps.size()},
           {"cpu_steps", plan.target.backend == plan::Backend::webgpu ? host_steps : 0}},
          plan.dispatches()};
}

class Inspector {
 public:
  Inspector(const Options& options, Runner& runner, const ModelFile& file)
      : options_(options), runner_(runner), file_(file) {}

  Result<Json> backend(plan::Backend backend, const Dims& dims) {
    plan::Target target;
    target.backend = backend;
    target.threads = runner_.engine().pool().threads();
    if (backend != plan::Backend::reference) target.host_kernels = cpu::host_kernels();
    std::string note;
    if (backend == plan::Backend::webgpu) {
      const auto device = runner_.wait(runner_.engine().device());
      if (device) {
        target.gpu = (*device)->target();
      } else {
        note = StrCat("planned for WebGPU's guaranteed limits, as no device is there: ", device.error().message);
      }
    }
    Json on = SINTER_TRY(plan_json(target, dims, true));
    const Json off = SINTER_TRY(plan_json(target, dims, false));
    if (on.contains("dispatches") && off.contains("dispatches")) on["dispatches_unfused"] = off["dispatches"];
    if (!note.empty()) on["note"] = note;
    return on;
  }

 private:
  Result<Json> plan_json(const plan::Target& target, const Dims& dims, bool fusion) {
    SessionOptions session = options_.common.session_options();
    session.fusion = session.fusion && fusion;
    session.backend = target.backend == plan::Backend::reference ? BackendChoice::reference : BackendChoice::cpu;
    const auto graph = SINTER_TRY(load_graph(file_.source(), session, nullptr));
    const auto bindings = SINTER_TRY(default_bindings(*graph, dims));
    const bool plannable = bindings && SINTER_TRY(plan::needed_values(*graph, *bindings)).empty();
    if (!plannable) {
      return Json{{"supported", Json()},
                  {"unsupported", Json::array()},
                  {"note", "shapes depend on input contents: planned at the first run"}};
    }
    std::vector<plan::Refusal> refused;
    const auto plan = plan::build(graph, target, *bindings, &refused);
    if (plan) return describe(**plan).json;
    if (plan.error().code != Code::Unsupported) return std::unexpected(plan.error());
    return Json{{"supported", false}, {"unsupported", refusals(refused)}};
  }

  const Options& options_;
  Runner& runner_;
  const ModelFile& file_;
};

std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void print(const Json& document) {
  std::printf("IR %s, opsets", text_of(document["ir"]).c_str());
  for (const auto& [domain, version] : document["opsets"].items())
    std::printf(" %s %s", domain.c_str(), text_of(version).c_str());
  std::printf(", %s nodes, %s parameters, %s bytes\n", text_of(document["nodes"]).c_str(),
              text_of(document["parameters"]).c_str(), text_of(document["bytes"]).c_str());
  for (const char* list : {"inputs", "outputs"}) {
    for (const Json& row : document[list]) {
      std::printf("%.*s %s %s%s\n", static_cast<int>(std::string_view(list).size()) - 1, list,
                  text_of(row["name"]).c_str(), text_of(row["dtype"]).c_str(),
                  row["shape"].is_null() ? "" : text_of(row["shape"]).c_str());
    }
  }
  for (const auto& [op, count] : document["ops"].items())
    std::printf("  %s x %s\n", text_of(count).c_str(), op.c_str());
  for (const auto& [name, backend] : document["backends"].items()) {
    const Json& supported = backend["supported"];
    std::printf("%s: %s\n", name.c_str(),
                supported.is_null()     ? "not planned yet"
                : supported.get<bool>() ? "supported"
                                        : "not supported");
    for (const auto& [key, value] : backend.items()) {
      if (key != "supported" && key != "unsupported") std::printf("  %s %s\n", key.c_str(), text_of(value).c_str());
    }
    for (const Json& row : backend["unsupported"]) {
      std::printf("  '%s' (%s): %s\n    hint: %s\n", text_of(row["node"]).c_str(), text_of(row["op"]).c_str(),
                  text_of(row["reason"]).c_str(), text_of(row["hint"]).c_str());
    }
  }
}

Result<Outcome> inspect(const Options& options) {
  const Dims dims = SINTER_TRY(parse_dims(options.dims));
  const ModelFile file = SINTER_TRY(open_model_file(options.model));
  const auto with_path = [&](Error error) {
    return std::unexpected(std::move(error).with_context(StrCat("inspecting '", options.model, "'")));
  };
  auto model = onnx::parse(file.file.bytes, file.file.owner);
  if (!model) return with_path(std::move(model).error());
  Outcome outcome{describe(*model)};
  Json backends = Json::object();

  std::vector<onnx::RefusedNode> refused;
  const auto imported = onnx::import(*model, {.external_data = file.external.get(), .refused = &refused});
  if (!imported && imported.error().code != Code::Unsupported) return with_path(imported.error());
  const auto runner = SINTER_TRY(Runner::make(options.common));
  Inspector inspector(options, *runner, file);
  for (const plan::Backend backend : {plan::Backend::reference, plan::Backend::cpu, plan::Backend::webgpu}) {
    const std::string name(plan::name_of(backend));
    if (options.common.backend != "auto" && options.common.backend != name) continue;
    if (!imported && refused.empty()) return with_path(imported.error());
    if (!imported) {
      backends[name] = {{"supported", false}, {"unsupported", refusals(refused)}};
      continue;
    }
    auto planned = inspector.backend(backend, dims);
    if (!planned) return with_path(std::move(planned).error());
    backends[name] = *planned;
  }
  outcome.document["backends"] = backends;
  if (!options.common.json) print(outcome.document);
  return outcome;
}

}  // namespace

Verb add_inspect(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("inspect", "say what is in a model and what each backend makes of it");
  verb->add_option("MODEL", options->model, "the ONNX file")->required();
  verb->add_option("--dim", options->dims, "the size of a symbolic dimension (default 1)")
      ->check(kAssignment)
      ->type_name("NAME=N");
  add_common(*verb, options->common);
  return {verb, [options] { return inspect(*options); }, [options] { return options->common.json; }};
}

}  // namespace sinter::cli
