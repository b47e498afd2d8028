// SPDX-License-Identifier: Apache-2.0
// Every order in which pending device operations can end, each of them failing once, cancellation between any two of
// them and a loss before any call: always a right answer or one typed error, no leak, and a next run that works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "engine/base/str.h"
#include "engine/gpu/tiny_plan_test.h"
#include "tests/support/orders.h"

namespace sinter::gpu {
namespace {

using testing::TinyPlan;

Task<std::vector<Tensor>> load_and_run(std::shared_ptr<PipelineCache> pipelines, std::shared_ptr<DeviceWeights> weights,
                                       std::shared_ptr<const plan::Plan> plan, plan::WeightSource& source,
                                       HostSteps* host, CancelToken cancel) {
  std::shared_ptr<Prepared> prepared =
      SINTER_CO_TRY(co_await prepare(pipelines, weights, std::move(plan), source, cancel, nullptr));
  co_return co_await run(prepared, {testing::tensor_of(testing::input_at)}, host, cancel, nullptr);
}

/// One device and what shares it; sessions are started on it and driven to their end, one operation at a time.
class World {
 public:
  explicit World(bool host_step) : host_step_(host_step) {
    device_->on_dispatch(testing::emulate);
    device_->set_manual(true);
  }
  ~World() {
    weights_.clear();
    pipelines_ = nullptr;
    EXPECT_EQ(device_->live_buffers(), 0u);
    EXPECT_EQ(device_->live_bind_groups(), 0u);
    EXPECT_EQ(device_->live_pipelines(), 0u);
    EXPECT_EQ(device_->memory.current, 0u);
    EXPECT_EQ(device_.use_count(), 1) << "somebody still holds the device";
  }

  FakeDevice& device() { return *device_; }

  void start_session(CancelToken cancel = {}) {
    weights_.push_back(std::make_shared<DeviceWeights>(device_));
    const size_t index = results_.size();
    results_.emplace_back();
    spawn(executor_,
          load_and_run(pipelines_, weights_.back(), TinyPlan(host_step_).plan, source_, &host_, std::move(cancel)),
          [this, index](Result<std::vector<Tensor>> result) { results_[index].emplace(std::move(result)); });
  }

  /// Ends operations until none is left. `before(step)` may interfere; `choose(step, n)` picks one of n; `fault(step)`
  /// gives the error that it ends with, if any.
  template <class Before, class Choose, class Fault>
  size_t drive(Before before, Choose choose, Fault fault) {
    size_t step = 0;
    while (true) {
      settle();
      if (device_->pending().empty()) break;
      before(step);
      settle();
      const size_t n = device_->pending().size();
      device_->finish(choose(step, n), fault(step));
      ++step;
    }
    return step;
  }
  size_t drive_plainly() {
    return drive([](size_t) {}, [](size_t, size_t) { return 0; }, [](size_t) { return std::nullopt; });
  }

  /// The result of a session: there must be one, and it is either right or an error.
  const std::optional<Error> outcome(size_t session) {
    if (!results_[session]) {
      ADD_FAILURE() << "session " << session << " hangs";
      return Error{};
    }
    Result<std::vector<Tensor>>& result = *results_[session];
    if (!result) return result.error();
    EXPECT_TRUE(testing::is_expected(*result, host_step_)) << "a wrong answer";
    return std::nullopt;
  }
  void expect_next_session_works() {
    start_session();
    drive_plainly();
    std::optional<Error> error = outcome(results_.size() - 1);
    EXPECT_FALSE(error) << to_string(*error);
  }

 private:
  void settle() {
    do {
      executor_.begin_turn();
      executor_.drain();
    } while (!executor_.idle());
  }

  bool host_step_;
  Executor executor_;
  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::shared_ptr<PipelineCache> pipelines_ = std::make_shared<PipelineCache>(device_);
  std::vector<std::shared_ptr<DeviceWeights>> weights_;
  testing::TinyWeights source_;
  testing::TinyHost host_;
  std::vector<std::optional<Result<std::vector<Tensor>>>> results_;
};

constexpr auto kNoInterference = [](size_t) {};
constexpr auto kNoFault = [](size_t) -> std::optional<Error> { return std::nullopt; };

class OrderTest : public ::testing::TestWithParam<bool> {};

TEST_P(OrderTest, EveryOrderGivesTheRightAnswer) {
  size_t operations = 0;
  const size_t orders = for_every_order([&](auto choose) {
    World world(GetParam());
    world.start_session();
    operations = world.drive(kNoInterference, choose, kNoFault);
    std::optional<Error> error = world.outcome(0);
    EXPECT_FALSE(error) << to_string(*error);
  });
  EXPECT_GE(operations, 6u);
  EXPECT_GE(orders, 12u);
}

TEST_P(OrderTest, EveryOperationMayFailInEveryOrder) {
  size_t failed = 0;
  for (size_t bad = 0; bad < 10; ++bad) {
    for_every_order([&](auto choose) {
      World world(GetParam());
      world.start_session();
      bool hit = false;
      world.drive(kNoInterference, choose, [&](size_t step) -> std::optional<Error> {
        if (step != bad) return std::nullopt;
        hit = true;
        return Error{Code::Gpu, "scripted failure", {}, {}};
      });
      if (!hit) return;
      ++failed;
      std::optional<Error> error = world.outcome(0);
      ASSERT_TRUE(error) << "operation " << bad << " failed and nobody noticed";
      EXPECT_EQ(error->code, Code::Gpu);
      EXPECT_THAT(error->message, ::testing::HasSubstr("scripted failure"));
      world.expect_next_session_works();
    });
  }
  EXPECT_GE(failed, 40u);
}

TEST_P(OrderTest, CancellationBetweenAnyTwoOperations) {
  size_t cancelled = 0;
  for (size_t at = 0; at < 10; ++at) {
    for_every_order([&](auto choose) {
      World world(GetParam());
      CancelSource source;
      world.start_session(source.token());
      bool hit = false;
      world.drive(
          [&](size_t step) {
            if (step != at) return;
            source.cancel();
            hit = true;
          },
          choose, kNoFault);
      if (!hit) return;
      std::optional<Error> error = world.outcome(0);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->code, Code::Cancelled);
      ++cancelled;
      world.expect_next_session_works();
    });
  }
  EXPECT_GE(cancelled, 40u);
}

TEST_P(OrderTest, LossBeforeAnyCallEndsAsDeviceLost) {
  size_t calls = 0;
  {
    World world(GetParam());
    world.start_session();
    world.drive_plainly();
    calls = world.device().calls().size();
  }
  for (size_t at = 0; at < calls; ++at) {
    World world(GetParam());
    world.device().lose_at(at);
    world.start_session();
    world.drive_plainly();
    std::optional<Error> error = world.outcome(0);
    ASSERT_TRUE(error) << "call " << at;
    EXPECT_EQ(error->code, Code::DeviceLost) << "call " << at << ": " << to_string(*error);
  }
}

TEST_P(OrderTest, EveryCallMayFail) {
  size_t calls = 0;
  {
    World world(GetParam());
    world.start_session();
    world.drive_plainly();
    calls = world.device().calls().size();
  }
  for (size_t at = 0; at < calls; ++at) {
    World world(GetParam());
    world.device().fail_call(at, {Code::OutOfMemory, "scripted failure", {}, {}});
    world.start_session();
    world.drive_plainly();
    std::optional<Error> error = world.outcome(0);
    ASSERT_TRUE(error) << "call " << at << " failed and nobody noticed";
    EXPECT_EQ(error->code, Code::OutOfMemory) << "call " << at << ": " << to_string(*error);
    world.expect_next_session_works();
  }
}

// Two sessions share pipelines and device: too many orders to visit them all, so a seeded sample.
TEST_P(OrderTest, TwoSessionsAtOnceWithOneFailure) {
  std::mt19937 random(7);
  size_t survived = 0;
  for (int round = 0; round < 1500; ++round) {
    World world(GetParam());
    world.start_session();
    world.start_session();
    const size_t bad = random() % 18;
    world.drive(
        kNoInterference, [&](size_t, size_t n) { return random() % n; },
        [&](size_t step) -> std::optional<Error> {
          if (step != bad) return std::nullopt;
          return Error{Code::Gpu, "scripted failure", {}, {}};
        });
    int failures = 0;
    for (size_t session : {0, 1}) {
      std::optional<Error> error = world.outcome(session);
      if (!error) continue;
      EXPECT_THAT(error->message, ::testing::HasSubstr("scripted failure"));
      ++failures;
    }
    survived += failures < 2;
    world.expect_next_session_works();
  }
  EXPECT_GE(survived, 1300u) << "one session's failure must not reach the other";
}

INSTANTIATE_TEST_SUITE_P(Plans, OrderTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "WithHostStep" : "DeviceOnly"; });

// A run that is cancelled while its result is being mapped ends at once; the buffers stay taken until the device is done.
TEST(CancelTest, TheNextRunWaitsForTheDevice) {
  Executor executor;
  auto device = std::make_shared<FakeDevice>();
  device->on_dispatch(testing::emulate);
  auto pipelines = std::make_shared<PipelineCache>(device);
  testing::TinyWeights source;
  std::shared_ptr<Prepared> prepared;
  spawn(executor, prepare(pipelines, std::make_shared<DeviceWeights>(device), TinyPlan().plan, source, {}, nullptr),
        [&](auto result) { prepared = *result; });
  while (executor.begin_turn(), executor.drain(), device->poll() || !executor.idle()) {
  }
  ASSERT_TRUE(prepared);

  device->set_manual(true);
  CancelSource cancel;
  std::optional<Result<std::vector<Tensor>>> first, second;
  auto start = [&](CancelToken token, std::optional<Result<std::vector<Tensor>>>& result) {
    spawn(executor, run(prepared, {testing::tensor_of(testing::input_at)}, nullptr, token, nullptr),
          [&result](auto r) { result.emplace(std::move(r)); });
    executor.drain();
  };
  start(cancel.token(), first);
  start({}, second);
  ASSERT_EQ(device->pending().size(), 2u) << "the scope and the map of the first run";
  cancel.cancel();
  executor.drain();
  ASSERT_TRUE(first && !*first);
  EXPECT_EQ(first->error().code, Code::Cancelled);
  EXPECT_EQ(device->pending().size(), 2u) << "the second run must not touch the buffers yet";
  device->set_manual(false);
  while (executor.begin_turn(), executor.drain(), device->poll() || !executor.idle()) {
  }
  ASSERT_TRUE(second && *second) << to_string(second->error());
  EXPECT_TRUE(testing::is_expected(**second));
}

TEST(QueueTest, EightRunsPassInOrder) {
  Executor executor;
  auto device = std::make_shared<FakeDevice>();
  device->on_dispatch(testing::emulate);
  testing::TinyWeights source;
  std::shared_ptr<Prepared> prepared;
  spawn(executor,
        prepare(std::make_shared<PipelineCache>(device), std::make_shared<DeviceWeights>(device), TinyPlan().plan,
                source, {}, nullptr),
        [&](auto result) { prepared = *result; });
  while (executor.begin_turn(), executor.drain(), device->poll() || !executor.idle()) {
  }
  std::vector<int> order;
  for (int i = 0; i < 8; ++i) {
    spawn(executor, run(prepared, {testing::tensor_of(testing::input_at)}, nullptr, {}, nullptr),
          [&order, i](Result<std::vector<Tensor>> result) {
            ASSERT_TRUE(result);
            EXPECT_TRUE(testing::is_expected(*result));
            order.push_back(i);
          });
  }
  prepared = nullptr;  // closing during a run: the runs keep what they need
  while (executor.begin_turn(), executor.drain(), device->poll() || !executor.idle()) {
  }
  EXPECT_THAT(order, ::testing::ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

}  // namespace
}  // namespace sinter::gpu
