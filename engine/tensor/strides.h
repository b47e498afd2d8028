// SPDX-License-Identifier: Apache-2.0
// Strided iteration over an output shape with any number of operands; adjacent axes merge where every operand allows
// it, so rank-8 broadcasts and transposes usually iterate over two or three axes.
#pragma once

#include <span>
#include <vector>

#include "engine/tensor/shape.h"

namespace sinter {

struct StridedLoop {
  Shape dims;                  // merged output dimensions (rank 0 for a single element), outermost first
  std::vector<Shape> strides;  // per operand, in elements, same rank as dims; 0 where broadcast
};

/// `strides[k]` has the rank of `out`. Axes of extent 1 vanish.
StridedLoop merge_axes(const Shape& out, std::span<const Shape> strides);

/// Row-major strides of `in` as seen from the broadcast shape `out`: 0 along broadcast axes, rank of `out`.
Shape broadcast_strides(const Shape& in, const Shape& out);

}  // namespace sinter
