// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/exec.h"

#include <cstring>

#include "engine/base/memory.h"
#include "engine/base/str.h"
#include "engine/base/trace.h"
#include "engine/ops/infer.h"
#include "engine/plan/where.h"

namespace sinter::cpu {
namespace {

using plan::Plan;
using plan::PlannedValue;
using plan::Step;

std::string operands(std::span<const Tensor* const> tensors) {
  std::string text;
  for (const Tensor* tensor : tensors) {
    if (!text.empty()) text += ", ";
    text += tensor ? StrCat(name_of(tensor->dtype()), to_string(tensor->shape())) : "absent";
  }
  return text;
}

// The planned shapes rather than the tensors': a packed weight no longer shows its own.
std::string describe_step(const Plan& plan, const Step& step, std::span<const Tensor* const> inputs) {
  std::string shapes;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (i) shapes += ", ";
    if (step.inputs[i] == kNone) {
      shapes += "absent";
    } else if (step.inputs[i] < plan.values.size()) {
      const PlannedValue& value = plan.values[step.inputs[i]];
      shapes += StrCat(name_of(value.dtype), to_string(value.shape));
    }
  }
  if (shapes.empty()) shapes = operands(inputs);
  return StrCat("running ", describe(plan.graph->nodes[step.node]), " with ",
                step.host_kernel ? step.host_kernel->name : "its reference row", " on ", shapes);
}

Result<Tensor> copy_of(const Tensor& tensor, std::string_view what) {
  Tensor copy = SINTER_TRY(Tensor::alloc(tensor.dtype(), tensor.shape(), what));
  if (copy.nbytes() > 0) std::memcpy(copy.mutable_bytes().data(), tensor.bytes().data(), copy.nbytes());
  return copy;
}

Result<Tensor> allocate_bytes(uint64_t bytes, std::string_view what) {
  return Tensor::alloc(DType::u8, {static_cast<int64_t>(bytes)}, what);
}

}  // namespace

Result<> run_host_step(const Plan& plan, const Step& step, std::span<const Tensor* const> inputs,
                       std::span<Tensor> outputs, std::span<std::byte> scratch, plan::ThreadPool& pool) {
  const Node& node = plan.graph->nodes[step.node];
  Result<> done;
  if (step.host_kernel) {
    done = step.host_kernel->run(plan::HostArgs{node, inputs, outputs, scratch.first(step.scratch_bytes), pool});
  } else {
    for (Tensor& output : outputs) {
      if (output && output.nbytes() > 0) std::memset(output.mutable_bytes().data(), 0, output.nbytes());
    }
    done = node.op->reference(RefContext{node, inputs, outputs});
  }
  if (done) return {};
  const size_t index = static_cast<size_t>(&step - plan.steps.data());
  return std::unexpected(
      at(std::move(done).error(), plan::where(plan, index)).with_context(describe_step(plan, step, inputs)));
}

Result<> run_host_step(const Plan& plan, const Step& step, std::span<const Tensor* const> inputs,
                       std::span<Tensor> outputs, plan::ThreadPool& pool) {
  if (step.scratch_bytes == 0) return run_host_step(plan, step, inputs, outputs, {}, pool);
  Tensor scratch = SINTER_TRY(allocate_bytes(step.scratch_bytes, "a kernel's scratch memory"));
  return run_host_step(plan, step, inputs, outputs, scratch.mutable_bytes(), pool);
}

Result<std::unique_ptr<Prepared>> Prepared::make(std::shared_ptr<const Plan> plan, plan::WeightSource& weights,
                                                 plan::ThreadPool& pool) {
  std::unique_ptr<Prepared> prepared(new Prepared);
  prepared->plan_ = std::move(plan);
  prepared->pool_ = &pool;
  const Plan& p = *prepared->plan_;
  for (const Step& step : p.steps) {
    if (step.kind != Step::Kind::host)
      return fail(Code::Internal, "a plan with device steps cannot run on the CPU alone");
  }
  for (const plan::WeightUse& use : p.weights) {
    prepared->weights_.push_back(SINTER_TRY(weights.load(use, p.target.gpu)));
  }
  const Tensor arena = SINTER_TRY(allocate_bytes(p.host_arena_bytes, "the activation arena"));
  const auto owner = std::make_shared<Tensor>(arena);
  prepared->scratch_ = SINTER_TRY(allocate_bytes(p.max_scratch_bytes, "kernel scratch memory"));
  prepared->values_.resize(p.values.size());
  for (size_t v = 0; v < p.values.size(); ++v) {
    const PlannedValue& value = p.values[v];
    if (value.constant) {
      prepared->values_[v] = value.constant;
    } else if (value.host_offset != ~0ull) {
      const size_t bytes = static_cast<size_t>(value.shape.numel()) * size_of(value.dtype);
      prepared->values_[v] =
          Tensor::view(value.dtype, value.shape, arena.bytes().subspan(value.host_offset, bytes), owner);
    }
  }
  for (ValueId output : p.graph->outputs) {
    if (p.values[output].weight && !prepared->values_[output]) {
      prepared->values_[output] = SINTER_TRY(weights.load({.value = output}, p.target.gpu));
    }
  }
  return prepared;
}

Budget Budget::slice(double ms) { return {trace::now_ms() + ms}; }

Result<CpuRun> CpuRun::start(Prepared& prepared, std::span<const Tensor> inputs, CancelToken cancel,
                             StepObserver* observer) {
  const Plan& plan = prepared.plan();
  const Graph& graph = *plan.graph;
  if (inputs.size() != graph.inputs.size()) {
    return fail(Code::InvalidInput, StrCat("the model takes ", graph.inputs.size(), " inputs, got ", inputs.size()));
  }
  CpuRun run(prepared);
  run.cancel_ = std::move(cancel);
  run.observer_ = observer;
  run.values_ = prepared.values_;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const PlannedValue& planned = plan.values[graph.inputs[i]];
    if (inputs[i].dtype() != planned.dtype || !(inputs[i].shape() == planned.shape)) {
      return fail(Code::InvalidInput,
                  StrCat("input '", graph.values[graph.inputs[i]].name, "' is ", name_of(inputs[i].dtype()),
                         to_string(inputs[i].shape()), ", the plan was made for ", name_of(planned.dtype),
                         to_string(planned.shape)));
    }
    run.values_[graph.inputs[i]] = SINTER_TRY(inputs[i].aligned());
  }
  for (const Step& step : plan.steps) {
    for (ValueId output : step.outputs) {
      if (output == kNone || run.values_[output]) continue;
      const PlannedValue& planned = plan.values[output];
      run.values_[output] = SINTER_TRY(Tensor::alloc(planned.dtype, planned.shape, "a model output"));
    }
  }
  return run;
}

Result<> CpuRun::step(const Step& step) {
  SINTER_CHECK_OK(cancel_.check());
  step_inputs_.assign(step.inputs.size(), nullptr);
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    if (step.inputs[i] == kNone) continue;
    const uint32_t weight = i < step.input_weights.size() ? step.input_weights[i] : kNone;
    step_inputs_[i] = weight != kNone ? &prepared_->weights_[weight] : &values_[step.inputs[i]];
  }
  step_outputs_.assign(step.outputs.size(), Tensor());
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    if (step.outputs[i] != kNone) step_outputs_[i] = values_[step.outputs[i]];
  }
  const double start = observer_ ? trace::now_ms() : 0;
  SINTER_CHECK_OK(run_host_step(prepared_->plan(), step, step_inputs_, step_outputs_,
                                prepared_->scratch_.mutable_bytes(), *prepared_->pool_));
  if (observer_) observer_->after_step(next_, step, step_outputs_, trace::now_ms() - start);
  return {};
}

// What a step wrote outside the arena was allocated for this run and is the caller's; anything else is copied.
Result<> CpuRun::finish() {
  const Plan& plan = prepared_->plan();
  const Graph& graph = *plan.graph;
  std::vector<bool> fresh(values_.size(), false);
  for (const Step& step : plan.steps) {
    for (ValueId output : step.outputs) {
      if (output != kNone) fresh[output] = plan.values[output].host_offset == ~0ull && !plan.values[output].constant;
    }
  }
  for (ValueId output : graph.outputs) {
    if (!values_[output]) {
      return fail(Code::Internal, StrCat("no step writes output '", graph.values[output].name, "'"));
    }
    outputs_.push_back(fresh[output] ? values_[output] : SINTER_TRY(copy_of(values_[output], "a model output")));
  }
  values_.clear();
  return {};
}

StepStatus run_some(CpuRun& run, Budget budget) {
  const Plan& plan = run.prepared_->plan();
  if (run.error_) return StepStatus::failed;
  const auto failed = [&](Error error) {
    run.error_ = std::move(error);
    run.values_.clear();
    return StepStatus::failed;
  };
  while (run.next_ < plan.steps.size()) {
    if (auto done = run.step(plan.steps[run.next_]); !done) return failed(std::move(done).error());
    ++run.next_;
    const bool limited = budget.until_ms != std::numeric_limits<double>::infinity();
    if (limited && run.next_ < plan.steps.size() && trace::now_ms() >= budget.until_ms) return StepStatus::more;
  }
  if (auto done = run.finish(); !done) return failed(std::move(done).error());
  return StepStatus::done;
}

}  // namespace sinter::cpu
