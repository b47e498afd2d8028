// SPDX-License-Identifier: Apache-2.0
// What the parts of the Resize row share: how output coordinates of one axis map to the input.
#pragma once

#include <optional>
#include <vector>

#include "engine/ops/op_def.h"

namespace sinter::ops {

struct ResizeAxis {
  int64_t in = 1, out = 1;
  bool identity = true;
  double slope = 1, offset = 0;  // output coordinate o reads input position slope * o + offset
  double scale = 1;              // by sizes the exact ratio, by scales the float32 that the model gives
  bool by_scales = false;
  // Outputs outside [first, last] take the extrapolation value (tf_crop_and_resize only).
  int64_t first = 0, last = 0;
};

enum class ResizeMode : uint8_t { nearest, linear, cubic };

struct ResizeGeometry {
  ResizeMode mode = ResizeMode::nearest;
  bool antialias = false, exclude_outside = false;
  float cubic_a = -0.75f;
  std::vector<ResizeAxis> axes;  // in the order of the tensor's axes
};

/// Operands are null where absent; shapes are static.
Result<ResizeGeometry> resize_geometry(const Node& node, const Shape& x, const Tensor* roi, const Tensor* scales,
                                       const Tensor* sizes);

/// The input index that each output of a nearest axis takes, clamped to the input.
std::vector<int64_t> nearest_table(const Node& node, const ResizeAxis& axis);

Result<> resize_wgsl(WgslContext& ctx);
void resize_cases(std::vector<OpCase>& cases);

}  // namespace sinter::ops
