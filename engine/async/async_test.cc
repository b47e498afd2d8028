// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/async/cancel.h"
#include "engine/async/completion.h"
#include "engine/async/lane.h"
#include "engine/async/single_flight.h"
#include "engine/async/task.h"

namespace sinter {
namespace {

Task<int> value_of(int value) { co_return value; }

Task<int> sum_to(int n) {
  int total = 0;
  for (int i = 1; i <= n; ++i) total += SINTER_CO_TRY(co_await value_of(i));
  co_return total;
}

Task<int> nested(int depth) {
  if (depth == 0) co_return 0;
  const int below = SINTER_CO_TRY(co_await nested(depth - 1));
  co_return below + 1;
}

template <class T>
struct Outcome {
  std::optional<Result<T>> result;
};

template <class T>
std::shared_ptr<Outcome<T>> start(Executor& executor, Task<T> task) {
  auto outcome = std::make_shared<Outcome<T>>();
  spawn(executor, std::move(task), [outcome](Result<T> result) { outcome->result.emplace(std::move(result)); });
  return outcome;
}

TEST(Task, RunsOnlyWhenDrained) {
  Executor executor;
  auto outcome = start(executor, sum_to(10));
  EXPECT_FALSE(outcome->result.has_value());
  executor.drain();
  ASSERT_TRUE(outcome->result.has_value());
  EXPECT_EQ(**outcome->result, 55);
}

TEST(Task, DeepChainsKeepTheStackFlat) {
  Executor executor;
  auto outcome = start(executor, nested(200000));
  executor.drain();
  EXPECT_EQ(**outcome->result, 200000);
}

Task<int> fails() { co_return fail(Code::InvalidInput, "no such thing"); }
Task<int> passes_on() {
  const int value = SINTER_CO_TRY(co_await fails());
  co_return value;
}

TEST(Task, ErrorsTravelAsValues) {
  Executor executor;
  auto outcome = start(executor, passes_on());
  executor.drain();
  ASSERT_FALSE(outcome->result->has_value());
  EXPECT_EQ(outcome->result->error().code, Code::InvalidInput);
}

TEST(Completion, FirstAnswerWins) {
  Executor executor;
  Completion<int> completion;
  auto outcome = start(executor, [](Completion<int> c) -> Task<int> { co_return co_await c; }(completion));
  executor.drain();
  EXPECT_FALSE(outcome->result.has_value());
  EXPECT_TRUE(completion.complete(1));
  EXPECT_FALSE(completion.complete(2));
  executor.drain();
  EXPECT_EQ(**outcome->result, 1);
}

TEST(NextTurn, WaitsForTheHost) {
  Executor executor;
  int asked = 0;
  executor.set_turn_hook([](void* count) { ++*static_cast<int*>(count); }, &asked);
  auto outcome = start(executor, []() -> Task<> {
    co_await next_turn();
    co_return Result<>{};
  }());
  executor.drain();
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(outcome->result.has_value());
  executor.begin_turn();
  executor.drain();
  EXPECT_TRUE(outcome->result.has_value());
}

struct Flight {
  SingleFlight<int> single;
  Completion<int> gate;
  int started = 0;

  Task<int> open() {
    return single.run([this]() -> Task<int> {
      ++started;
      co_return co_await gate;
    });
  }
};

TEST(SingleFlight, ConcurrentCallersShareOneTask) {
  Executor executor;
  Flight flight;
  std::vector<std::shared_ptr<Outcome<int>>> outcomes;
  for (int i = 0; i < 5; ++i) outcomes.push_back(start(executor, flight.open()));
  executor.drain();
  EXPECT_EQ(flight.started, 1);
  flight.gate.complete(7);
  executor.drain();
  for (auto& outcome : outcomes) EXPECT_EQ(**outcome->result, 7);
}

TEST(SingleFlight, AFailureReachesAllAndIsForgotten) {
  Executor executor;
  Flight flight;
  auto first = start(executor, flight.open());
  auto second = start(executor, flight.open());
  executor.drain();
  flight.gate.complete(fail(Code::Gpu, "no adapter"));
  executor.drain();
  EXPECT_EQ(first->result->error().message, "no adapter");
  EXPECT_EQ(second->result->error().message, "no adapter");
  flight.gate = Completion<int>();
  auto retry = start(executor, flight.open());
  executor.drain();
  flight.gate.complete(1);
  executor.drain();
  EXPECT_EQ(flight.started, 2);
  EXPECT_EQ(**retry->result, 1);
}

Task<> job(Lane& lane, std::string& log, char name, Completion<> gate, bool succeed) {
  auto hold = SINTER_CO_TRY(co_await lane.enter());
  log += name;
  SINTER_CO_CHECK_OK(co_await gate);
  log += static_cast<char>(name + 32);
  if (!succeed) co_return fail(Code::Gpu, "failed on purpose");
  co_return Result<>{};
}

TEST(Lane, JobsPassInOrderAndAFailureDoesNotPoisonTheNext) {
  Executor executor;
  Lane lane;
  std::string log;
  Completion<> gates[3];
  std::vector<std::shared_ptr<Outcome<void>>> outcomes;
  for (int i = 0; i < 3; ++i) {
    outcomes.push_back(start(executor, job(lane, log, static_cast<char>('A' + i), gates[i], i != 1)));
  }
  executor.drain();
  EXPECT_EQ(log, "A");
  EXPECT_EQ(lane.waiting(), 2u);
  for (int i : {2, 1, 0}) gates[i].complete({});
  executor.drain();
  EXPECT_EQ(log, "AaBbCc");
  EXPECT_TRUE(outcomes[0]->result->has_value());
  EXPECT_EQ(outcomes[1]->result->error().code, Code::Gpu);
  EXPECT_TRUE(outcomes[2]->result->has_value());
  auto again = start(executor, job(lane, log, 'D', gates[0], true));
  executor.drain();
  EXPECT_TRUE(again->result->has_value());
}

TEST(Lane, EveryOrderOfSixJobsKeepsTheLaneExclusive) {
  std::vector<int> order = {0, 1, 2, 3, 4, 5};
  do {
    Executor executor;
    Lane lane;
    std::string log;
    Completion<> gates[6];
    for (int i = 0; i < 6; ++i) start(executor, job(lane, log, static_cast<char>('A' + i), gates[i], i % 2 == 0));
    for (int i : order) {
      gates[i].complete({});
      executor.drain();
    }
    ASSERT_EQ(log, "AaBbCcDdEeFf");
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Cancel, ALinkedCompletionEndsAsCancelled) {
  Executor executor;
  CancelSource source;
  Completion<int> completion;
  source.token().link(completion);
  auto outcome = start(executor, [](Completion<int> c) -> Task<int> { co_return co_await c; }(completion));
  executor.drain();
  source.cancel();
  source.cancel();
  executor.drain();
  EXPECT_EQ(outcome->result->error().code, Code::Cancelled);
  EXPECT_FALSE(completion.complete(3));
  EXPECT_FALSE(source.token().check().has_value());
  EXPECT_TRUE(CancelToken().check().has_value());
}

}  // namespace
}  // namespace sinter
