// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/exec.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "engine/base/memory.h"
#include "engine/base/str.h"
#include "engine/base/trace.h"
#include "engine/cpu/pool.h"

namespace sinter::cpu {
namespace {

Result<> add_reference(const RefContext& ctx) {
  for (size_t i = 0; i < ctx.out().numel(); ++i) {
    // The zero-filled output is part of the contract.
    ctx.out().mutable_data<float>()[i] += ctx.in(0).data<float>()[i] + ctx.in(1).data<float>()[i];
  }
  return {};
}
Result<> failing_reference(const RefContext&) { return fail(Code::Internal, "the row broke"); }

const OpDef kAdd{.name = "Add", .min_inputs = 2, .max_inputs = 2, .reference = &add_reference};
const OpDef kBroken{.name = "Broken", .min_inputs = 2, .max_inputs = 2, .reference = &failing_reference};

Result<> double_run(const plan::HostArgs& args) {
  EXPECT_EQ(args.scratch.size(), 128u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(args.scratch.data()) % 64, 0u);
  for (size_t i = 0; i < args.outputs[0].numel(); ++i) {
    args.outputs[0].mutable_data<float>()[i] = 2 * args.inputs[0]->data<float>()[i];
  }
  return {};
}
const plan::HostKernel kDouble{.name = "double", .op = "Add", .run = &double_run};

Tensor values(std::initializer_list<float> list) {
  Tensor tensor = *Tensor::alloc(DType::f32, {static_cast<int64_t>(list.size())});
  std::copy(list.begin(), list.end(), tensor.mutable_data<float>().begin());
  return tensor;
}

class Weights final : public plan::WeightSource {
 public:
  Result<Tensor> load(const plan::WeightUse& use, const wgsl::Target&) override {
    ++loads;
    const auto at = tensors.find(use.value);
    if (at == tensors.end()) return fail(Code::Io, "no such weight");
    return at->second;
  }
  std::map<ValueId, Tensor> tensors;
  int loads = 0;
};

// y = (x + w) doubled + x, with the sum and its double in the arena. Values: 0 x, 1 w, 2 sum, 3 twice, 4 y.
struct Model {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::shared_ptr<plan::Plan> plan = std::make_shared<plan::Plan>();
  Weights weights;
  SerialPool pool;

  Model() {
    for (const char* name : {"x", "w", "sum", "twice", "y"}) graph->add_value(name, DType::f32, Shape{4});
    graph->inputs = {0};
    graph->outputs = {4};
    node("add", {0, 1}, 2);
    node("double", {2, kNone}, 3);
    node("last", {3, 0}, 4);
    plan->graph = graph;
    plan->values.assign(5, {.dtype = DType::f32, .shape = {4}});
    plan->values[1].weight = true;
    plan->values[2].host_offset = 0;
    plan->values[3].host_offset = 64;
    plan->host_arena_bytes = 128;
    plan->weights = {{.value = 1}};
    plan->steps[0].input_weights = {kNone, 0};
    plan->steps[1].host_kernel = &kDouble;
    plan->steps[1].scratch_bytes = plan->max_scratch_bytes = 128;
    weights.tensors[1] = values({10, 20, 30, 40});
  }

  void node(std::string name, std::vector<ValueId> inputs, ValueId output) {
    Node node;
    node.name = std::move(name);
    node.op = &kAdd;
    node.inputs = inputs;
    node.outputs = {output};
    graph->nodes.push_back(node);
    plan::Step step;
    step.node = static_cast<NodeId>(graph->nodes.size() - 1);
    step.inputs = inputs;
    step.outputs = {output};
    step.input_weights.assign(inputs.size(), kNone);
    plan->steps.push_back(step);
  }

  std::unique_ptr<Prepared> prepare() {
    auto prepared = Prepared::make(plan, weights, pool);
    EXPECT_TRUE(prepared.has_value()) << to_string(prepared.error());
    return std::move(*prepared);
  }
};

const Tensor kInput = values({1, 2, 3, 4});

void expect_answer(CpuRun& run) {
  const std::vector<Tensor> outputs = run.take_outputs();
  ASSERT_EQ(outputs.size(), 1u);
  const auto y = outputs[0].data<float>();
  EXPECT_EQ(std::vector<float>(y.begin(), y.end()), (std::vector<float>{23, 46, 69, 92}));
}

TEST(Exec, RunsAPlan) {
  Model model;
  const auto prepared = model.prepare();
  EXPECT_EQ(model.weights.loads, 1);
  for (int again = 0; again < 2; ++again) {
    auto run = CpuRun::start(*prepared, {&kInput, 1});
    ASSERT_TRUE(run.has_value());
    ASSERT_EQ(run_some(*run, Budget::infinite()), StepStatus::done);
    expect_answer(*run);
  }
  EXPECT_EQ(model.weights.loads, 1);
}

TEST(Exec, ResumesAfterEachSlice) {
  Model model;
  const auto prepared = model.prepare();
  auto run = CpuRun::start(*prepared, {&kInput, 1});
  const Budget spent{trace::now_ms() - 1};
  EXPECT_EQ(run_some(*run, spent), StepStatus::more);
  EXPECT_EQ(run->steps_done(), 1u);
  EXPECT_EQ(run_some(*run, spent), StepStatus::more);
  EXPECT_EQ(run_some(*run, spent), StepStatus::done);
  expect_answer(*run);
}

TEST(Exec, OutputsBelongToTheCaller) {
  Model model;
  model.graph->outputs = {4, 2, 0, 1};  // written by a step, in the arena, an input, a weight
  const auto prepared = model.prepare();
  auto run = CpuRun::start(*prepared, {&kInput, 1});
  ASSERT_EQ(run_some(*run, Budget::infinite()), StepStatus::done);
  std::vector<Tensor> outputs = run->take_outputs();
  ASSERT_EQ(outputs.size(), 4u);
  EXPECT_EQ(outputs[1].data<float>()[3], 44);
  EXPECT_EQ(outputs[2].data<float>()[3], 4);
  EXPECT_EQ(outputs[3].data<float>()[3], 40);
  for (Tensor& output : outputs) {
    for (float& value : output.mutable_data<float>()) value = -1;
  }
  EXPECT_EQ(kInput.data<float>()[3], 4);
  auto again = CpuRun::start(*prepared, {&kInput, 1});
  ASSERT_EQ(run_some(*again, Budget::infinite()), StepStatus::done);
  outputs = again->take_outputs();
  EXPECT_EQ(outputs[0].data<float>()[3], 92);
  EXPECT_EQ(outputs[3].data<float>()[3], 40);
}

TEST(Exec, MisalignedInputsAreCopied) {
  Model model;
  const auto prepared = model.prepare();
  auto bytes = std::make_shared<std::vector<std::byte>>(17);
  std::memcpy(bytes->data() + 1, kInput.bytes().data(), 16);
  const Tensor shifted = Tensor::view(DType::f32, {4}, std::span(*bytes).subspan(1), bytes);
  auto run = CpuRun::start(*prepared, {&shifted, 1});
  ASSERT_EQ(run_some(*run, Budget::infinite()), StepStatus::done);
  expect_answer(*run);
}

TEST(Exec, RefusesInputsThatThePlanWasNotMadeFor) {
  Model model;
  const auto prepared = model.prepare();
  const Tensor other = values({1, 2, 3});
  const auto run = CpuRun::start(*prepared, {&other, 1});
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().code, Code::InvalidInput);
  EXPECT_EQ(run.error().message, "input 'x' is float32[3], the plan was made for float32[4]");
  EXPECT_EQ(CpuRun::start(*prepared, {}).error().code, Code::InvalidInput);
}

TEST(Exec, AFailingKernelNamesItsNode) {
  Model model;
  model.graph->nodes[2].op = &kBroken;
  const auto prepared = model.prepare();
  auto run = CpuRun::start(*prepared, {&kInput, 1});
  ASSERT_EQ(run_some(*run, Budget::infinite()), StepStatus::failed);
  EXPECT_EQ(run->error().message, "the row broke");
  ASSERT_EQ(run->error().chain.size(), 1u);
  EXPECT_EQ(run->error().chain[0], "running node 'last' (Broken) with its reference row on float32[4], float32[4]");
  EXPECT_EQ(run_some(*run, Budget::infinite()), StepStatus::failed);
}

TEST(Exec, CancelStopsBetweenSteps) {
  Model model;
  const auto prepared = model.prepare();
  CancelSource source;
  auto run = CpuRun::start(*prepared, {&kInput, 1}, source.token());
  EXPECT_EQ(run_some(*run, Budget{trace::now_ms() - 1}), StepStatus::more);
  source.cancel();
  EXPECT_EQ(run_some(*run, Budget::infinite()), StepStatus::failed);
  EXPECT_EQ(run->error().code, Code::Cancelled);
  EXPECT_EQ(run->steps_done(), 1u);
}

TEST(Exec, ObserverSeesEveryStep) {
  struct Observer final : StepObserver {
    void after_step(size_t index, const plan::Step& step, std::span<const Tensor> outputs, double ms) override {
      EXPECT_EQ(index, firsts.size());
      EXPECT_EQ(step.node, index);
      EXPECT_GE(ms, 0);
      firsts.push_back(outputs[0].data<float>()[0]);
    }
    std::vector<float> firsts;
  } observer;
  Model model;
  const auto prepared = model.prepare();
  auto run = CpuRun::start(*prepared, {&kInput, 1}, {}, &observer);
  ASSERT_EQ(run_some(*run, Budget::infinite()), StepStatus::done);
  EXPECT_EQ(observer.firsts, (std::vector<float>{11, 22, 23}));
}

TEST(Exec, AMissingWeightFailsPrepare) {
  Model model;
  model.weights.tensors.clear();
  EXPECT_EQ(Prepared::make(model.plan, model.weights, model.pool).error().code, Code::Io);
}

TEST(Exec, NoMemoryIsAnError) {
  Model model;
  model.plan->host_arena_bytes = 1 << 20;
  set_allocation_limit(1 << 16);
  const auto prepared = Prepared::make(model.plan, model.weights, model.pool);
  set_allocation_limit(0);
  ASSERT_FALSE(prepared.has_value());
  EXPECT_EQ(prepared.error().code, Code::OutOfMemory);
}

TEST(Exec, HostStepAllocatesItsOwnScratch) {
  Model model;
  std::vector<const Tensor*> inputs = {&kInput, nullptr};
  std::vector<Tensor> outputs = {values({0, 0, 0, 0})};
  ASSERT_TRUE(run_host_step(*model.plan, model.plan->steps[1], inputs, outputs, model.pool).has_value());
  EXPECT_EQ(outputs[0].data<float>()[3], 8);
}

}  // namespace
}  // namespace sinter::cpu
