// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace sinter::cpu {
namespace {

TEST(Pool, RunsEveryIndexOnce) {
  for (unsigned threads : {1u, 2u, 3u, 8u}) {
    const auto pool = make_native_pool(threads);
    EXPECT_EQ(pool->threads(), threads);
    for (size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{7}, size_t{1000}, (size_t{1} << 20) + 5}) {
      std::vector<std::atomic<uint8_t>> hits(count);
      parallel_for(*pool, count, [&](size_t i) { hits[i].fetch_add(1); });
      for (size_t i = 0; i < count; ++i) ASSERT_EQ(hits[i].load(), 1) << i << " of " << count;
    }
  }
}

TEST(Pool, ManyShortJobs) {
  const auto pool = make_native_pool(4);
  std::atomic<uint64_t> sum{0};
  for (int job = 0; job < 20000; ++job) parallel_for(*pool, 5, [&](size_t i) { sum.fetch_add(i); });
  EXPECT_EQ(sum.load(), 20000u * 10);
}

TEST(Pool, WakesFromSleep) {
  const auto pool = make_native_pool(3);
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> hits{0};
    parallel_for(*pool, 64, [&](size_t) { hits.fetch_add(1); });
    EXPECT_EQ(hits.load(), 64);
  }
}

TEST(Pool, SharedByRunsOnSeveralThreads) {
  const auto pool = make_native_pool(3);
  std::atomic<uint64_t> sum{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int job = 0; job < 2000; ++job) parallel_for(*pool, 9, [&](size_t i) { sum.fetch_add(i + 1); });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum.load(), 4u * 2000 * 45);
}

TEST(Pool, NestedCallsRunInPlace) {
  const auto pool = make_native_pool(2);
  std::atomic<int> hits{0};
  parallel_for(*pool, 8, [&](size_t) { parallel_for(*pool, 8, [&](size_t) { hits.fetch_add(1); }); });
  EXPECT_EQ(hits.load(), 64);
}

TEST(Pool, ZeroMeansTheCoresOfThisProcess) {
  EXPECT_EQ(make_native_pool(0)->threads(), usable_cores());
  EXPECT_GE(usable_cores(), 1u);
}

}  // namespace
}  // namespace sinter::cpu
