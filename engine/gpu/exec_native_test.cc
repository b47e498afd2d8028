// SPDX-License-Identifier: Apache-2.0
// The hand-made plans on the native device.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "engine/async/block_on_native.h"
#include "engine/gpu/tiny_plan_test.h"

namespace sinter::gpu {
namespace {

using testing::TinyPlan;

class NativeRunTest : public ::testing::TestWithParam<bool> {};

TEST_P(NativeRunTest, PreparesAndRuns) {
  if (!SINTER_HAVE_WEBGPU || !getenv("SINTER_TEST_ADAPTER")) GTEST_SKIP() << "no adapter chosen; see ./dev env";
  Executor executor;
  auto device = block_on(executor, open_device({}));
  ASSERT_TRUE(device) << to_string(device.error());
  auto wait = [&](auto task) { return block_on(executor, std::move(task), [&] { return (*device)->poll(); }); };
  auto pipelines = std::make_shared<PipelineCache>(*device);
  auto weights = std::make_shared<DeviceWeights>(*device);
  testing::TinyWeights source;
  testing::TinyHost host;
  auto prepared = wait(prepare(pipelines, weights, TinyPlan(GetParam()).plan, source, {}, nullptr));
  ASSERT_TRUE(prepared) << to_string(prepared.error());
  for (int i = 0; i < 3; ++i) {
    auto outputs = wait(run(*prepared, {testing::tensor_of(testing::input_at)}, &host, {}, nullptr));
    ASSERT_TRUE(outputs) << to_string(outputs.error());
    EXPECT_TRUE(testing::is_expected(*outputs, GetParam()));
  }
  (*device)->destroy();
  auto outputs = wait(run(*prepared, {testing::tensor_of(testing::input_at)}, &host, {}, nullptr));
  ASSERT_FALSE(outputs);
  EXPECT_EQ(outputs.error().code, Code::DeviceLost) << to_string(outputs.error());
}

INSTANTIATE_TEST_SUITE_P(Plans, NativeRunTest, ::testing::Bool());

}  // namespace
}  // namespace sinter::gpu
