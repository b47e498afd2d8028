// SPDX-License-Identifier: Apache-2.0
// Resize (ai.onnx 10-19; Upsample is imported as Resize): nearest, linear and cubic over any axes.
// https://onnx.ai/onnx/operators/onnx__Resize.html
// Refused on the device, where the CPU answers: integers other than by nearest.
//
// All modes are separable, so the reference resizes one axis after the other. With nhwc=1 input and output are
// [N, H, W, C]; roi, scales, sizes and axes keep ONNX's order of axes.
#include "engine/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/ops/movement.h"
#include "engine/ops/util.h"
#include "engine/ops/window.h"

namespace sinter::ops {
namespace {

/// ONNX's axis `a` as an axis of the tensor.
size_t tensor_axis(const Node& node, size_t a, size_t rank) {
  if (!is_nhwc(node) || a == 0) return a;
  return a == 1 ? rank - 1 : a - 1;
}

Result<ResizeMode> mode_of(const Node& node) {
  const std::string_view mode = node.attrs.s("mode", "nearest");
  if (mode == "nearest") return ResizeMode::nearest;
  if (mode == "linear") return ResizeMode::linear;
  if (mode == "cubic") return ResizeMode::cubic;
  return bad(node, StrCat("attribute mode is '", mode, "'; it must be nearest, linear or cubic"));
}

Result<> check_choice(const Node& node, std::string_view name, std::string_view fallback,
                      std::initializer_list<std::string_view> choices) {
  const std::string_view value = node.attrs.s(name, fallback);
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return {};
  return bad(node, StrCat("attribute ", name, " is '", value, "'; it must be one of ", StrJoin(choices, ", ")));
}

Result<> check_attributes(const Node& node) {
  SINTER_CHECK_OK(mode_of(node));
  SINTER_CHECK_OK(check_choice(node, "coordinate_transformation_mode", "half_pixel",
                               {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"}));
  SINTER_CHECK_OK(check_choice(node, "nearest_mode", "round_prefer_floor",
                               {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  SINTER_CHECK_OK(check_choice(node, "keep_aspect_ratio_policy", "stretch", {"stretch", "not_larger", "not_smaller"}));
  if (node.attrs.i("antialias", 0) != 0 && *mode_of(node) == ResizeMode::nearest) {
    return bad(node, "antialias needs mode linear or cubic");
  }
  return {};
}

/// The axes that roi, scales and sizes speak of, in that order.
Result<std::vector<size_t>> named_axes(const Node& node, size_t rank) {
  if (node.attrs.has("axes")) return checked_axes(node, node.attrs.ints("axes"), rank);
  std::vector<size_t> axes(rank);
  for (size_t i = 0; i < rank; ++i) axes[i] = i;
  return axes;
}

std::vector<double> values_of(const Tensor& tensor) {
  std::vector<double> values(tensor.numel());
  for (size_t i = 0; i < values.size(); ++i) values[i] = get_f64(tensor, i);
  return values;
}

/// An empty operand is an absent one: opsets before 13 had to pass something.
bool given(const Tensor* tensor) { return tensor != nullptr && tensor->numel() > 0; }

Result<> check_count(const Node& node, std::string_view what, const Tensor& tensor, size_t count) {
  if (tensor.shape().rank() == 1 && tensor.numel() == count) return {};
  return bad(node, StrCat(what, " ", to_string(tensor.shape()), " must hold ", count, " values"));
}

/// Scale and output extent of each of ONNX's axes; in[a] may be unknown, then so may be both.
struct Extent {
  std::optional<double> scale = 1.0;
  int64_t out = kUnknownDim;
};

Result<std::vector<Extent>> by_scales(const Node& node, const Shape& in, std::span<const size_t> axes,
                                      const Tensor& scales) {
  SINTER_CHECK_OK(check_count(node, "scales", scales, axes.size()));
  std::vector<Extent> extents(in.rank());
  for (size_t a = 0; a < in.rank(); ++a) extents[a].out = in[a];
  const auto values = values_of(scales);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto scale = static_cast<float>(values[i]);
    if (!(scale > 0) || !std::isfinite(scale)) return bad(node, StrCat("scale ", scale, " must be positive"));
    Extent& extent = extents[axes[i]];
    extent.scale = scale;
    if (scale == 1 || !is_known(in[axes[i]])) {
      if (scale != 1) extent.out = kUnknownDim;
      continue;
    }
    const float out = std::floor(static_cast<float>(in[axes[i]]) * scale);
    if (!(out < 2147483648.0f)) return bad(node, StrCat("scale ", scale, " of extent ", in[axes[i]], " is too large"));
    extent.out = static_cast<int64_t>(out);
  }
  return extents;
}

Result<std::vector<Extent>> by_sizes(const Node& node, const Shape& in, std::span<const size_t> axes,
                                     const Tensor& sizes) {
  SINTER_CHECK_OK(check_count(node, "sizes", sizes, axes.size()));
  const std::string_view policy = node.attrs.s("keep_aspect_ratio_policy", "stretch");
  const std::vector<int64_t> values = to_ints(sizes);
  std::vector<Extent> extents(in.rank());
  for (size_t a = 0; a < in.rank(); ++a) extents[a].out = in[a];
  std::optional<double> common;
  bool known = true;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (values[i] < 0 || values[i] > 2147483647) return bad(node, StrCat("size ", values[i], " is out of range"));
    Extent& extent = extents[axes[i]];
    extent.out = values[i];
    if (!is_known(in[axes[i]]) || in[axes[i]] == 0) {
      known = false;
      extent.scale.reset();
      continue;
    }
    extent.scale = static_cast<double>(values[i]) / static_cast<double>(in[axes[i]]);
    if (!common) common = extent.scale;
    common = policy == "not_larger" ? std::min(*common, *extent.scale) : std::max(*common, *extent.scale);
  }
  if (policy == "stretch") return extents;
  for (size_t a : axes) {
    extents[a].scale = known ? common : std::nullopt;
    extents[a].out = known ? static_cast<int64_t>(*common * static_cast<double>(in[a]) + 0.5) : kUnknownDim;
  }
  return extents;
}

/// `x` with its axes in ONNX's order.
Shape onnx_order(const Node& node, const Shape& x) {
  Shape shape = x;
  for (size_t a = 0; a < x.rank(); ++a) shape[a] = x[tensor_axis(node, a, x.rank())];
  return shape;
}

Result<std::vector<Extent>> extents_of(const Node& node, const Shape& in, std::span<const size_t> axes,
                                       const Tensor* scales, const Tensor* sizes) {
  if (given(scales) && given(sizes)) return bad(node, "both scales and sizes are given; only one may be");
  if (given(scales)) return by_scales(node, in, axes, *scales);
  if (given(sizes)) return by_sizes(node, in, axes, *sizes);
  return bad(node, "neither scales nor sizes are given");
}

Result<> infer_resize(InferContext& ctx) {
  const Node& node = ctx.node;
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  SINTER_CHECK_OK(check_attributes(node));
  const ResizeMode mode = SINTER_TRY(mode_of(node));
  if (mode != ResizeMode::nearest && !is_float(ctx.inputs[0].dtype) && !is_integer(ctx.inputs[0].dtype)) {
    return bad(node, StrCat("dtype ", name_of(ctx.inputs[0].dtype), " cannot be interpolated"));
  }
  if (!ctx.inputs[0].shape) return {};
  const Shape& x = *ctx.inputs[0].shape;
  const auto axes = SINTER_TRY(named_axes(node, x.rank()));
  ctx.outputs[0].shape = Shape::filled(x.rank(), kUnknownDim);
  for (size_t i = 2; i < 4; ++i) {
    // An operand that is there but whose value is not known yet may turn out empty.
    if (ctx.has(i) && !ctx.inputs[i].constant) return {};
  }
  const Tensor* scales = ctx.has(2) ? ctx.inputs[2].constant : nullptr;
  const Tensor* sizes = ctx.has(3) ? ctx.inputs[3].constant : nullptr;
  const auto extents = SINTER_TRY(extents_of(node, onnx_order(node, x), axes, scales, sizes));
  for (size_t a = 0; a < x.rank(); ++a) (*ctx.outputs[0].shape)[tensor_axis(node, a, x.rank())] = extents[a].out;
  return {};
}

/// Fills slope, offset and the extrapolation range. `wide` is the output extent before it was rounded.
void place(const Node& node, ResizeAxis& axis, double roi_start, double roi_end) {
  const std::string_view mode = node.attrs.s("coordinate_transformation_mode", "half_pixel");
  const double in = static_cast<double>(axis.in), out = static_cast<double>(axis.out), wide = axis.scale * in;
  axis.slope = 1.0 / axis.scale;
  axis.offset = 0.5 / axis.scale - 0.5;
  if (mode == "asymmetric") {
    axis.offset = 0;
  } else if (mode == "tf_half_pixel_for_nn") {
    axis.offset = 0.5 / axis.scale;
  } else if (mode == "pytorch_half_pixel" && axis.out == 1) {
    axis.slope = axis.offset = 0;
  } else if (mode == "align_corners") {
    axis.slope = wide == 1 ? 0 : (in - 1) / (wide - 1);
    axis.offset = 0;
  } else if (mode == "half_pixel_symmetric") {
    axis.offset += in / 2 * (1 - out / wide);
  } else if (mode == "tf_crop_and_resize") {
    axis.slope = wide == 1 ? 0 : (roi_end - roi_start) * (in - 1) / (wide - 1);
    axis.offset = roi_start * (in - 1) + (wide == 1 ? (roi_end - roi_start) * (in - 1) / 2 : 0);
    const auto inside = [&](int64_t o) {
      const double at = static_cast<float>(axis.slope * static_cast<double>(o) + axis.offset);
      return at >= 0 && at <= in - 1;
    };
    while (axis.first <= axis.last && !inside(axis.first)) ++axis.first;
    while (axis.last >= axis.first && !inside(axis.last)) --axis.last;
  }
}

/// Input position of output `o` where rounding decides. With scales it is a chain of float32 divisions, as models expect:
/// 3 / 0.6 is 5, although the float32 next to 0.6 is a little more.
double position(const Node& node, const ResizeAxis& axis, int64_t o) {
  const std::string_view mode = node.attrs.s("coordinate_transformation_mode", "half_pixel");
  const bool half = mode == "half_pixel";
  if (!half && mode != "asymmetric") return static_cast<float>(axis.slope * static_cast<double>(o) + axis.offset);
  if (!axis.by_scales)
    return half ? (static_cast<double>(o) + 0.5) / axis.scale - 0.5 : static_cast<double>(o) / axis.scale;
  const auto x = static_cast<float>(o), scale = static_cast<float>(axis.scale);
  return half ? (x + 0.5f) / scale - 0.5f : x / scale;
}

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// Input indices first, first + 1, ... and their weights for one output.
struct Taps {
  int64_t first = 0;
  std::vector<double> weights;
};

Taps taps_at(const ResizeGeometry& g, const ResizeAxis& axis, double at) {
  const double squeeze = g.antialias ? std::min<double>(axis.scale, 1.0) : 1.0;
  const double radius = g.mode == ResizeMode::linear ? 1 : 2;
  const double floor = std::floor(at);
  const auto start = static_cast<int64_t>(std::floor(-radius / squeeze)) + 1;
  // Whole positions count as the end of the interval before them, which matters to the wider windows of antialias only.
  const double base = floor == at ? at - 1 : floor;
  Taps taps;
  taps.first = static_cast<int64_t>(base) + start;
  double sum = 0;
  for (int64_t i = start; i < 2 - start; ++i) {
    const double distance = (static_cast<double>(i) - (at - base)) * squeeze;
    const int64_t index = static_cast<int64_t>(base) + i;
    double weight = g.mode == ResizeMode::linear ? std::max(0.0, 1 - std::abs(distance)) : cubic(distance, g.cubic_a);
    if (g.exclude_outside && (index < 0 || index >= axis.in)) weight = 0;
    sum += weight;
    taps.weights.push_back(weight);
  }
  if (g.antialias || g.exclude_outside) {
    for (double& weight : taps.weights) weight /= sum == 0 ? 1 : sum;
  }
  return taps;
}

/// `from` [outer, in, inner] to `to` [outer, out, inner].
void interpolate_axis(const ResizeGeometry& g, const ResizeAxis& axis, std::span<const double> from,
                      std::span<double> to, int64_t inner, double extrapolation) {
  if (to.empty()) return;
  const int64_t outer = static_cast<int64_t>(to.size()) / inner / axis.out;
  for (int64_t o = 0; o < axis.out; ++o) {
    const Taps taps = taps_at(g, axis, axis.slope * static_cast<double>(o) + axis.offset);
    const bool inside = o >= axis.first && o <= axis.last;
    for (int64_t k = 0; k < outer; ++k) {
      double* line = to.data() + (k * axis.out + o) * inner;
      std::fill(line, line + inner, inside ? 0.0 : extrapolation);
      for (size_t t = 0; inside && t < taps.weights.size(); ++t) {
        const int64_t index = std::clamp<int64_t>(taps.first + static_cast<int64_t>(t), 0, axis.in - 1);
        const double* source = from.data() + (k * axis.in + index) * inner;
        for (int64_t i = 0; i < inner; ++i) line[i] += taps.weights[t] * source[i];
      }
    }
  }
}

/// Stores with rounding and saturation.
void store(Tensor& to, size_t i, double value) {
  if (!is_integer(to.dtype())) return set_f64(to, i, value);
  const int bits = static_cast<int>(size_of(to.dtype())) * 8;
  const bool is_signed = is_signed_int(to.dtype());
  const double high = std::ldexp(1.0, is_signed ? bits - 1 : bits) - 1;
  const double rounded = std::nearbyint(value);
  const double low = is_signed ? -high - 1 : 0;
  // Bounds of 64-bit types are not doubles: the largest double below them is.
  set_f64(to, i, std::clamp(rounded, low, bits == 64 ? std::nextafter(high, 0.0) : high));
}

Result<> interpolate(const ResizeGeometry& g, const Tensor& x, Tensor& y, double extrapolation) {
  Tensor current = SINTER_TRY(convert(x, DType::f64));
  for (size_t a = 0; a < g.axes.size(); ++a) {
    if (g.axes[a].identity) continue;
    Shape shape = current.shape();
    const int64_t inner = shape.product(a + 1, shape.rank());
    shape[a] = g.axes[a].out;
    Tensor next = SINTER_TRY(Tensor::alloc(DType::f64, shape, "a partly resized tensor"));
    interpolate_axis(g, g.axes[a], current.data<double>(), next.mutable_data<double>(), inner, extrapolation);
    current = std::move(next);
  }
  const auto values = current.data<double>();
  for (size_t i = 0; i < values.size(); ++i) store(y, i, values[i]);
  return {};
}

Result<> nearest(const Node& node, const ResizeGeometry& g, const Tensor& x, Tensor& y, double extrapolation) {
  const Shape strides = row_major_strides(x.shape());
  AxisTables tables(g.axes.size());
  for (size_t a = 0; a < g.axes.size(); ++a) {
    tables[a] = nearest_table(node, g.axes[a]);
    for (int64_t o = 0; o < g.axes[a].out; ++o) {
      int64_t& step = tables[a][static_cast<size_t>(o)];
      step = o < g.axes[a].first || o > g.axes[a].last ? -1 : step * strides[a];
    }
  }
  Tensor fill = SINTER_TRY(Tensor::alloc(x.dtype(), {}));
  set_f64(fill, 0, extrapolation);
  copy_by_tables(x, y, tables, fill.bytes().data());
  return {};
}

Result<> reference_resize(const RefContext& ctx) {
  const auto operand = [&](size_t i) { return ctx.has(i) ? &ctx.in(i) : nullptr; };
  if (ctx.out().numel() == 0) return {};
  const ResizeGeometry g = SINTER_TRY(resize_geometry(ctx.node, ctx.in(0).shape(), operand(1), operand(2), operand(3)));
  const double extrapolation = ctx.attrs().f("extrapolation_value", 0);
  if (g.mode == ResizeMode::nearest) return nearest(ctx.node, g, ctx.in(0), ctx.out(), extrapolation);
  return interpolate(g, ctx.in(0), ctx.out(), extrapolation);
}

}  // namespace

std::vector<int64_t> nearest_table(const Node& node, const ResizeAxis& axis) {
  const std::string_view mode = node.attrs.s("nearest_mode", "round_prefer_floor");
  std::vector<int64_t> table(static_cast<size_t>(axis.out));
  for (int64_t o = 0; o < axis.out; ++o) {
    double at = static_cast<double>(o);
    if (!axis.identity) {
      at = position(node, axis, o);
      if (mode == "floor") {
        at = std::floor(at);
      } else if (mode == "ceil") {
        at = std::ceil(at);
      } else {
        at = mode == "round_prefer_ceil" ? std::floor(at + 0.5) : std::ceil(at - 0.5);
      }
    }
    at = std::clamp(at, 0.0, static_cast<double>(axis.in - 1));
    table[static_cast<size_t>(o)] = static_cast<int64_t>(at);
  }
  return table;
}

Result<ResizeGeometry> resize_geometry(const Node& node, const Shape& x, const Tensor* roi, const Tensor* scales,
                                       const Tensor* sizes) {
  ResizeGeometry g;
  g.mode = SINTER_TRY(mode_of(node));
  g.antialias = node.attrs.i("antialias", 0) != 0;
  g.exclude_outside = node.attrs.i("exclude_outside", 0) != 0;
  g.cubic_a = node.attrs.f("cubic_coeff_a", -0.75f);
  g.axes.resize(x.rank());
  const auto named = SINTER_TRY(named_axes(node, x.rank()));
  const auto extents = SINTER_TRY(extents_of(node, onnx_order(node, x), named, scales, sizes));
  std::vector<double> start(x.rank(), 0), end(x.rank(), 1);
  const bool crops = node.attrs.s("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize";
  if (crops) {
    if (!given(roi)) return bad(node, "coordinate_transformation_mode tf_crop_and_resize needs roi");
    SINTER_CHECK_OK(check_count(node, "roi", *roi, 2 * named.size()));
    for (size_t i = 0; i < named.size(); ++i) {
      start[named[i]] = get_f64(*roi, i);
      end[named[i]] = get_f64(*roi, named.size() + i);
    }
  }
  for (size_t a = 0; a < x.rank(); ++a) {
    const size_t at = tensor_axis(node, a, x.rank());
    ResizeAxis& axis = g.axes[at];
    axis.in = x[at];
    axis.out = extents[a].out;
    axis.last = axis.out - 1;
    axis.scale = extents[a].scale.value_or(1.0);
    axis.by_scales = given(scales);
    axis.identity = axis.scale == 1 && axis.in == axis.out && start[a] == 0 && end[a] == 1;
    if (!axis.identity) place(node, axis, start[a], end[a]);
    if (axis.in == 0 && axis.out != 0)
      return bad(node, StrCat("the input ", to_string(x), " is empty, its output is not"));
  }
  return g;
}

}  // namespace sinter::ops

namespace sinter {

extern const OpDef op_resize;
const OpDef op_resize = {
    .name = "Resize",
    .max_inputs = 4,
    .op_class = OpClass::spatial,
    .notes = "interpolation of integers on the CPU only",
    .shape_operands = 0b1110,
    .infer = ops::infer_resize,
    .reference = ops::reference_resize,
    .wgsl = ops::resize_wgsl,
    .cases = ops::resize_cases,
};

}  // namespace sinter
