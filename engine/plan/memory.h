// SPDX-License-Identifier: Apache-2.0
// Arena layout: offline placement of buffers with known lifetimes.
#pragma once

#include <cstdint>
#include <vector>

namespace sinter::plan {

/// Alive in steps [first, last], both included.
struct Lifetime {
  uint64_t bytes = 0;
  uint32_t first = 0, last = 0;
  uint64_t offset = 0;  // filled by `layout`
};

/// Places every buffer at an offset that is a multiple of `alignment`, so that none overlap while both are alive.
/// Returns the arena's size. Largest first into the lowest gap, which stays within a few percent of the liveness bound
/// on networks.
uint64_t layout(std::vector<Lifetime>& buffers, uint64_t alignment);

/// The most bytes alive in any one step: no layout can be smaller.
uint64_t liveness_bound(const std::vector<Lifetime>& buffers, uint64_t alignment);

}  // namespace sinter::plan
