// SPDX-License-Identifier: Apache-2.0
// Window: the one place that resolves kernel_shape, strides, pads, dilations, auto_pad and ceil_mode into numbers, and
// the layout of spatial operands. Convolutions and pools of every backend read their geometry here.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "engine/base/result.h"
#include "engine/ir/graph.h"

namespace sinter::ops {

/// Most spatial axes a window has: 3-D. A window of fewer axes is the same window with leading axes of extent 1.
constexpr size_t kMaxSpatial = 3;

struct WindowAxis {
  int64_t in = 1, out = 1;  // extents; symbolic or unknown at load
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t pad_begin = 0, pad_end = 0;  // 0 as long as auto_pad waits for a symbolic extent

  /// Distance from the first to one past the last element that the window touches.
  int64_t reach() const { return (kernel - 1) * dilation + 1; }
  /// Input position of tap `k` of output `o`: outside [0, in) is padding.
  int64_t at(int64_t o, int64_t k) const { return o * stride - pad_begin + k * dilation; }
  bool inside(int64_t position) const { return position >= 0 && position < in; }
  /// The taps [first, last) of output `o` that lie inside the input; empty where first >= last.
  int64_t first_tap(int64_t o) const { return at(o, 0) >= 0 ? 0 : (-at(o, 0) + dilation - 1) / dilation; }
  int64_t last_tap(int64_t o) const { return taps_before(in - at(o, 0)); }
  /// Number of taps of output `o` that lie inside the input or its padding: fewer than `kernel` in the partial windows of
  /// ceil_mode.
  int64_t padded_taps(int64_t o) const { return taps_before(in + pad_end - at(o, 0)); }
  friend bool operator==(const WindowAxis&, const WindowAxis&) = default;

 private:
  int64_t taps_before(int64_t distance) const {
    const int64_t taps = distance <= 0 ? 0 : (distance + dilation - 1) / dilation;
    return taps < kernel ? taps : kernel;
  }
};

struct Window {
  size_t rank = 0;                           // spatial axes of the operator
  std::array<WindowAxis, kMaxSpatial> axes;  // depth, height, width: the operator's own axes are the last `rank`

  const WindowAxis& depth() const { return axes[0]; }
  const WindowAxis& height() const { return axes[1]; }
  const WindowAxis& width() const { return axes[2]; }
  /// The operator's own axes.
  std::span<const WindowAxis> own() const { return {axes.data() + (kMaxSpatial - rank), rank}; }
  std::span<WindowAxis> own() { return {axes.data() + (kMaxSpatial - rank), rank}; }

  int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  int64_t out_points() const { return axes[0].out * axes[1].out * axes[2].out; }
  int64_t in_points() const { return axes[0].in * axes[1].in * axes[2].in; }
  bool padded() const;
  /// 1x1 windows without padding: each output point reads one input point.
  bool pointwise() const { return taps() == 1 && !padded(); }
};

/// The layout of a spatial operand: [N, C, spatial...], or [N, spatial..., C] where the node has attribute nhwc=1.
struct SpatialDims {
  int64_t batch = 1, channels = 1;
  size_t rank = 0;                                    // spatial axes
  std::array<int64_t, kMaxSpatial> spatial{1, 1, 1};  // depth, height, width
  // Element strides of a dense tensor with these dimensions (static shapes only).
  int64_t batch_stride = 0, channel_stride = 0;
  std::array<int64_t, kMaxSpatial> stride{};
};

inline bool is_nhwc(const Node& node) { return node.attrs.i("nhwc", 0) != 0; }

/// InvalidModel where the rank is not 3 to 5.
Result<SpatialDims> spatial_dims(const Node& node, const Shape& shape);
Shape spatial_shape(const Node& node, int64_t batch, int64_t channels, const Window& window);

/// The window of a Conv or pool node over an input of `shape`. `weight_kernel` is the weight's spatial part where the
/// operator has a weight (kernel_shape must agree with it and may be absent), empty for pools (kernel_shape is
/// required). `out` of an axis is as known as the rules allow: SAME with stride 1, for instance, keeps a symbol.
Result<Window> resolve_window(const Node& node, const Shape& shape, std::span<const int64_t> weight_kernel = {});

/// The window of a ConvTranspose node, seen from its output: `in` and `out` are swapped against resolve_window's
/// formula, so that output = (in - 1) * stride + reach + output_padding - pads.
Result<Window> resolve_transposed_window(const Node& node, const Shape& shape, std::span<const int64_t> weight_kernel);

/// "kernel 3x3, strides 2x2, pads 0,0,1,1, dilations 1x1, input 5x5": for error messages.
std::string to_string(const Window& window);

}  // namespace sinter::ops
