// SPDX-License-Identifier: Apache-2.0
// BatchNormalization (ai.onnx 1-15) in inference form: y = (x - mean) / sqrt(var + epsilon) * scale + bias per channel.
// https://onnx.ai/onnx/operators/onnx__BatchNormalization.html
// Refused: training_mode=1 and the outputs it brings; import refuses spatial=0 of old opsets.
//
// Any rank from 2; an input of rank 1 is one channel, as the operator's text says. With nhwc=1 the channel is the last axis.
#include <cmath>

#include "engine/ops/cases.h"
#include "engine/ops/spatial_wgsl.h"
#include "engine/ops/util.h"

namespace sinter::ops {
namespace {

constexpr std::string_view kOperands[] = {"the input", "scale", "B", "input_mean", "input_var"};

size_t channel_axis(const Node& node, const Shape& x) { return is_nhwc(node) ? x.rank() - 1 : 1; }

int64_t channels_of(const Node& node, const Shape& x) { return x.rank() < 2 ? 1 : x[channel_axis(node, x)]; }

/// Elements from one channel to the next.
int64_t channel_stride(const Node& node, const Shape& x) {
  if (x.rank() < 2) return x.numel();
  return x.product(channel_axis(node, x) + 1, x.rank());
}

Result<> infer(InferContext& ctx) {
  const Node& node = ctx.node;
  if (node.attrs.i("training_mode", 0) != 0 || ctx.wants(1) || ctx.wants(2)) {
    return unsupported(node, "training mode is not supported", "export the model for inference (model.eval())");
  }
  if (!is_float(ctx.inputs[0].dtype)) {
    return bad(node, StrCat("dtype ", name_of(ctx.inputs[0].dtype), " is not a floating-point type"));
  }
  SINTER_CHECK_OK(infer_same(ctx));
  if (!ctx.inputs[0].shape) return {};
  const Shape& x = *ctx.inputs[0].shape;
  if (x.rank() == 0) return bad(node, "the input is a scalar");
  const int64_t channels = channels_of(node, x);
  for (size_t i = 1; i < 5; ++i) {
    if (!ctx.inputs[i].shape) continue;
    const Shape& shape = *ctx.inputs[i].shape;
    const bool fits = shape.rank() == 1 && (!is_known(shape[0]) || !is_known(channels) || shape[0] == channels);
    if (!fits) {
      return bad(node, StrCat(kOperands[i], " ", to_string(shape), " must hold one value per channel of the input ",
                              to_string(x), ", which has ", channels));
    }
  }
  return {};
}

Result<> reference(const RefContext& ctx) {
  const Tensor& x = ctx.in(0);
  const auto channels = static_cast<size_t>(channels_of(ctx.node, x.shape()));
  const auto stride = static_cast<size_t>(channel_stride(ctx.node, x.shape()));
  const double epsilon = ctx.attrs().f("epsilon", 1e-5f);
  for (size_t i = 0; i < x.numel(); ++i) {
    const size_t c = i / stride % channels;
    const double normal = (get_f64(x, i) - get_f64(ctx.in(3), c)) / std::sqrt(get_f64(ctx.in(4), c) + epsilon);
    set_f64(ctx.out(), i, normal * get_f64(ctx.in(1), c) + get_f64(ctx.in(2), c));
  }
  return {};
}

Result<> wgsl(WgslContext& ctx) {
  if (ctx.out_shape().numel() == 0) return {};
  SINTER_CHECK_OK(check_device_operands(ctx));
  // One value may serve as several statistics; it is bound once.
  std::string names[5];
  wgsl::Writer w("batch_norm", ctx.target);
  for (uint32_t i = 0; i < 5; ++i) {
    for (uint32_t j = 0; j < i && names[i].empty(); ++j) {
      if (ctx.node.inputs[j] == ctx.node.inputs[i]) names[i] = names[j];
    }
    if (!names[i].empty()) continue;
    names[i] = wgsl::indexed("x", i);
    bind_input(w, ctx, names[i], i);
  }
  bind_output(w, ctx, "dst");
  w.linear(static_cast<uint64_t>(ctx.out_shape().numel()));
  w.u32("channels", static_cast<uint32_t>(channels_of(ctx.node, ctx.in_shape(0))));
  w.u32("stride", static_cast<uint32_t>(channel_stride(ctx.node, ctx.in_shape(0))));
  w.f32("epsilon", ctx.attrs().f("epsilon", 1e-5f));
  w.body(StrCat("  let c = i / p.stride % p.channels;\n  let factor = f32(", names[1], "[c]) / sqrt(f32(", names[4],
                "[c]) + p.epsilon);\n  dst[i] = ", wgsl::element_type(storage(ctx, ctx.outputs[0])), "((f32(", names[0],
                "[i]) - f32(", names[3], "[c])) * factor + f32(", names[2], "[c]));\n"));
  return emit(ctx, w);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string_view name, const Shape& x, int64_t channels, Attrs attrs, DType dtype = DType::f32) {
    OpCase c;
    c.name = name;
    c.attrs = std::move(attrs);
    c.inputs = {{.dtype = dtype, .shape = x}};
    for (int i = 0; i < 3; ++i) c.inputs.push_back({.dtype = dtype, .shape = {channels}, .constant = true});
    c.inputs.push_back({.dtype = dtype, .shape = {channels}, .lo = 0.1, .hi = 2, .constant = true});
    if (dtype == DType::f16) c.rtol = c.atol = 4e-3;
    cases.push_back(std::move(c));
  };
  const Attrs last = attrs_of({{"nhwc", int64_t{1}}});
  add("images", {2, 3, 4, 5}, 3, {});
  add("images nhwc", {2, 4, 5, 3}, 3, last);
  add("epsilon", {1, 4, 3, 3}, 4, attrs_of({{"epsilon", 0.1f}}));
  add("rank 2", {4, 8}, 8, {});
  add("rank 1 is one channel", {7}, 1, {});
  add("rank 3", {2, 5, 7}, 5, {});
  add("rank 5 nhwc", {1, 2, 3, 2, 4}, 4, last);
  add("empty batch", {0, 3, 4, 4}, 3, {});
  add("half", {1, 3, 5, 5}, 3, {}, DType::f16);
}

}  // namespace
}  // namespace sinter::ops

namespace sinter {

extern const OpDef op_batch_normalization;
const OpDef op_batch_normalization = {
    .name = "BatchNormalization",
    .min_inputs = 5,
    .max_inputs = 5,
    .max_outputs = 3,
    .op_class = OpClass::spatial,
    .notes = "inference form",
    .infer = ops::infer,
    .reference = ops::reference,
    .wgsl = ops::wgsl,
    .cases = ops::cases,
};

}  // namespace sinter
