// SPDX-License-Identifier: Apache-2.0
// Sessions on the machine's own WebGPU device: its loss, cancellation, runs at once, and engines made one after the other.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <random>

#include "engine/async/block_on_native.h"
#include "engine/base/memory.h"
#include "engine/onnx/external_data.h"
#include "engine/runtime/session.h"

namespace sinter {
namespace {

constexpr const char* kModel = "models/fashion/squeezenet1_1_fashion.onnx";

Tensor picture(uint32_t seed) {
  Tensor tensor = *Tensor::alloc(DType::f32, {1, 3, 224, 224});
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-2, 2);
  for (float& value : tensor.mutable_data<float>()) value = uniform(random);
  return tensor;
}

using Outputs = std::vector<NamedTensor>;

/// An engine with a session on WebGPU; empty where this machine has no device.
struct Opened {
  explicit Opened(BackendChoice backend = BackendChoice::webgpu) {
    const auto file = onnx::map_file(kModel);
    SessionOptions options;
    options.backend = backend;
    auto result = wait(open_session(engine, {file->bytes, file->owner, nullptr}, options));
    if (result) session = *result;
    if (!result) EXPECT_EQ(result.error().code, Code::Gpu) << to_string(result.error());
  }
  template <class T>
  Result<T> wait(Task<T> task) {
    return block_on(engine->executor(), std::move(task), [this] { return engine->poll(); });
  }
  Result<Outputs> run(uint32_t seed, CancelToken cancel = {}) {
    return wait(session->run({{"input", picture(seed)}}, {cancel}));
  }
  std::shared_ptr<Engine> engine = std::make_shared<Engine>(EngineOptions{});
  std::shared_ptr<Session> session;
};

bool equal(const Outputs& a, const Outputs& b) {
  return a[0].tensor.nbytes() == b[0].tensor.nbytes() &&
         std::memcmp(a[0].tensor.bytes().data(), b[0].tensor.bytes().data(), a[0].tensor.nbytes()) == 0;
}

#define SKIP_WITHOUT_DEVICE(opened) \
  if (!(opened).session) GTEST_SKIP() << "there is no WebGPU device here"

// What hangs keeps the engine to itself until the watchdog makes it let go.
TEST(Resilience, AHangEndsAsTimeoutAndTheEngineGoesOn) {
  Opened probe;
  SKIP_WITHOUT_DEVICE(probe);
  const auto file = onnx::map_file(kModel);
  for (const BackendChoice backend : {BackendChoice::webgpu, BackendChoice::cpu}) {
    EngineOptions engine_options;
    engine_options.timeout_ms = 1000;
    const auto engine = std::make_shared<Engine>(engine_options);
    const auto wait = [&](auto task) {
      return block_on(engine->executor(), std::move(task), [&] { return engine->poll(); });
    };
    SessionOptions options;
    options.backend = backend;
    const auto healthy = wait(open_session(engine, {file->bytes, file->owner, nullptr}, options));
    ASSERT_TRUE(healthy) << to_string(healthy.error());
    options.inject = Fault{"/features/features.3/expand1x1/Conv", "hang"};
    const auto hanging = wait(open_session(engine, {file->bytes, file->owner, nullptr}, options));
    ASSERT_TRUE(hanging) << to_string(hanging.error());
    const auto before = wait((*healthy)->run({{"input", picture(1)}}, {}));
    ASSERT_TRUE(before) << to_string(before.error());
    for (int round = 0; round < 2; ++round) {
      const auto hung = wait((*hanging)->run({{"input", picture(1)}}, {}));
      ASSERT_FALSE(hung);
      EXPECT_EQ(hung.error().code, Code::Timeout) << to_string(hung.error());
      const auto after = wait((*healthy)->run({{"input", picture(1)}}, {}));
      ASSERT_TRUE(after) << to_string(after.error());
      EXPECT_TRUE(equal(*before, *after));
    }
  }
}

TEST(Resilience, ADeviceDestroyedDuringARunEndsItAndTheNextIsRight) {
  Opened opened;
  SKIP_WITHOUT_DEVICE(opened);
  const auto before = opened.run(1);
  ASSERT_TRUE(before) << to_string(before.error());
  std::optional<Result<Outputs>> lost;
  spawn(opened.engine->executor(), opened.session->run({{"input", picture(1)}}, {}),
        [&](Result<Outputs> result) { lost.emplace(std::move(result)); });
  opened.engine->executor().drain();
  opened.engine->open_device()->destroy();
  const auto after = opened.run(1);  // queued behind the one that is lost
  ASSERT_TRUE(lost && !*lost);
  EXPECT_EQ(lost->error().code, Code::DeviceLost);
  ASSERT_TRUE(after) << to_string(after.error());
  EXPECT_TRUE(equal(*before, *after));
  EXPECT_EQ(opened.session->report().losses, 1u);
}

TEST(Resilience, ADeviceDestroyedBetweenRunsIsReplaced) {
  Opened opened;
  SKIP_WITHOUT_DEVICE(opened);
  const auto before = opened.run(1);
  ASSERT_TRUE(before) << to_string(before.error());
  for (size_t times = 1; times <= 3; ++times) {
    opened.engine->open_device()->destroy();
    const auto after = opened.run(1);
    ASSERT_TRUE(after) << to_string(after.error());
    EXPECT_TRUE(equal(*before, *after));
    EXPECT_EQ(opened.session->report().losses, times);
  }
}

TEST(Resilience, ARunMayBeCancelledAtEveryTurn) {
  Opened opened;
  SKIP_WITHOUT_DEVICE(opened);
  const auto right = opened.run(2);
  ASSERT_TRUE(right);
  size_t cancelled = 0;
  for (size_t at = 0; at < 6; ++at) {
    CancelSource source;
    std::optional<Result<Outputs>> result;
    spawn(opened.engine->executor(), opened.session->run({{"input", picture(3)}}, {source.token()}),
          [&](Result<Outputs> value) { result.emplace(std::move(value)); });
    for (size_t turn = 0; turn < at && !result; ++turn) {
      opened.engine->executor().begin_turn();
      opened.engine->executor().drain();
      opened.engine->poll();
    }
    source.cancel();
    opened.engine->executor().drain();
    ASSERT_TRUE(result) << "turn " << at;
    if (!*result) {
      EXPECT_EQ(result->error().code, Code::Cancelled);
      ++cancelled;
    }
    const auto next = opened.run(2);
    ASSERT_TRUE(next) << to_string(next.error());
    EXPECT_TRUE(equal(*right, *next)) << "turn " << at;
  }
  EXPECT_GE(cancelled, 2u);
}

TEST(Resilience, EightRunsOnTwoSessionsAtOnce) {
  Opened opened;
  SKIP_WITHOUT_DEVICE(opened);
  const auto file = onnx::map_file(kModel);
  SessionOptions options;
  options.backend = BackendChoice::webgpu;
  options.fusion = false;
  const auto second = opened.wait(open_session(opened.engine, {file->bytes, file->owner, nullptr}, options));
  ASSERT_TRUE(second);
  std::vector<std::optional<Result<Outputs>>> results(8);
  for (uint32_t i = 0; i < 8; ++i) {
    const auto& session = i % 2 ? *second : opened.session;
    spawn(opened.engine->executor(), session->run({{"input", picture(i)}}, {}),
          [&results, i](Result<Outputs> result) { results[i].emplace(std::move(result)); });
  }
  ASSERT_TRUE(opened.run(99));  // passes after them
  for (uint32_t i = 0; i < 8; i += 2) {
    ASSERT_TRUE(results[i] && *results[i] && results[i + 1] && *results[i + 1]);
    const auto alone = opened.run(i);
    ASSERT_TRUE(alone);
    EXPECT_TRUE(equal(*alone, **results[i]));
  }
}

size_t resident_bytes() {
  long pages = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (!file || std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
  if (file) std::fclose(file);
  return static_cast<size_t>(resident) * 4096;
}

TEST(Resilience, EnginesMadeOneAfterTheOtherLeaveNothingBehind) {
  const uint64_t before = memory_stats().current;
  size_t warm = 0;
  for (int cycle = 0; cycle < 12; ++cycle) {
    {
      Opened opened;
      SKIP_WITHOUT_DEVICE(opened);
      ASSERT_TRUE(opened.run(1));
      opened.session->close();
    }
    EXPECT_EQ(memory_stats().current, before);
    if (cycle == 3) warm = resident_bytes();
  }
  // The model alone is 3 MB on the host and as much on the device: eight leaked engines would show.
  EXPECT_LE(resident_bytes(), warm + (24u << 20));
}

}  // namespace
}  // namespace sinter
