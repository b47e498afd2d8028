// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/window.h"

#include <algorithm>
#include <vector>

#include "engine/ops/util.h"

namespace sinter::ops {
namespace {

// Keeps every product and sum below int64; no real model comes near.
constexpr int64_t kMaxAttribute = 1 << 30;

/// Attribute `name` with `count` values in [least, kMaxAttribute], or `count` times `fallback` where it is absent.
Result<std::vector<int64_t>> window_ints(const Node& node, std::string_view name, size_t count, int64_t fallback,
                                         int64_t least) {
  const auto given = node.attrs.ints(name);
  if (given.empty()) return std::vector<int64_t>(count, fallback);
  if (given.size() != count) {
    return bad(node, StrCat("attribute ", name, " has ", given.size(), " values [", StrJoin(given, ","),
                            "], the input's spatial axes need ", count));
  }
  for (int64_t value : given) {
    if (value < least || value > kMaxAttribute) {
      return bad(node,
                 StrCat("attribute ", name, " = [", StrJoin(given, ","), "] must hold values of at least ", least));
    }
  }
  return std::vector<int64_t>(given.begin(), given.end());
}

enum class AutoPad : uint8_t { notset, valid, same_upper, same_lower };

Result<AutoPad> auto_pad(const Node& node) {
  const std::string_view text = node.attrs.s("auto_pad", "NOTSET");
  if (text == "NOTSET" || text.empty()) return AutoPad::notset;
  if (text == "VALID") return AutoPad::valid;
  if (text == "SAME_UPPER") return AutoPad::same_upper;
  if (text == "SAME_LOWER") return AutoPad::same_lower;
  return bad(node, StrCat("attribute auto_pad is '", text, "'; it must be NOTSET, VALID, SAME_UPPER or SAME_LOWER"));
}

/// Splits padding in two; the odd element goes to the end for SAME_UPPER.
void split_padding(WindowAxis& axis, int64_t total, AutoPad mode) {
  const int64_t half = total / 2;
  axis.pad_begin = mode == AutoPad::same_upper ? half : total - half;
  axis.pad_end = total - axis.pad_begin;
}

/// Kernel, strides, dilations and input extents.
Result<Window> read_window(const Node& node, const SpatialDims& dims, std::span<const int64_t> weight_kernel) {
  Window window;
  window.rank = dims.rank;
  auto kernel = SINTER_TRY(window_ints(node, "kernel_shape", dims.rank, kUnknownDim, 1));
  const bool given = kernel.empty() || kernel[0] != kUnknownDim;
  if (!given && weight_kernel.empty()) return bad(node, "attribute kernel_shape is missing");
  for (size_t i = 0; i < weight_kernel.size(); ++i) {
    if (!given) kernel[i] = weight_kernel[i];
    if (is_known(weight_kernel[i]) && is_known(kernel[i]) && kernel[i] != weight_kernel[i]) {
      return bad(node, StrCat("attribute kernel_shape = [", StrJoin(kernel, ","), "] differs from the weight's ",
                              to_string(Shape(weight_kernel))));
    }
    if (kernel[i] == 0 || kernel[i] > kMaxAttribute) {
      return bad(node, StrCat("the weight's kernel ", to_string(Shape(weight_kernel)), " is empty or too large"));
    }
  }
  const auto strides = SINTER_TRY(window_ints(node, "strides", dims.rank, 1, 1));
  const auto dilations = SINTER_TRY(window_ints(node, "dilations", dims.rank, 1, 1));
  const size_t first = kMaxSpatial - dims.rank;
  for (size_t i = 0; i < dims.rank; ++i) {
    WindowAxis& axis = window.axes[first + i];
    axis.in = dims.spatial[first + i];
    axis.out = kUnknownDim;
    axis.kernel = kernel[i];
    axis.stride = strides[i];
    axis.dilation = dilations[i];
  }
  return window;
}

Result<> read_pads(const Node& node, Window& window) {
  const auto pads = SINTER_TRY(window_ints(node, "pads", 2 * window.rank, 0, 0));
  for (size_t i = 0; i < window.rank; ++i) {
    window.own()[i].pad_begin = pads[i];
    window.own()[i].pad_end = pads[window.rank + i];
  }
  return {};
}

/// Output extent with explicit padding; negative where the window does not fit.
int64_t slide(const WindowAxis& axis, bool ceil_mode) {
  const int64_t room = axis.in + axis.pad_begin + axis.pad_end - axis.reach();
  if (room < 0) return -1;
  int64_t out = room / axis.stride + 1;
  // A last partial window counts only if it starts inside the input or its leading padding.
  if (ceil_mode && room % axis.stride != 0 && out * axis.stride < axis.in + axis.pad_begin) ++out;
  return out;
}

}  // namespace

bool Window::padded() const {
  return std::any_of(axes.begin(), axes.end(),
                     [](const WindowAxis& axis) { return axis.pad_begin != 0 || axis.pad_end != 0; });
}

Result<SpatialDims> spatial_dims(const Node& node, const Shape& shape) {
  if (shape.rank() < 3 || shape.rank() > 2 + kMaxSpatial) {
    return bad(node, StrCat("input ", to_string(shape), " has rank ", shape.rank(), "; rank 3, 4 or 5 is supported"),
               "reshape the input to 1, 2 or 3 spatial axes");
  }
  SpatialDims dims;
  dims.rank = shape.rank() - 2;
  const size_t channel_axis = is_nhwc(node) ? shape.rank() - 1 : 1;
  const size_t first_spatial = is_nhwc(node) ? 1 : 2;
  dims.batch = shape[0];
  dims.channels = shape[channel_axis];
  for (size_t i = 0; i < dims.rank; ++i) dims.spatial[kMaxSpatial - dims.rank + i] = shape[first_spatial + i];
  if (shape.is_static()) {
    const Shape strides = row_major_strides(shape);
    dims.batch_stride = strides[0];
    dims.channel_stride = strides[channel_axis];
    for (size_t i = 0; i < dims.rank; ++i) dims.stride[kMaxSpatial - dims.rank + i] = strides[first_spatial + i];
  }
  return dims;
}

Shape spatial_shape(const Node& node, int64_t batch, int64_t channels, const Window& window) {
  Shape shape{batch};
  if (!is_nhwc(node)) shape.push_back(channels);
  for (const WindowAxis& axis : window.own()) shape.push_back(axis.out);
  if (is_nhwc(node)) shape.push_back(channels);
  return shape;
}

std::string to_string(const Window& window) {
  std::string kernel, strides, begin, end, dilations, in;
  for (const WindowAxis& axis : window.own()) {
    const std::string_view x = kernel.empty() ? "" : "x";
    const std::string_view comma = kernel.empty() ? "" : ",";
    kernel += StrCat(x, axis.kernel);
    strides += StrCat(x, axis.stride);
    dilations += StrCat(x, axis.dilation);
    begin += StrCat(comma, axis.pad_begin);
    end += StrCat(comma, axis.pad_end);
    in += StrCat(x, is_known(axis.in) ? StrCat(axis.in) : std::string("?"));
  }
  return StrCat("kernel ", kernel, ", strides ", strides, ", pads ", begin, ",", end, ", dilations ", dilations,
                ", input ", in);
}

Result<Window> resolve_window(const Node& node, const Shape& shape, std::span<const int64_t> weight_kernel) {
  const SpatialDims dims = SINTER_TRY(spatial_dims(node, shape));
  Window window = SINTER_TRY(read_window(node, dims, weight_kernel));
  const AutoPad mode = SINTER_TRY(auto_pad(node));
  if (mode == AutoPad::notset) SINTER_CHECK_OK(read_pads(node, window));
  // The operators' text gives VALID the same extent with and without ceil_mode; ONNX's own shape inference and ONNX
  // Runtime round up, and files carry shapes that say so.
  const bool ceil_mode = node.attrs.i("ceil_mode", 0) != 0;
  for (WindowAxis& axis : window.own()) {
    const bool same = mode == AutoPad::same_upper || mode == AutoPad::same_lower;
    if (!is_known(axis.in) || !is_known(axis.kernel)) {
      const bool keeps =
          axis.stride == 1 && (same || (is_known(axis.kernel) && axis.pad_begin + axis.pad_end == axis.reach() - 1));
      if (keeps) axis.out = axis.in;
      continue;
    }
    if (same) {
      axis.out = (axis.in + axis.stride - 1) / axis.stride;
      split_padding(axis, std::max<int64_t>((axis.out - 1) * axis.stride + axis.reach() - axis.in, 0), mode);
      continue;
    }
    axis.out = slide(axis, ceil_mode);
    if (axis.out < 0) {
      return bad(node,
                 StrCat("the window does not fit into the padded input ", to_string(shape), ": ", to_string(window)));
    }
  }
  return window;
}

Result<Window> resolve_transposed_window(const Node& node, const Shape& shape, std::span<const int64_t> weight_kernel) {
  const SpatialDims dims = SINTER_TRY(spatial_dims(node, shape));
  Window window = SINTER_TRY(read_window(node, dims, weight_kernel));
  const AutoPad mode = SINTER_TRY(auto_pad(node));
  if (mode == AutoPad::notset) SINTER_CHECK_OK(read_pads(node, window));
  const auto extra = SINTER_TRY(window_ints(node, "output_padding", window.rank, 0, 0));
  const auto wanted = SINTER_TRY(window_ints(node, "output_shape", window.rank, kUnknownDim, 0));
  for (size_t i = 0; i < window.rank; ++i) {
    WindowAxis& axis = window.own()[i];
    if (!is_known(axis.kernel)) continue;
    const bool same = mode == AutoPad::same_upper || mode == AutoPad::same_lower;
    if (extra[i] >= std::max(axis.stride, axis.dilation)) {
      return bad(node,
                 StrCat("output_padding ", extra[i], " must be less than the stride or dilation: ", to_string(window)));
    }
    if (is_known(wanted[i])) axis.out = wanted[i];
    if (!is_known(axis.in)) continue;
    const int64_t full = (axis.in - 1) * axis.stride + axis.reach() + extra[i];
    if (is_known(wanted[i]) || same) {
      axis.out = is_known(wanted[i]) ? wanted[i] : axis.in * axis.stride;
      // Any mode but SAME_UPPER puts the odd element at the start here.
      split_padding(axis, std::max<int64_t>(full - axis.out, 0), mode);
    } else {
      axis.out = full - axis.pad_begin - axis.pad_end;
    }
    if (axis.out < 0) {
      return bad(node, StrCat("pads exceed the output for input ", to_string(shape), ": ", to_string(window)));
    }
  }
  return window;
}

}  // namespace sinter::ops
