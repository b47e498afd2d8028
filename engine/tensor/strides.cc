// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/strides.h"

namespace sinter {

StridedLoop merge_axes(const Shape& out, std::span<const Shape> strides) {
  StridedLoop loop;
  loop.strides.resize(strides.size());
  for (size_t axis = 0; axis < out.rank(); ++axis) {
    if (out[axis] == 1) continue;
    bool merge = loop.dims.rank() > 0;
    const size_t last = merge ? loop.dims.rank() - 1 : 0;
    for (size_t k = 0; merge && k < strides.size(); ++k) {
      merge = loop.strides[k][last] == strides[k][axis] * out[axis];
    }
    if (merge) {
      loop.dims[last] *= out[axis];
      for (size_t k = 0; k < strides.size(); ++k) loop.strides[k][last] = strides[k][axis];
    } else {
      loop.dims.push_back(out[axis]);
      for (size_t k = 0; k < strides.size(); ++k) loop.strides[k].push_back(strides[k][axis]);
    }
  }
  return loop;
}

Shape broadcast_strides(const Shape& in, const Shape& out) {
  const Shape own = row_major_strides(in);
  Shape strides = Shape::filled(out.rank(), 0);
  for (size_t i = 0; i < in.rank(); ++i) {
    const size_t at = out.rank() - in.rank() + i;
    strides[at] = in[i] == 1 ? 0 : own[i];
  }
  return strides;
}

}  // namespace sinter
