// SPDX-License-Identifier: Apache-2.0
// What reductions share: axes, loops over kept and reduced axes, and the device kernel.
#pragma once

#include <array>
#include <limits>
#include <span>

#include "engine/ops/util.h"

namespace sinter::ops {

enum class ReduceKind : uint8_t { sum, mean, max, min, prod, l1, l2, log_sum, log_sum_exp, sum_square };

/// One flag per axis: true where it is reduced.
using Axes = std::array<bool, kMaxRank>;

/// `given` as flags; no axes means all of them, unless noop_with_empty_axes is set.
Result<Axes> resolve_axes(const Node& node, std::span<const int64_t> given, size_t rank);
Shape reduced_shape(const Shape& shape, const Axes& axes, bool keepdims);

struct ReduceLoops {
  StridedLoop kept, reduced;  // each with the input as its one operand
  int64_t outputs = 1, count = 1;
};
ReduceLoops reduce_loops(const Shape& shape, const Axes& axes);

/// What the largest or smallest element of nothing is.
constexpr int64_t lowest_of(DType dtype) {
  switch (dtype) {
    case DType::i8:
      return std::numeric_limits<int8_t>::min();
    case DType::i16:
      return std::numeric_limits<int16_t>::min();
    case DType::i32:
      return std::numeric_limits<int32_t>::min();
    case DType::i64:
      return std::numeric_limits<int64_t>::min();
    default:
      return 0;
  }
}
constexpr int64_t highest_of(DType dtype) {
  switch (dtype) {
    case DType::i8:
      return std::numeric_limits<int8_t>::max();
    case DType::i16:
      return std::numeric_limits<int16_t>::max();
    case DType::i32:
      return std::numeric_limits<int32_t>::max();
    case DType::u8:
      return std::numeric_limits<uint8_t>::max();
    case DType::u16:
      return std::numeric_limits<uint16_t>::max();
    case DType::u32:
      return std::numeric_limits<uint32_t>::max();
    case DType::boolean:
      return 1;
    case DType::u64:
      return -1;  // as bits
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

Result<> wgsl_reduce(WgslContext& ctx, ReduceKind kind);

}  // namespace sinter::ops
