// SPDX-License-Identifier: Apache-2.0
// What the parts of the Conv row share, and what backends need to read a Conv node.
#pragma once

#include "engine/ops/op_def.h"
#include "engine/ops/window.h"

namespace sinter::ops {

/// A Conv node over concrete shapes.
struct ConvGeometry {
  Window window;
  int64_t batch = 0, channels = 0, filters = 0, group = 1;

  int64_t channels_per_group() const { return channels / group; }
  int64_t filters_per_group() const { return filters / group; }
  bool depthwise() const { return group == channels && filters == channels; }
};

/// `x` and `w` are static; checks channels against group and the kernel against the window.
Result<ConvGeometry> conv_geometry(const Node& node, const Shape& x, const Shape& w);

Result<> conv_wgsl(WgslContext& ctx);
/// Channels last, ungrouped, constant weights, and enough outputs that blocks of them occupy a GPU.
bool conv_tiled_fits(const ConvGeometry& g, const wgsl::Target& target);
Result<> conv_tiled(WgslContext& ctx, const ConvGeometry& g);
void conv_cases(std::vector<OpCase>& cases);

}  // namespace sinter::ops
