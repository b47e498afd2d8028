// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known name closest to a wrong one.
#pragma once

#include <span>
#include <string_view>

namespace sinter {

/// The candidate with the fewest edits from `wanted` (case does not count), or "" where none is close enough to be meant.
std::string_view nearest(std::string_view wanted, std::span<const std::string_view> candidates);

}  // namespace sinter
