// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/op_cases.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "engine/base/str.h"
#include "engine/cpu/exec.h"
#include "engine/cpu/kernels.h"
#include "engine/gpu/exec.h"
#include "engine/gpu/prepare.h"
#include "engine/ops/infer.h"
#include "engine/runtime/weights.h"
#include "engine/tensor/compare.h"

namespace sinter::diag {
namespace {

// A case as a model of one node.
struct Model {
  std::shared_ptr<const Graph> graph;
  std::vector<Tensor> inputs;    // of the graph
  std::vector<Tensor> expected;  // by the reference row
  plan::Bindings bindings;
};

Result<Tensor> seeded(const OpCase::Input& input, uint32_t seed) {
  Tensor tensor = SINTER_TRY(Tensor::alloc(input.dtype, input.shape));
  std::mt19937 random(seed);
  for (size_t i = 0; i < tensor.numel(); ++i) {
    const double unit = random() / 4294967296.0;
    const double drawn = input.lo + unit * (input.hi - input.lo);
    set_f64(tensor, i, input.values.empty() ? drawn : input.values[i % input.values.size()]);
  }
  return tensor;
}

// Of a node whose operands are all constant nothing would be left to run: the first one becomes an input, unless its
// contents decide shapes.
bool is_initialiser(const OpDef& op, const OpCase& c, size_t i) {
  if (!c.inputs[i].constant) return false;
  const bool all = std::ranges::all_of(c.inputs, [](const auto& input) { return input.constant || input.absent; });
  return !all || i > 0 || (op.shape_operands & 1u);
}

Result<Model> make_model(const OpDef& op, const OpCase& c) {
  auto graph = std::make_shared<Graph>();
  Model model;
  Node node;
  node.name = c.name;
  node.op = &op;
  node.attrs = c.attrs;
  node.expr = c.expr;
  node.epilogue_first = c.epilogue_first;
  std::vector<Tensor> tensors(c.inputs.size());
  std::vector<TensorInfo> infos(c.inputs.size());
  std::vector<const Tensor*> operands(c.inputs.size());
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    infos[i].present = !c.inputs[i].absent;
    node.inputs.push_back(kNone);
    if (!infos[i].present) continue;
    tensors[i] = SINTER_TRY(seeded(c.inputs[i], static_cast<uint32_t>(i + 1)));
    operands[i] = &tensors[i];
    const ValueId id = graph->add_value(StrCat("x", i), tensors[i].dtype(), tensors[i].shape());
    node.inputs[i] = id;
    const bool constant = is_initialiser(op, c, i);
    infos[i] = {tensors[i].dtype(), tensors[i].shape(), constant ? &tensors[i] : nullptr, true, constant};
    if (constant) {
      graph->values[id].constant = tensors[i];
    } else {
      graph->inputs.push_back(id);
      model.inputs.push_back(tensors[i]);
      model.bindings.inputs.push_back(tensors[i].shape());
    }
  }
  node.outputs.resize(c.outputs, 0);  // wanted
  const std::vector<TensorInfo> outputs = SINTER_TRY(infer_node(node, infos, true));
  model.expected = SINTER_TRY(run_reference(node, operands, outputs));
  for (size_t i = 0; i < c.outputs; ++i) {
    node.outputs[i] = graph->add_value(StrCat("y", i), outputs[i].dtype, outputs[i].shape);
    graph->values[node.outputs[i]].producer = 0;
    graph->outputs.push_back(node.outputs[i]);
  }
  graph->nodes.push_back(std::move(node));
  model.graph = std::move(graph);
  for (ValueId id : SINTER_TRY(plan::needed_values(*model.graph, model.bindings))) {
    const size_t at = std::ranges::find(model.graph->inputs, id) - model.graph->inputs.begin();
    model.bindings.values.push_back({id, model.inputs[at]});
  }
  return model;
}

struct Ran {
  std::vector<Tensor> outputs;
  bool own_kernel = true;
  std::string skipped;  // why this backend does not run the node itself
};

Result<Ran> run_on_cpu(Engine& engine, const Model& model) {
  plan::Target target;
  target.backend = plan::Backend::cpu;
  target.host_kernels = cpu::host_kernels();
  target.threads = engine.pool().threads();
  const auto plan = SINTER_TRY(plan::build(model.graph, target, model.bindings));
  Weights weights(model.graph);
  const auto prepared = SINTER_TRY(cpu::Prepared::make(plan, weights, engine.pool()));
  cpu::CpuRun run = SINTER_TRY(cpu::CpuRun::start(*prepared, model.inputs));
  if (cpu::run_some(run, cpu::Budget::infinite()) == cpu::StepStatus::failed) return std::unexpected(run.error());
  Ran ran{.outputs = run.take_outputs()};
  for (const plan::Step& step : plan->steps) ran.own_kernel &= step.host_kernel != nullptr;
  return ran;
}

// By value: after a timeout this is left to itself.
Task<Ran> run_on_device(std::shared_ptr<Engine> engine, Model model, CancelToken cancel) {
  const auto device = SINTER_CO_TRY(co_await engine->device());
  plan::Target target;
  target.backend = plan::Backend::webgpu;
  target.gpu = device->target();
  target.host_kernels = cpu::host_kernels();
  const auto plan = SINTER_CO_TRY(plan::build(model.graph, target, model.bindings));
  for (const plan::Step& step : plan->steps) {
    if (step.kind == plan::Step::Kind::host) co_return Ran{.skipped = step.reason};
  }
  Weights weights(model.graph);
  auto prepared = SINTER_CO_TRY(co_await gpu::prepare(engine->pipelines(), std::make_shared<gpu::DeviceWeights>(device),
                                                      plan, weights, cancel, nullptr));
  co_return Ran{.outputs = SINTER_CO_TRY(co_await gpu::run(prepared, model.inputs, nullptr, cancel, nullptr))};
}

// The largest difference as a part of what the case tolerates; integers must be equal.
double worst_part(const Tensor& actual, const Tensor& expected, const OpCase& c, double& worst_abs) {
  double worst = 0;
  const double rtol = is_float(expected.dtype()) ? c.rtol : 0;
  for (size_t i = 0; i < expected.numel(); ++i) {
    const double a = get_f64(actual, i), e = get_f64(expected, i);
    if (a == e || (std::isnan(a) && std::isnan(e))) continue;
    const double difference = std::abs(a - e);
    if (!std::isfinite(difference)) continue;  // counted by the comparison
    worst_abs = std::max(worst_abs, difference);
    worst = std::max(worst, difference / (c.atol + rtol * std::abs(e)));
  }
  return worst;
}

class Tester {
 public:
  Tester(std::shared_ptr<Engine> engine, CasesOptions options)
      : engine_(std::move(engine)), options_(std::move(options)) {
    for (auto [backend, wanted] : {std::pair{plan::Backend::reference, true},
                                   {plan::Backend::cpu, options_.cpu},
                                   {plan::Backend::webgpu, options_.webgpu}}) {
      if (wanted) results_.push_back({.backend = backend});
    }
  }

  Task<std::vector<BackendCases>> run() {
    for (const OpDef* op : all_ops()) {
      const bool wanted = options_.only.empty() || std::ranges::find(options_.only, op->name) != options_.only.end();
      if (!op->cases || !wanted) continue;
      SINTER_CO_CHECK_OK(options_.cancel.check());
      trace::Span span(&engine_->trace(), "operator cases", {}, op->name);
      std::vector<OpCase> cases;
      op->cases(cases);
      for (BackendCases& result : results_) result.operators.push_back({std::string(op->name), {}});
      for (const OpCase& c : cases) SINTER_CO_CHECK_OK(co_await run_case(*op, c));
      co_await next_turn();
    }
    co_return std::move(results_);
  }

 private:
  Task<> run_case(const OpDef& op, const OpCase& c) {
    double start = trace::now_ms();
    auto model = make_model(op, c);
    note(results_[0], c, trace::now_ms() - start, model ? "" : to_string(model.error()));
    if (!model) co_return Result<>{};
    for (BackendCases& result : std::span(results_).subspan(1)) {
      if (!result.stopped.empty()) continue;
      start = trace::now_ms();
      Result<Ran> ran;
      if (result.backend == plan::Backend::cpu) {
        ran = run_on_cpu(*engine_, *model);
      } else {
        ran = co_await engine_->watchdog().guard(engine_->executor(), run_on_device(engine_, *model, options_.cancel));
      }
      const double ms = trace::now_ms() - start;
      if (!ran && ran.error().code == Code::Cancelled) co_return std::unexpected(std::move(ran).error());
      if (!ran && (ran.error().code == Code::DeviceLost || ran.error().code == Code::Timeout)) {
        result.stopped = StrCat("at ", op.name, " '", c.name, "': ", ran.error().message);
      }
      if (ran && !ran->skipped.empty()) {
        skip(result);
        continue;
      }
      compare_all(result, c, *model, ran, ms);
    }
    co_return Result<>{};
  }

  void compare_all(BackendCases& result, const OpCase& c, const Model& model, const Result<Ran>& ran, double ms) {
    if (!ran) return note(result, c, ms, to_string(ran.error()));
    std::string reason;
    double worst = 0, worst_abs = 0;
    for (size_t i = 0; i < model.expected.size() && reason.empty(); ++i) {
      const Tensor &actual = ran->outputs[i], &expected = model.expected[i];
      const auto compared = sinter::compare(actual, expected, {c.rtol, c.atol});
      if (!compared) {
        reason = to_string(compared.error());
      } else {
        if (!compared->equal()) reason = StrCat("output ", i, ": ", to_string(*compared, expected.shape()));
        worst = std::max(worst, worst_part(actual, expected, c, worst_abs));
      }
    }
    const std::string name = StrCat(result.operators.back().op, " '", c.name, "'");
    for (CaseNumbers* numbers : {&result.total, &result.operators.back().numbers}) {
      numbers->own_kernels += ran->own_kernel;
      numbers->worst_abs = std::max(numbers->worst_abs, worst_abs);
      if (worst > numbers->worst) {
        numbers->worst = worst;
        numbers->worst_case = name;
      }
    }
    note(result, c, ms, reason);
  }

  static void note(BackendCases& result, const OpCase& c, double ms, const std::string& failure) {
    OperatorNumbers& row = result.operators.back();
    for (CaseNumbers* numbers : {&result.total, &row.numbers}) {
      ++numbers->cases;
      ++(failure.empty() ? numbers->passed : numbers->failed);
      numbers->ms += ms;
    }
    if (!failure.empty()) result.failures.push_back({row.op, c.name, failure});
  }

  static void skip(BackendCases& result) {
    for (CaseNumbers* numbers : {&result.total, &result.operators.back().numbers}) {
      ++numbers->cases;
      ++numbers->skipped;
    }
  }

  std::shared_ptr<Engine> engine_;
  CasesOptions options_;
  std::vector<BackendCases> results_;
};

}  // namespace

Task<std::vector<BackendCases>> run_cases(std::shared_ptr<Engine> engine, CasesOptions options) {
  Tester tester(std::move(engine), std::move(options));
  co_return co_await tester.run();
}

}  // namespace sinter::diag
