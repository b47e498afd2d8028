// SPDX-License-Identifier: Apache-2.0
// Initialisation, concurrency and cancellation over scripted devices: whatever ends in whatever order, every await ends
// once, with the right answer or with one typed error, and nothing is left behind.
#include <gmock/gmock.h>
#include <malloc.h>

#include "engine/runtime/scripted_test.h"

namespace sinter {
namespace {

using scripted::World;

constexpr size_t kOrdered = 6;  // so many operations are ended in every order; the rest follows in its own

Error scripted_failure() { return {Code::Gpu, "scripted failure", {}, {}}; }

/// Ends operations in the chosen order; the one at `bad` fails. Returns how many there were.
template <class Choose>
size_t drive(World& world, Choose choose, size_t bad) {
  size_t step = 0;
  for (world.settle(); world.pending() > 0; world.settle(), ++step) {
    const size_t n = world.pending();
    std::optional<Error> error;
    if (step == bad) error = scripted_failure();
    world.finish(step < kOrdered + 2 ? choose(step, n) : 0, std::move(error));
  }
  return step;
}

constexpr size_t kNever = ~size_t{0};

TEST(Initialisation, HasThreeStates) {
  World world;
  EXPECT_EQ(world.engine->device_state(), DeviceState::uninitialised);
  world.start_load();
  world.settle();
  EXPECT_EQ(world.engine->device_state(), DeviceState::initialising);
  world.finish(0, scripted_failure());
  world.settle();
  EXPECT_EQ(world.engine->device_state(), DeviceState::uninitialised);
  EXPECT_TRUE(world.load_now());
  EXPECT_EQ(world.engine->device_state(), DeviceState::ready);
  world.device().lose("gone");
  EXPECT_EQ(world.engine->device_state(), DeviceState::uninitialised);
}

// Two loads at once in every order of their operations: both work, over one device.
TEST(Initialisation, ConcurrentLoadsShareOneDeviceInEveryOrder) {
  size_t most = 0;
  const size_t orders = for_every_order([&](auto choose) {
    World world;
    world.start_load();
    world.start_load();
    most = std::max(most, drive(world, choose, kNever));
    for (const auto& load : world.loads) ASSERT_TRUE(load && *load) << (load ? to_string(load->error()) : "hangs");
    EXPECT_EQ(world.script.opened, 1u);
    world.expect_run_works(*world.loads[0].value());
    world.expect_run_works(*world.loads[1].value());
  });
  EXPECT_GE(orders, 100u);
  EXPECT_GE(most, kOrdered + 2);
}

// The same with each operation failing once: who depended on it is told, and a further load works.
TEST(Initialisation, EveryOperationMayFailInEveryOrder) {
  size_t failures = 0;
  for (size_t bad = 0; bad < kOrdered + 6; ++bad) {
    for_every_order([&](auto choose) {
      World world;
      world.start_load();
      world.start_load();
      const size_t operations = drive(world, choose, bad);
      std::vector<const Error*> errors;
      for (const auto& load : world.loads) {
        ASSERT_TRUE(load) << "a load hangs";
        if (!*load) errors.push_back(&load->error());
      }
      if (bad < operations) {
        ASSERT_FALSE(errors.empty()) << "operation " << bad << " failed and nobody was told";
        ++failures;
      }
      for (const Error* error : errors) {
        EXPECT_EQ(error->code, Code::Gpu);
        EXPECT_EQ(error->message, "scripted failure");
      }
      if (bad < 2) {  // the adapter or the device: the same failure for both
        ASSERT_EQ(errors.size(), 2u);
        EXPECT_EQ(errors[0]->failure, errors[1]->failure);
        EXPECT_EQ(errors[0]->echo_of + errors[1]->echo_of, 1u) << "one is the first to know, the other its echo";
      }
      world.expect_run_works(world.load_now());
    });
  }
  EXPECT_GE(failures, 1000u);
}

size_t heap_bytes() { return mallinfo2().uordblks; }

TEST(Initialisation, TwoHundredEnginesLeaveNothingBehind) {
  size_t warm = 0;
  const uint64_t before = memory_stats().current;
  for (int cycle = 0; cycle < 200; ++cycle) {
    {
      World world;
      const auto session = world.load_now();
      world.expect_run_works(session);
      session->close();
    }
    EXPECT_EQ(memory_stats().current, before);
    if (cycle == 20) warm = heap_bytes();
  }
  EXPECT_LE(heap_bytes(), warm + 16384);
}

class Concurrency : public ::testing::TestWithParam<BackendChoice> {};

TEST_P(Concurrency, EightRunsAndTwoSessionsAndALoadOnOneEngine) {
  EngineOptions options;
  options.slice_ms = 0;  // a CPU run waits between its steps
  World world(GetParam(), options);
  const auto first = world.load_now();
  const auto second = world.load_now();
  ASSERT_TRUE(first && second);
  for (int64_t seed = 0; seed < 8; ++seed) {
    world.start_run(seed % 3 ? first : second, seed);
    if (seed == 4) world.start_load();
  }
  world.finish_all();
  for (size_t run = 0; run < 8; ++run) world.expect_right(run);
  ASSERT_TRUE(world.loads[2] && *world.loads[2]);
  world.expect_run_works(**world.loads[2]);
}

TEST_P(Concurrency, ClosingDuringARunEndsTheRestAsCancelled) {
  for (size_t at = 0; at < 8; ++at) {
    EngineOptions options;
    options.slice_ms = 0;
    World world(GetParam(), options);
    auto session = world.load_now();
    const auto other = world.load_now();
    for (int64_t seed = 0; seed < 4; ++seed) world.start_run(session, seed);
    world.start_run(other, 9);
    for (size_t step = 0; step < at; ++step) {
      world.engine->executor().begin_turn();
      world.engine->executor().drain();
      if (world.engine->executor().idle() && world.pending()) world.finish(0);
    }
    session->close();
    world.finish_all();
    for (size_t run = 0; run < 4; ++run) {
      ASSERT_TRUE(world.runs[run]) << "run " << run << " hangs";
      if (*world.runs[run]) {
        EXPECT_TRUE(world.is_right(run));
        continue;
      }
      const Code code = world.error_of_run(run).code;
      EXPECT_TRUE(code == Code::Cancelled || code == Code::InvalidInput) << code_name(code);
    }
    world.expect_right(4);
    const size_t late = world.start_run(session);
    world.finish_all();
    EXPECT_EQ(world.error_of_run(late).code, Code::InvalidInput);
  }
}

TEST_P(Concurrency, TwoEnginesDoNotKnowEachOther) {
  // The script is one: both engines are driven by the first world.
  World world(GetParam());
  EngineOptions options;
  options.open_device = &scripted::open_scripted;
  auto other = std::make_shared<Engine>(options);
  std::optional<Result<std::shared_ptr<Session>>> opened;
  SessionOptions session_options;
  session_options.backend = GetParam();
  session_options.fusion = false;
  const test::Blob blob(scripted::model_bytes());
  spawn(other->executor(), open_session(other, {blob.bytes(), blob.text, nullptr}, session_options),
        [&](auto result) { opened.emplace(std::move(result)); });
  world.start_load();
  for (int turn = 0; turn < 100; ++turn) {
    other->executor().begin_turn();
    other->executor().drain();
    world.settle();
    if (world.pending()) world.finish(world.pending() - 1);
  }
  ASSERT_TRUE(opened && *opened);
  ASSERT_TRUE(world.loads[0] && *world.loads[0]);
  const size_t devices = GetParam() == BackendChoice::webgpu ? 2 : 0;
  EXPECT_EQ(world.script.opened, devices);
  opened.reset();
  other = nullptr;
  EXPECT_EQ(world.script.alive(), devices / 2);
  world.expect_run_works(**world.loads[0]);
}

/// Cancels at the k-th point where the engine waits for something; false where there are fewer.
bool cancel_at(World& world, size_t k, CancelSource& source, const std::function<bool()>& ended) {
  Executor& executor = world.engine->executor();
  for (size_t waits = 0;; ++waits) {
    executor.drain();
    if (ended()) return false;
    if (waits == k) break;
    if (executor.idle()) {
      world.finish(0);
    } else {
      executor.begin_turn();
    }
  }
  source.cancel();
  world.settle();  // turns of the event loop, and no answer of the device
  EXPECT_TRUE(ended()) << "wait " << k << " goes on after the cancellation";
  return true;
}

TEST_P(Concurrency, ALoadMayBeCancelledAtEveryWait) {
  EngineOptions options;
  options.slice_ms = 0;
  const uint64_t before = memory_stats().current;
  size_t waits = 0;
  for (bool more = true; more; ++waits) {
    World world(GetParam(), options);
    CancelSource source;
    const size_t load = world.start_load(source.token());
    more = cancel_at(world, waits, source, [&] { return world.loads[load].has_value(); });
    if (more) {
      ASSERT_FALSE(world.loads[load]->has_value());
      EXPECT_EQ(world.loads[load]->error().code, Code::Cancelled);
      EXPECT_FALSE(world.engine->failures().first());
    }
    world.loads.clear();
    world.finish_all();
    if (more) EXPECT_EQ(memory_stats().current, before) << "wait " << waits;
    world.expect_run_works(world.load_now());
  }
  EXPECT_GE(waits, GetParam() == BackendChoice::webgpu ? 5u : 2u);
}

TEST_P(Concurrency, ARunMayBeCancelledAtEveryWait) {
  EngineOptions options;
  options.slice_ms = 0;
  size_t waits = 0;
  for (bool more = true; more; ++waits) {
    World world(GetParam(), options);
    const auto session = world.load_now();
    const uint64_t before = memory_stats().current;
    CancelSource source;
    world.start_run(session, 1);  // in front of it
    const size_t run = world.start_run(session, 2, source.token());
    const size_t next = world.start_run(session, 3);
    more = cancel_at(world, waits, source, [&] { return world.runs[run].has_value(); });
    if (more) {
      ASSERT_FALSE(world.runs[run]->has_value());
      EXPECT_EQ(world.error_of_run(run).code, Code::Cancelled);
    }
    world.finish_all();
    world.expect_right(0);
    world.expect_right(next);
    world.runs.clear();
    EXPECT_EQ(memory_stats().current, before) << "wait " << waits;
  }
  EXPECT_GE(waits, 2u);
}

INSTANTIATE_TEST_SUITE_P(Backends, Concurrency,
                         ::testing::Values(BackendChoice::webgpu, BackendChoice::cpu, BackendChoice::reference),
                         [](const auto& info) {
                           return info.param == BackendChoice::webgpu ? "WebGpu"
                                  : info.param == BackendChoice::cpu  ? "Cpu"
                                                                      : "Reference";
                         });

}  // namespace
}  // namespace sinter
