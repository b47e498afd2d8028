// SPDX-License-Identifier: Apache-2.0
// prepare and run: right answers, sharing, and refusals, on the scripted device; the same plans on the native one are in
// exec_native_test.cc, completion orders and faults in order_test.cc.
#include "engine/gpu/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/async/block_on_native.h"
#include "engine/gpu/tiny_plan_test.h"

namespace sinter::gpu {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TinyPlan;

class PrepareTest : public ::testing::Test {
 protected:
  PrepareTest() { device_->on_dispatch(testing::emulate); }

  template <class T>
  Result<T> wait(Task<T> task) {
    return block_on(executor_, std::move(task), [this] { return device_->poll(); });
  }
  Result<std::shared_ptr<Prepared>> prepare_plan(std::shared_ptr<const plan::Plan> plan) {
    return wait(prepare(pipelines_, weights_, std::move(plan), source_, {}, nullptr));
  }
  Result<std::vector<Tensor>> run_plan(std::shared_ptr<Prepared> prepared) {
    return wait(run(std::move(prepared), {testing::tensor_of(testing::input_at)}, &host_, {}, nullptr));
  }

  Executor executor_;
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::shared_ptr<PipelineCache> pipelines_ = std::make_shared<PipelineCache>(device_);
  std::shared_ptr<DeviceWeights> weights_ = std::make_shared<DeviceWeights>(device_);
  testing::TinyWeights source_;
  testing::TinyHost host_;
};

TEST_F(PrepareTest, OneSubmitAndOneReadPerRun) {
  auto prepared = prepare_plan(TinyPlan().plan);
  ASSERT_TRUE(prepared) << to_string(prepared.error());
  const size_t calls = device_->calls().size();
  auto outputs = run_plan(*prepared);
  ASSERT_TRUE(outputs) << to_string(outputs.error());
  EXPECT_TRUE(testing::is_expected(*outputs));
  EXPECT_THAT(std::vector(device_->calls().begin() + static_cast<ptrdiff_t>(calls), device_->calls().end()),
              ElementsAre("push_error_scope", "write_buffer 400", "submit 3", "pop_error_scope", "read_buffer 400"));
}

TEST_F(PrepareTest, HostStepsSplitTheRun) {
  auto prepared = prepare_plan(TinyPlan(true).plan);
  ASSERT_TRUE(prepared) << to_string(prepared.error());
  EXPECT_EQ((*prepared)->segments.size(), 2u);
  auto outputs = run_plan(*prepared);
  ASSERT_TRUE(outputs) << to_string(outputs.error());
  EXPECT_TRUE(testing::is_expected(*outputs, true));
  EXPECT_EQ(host_.runs, 1);
  EXPECT_EQ(device_->count("submit"), 2u);
}

TEST_F(PrepareTest, ALateUploadOfAnInputDoesNotSplitTheRun) {
  auto plan = TinyPlan().plan;
  plan->steps.insert(plan->steps.begin() + 1, TinyPlan::move(plan::Step::Kind::upload, TinyPlan::kX));
  auto segments = cut_segments(*plan);
  ASSERT_TRUE(segments);
  ASSERT_EQ(segments->size(), 1u);
  EXPECT_EQ((*segments)[0].writes.size(), 1u);
  EXPECT_EQ((*segments)[0].commands.size(), 3u);
}

TEST_F(PrepareTest, ASecondLoadCompilesAndUploadsNothing) {
  ASSERT_TRUE(prepare_plan(TinyPlan().plan));
  EXPECT_EQ(pipelines_->compiled(), 2u);
  auto second = prepare_plan(TinyPlan(true).plan);
  ASSERT_TRUE(second);
  EXPECT_EQ(pipelines_->compiled(), 2u);
  EXPECT_EQ(source_.loads, 1);
  EXPECT_EQ(weights_->bytes(), 400u);
}

TEST_F(PrepareTest, ConcurrentLoadsShareOneCompilation) {
  int done = 0;
  for (int i = 0; i < 3; ++i) {
    spawn(executor_, prepare(pipelines_, weights_, TinyPlan().plan, source_, {}, nullptr),
          [&done](Result<std::shared_ptr<Prepared>> prepared) { done += prepared.has_value(); });
  }
  while (executor_.begin_turn(), executor_.drain(), device_->poll() || !executor_.idle()) {
  }
  EXPECT_EQ(done, 3);
  EXPECT_EQ(pipelines_->compiled(), 2u);
  EXPECT_EQ(source_.loads, 1);
}

TEST_F(PrepareTest, AnotherLoadsBadKernelIsNotOurs) {
  device_->set_manual(true);
  auto bad = TinyPlan().plan;
  bad->steps[1].kernel.text = "no such language";
  std::optional<Result<std::shared_ptr<Prepared>>> first, second;
  auto other_weights = std::make_shared<DeviceWeights>(device_);
  spawn(executor_, prepare(pipelines_, weights_, bad, source_, {}, nullptr),
        [&](auto r) { first.emplace(std::move(r)); });
  spawn(executor_, prepare(pipelines_, other_weights, TinyPlan().plan, source_, {}, nullptr),
        [&](auto r) { second.emplace(std::move(r)); });
  executor_.drain();
  ASSERT_FALSE(device_->pending().empty());
  ASSERT_EQ(device_->pending()[0], "create_pipelines 2") << "the bad plan's mul and add";
  device_->finish(0, Error{Code::Gpu, "bad kernel", {}, {}});
  device_->set_manual(false);
  while (executor_.begin_turn(), executor_.drain(), device_->poll() || !executor_.idle()) {
  }
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(*first);
  EXPECT_TRUE(*second) << to_string(second->error());
}

TEST_F(PrepareTest, EverythingIsGivenBack) {
  {
    auto prepared = prepare_plan(TinyPlan().plan);
    ASSERT_TRUE(prepared);
    ASSERT_TRUE(run_plan(*prepared));
    EXPECT_GT(device_->memory.current, 0u);
    EXPECT_EQ((*prepared)->device_bytes(), 4 * testing::kPlace + 400 + 16);
  }
  EXPECT_EQ(device_->live_bind_groups(), 0u);
  EXPECT_EQ(device_->live_buffers(), 1u) << "the session's weights";
  EXPECT_EQ(device_->live_pipelines(), 2u) << "the cache's";
  weights_ = nullptr;
  pipelines_ = nullptr;
  EXPECT_EQ(device_->live_buffers(), 0u);
  EXPECT_EQ(device_->live_pipelines(), 0u);
  EXPECT_EQ(device_->memory.current, 0u);
  EXPECT_EQ(device_->memory.peak, 4 * testing::kPlace + 400 + 400 + 16);
}

TEST_F(PrepareTest, SmallWeightsShareABufferAndLargeOnesDoNot) {
  auto plan = TinyPlan().plan;
  struct Source final : plan::WeightSource {
    Result<Tensor> load(const plan::WeightUse& use, const wgsl::Target&) override {
      if (use.packer_arg == 3) return Tensor::alloc(DType::f32, Shape{1 << 20});
      if (use.packer_arg == 4) return Tensor::alloc(DType::f16, Shape{5});
      if (use.packer_arg == 5) return Tensor::alloc(DType::f32, Shape{0});
      return testing::tensor_of(testing::weight_at);
    }
  } source;
  for (int64_t arg : {1, 2, 3, 4, 5}) plan->weights.push_back({TinyPlan::kW, nullptr, arg, true, {}});
  auto out = wait(weights_->upload(*plan, source, {}));
  ASSERT_TRUE(out) << to_string(out.error());
  EXPECT_EQ((*out)[0].buffer, (*out)[1].buffer);
  EXPECT_EQ((*out)[1].offset, 512u);
  EXPECT_EQ((*out)[2].offset, 1024u);
  EXPECT_NE((*out)[3].buffer, (*out)[0].buffer);
  EXPECT_EQ((*out)[3].bytes, 4u << 20);
  EXPECT_EQ((*out)[4].bytes, 12u) << "10 bytes, rounded up";
  EXPECT_EQ((*out)[5].buffer, nullptr);
  EXPECT_EQ(device_->live_buffers(), 2u);
}

TEST_F(PrepareTest, FoldedWeightsBelongToTheirPlan) {
  auto plan = TinyPlan().plan;
  plan->weights[0].constant = testing::tensor_of(testing::weight_at);
  {
    auto prepared = prepare_plan(plan);
    ASSERT_TRUE(prepared);
    EXPECT_EQ(weights_->bytes(), 0u);
    EXPECT_TRUE(testing::is_expected(*run_plan(*prepared)));
  }
  EXPECT_EQ(device_->live_buffers(), 0u);
}

TEST_F(PrepareTest, NamesBytesAndLimitWhereTheArenaIsTooLarge) {
  auto plan = TinyPlan().plan;
  plan->device_arena_bytes = 300ull << 20;
  auto prepared = prepare_plan(plan);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Code::OutOfMemory);
  EXPECT_THAT(prepared.error().message, AllOf(HasSubstr("314572800"), HasSubstr("268435456")));
}

TEST_F(PrepareTest, NamesTheWeightThatDoesNotFit) {
  device_->set_manual(true);
  std::optional<Result<std::shared_ptr<Prepared>>> prepared;
  spawn(executor_, prepare(pipelines_, weights_, TinyPlan().plan, source_, {}, nullptr),
        [&](auto r) { prepared.emplace(std::move(r)); });
  executor_.drain();
  executor_.begin_turn();  // the pipelines are under way, the weights follow
  executor_.drain();
  ASSERT_THAT(device_->pending(), ElementsAre("create_pipelines 2", "pop_error_scope", "pop_error_scope"));
  device_->finish(2, Error{Code::OutOfMemory, "too much", {}, {}});
  device_->set_manual(false);
  while (executor_.begin_turn(), executor_.drain(), device_->poll() || !executor_.idle()) {
  }
  ASSERT_TRUE(prepared && !*prepared);
  EXPECT_EQ(prepared->error().code, Code::OutOfMemory);
  EXPECT_THAT(prepared->error().chain, ElementsAre("uploading weight w"));
  EXPECT_EQ(device_->live_buffers(), 0u);
  EXPECT_TRUE(prepare_plan(TinyPlan().plan)) << "a failed upload is forgotten";
}

TEST_F(PrepareTest, RefusesBrokenPlansByNode) {
  struct Case {
    void (*breakage)(plan::Plan&);
    std::string_view says;
  };
  const Case cases[] = {
      {[](plan::Plan& p) { p.steps[0].operands[2].offset = 256; }, "bindings 0 and 2 overlap"},
      {[](plan::Plan& p) { p.steps[0].operands[0].offset = 4; }, "unaligned"},
      {[](plan::Plan& p) { p.steps[0].operands[0].bytes = 0; }, "no elements"},
      {[](plan::Plan& p) { p.steps[0].operands[0].bytes = 1 << 20; }, "outside the arena"},
      {[](plan::Plan& p) { p.steps[0].operands[1].bytes = 404; }, "of a weight of 400 bytes"},
      {[](plan::Plan& p) { p.steps[0].operands[1].weight = 7; }, "names no device weight"},
      {[](plan::Plan& p) { p.steps[0].kernel.groups[1] = 70000; }, "70000 workgroups"},
  };
  for (const Case& c : cases) {
    auto plan = TinyPlan().plan;
    c.breakage(*plan);
    auto prepared = prepare_plan(plan);
    ASSERT_FALSE(prepared) << c.says;
    EXPECT_EQ(prepared.error().code, Code::Internal);
    EXPECT_THAT(prepared.error().message,
                AllOf(HasSubstr("node 'mul node'"), HasSubstr("kernel mul"), HasSubstr(c.says)));
  }
}

TEST_F(PrepareTest, ABindFailureNamesItsNode) {
  TinyPlan tiny;
  wgsl::Target small;
  small.max_uniform_bytes = 8;  // the scripted device refuses the uniform block of "add"
  device_ = std::make_shared<FakeDevice>(small);
  pipelines_ = std::make_shared<PipelineCache>(device_);
  weights_ = std::make_shared<DeviceWeights>(device_);
  auto prepared = prepare_plan(tiny.plan);
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().code, Code::Gpu);
  EXPECT_THAT(prepared.error().chain, ElementsAre(HasSubstr("node 'add node'")));
}

TEST_F(PrepareTest, ASubmitFailureNamesItsNode) {
  auto prepared = prepare_plan(TinyPlan().plan);
  ASSERT_TRUE(prepared);
  device_->destroy_bind_group((*prepared)->groups[1]);
  auto outputs = run_plan(*prepared);
  ASSERT_FALSE(outputs);
  EXPECT_EQ(outputs.error().code, Code::Gpu);
  EXPECT_THAT(outputs.error().chain, ElementsAre(AllOf(HasSubstr("node 'add node'"), HasSubstr("kernel add"))));
}

TEST_F(PrepareTest, ARejectedMapFailsTheRunAndNotTheNext) {
  auto prepared = prepare_plan(TinyPlan().plan);
  ASSERT_TRUE(prepared);
  device_->fail_call(4, Error{Code::Gpu, "map rejected", {}, {}});
  auto outputs = run_plan(*prepared);
  ASSERT_FALSE(outputs);
  EXPECT_THAT(outputs.error().message, HasSubstr("map rejected"));
  outputs = run_plan(*prepared);
  ASSERT_TRUE(outputs);
  EXPECT_TRUE(testing::is_expected(*outputs));
}

TEST_F(PrepareTest, RefusesInputsThatThePlanIsNotFor) {
  auto prepared = prepare_plan(TinyPlan().plan);
  ASSERT_TRUE(prepared);
  auto outputs = wait(run(*prepared, {*Tensor::alloc(DType::f32, Shape{3})}, &host_, {}, nullptr));
  ASSERT_FALSE(outputs);
  EXPECT_EQ(outputs.error().code, Code::InvalidInput);
  EXPECT_THAT(outputs.error().message, AllOf(HasSubstr("input 'x'"), HasSubstr("[3]"), HasSubstr("[100]")));
}

TEST_F(PrepareTest, EmptyTensorsTouchNoDevice) {
  auto graph = std::make_shared<Graph>();
  graph->add_value("x", DType::f32, Shape{0});
  graph->inputs = graph->outputs = {0};
  auto plan = std::make_shared<plan::Plan>();
  plan->graph = graph;
  plan->values.resize(1);
  plan->values[0].dtype = DType::f32;
  plan->values[0].shape = Shape{0};
  plan->values[0].device_offset = 0;
  auto prepared = prepare_plan(plan);
  ASSERT_TRUE(prepared) << to_string(prepared.error());
  auto outputs = wait(run(*prepared, {*Tensor::alloc(DType::f32, Shape{0})}, &host_, {}, nullptr));
  ASSERT_TRUE(outputs) << to_string(outputs.error());
  EXPECT_EQ((*outputs)[0].numel(), 0u);
  EXPECT_EQ(device_->count("create_buffer") + device_->count("submit") + device_->count("read_buffer"), 0u);
}

}  // namespace
}  // namespace sinter::gpu
