// SPDX-License-Identifier: Apache-2.0
// The checked allocator: every model-sized allocation goes through it, fails as a value and is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/result.h"

namespace sinter {

/// Alignment of every block, in bytes: one cache line, the widest SIMD vector.
constexpr size_t kAlignment = 64;

/// A zero-initialised block of at least `bytes` bytes. `what` names it in the OutOfMemory error.
Result<std::shared_ptr<std::byte>> allocate(uint64_t bytes, std::string_view what);

struct MemoryStats {
  uint64_t current = 0;  // bytes held now through `allocate`
  uint64_t peak = 0;     // high-water mark
};
MemoryStats memory_stats();
void reset_memory_peak();

/// Blocks larger than this are refused before the host allocator is asked (tests of OutOfMemory; 0 = no limit).
void set_allocation_limit(uint64_t bytes);

}  // namespace sinter
