// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/memory.h"

#include <gtest/gtest.h>

#include <random>

namespace sinter::plan {
namespace {

bool overlap(const Lifetime& a, const Lifetime& b) {
  const bool in_time = a.first <= b.last && b.first <= a.last;
  const bool in_space = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
  return in_time && in_space && a.bytes && b.bytes;
}

void check(std::vector<Lifetime>& buffers, double slack) {
  const uint64_t total = layout(buffers, 256);
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(buffers[i].offset % 256, 0u);
    EXPECT_LE(buffers[i].offset + buffers[i].bytes, total);
    for (size_t j = i + 1; j < buffers.size(); ++j) ASSERT_FALSE(overlap(buffers[i], buffers[j])) << i << " and " << j;
  }
  const uint64_t bound = liveness_bound(buffers, 256);
  EXPECT_LE(static_cast<double>(total), static_cast<double>(bound) * slack);
}

TEST(Layout, ChainsReuseTwoBuffers) {
  std::vector<Lifetime> buffers;
  for (uint32_t i = 0; i < 20; ++i) buffers.push_back({1000, i, i + 1, 0});
  check(buffers, 1.0);
}

TEST(Layout, RandomLifetimesNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Lifetime> buffers;
    for (int i = 0; i < 60; ++i) {
      const uint32_t first = random() % 40;
      buffers.push_back({random() % 5000, first, first + static_cast<uint32_t>(random() % 6), 0});
    }
    check(buffers, 1.35);
  }
}

TEST(Layout, EmptyBuffersTakeNoSpace) {
  std::vector<Lifetime> buffers = {{0, 0, 3, 0}, {256, 0, 1, 0}};
  EXPECT_EQ(layout(buffers, 256), 256u);
}

}  // namespace
}  // namespace sinter::plan
