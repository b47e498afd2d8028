// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/profile.h"

#include <gtest/gtest.h>

#include "engine/async/block_on_native.h"
#include "engine/gpu/fake_device.h"

namespace sinter::diag {
namespace {

// Copies stand for steps here: what matters is how commands are driven, not what they compute.
class OneByOne : public ::testing::Test {
 protected:
  std::shared_ptr<gpu::FakeDevice> device = std::make_shared<gpu::FakeDevice>();  // without timestamps
  gpu::BufferId from = device->create_buffer(16, gpu::kCopySrc, "from");
  gpu::BufferId to = device->create_buffer(16, gpu::kCopyDst, "to");
  std::vector<gpu::Command> commands =
      std::vector(3, gpu::Command{.kind = gpu::Command::kCopy, .a = from, .b = to, .bytes = 16});
  std::vector<uint32_t> steps = {4, 6, kNone};

  Result<> run(Profile& profile) {
    Executor executor;
    return block_on(executor, profile.run(device, commands, steps), [this] { return device->poll(); });
  }
};

TEST_F(OneByOne, EachCommandIsASubmitOfItsOwn) {
  Profile profile;
  const size_t before = device->count("submit");
  const Result<> done = run(profile);
  ASSERT_TRUE(done.has_value()) << to_string(done.error());
  EXPECT_EQ(device->count("submit") - before, 4 + commands.size());  // four empty ones to know the floor
  EXPECT_TRUE(profile.how().starts_with("each step in a submit of its own")) << profile.how();
  EXPECT_EQ(device->live_buffers(), 2u);
}

TEST_F(OneByOne, TimesGoToTheirSteps) {
  Profile profile;
  ASSERT_TRUE(run(profile).has_value());
  ASSERT_TRUE(run(profile).has_value());
  for (const size_t step : {4, 6}) {
    EXPECT_EQ(profile.runs_of(step), 2u);
    EXPECT_GE(profile.ms_of(step), 0);
  }
  for (const size_t step : {0, 5, 7, 1000}) EXPECT_EQ(profile.runs_of(step), 0u);
}

TEST_F(OneByOne, AFailureOfTheDeviceIsTheAnswerAndLeavesNothingBehind) {
  for (size_t call = 0; call < 30; ++call) {
    Profile profile;
    device->fail_call(call, Error{Code::Gpu, "scripted failure", {}, {}});
    const Result<> done = run(profile);
    EXPECT_EQ(device->live_buffers(), 2u) << "call " << call;
    ASSERT_FALSE(done.has_value()) << "call " << call;
    EXPECT_EQ(done.error().message, "scripted failure") << "call " << call;
  }
}

TEST(Profile, AStepsTimeIsTheMedianOfItsRuns) {
  Profile profile;
  for (const double ms : {3, 500, 5}) profile.after_step(2, {}, {}, ms);
  for (const double ms : {3, 5}) profile.after_step(3, {}, {}, ms);
  profile.after_host_step(0, 1);
  EXPECT_EQ(profile.ms_of(2), 5);
  EXPECT_EQ(profile.ms_of(3), 4);
  EXPECT_EQ(profile.ms_of(0), 1);
  EXPECT_EQ(profile.ms_of(1), 0);
  EXPECT_EQ(profile.how(), "");
}

}  // namespace
}  // namespace sinter::diag
