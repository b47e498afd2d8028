// SPDX-License-Identifier: Apache-2.0
// ConvTranspose (ai.onnx 1-22): 1-D, 2-D and 3-D, groups, every form of padding, output_padding, output_shape.
// https://onnx.ai/onnx/operators/onnx__ConvTranspose.html
// Refused: more than 3 spatial axes.
//
// The weight is [C, M / group, taps...]. With nhwc=1 input 0, the output and the epilogue's operands are [N, spatial..., C].
#include "engine/ops/cases.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/spatial_wgsl.h"
#include "engine/ops/util.h"
#include "engine/ops/window.h"
#include "engine/wgsl/text.h"

namespace sinter::ops {
namespace {

using Ints = std::vector<int64_t>;

Result<> check_channels(const Node& node, const Shape& x, const Shape& w, int64_t channels, int64_t group) {
  if (group < 1) return bad(node, StrCat("attribute group = ", group, " must be at least 1"));
  if (w.rank() != x.rank()) {
    return bad(node, StrCat("the weight ", to_string(w), " must have the rank of the input ", to_string(x)));
  }
  if (is_known(channels) && is_known(w[0]) && (channels != w[0] || channels % group != 0)) {
    return bad(node, StrCat("the input ", to_string(x), " has ", channels, " channels; the weight ", to_string(w),
                            " needs ", w[0], ", a multiple of group = ", group));
  }
  return {};
}

Result<> infer_transposed(InferContext& ctx) {
  const Node& node = ctx.node;
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  if (!is_float(ctx.inputs[0].dtype)) {
    return bad(node, StrCat("dtype ", name_of(ctx.inputs[0].dtype), " is not a floating-point type"));
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
  const int64_t group = node.attrs.i("group", 1);
  SINTER_CHECK_OK(check_channels(node, x, w, dims.channels, group));
  const int64_t filters = is_known(w[1]) ? w[1] * group : kUnknownDim;
  if (ctx.has(2) && ctx.inputs[2].shape) {
    const Shape& bias = *ctx.inputs[2].shape;
    if (bias.rank() != 1 || (is_known(bias[0]) && is_known(filters) && bias[0] != filters)) {
      return bad(node, StrCat("the bias ", to_string(bias), " must have one value per filter, of which the weight ",
                              to_string(w), " with group = ", group, " makes ", filters));
    }
  }
  const Window window = SINTER_TRY(resolve_transposed_window(node, x, w.dims().subspan(2)));
  ctx.outputs[0].shape = spatial_shape(node, dims.batch, filters, window);
  return {};
}

/// The input position that tap `k` carries to output `o`, or -1.
int64_t source(const WindowAxis& axis, int64_t o, int64_t k) {
  const int64_t from = o + axis.pad_begin - k * axis.dilation;
  if (from < 0 || from % axis.stride != 0 || from / axis.stride >= axis.in) return -1;
  return from / axis.stride;
}

struct Operands {
  Window window;
  SpatialDims in, out;
  int64_t group_channels = 0, group_filters = 0;
  std::span<const double> x, w;
};

double gather(const Operands& conv, int64_t n, int64_t m, std::array<int64_t, 3> o) {
  const auto& [depth, height, width] = conv.window.axes;
  const int64_t first = m / conv.group_filters * conv.group_channels;
  double sum = 0;
  for (int64_t kd = 0; kd < depth.kernel; ++kd) {
    const int64_t d = source(depth, o[0], kd);
    for (int64_t kh = 0; d >= 0 && kh < height.kernel; ++kh) {
      const int64_t h = source(height, o[1], kh);
      for (int64_t kw = 0; h >= 0 && kw < width.kernel; ++kw) {
        const int64_t w = source(width, o[2], kw);
        if (w < 0) continue;
        const int64_t tap = (kd * height.kernel + kh) * width.kernel + kw;
        const int64_t at =
            n * conv.in.batch_stride + d * conv.in.stride[0] + h * conv.in.stride[1] + w * conv.in.stride[2];
        for (int64_t c = first; c < first + conv.group_channels; ++c) {
          const int64_t weight = (c * conv.group_filters + m % conv.group_filters) * conv.window.taps() + tap;
          sum += conv.x[static_cast<size_t>(at + c * conv.in.channel_stride)] * conv.w[static_cast<size_t>(weight)];
        }
      }
    }
  }
  return sum;
}

Result<> reference_transposed(const RefContext& ctx) {
  const Node& node = ctx.node;
  const Tensor x = SINTER_TRY(convert(ctx.in(0), DType::f64));
  const Tensor w = SINTER_TRY(convert(ctx.in(1), DType::f64));
  Operands conv;
  conv.window = SINTER_TRY(resolve_transposed_window(node, x.shape(), w.shape().dims().subspan(2)));
  conv.in = SINTER_TRY(spatial_dims(node, x.shape()));
  conv.out = SINTER_TRY(spatial_dims(node, ctx.out().shape()));
  conv.group_channels = conv.in.channels / node.attrs.i("group", 1);
  conv.group_filters = w.shape()[1];
  conv.x = x.data<double>();
  conv.w = w.data<double>();
  HostEpilogue finish = SINTER_TRY(HostEpilogue::make(ctx));
  for (int64_t n = 0; n < conv.out.batch; ++n) {
    for (int64_t m = 0; m < conv.out.channels; ++m) {
      const double bias = ctx.has(2) ? get_f64(ctx.in(2), static_cast<size_t>(m)) : 0.0;
      for (int64_t d = 0; d < conv.out.spatial[0]; ++d) {
        for (int64_t h = 0; h < conv.out.spatial[1]; ++h) {
          for (int64_t o = 0; o < conv.out.spatial[2]; ++o) {
            const auto at =
                static_cast<size_t>(n * conv.out.batch_stride + m * conv.out.channel_stride + d * conv.out.stride[0] +
                                    h * conv.out.stride[1] + o * conv.out.stride[2]);
            set_f64(ctx.out(), at, finish(bias + gather(conv, n, m, {d, h, o}), at));
          }
        }
      }
    }
  }
  return {};
}

uint32_t u(int64_t value) { return static_cast<uint32_t>(value); }

/// One thread per output element gathers what the taps carry to it.
Result<> wgsl_transposed(WgslContext& ctx) {
  if (ctx.out_shape().numel() == 0) return {};
  const Node& node = ctx.node;
  const Shape& weight = ctx.in_shape(1);
  const Window window = SINTER_TRY(resolve_transposed_window(node, ctx.in_shape(0), weight.dims().subspan(2)));
  SINTER_CHECK_OK(check_device_operands(ctx));
  SINTER_CHECK_OK(check_device_window(node, window));
  if (node.inputs[0] == node.inputs[1] && !ctx.inputs[1].weight) {
    return unsupported(node, "the weight is the input itself, which a device kernel cannot bind twice");
  }
  const SpatialDims x = SINTER_TRY(spatial_dims(node, ctx.in_shape(0)));
  const SpatialDims y = SINTER_TRY(spatial_dims(node, ctx.out_shape()));
  wgsl::Writer w("conv_transpose", ctx.target);
  bind_input(w, ctx, "src", 0);
  bind_input(w, ctx, "wt", 1);
  if (ctx.has(2)) bind_input(w, ctx, "bias", 2);
  bind_output(w, ctx, "dst");
  const std::string_view reusable = "src";
  declare_finish(w, ctx, 1, {&reusable, 1});
  w.linear(static_cast<uint64_t>(ctx.out_shape().numel()));
  w.u32("filters", u(y.channels));
  w.u32("group_filters", u(weight[1]));
  w.u32("group_channels", u(x.channels / node.attrs.i("group", 1)));
  w.u32("taps", u(window.taps()));
  w.u32("xn", u(x.batch_stride));
  w.u32("xc", u(x.channel_stride));
  w.u32("yn", u(y.batch_stride));
  w.u32("yc", u(y.channel_stride));
  for (size_t a = 0; a < kMaxSpatial; ++a) {
    const WindowAxis& axis = window.axes[a];
    w.u32(wgsl::indexed("in", a), u(axis.in));
    w.u32(wgsl::indexed("out", a), u(axis.out));
    w.u32(wgsl::indexed("taps", a), u(axis.kernel));
    w.u32(wgsl::indexed("stride", a), u(axis.stride));
    w.u32(wgsl::indexed("dilation", a), u(axis.dilation));
    w.u32(wgsl::indexed("pad", a), u(axis.pad_begin));
    w.u32(wgsl::indexed("x", a), u(x.stride[a]));
    w.u32(wgsl::indexed("y", a), y.stride[a] == 0 ? 1 : u(y.stride[a]));
  }
  w.body(
      "  let m = i / p.yc % p.filters;\n  let image = i / p.yn * p.xn;\n"
      "  let first = m / p.group_filters * p.group_channels;\n  var acc = 0.0;\n");
  // A position before the input wraps to a large one, so that one comparison checks both ends.
  w.body(
      wgsl::unroll(3,
                   "  let o$ = i / p.y$ % p.out$ + p.pad$;\n"
                   "  for (var k$ = 0u; k$ < p.taps$; k$ += 1u) {\n    let from$ = o$ - k$ * p.dilation$;\n"
                   "    let i$ = from$ / p.stride$;\n    if (from$ % p.stride$ != 0u || i$ >= p.in$) { continue; }\n"));
  w.body(StrCat(
      "    let tap = (k0 * p.taps1 + k1) * p.taps2 + k2;\n    let at = image + i0 * p.x0 + i1 * p.x1 + i2 * p.x2;\n"
      "    for (var c = first; c < first + p.group_channels; c += 1u) {\n"
      "      acc += f32(src[at + c * p.xc]) * f32(wt[(c * p.group_filters + m % p.group_filters) * p.taps + tap]);\n   "
      " }\n"
      "  }\n  }\n  }\n",
      ctx.has(2) ? "  acc += f32(bias[m]);\n" : "", "  dst[i] = ", wgsl::element_type(storage(ctx, ctx.outputs[0])),
      "(finish(acc, i));\n"));
  return emit(ctx, w);
}

void transposed_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string_view name, const Shape& x, const Shape& w, const Attrs& attrs, bool bias = true,
                       DType dtype = DType::f32) {
    for (const bool nhwc : {false, true}) {
      OpCase c;
      c.name = StrCat(name, nhwc ? " nhwc" : "");
      c.attrs = attrs;
      if (nhwc) c.attrs.set("nhwc", int64_t{1});
      c.inputs = {{.dtype = dtype, .shape = nhwc ? channels_last(x) : x},
                  {.dtype = dtype, .shape = w, .constant = true}};
      if (bias) c.inputs.push_back({.dtype = dtype, .shape = {w[1] * attrs.i("group", 1)}, .constant = true});
      if (dtype == DType::f16) c.rtol = c.atol = 4e-3;
      cases.push_back(std::move(c));
    }
  };
  const Ints two = {2, 2};
  add("k3", {1, 1, 3, 3}, {1, 2, 3, 3}, {}, false);
  add("k3 s2", {2, 4, 4, 3}, {4, 8, 3, 3}, attrs_of({{"strides", two}}));
  add("k2 s2", {1, 3, 3, 4}, {3, 5, 2, 2}, attrs_of({{"strides", two}}));
  add("output padding", {1, 4, 3, 3}, {4, 4, 3, 3},
      attrs_of({{"strides", two}, {"pads", Ints{1, 1, 1, 1}}, {"output_padding", Ints{1, 1}}}));
  add("asymmetric pads", {1, 2, 4, 4}, {2, 3, 3, 3}, attrs_of({{"strides", Ints{3, 2}}, {"pads", Ints{1, 2, 1, 0}}}));
  add("output shape", {1, 1, 3, 3}, {1, 2, 3, 3}, attrs_of({{"strides", Ints{3, 2}}, {"output_shape", Ints{10, 8}}}));
  add("same_upper", {1, 2, 3, 3}, {2, 2, 3, 3}, attrs_of({{"strides", two}, {"auto_pad", std::string("SAME_UPPER")}}));
  add("same_lower", {1, 2, 3, 3}, {2, 2, 3, 3}, attrs_of({{"strides", two}, {"auto_pad", std::string("SAME_LOWER")}}));
  add("dilated", {1, 1, 3, 3}, {1, 1, 2, 2}, attrs_of({{"dilations", two}}));
  add("groups", {1, 4, 3, 3}, {4, 3, 3, 3}, attrs_of({{"group", int64_t{2}}}));
  add("1-D", {1, 3, 4}, {3, 2, 3}, attrs_of({{"strides", Ints{2}}}));
  add("3-D", {1, 1, 2, 2, 2}, {1, 2, 2, 2, 2}, attrs_of({{"strides", Ints{2, 2, 2}}}));
  add("empty batch", {0, 2, 3, 3}, {2, 2, 3, 3}, {});
  add("half", {1, 4, 3, 3}, {4, 4, 3, 3}, attrs_of({{"strides", two}}), true, DType::f16);
  OpCase relu = cases[2];
  relu.name += " relu";
  relu.epilogue_first = 3;
  relu.expr.unary(ScalarOp::relu, relu.expr.input(0));
  cases.push_back(std::move(relu));
}

}  // namespace
}  // namespace sinter::ops

namespace sinter {

extern const OpDef op_conv_transpose;
const OpDef op_conv_transpose = {
    .name = "ConvTranspose",
    .min_inputs = 2,
    .max_inputs = 3,
    .op_class = OpClass::spatial,
    .notes = "1 to 3 spatial axes",
    .accepts_epilogue = true,
    .infer = ops::infer_transposed,
    .reference = ops::reference_transposed,
    .wgsl = ops::wgsl_transposed,
    .cases = ops::transposed_cases,
};

}  // namespace sinter
