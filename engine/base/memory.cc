// SPDX-License-Identifier: Apache-2.0
#include "engine/base/memory.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "engine/base/str.h"

namespace sinter {
namespace {
std::atomic<uint64_t> g_current{0};
std::atomic<uint64_t> g_peak{0};
std::atomic<uint64_t> g_limit{0};

void add(uint64_t bytes) {
  const uint64_t now = g_current.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  uint64_t peak = g_peak.load(std::memory_order_relaxed);
  while (now > peak && !g_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
}
}  // namespace

Result<std::shared_ptr<std::byte>> allocate(uint64_t bytes, std::string_view what) {
  const uint64_t limit = g_limit.load(std::memory_order_relaxed);
  const uint64_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
  const bool too_large = rounded < bytes || rounded > SIZE_MAX || (limit && rounded > limit);
  void* block = too_large ? nullptr : std::aligned_alloc(kAlignment, static_cast<size_t>(rounded));
  if (!block) {
    return fail(Code::OutOfMemory,
                StrCat("no memory for ", what, ": ", bytes, " bytes, with ", memory_stats().current, " bytes in use"),
                "use smaller inputs or a smaller batch, or close sessions that are no longer needed");
  }
  std::memset(block, 0, static_cast<size_t>(rounded));
  add(rounded);
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(block), [rounded](std::byte* p) {
    g_current.fetch_sub(rounded, std::memory_order_relaxed);
    std::free(p);
  });
}

MemoryStats memory_stats() {
  return {g_current.load(std::memory_order_relaxed), g_peak.load(std::memory_order_relaxed)};
}

void reset_memory_peak() { g_peak.store(g_current.load(std::memory_order_relaxed), std::memory_order_relaxed); }

void set_allocation_limit(uint64_t bytes) { g_limit.store(bytes, std::memory_order_relaxed); }

}  // namespace sinter
