// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/memory.h"

#include <algorithm>
#include <numeric>

#include "engine/base/sort.h"

namespace sinter::plan {
namespace {
uint64_t round_up(uint64_t bytes, uint64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }
}  // namespace

uint64_t layout(std::vector<Lifetime>& buffers, uint64_t alignment) {
  std::vector<uint32_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0u);
  heap_sort(order, [&](uint32_t a, uint32_t b) {
    return buffers[a].bytes != buffers[b].bytes ? buffers[a].bytes > buffers[b].bytes : a < b;
  });
  std::vector<uint32_t> placed;  // sorted by offset
  uint64_t total = 0;
  for (uint32_t index : order) {
    Lifetime& buffer = buffers[index];
    const uint64_t bytes = round_up(buffer.bytes, alignment);
    uint64_t at = 0;
    for (uint32_t other_index : placed) {
      const Lifetime& other = buffers[other_index];
      if (other.last < buffer.first || other.first > buffer.last) continue;
      if (at + bytes <= other.offset) break;
      at = std::max(at, other.offset + round_up(other.bytes, alignment));
    }
    buffer.offset = at;
    total = std::max(total, at + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](uint32_t a, uint32_t b) { return buffers[a].offset < buffers[b].offset; }),
                  index);
  }
  return total;
}

uint64_t liveness_bound(const std::vector<Lifetime>& buffers, uint64_t alignment) {
  uint64_t bound = 0;
  for (const Lifetime& at : buffers) {
    uint64_t alive = 0;
    for (const Lifetime& other : buffers) {
      if (other.first <= at.first && at.first <= other.last) alive += round_up(other.bytes, alignment);
    }
    bound = std::max(bound, alive);
  }
  return bound;
}

}  // namespace sinter::plan
