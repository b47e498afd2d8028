// SPDX-License-Identifier: Apache-2.0
// ONNX LRN, opset 1 to newest: y = x / (bias + alpha / size * sum of x squared over `size` neighbouring channels) ^ beta.
// Attributes: size, alpha (0.0001), beta (0.75), bias (1).
#include <cmath>

#include "engine/ops/util.h"

namespace sinter {

using namespace ops;

namespace {

struct Window {
  int64_t channels, inner, before, after;
};

Window window_of(const Attrs& attrs, const Shape& x) {
  const int64_t size = attrs.i("size", 1);
  return {x[1], x.product(2, x.rank()), (size - 1) / 2, size / 2};
}

Result<> infer_lrn(InferContext& ctx) {
  if (ctx.inputs[0].shape && ctx.inputs[0].shape->rank() < 2) {
    return bad(ctx.node, StrCat("needs [N, C, ...], got ", to_string(*ctx.inputs[0].shape)));
  }
  if (ctx.attrs().i("size", 0) <= 0) return bad(ctx.node, "attribute 'size' must be positive");
  return infer_same(ctx);
}

Result<> reference_lrn(const RefContext& ctx) {
  const Tensor& x = ctx.in(0);
  const Window w = window_of(ctx.attrs(), x.shape());
  const double scale = ctx.attrs().f("alpha", 1e-4f) / static_cast<double>(ctx.attrs().i("size", 1));
  const double beta = ctx.attrs().f("beta", 0.75f), bias = ctx.attrs().f("bias", 1);
  for (int64_t i = 0; i < static_cast<int64_t>(x.numel()); ++i) {
    const int64_t channel = i / w.inner % w.channels;
    double sum = 0;
    for (int64_t c = std::max<int64_t>(0, channel - w.before); c <= std::min(w.channels - 1, channel + w.after); ++c) {
      sum += std::pow(get_f64(x, static_cast<size_t>(i + (c - channel) * w.inner)), 2);
    }
    set_f64(ctx.out(), static_cast<size_t>(i),
            get_f64(x, static_cast<size_t>(i)) * std::pow(bias + scale * sum, -beta));
  }
  return {};
}

Result<> wgsl_lrn(WgslContext& ctx) {
  if (storage(ctx, ctx.outputs[0]) == wgsl::Storage::none) return unsupported(ctx.node, "float64 runs on the host");
  if (ctx.out_shape().numel() == 0) return {};
  const Window w = window_of(ctx.attrs(), ctx.in_shape(0));
  wgsl::Writer writer("LRN", ctx.target);
  bind_input(writer, ctx, "x", 0);
  bind_output(writer, ctx, "y");
  writer.linear(static_cast<uint64_t>(ctx.out_shape().numel()));
  writer.u32("channels", static_cast<uint32_t>(w.channels));
  writer.u32("inner", static_cast<uint32_t>(w.inner));
  writer.u32("before", static_cast<uint32_t>(w.before));
  writer.u32("after", static_cast<uint32_t>(w.after));
  writer.f32("scale", ctx.attrs().f("alpha", 1e-4f) / static_cast<float>(ctx.attrs().i("size", 1)));
  writer.f32("beta", ctx.attrs().f("beta", 0.75f));
  writer.f32("bias", ctx.attrs().f("bias", 1));
  writer.body(StrCat(R"(  let channel = i / p.inner % p.channels;
  let column = i - channel * p.inner;
  var sum = 0.0;
  for (var c = channel - min(channel, p.before); c <= min(p.channels - 1u, channel + p.after); c++) {
    let v = f32(x[column + c * p.inner]);
    sum += v * v;
  }
  y[i] = )",
                     wgsl::element_type(storage(ctx, ctx.outputs[0])),
                     "(f32(x[i]) * pow(p.bias + p.scale * sum, -p.beta));\n"));
  return emit(ctx, writer);
}

void lrn_cases(std::vector<OpCase>& out) {
  for (const int64_t size : {1, 2, 3, 5}) {
    OpCase c{.name = StrCat("size ", size), .inputs = {{.shape = {2, 7, 3, 5}, .lo = -3, .hi = 3}}};
    c.attrs.set("size", size);
    c.attrs.set("alpha", 0.5f);
    out.push_back(c);
  }
  OpCase c{.name = "wider than the channels", .inputs = {{.shape = {1, 3, 4}}}};
  c.attrs.set("size", int64_t{9});
  c.attrs.set("bias", 2.0f);
  c.attrs.set("beta", 0.5f);
  out.push_back(c);
}

}  // namespace

extern const OpDef op_lrn{
    .name = "LRN", .infer = infer_lrn, .reference = reference_lrn, .wgsl = wgsl_lrn, .cases = lrn_cases};

}  // namespace sinter
