// SPDX-License-Identifier: Apache-2.0
// Conv (ai.onnx 1-22): 1-D, 2-D and 3-D convolution, groups, every form of padding.
// https://onnx.ai/onnx/operators/onnx__Conv.html
// Refused: more than 3 spatial axes.
//
// With nhwc=1 input 0, the output and the epilogue's operands are [N, spatial..., C]; the weight is OIHW in both layouts.
#include "engine/ops/conv.h"

#include <algorithm>

#include "engine/ops/epilogue.h"
#include "engine/ops/util.h"

namespace sinter::ops {
namespace {

Result<> check_channels(const Node& node, const Shape& x, const Shape& w, int64_t channels, int64_t group) {
  if (group < 1) return bad(node, StrCat("attribute group = ", group, " must be at least 1"));
  if (w.rank() != x.rank()) {
    return bad(node, StrCat("the weight ", to_string(w), " must have the rank of the input ", to_string(x)));
  }
  if (is_known(w[0]) && w[0] % group != 0) {
    return bad(node, StrCat("the weight ", to_string(w), " has ", w[0], " filters, which group = ", group,
                            " does not divide"));
  }
  if (is_known(channels) && is_known(w[1]) && channels != w[1] * group) {
    return bad(node, StrCat("the input ", to_string(x), " has ", channels, " channels, the weight ", to_string(w),
                            " with group = ", group, " needs ", w[1] * group));
  }
  return {};
}

Result<> infer(InferContext& ctx) {
  const Node& node = ctx.node;
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  if (!is_float(ctx.inputs[0].dtype)) {
    return bad(node, StrCat("dtype ", name_of(ctx.inputs[0].dtype), " is not a floating-point type"),
               "ConvInteger and QLinearConv take integers");
  }
  for (size_t i = 1; i < 3; ++i) {
    if (ctx.has(i) && ctx.inputs[i].dtype != ctx.inputs[0].dtype) {
      return bad(node, StrCat("input ", i, " is ", name_of(ctx.inputs[i].dtype), ", input 0 is ",
                              name_of(ctx.inputs[0].dtype)));
    }
  }
  if (!ctx.inputs[0].shape || !ctx.inputs[1].shape) return {};
  const Shape& x = *ctx.inputs[0].shape;
  const Shape& w = *ctx.inputs[1].shape;
  const SpatialDims dims = SINTER_TRY(spatial_dims(node, x));
  SINTER_CHECK_OK(check_channels(node, x, w, dims.channels, node.attrs.i("group", 1)));
  if (ctx.has(2) && ctx.inputs[2].shape) {
    const Shape& bias = *ctx.inputs[2].shape;
    if (bias.rank() != 1 || (is_known(bias[0]) && is_known(w[0]) && bias[0] != w[0])) {
      return bad(node,
                 StrCat("the bias ", to_string(bias), " must have one value per filter of the weight ", to_string(w)));
    }
  }
  const Window window = SINTER_TRY(resolve_window(node, x, w.dims().subspan(2)));
  ctx.outputs[0].shape = spatial_shape(node, dims.batch, w[0], window);
  return {};
}

/// Adds one tap's contribution to a row of outputs: those whose input position lies inside the input.
void add_tap(std::span<double> row, const WindowAxis& axis, int64_t tap, const double* x, int64_t stride,
             double weight) {
  const int64_t first = axis.at(0, tap);  // position that output 0 reads
  const int64_t begin = first >= 0 ? 0 : (-first + axis.stride - 1) / axis.stride;
  const int64_t end = first >= axis.in ? 0 : std::min(axis.out, (axis.in - 1 - first) / axis.stride + 1);
  const int64_t step = axis.stride * stride;
  for (int64_t o = begin; o < end; ++o) row[static_cast<size_t>(o)] += weight * x[first * stride + o * step];
}

/// A window of one tap reads the image as one long row.
void flatten_pointwise(Window& window, SpatialDims& in, SpatialDims& out) {
  const auto& [depth, height, width] = window.axes;
  if (!window.pointwise() || depth.stride * height.stride * width.stride != 1) return;
  const int64_t points = window.in_points();
  window.axes = {WindowAxis{}, WindowAxis{}, WindowAxis{.in = points, .out = points}};
  in.spatial = out.spatial = {1, 1, points};
}

struct Operands {
  ConvGeometry geometry;
  SpatialDims in, out;
  std::span<const double> x, w;
};

/// One row of outputs along the last axis: image n, filter m, position (d, h).
void accumulate_row(const Operands& conv, int64_t n, int64_t m, int64_t d, int64_t h, std::span<double> row) {
  const ConvGeometry& g = conv.geometry;
  const auto& [depth, height, width] = g.window.axes;
  const int64_t first_channel = m / g.filters_per_group() * g.channels_per_group();
  const double* w = conv.w.data() + m * g.channels_per_group() * g.window.taps();
  for (int64_t c = 0; c < g.channels_per_group(); ++c) {
    const double* image = conv.x.data() + n * conv.in.batch_stride + (first_channel + c) * conv.in.channel_stride;
    for (int64_t kd = 0; kd < depth.kernel; ++kd) {
      for (int64_t kh = 0; kh < height.kernel; ++kh, w += width.kernel) {
        const int64_t id = depth.at(d, kd), ih = height.at(h, kh);
        if (!depth.inside(id) || !height.inside(ih)) continue;
        const double* x = image + id * conv.in.stride[0] + ih * conv.in.stride[1];
        for (int64_t kw = 0; kw < width.kernel; ++kw) add_tap(row, width, kw, x, conv.in.stride[2], w[kw]);
      }
    }
  }
}

Result<> reference(const RefContext& ctx) {
  const Node& node = ctx.node;
  Tensor& y = ctx.out();
  const Tensor x = SINTER_TRY(convert(ctx.in(0), DType::f64));
  const Tensor w = SINTER_TRY(convert(ctx.in(1), DType::f64));
  Operands conv;
  conv.geometry = SINTER_TRY(conv_geometry(node, x.shape(), w.shape()));
  conv.in = SINTER_TRY(spatial_dims(node, x.shape()));
  conv.out = SINTER_TRY(spatial_dims(node, y.shape()));
  conv.x = x.data<double>();
  conv.w = w.data<double>();
  flatten_pointwise(conv.geometry.window, conv.in, conv.out);
  HostEpilogue finish = SINTER_TRY(HostEpilogue::make(ctx));
  const auto& [depth, height, width] = conv.geometry.window.axes;
  Tensor row_tensor = SINTER_TRY(Tensor::alloc(DType::f64, Shape{width.out}, "a row of a convolution"));
  const std::span<double> row = row_tensor.mutable_data<double>();
  for (int64_t n = 0; n < conv.geometry.batch; ++n) {
    for (int64_t m = 0; m < conv.geometry.filters; ++m) {
      const double bias = ctx.has(2) ? get_f64(ctx.in(2), static_cast<size_t>(m)) : 0.0;
      for (int64_t d = 0; d < depth.out; ++d) {
        for (int64_t h = 0; h < height.out; ++h) {
          std::fill(row.begin(), row.end(), bias);
          accumulate_row(conv, n, m, d, h, row);
          const int64_t base =
              n * conv.out.batch_stride + m * conv.out.channel_stride + d * conv.out.stride[0] + h * conv.out.stride[1];
          for (int64_t o = 0; o < width.out; ++o) {
            const auto at = static_cast<size_t>(base + o * conv.out.stride[2]);
            set_f64(y, at, finish(row[static_cast<size_t>(o)], at));
          }
        }
      }
    }
  }
  return {};
}

}  // namespace

Result<ConvGeometry> conv_geometry(const Node& node, const Shape& x, const Shape& w) {
  const SpatialDims dims = SINTER_TRY(spatial_dims(node, x));
  ConvGeometry geometry;
  geometry.group = node.attrs.i("group", 1);
  SINTER_CHECK_OK(check_channels(node, x, w, dims.channels, geometry.group));
  geometry.window = SINTER_TRY(resolve_window(node, x, w.dims().subspan(2)));
  geometry.batch = dims.batch;
  geometry.channels = dims.channels;
  geometry.filters = w[0];
  return geometry;
}

}  // namespace sinter::ops

namespace sinter {

extern const OpDef op_conv;
const OpDef op_conv = {
    .name = "Conv",
    .min_inputs = 2,
    .max_inputs = 3,
    .op_class = OpClass::spatial,
    .notes = "1 to 3 spatial axes",
    .accepts_epilogue = true,
    .infer = ops::infer,
    .reference = ops::reference,
    .wgsl = ops::conv_wgsl,
    .cases = ops::conv_cases,
};

}  // namespace sinter
