// SPDX-License-Identifier: Apache-2.0
// Pools on the device: a thread per output element, or per 4 channels where they lie side by side. One text serves both
// layouts and 1 to 3 axes: strides are uniforms.
#include <limits>

#include "engine/ops/pool.h"
#include "engine/ops/spatial_wgsl.h"
#include "engine/ops/util.h"
#include "engine/wgsl/expr_wgsl.h"
#include "engine/wgsl/text.h"

namespace sinter::ops {
namespace {

using wgsl::unroll;
using wgsl::Writer;

uint32_t u(int64_t value) { return static_cast<uint32_t>(value); }

struct PoolForm {
  PoolKind kind = PoolKind::max;
  int width = 1;  // channels per thread
  bool indices = false;
  std::string compute;  // type of the arithmetic
  std::string stored;   // type of the output's elements
  int64_t p = 2;
};

void uniforms(Writer& w, const PoolForm& form, const Window& window, const SpatialDims& x, const SpatialDims& y) {
  const auto units = [&](int64_t elements) { return u(elements / form.width); };
  // Channels are the last axis where they go four at a time: their stride is one unit.
  const bool last = form.width > 1;
  w.u32("channels", units(x.channels));
  w.u32("xn", units(x.batch_stride));
  w.u32("xc", last ? 1 : u(x.channel_stride));
  w.u32("yn", units(y.batch_stride));
  w.u32("yc", last ? 1 : u(y.channel_stride));
  for (size_t a = 0; a < kMaxSpatial; ++a) {
    const WindowAxis& axis = window.axes[a];
    w.u32(wgsl::indexed("in", a), u(axis.in));
    w.u32(wgsl::indexed("out", a), u(axis.out));
    w.u32(wgsl::indexed("taps", a), u(axis.kernel));
    w.u32(wgsl::indexed("stride", a), u(axis.stride));
    w.u32(wgsl::indexed("dilation", a), u(axis.dilation));
    w.i32(wgsl::indexed("pad", a), static_cast<int32_t>(axis.pad_begin));
    w.u32(wgsl::indexed("x", a), units(x.stride[a]));
    w.u32(wgsl::indexed("y", a), y.stride[a] == 0 ? 1 : units(y.stride[a]));
  }
}

/// What happens at the start, for a value `v` inside the window, and at the end.
struct PoolText {
  std::string before, tap, after;
};

void lowest_uniform(Writer& w, const WgslContext& ctx) {
  switch (ctx.inputs[0].dtype) {
    case DType::i8:
      return w.i32("lowest", -128);
    case DType::u8:
      return w.u32("lowest", 0);
    default:
      return w.f32("lowest", -std::numeric_limits<float>::infinity());
  }
}

PoolText max_text(Writer& w, const WgslContext& ctx, const PoolForm& form) {
  lowest_uniform(w, ctx);
  PoolText text;
  text.before = StrCat("  var best = ", form.compute, "(p.lowest);\n");
  text.after = StrCat("  dst[i] = ", form.stored, "(best);\n");
  if (!form.indices) {
    text.tap = StrCat("best = ", wgsl::declare_max(w, form.compute), "(best, v);\n");
    return text;
  }
  const bool is_float = form.compute == "f32";
  const std::string nan = is_float ? wgsl::declare_is_nan(w, form.compute) : std::string();
  text.before += "  var found = false;\n  var at = 0u;\n";
  text.tap =
      StrCat("if (!found || v > best", is_float ? StrCat(" || (", nan, "(v) && !", nan, "(best))") : std::string(),
             ") { best = v; found = true; at = i0 * p.step0 + i1 * p.step1 + i2 * p.step2; }\n");
  // Indices keep the order [N, C, spatial...]; -1 where the window held no element.
  text.after +=
      "  let image = i / p.yn * p.channels + c;\n"
      "  let position = ((image * p.out0 + q0) * p.out1 + q1) * p.out2 + q2;\n"
      "  indices[position] = select(vec2<u32>(0xffffffffu), vec2<u32>(image * p.points + at, 0u), found);\n";
  return text;
}

PoolText average_text(Writer& w, const Node& node, const PoolForm& form, const Window& window) {
  const bool include_pad = node.attrs.i("count_include_pad", 0) != 0;
  PoolText text;
  text.before = StrCat("  var sum = ", form.compute, "(0.0);\n");
  text.tap = "sum += v;\n";
  if (include_pad) {
    for (size_t a = 0; a < kMaxSpatial; ++a) {
      w.i32(wgsl::indexed("end", a), static_cast<int32_t>(window.axes[a].in + window.axes[a].pad_end));
    }
    // Taps up to the end of the padding: fewer than all in a partial window.
    text.before += unroll(3, "  let n$ = min(p.taps$, u32(p.end$ - o$ + i32(p.dilation$) - 1) / p.dilation$);\n");
    text.after = StrCat("  dst[i] = ", form.stored, "(sum / f32(n0 * n1 * n2));\n");
  } else {
    text.before += "  var count = 0u;\n";
    text.tap += "count += 1u;\n";
    text.after = StrCat("  dst[i] = ", form.stored, "(sum / f32(max(count, 1u)));\n");
  }
  return text;
}

PoolText lp_text(Writer& w, const PoolForm& form) {
  PoolText text;
  text.before = StrCat("  var sum = ", form.compute, "(0.0);\n");
  if (form.p == 1 || form.p == 2) {
    text.tap = form.p == 1 ? "sum += abs(v);\n" : "sum += v * v;\n";
    text.after = StrCat("  dst[i] = ", form.stored, form.p == 1 ? "(sum);\n" : "(sqrt(sum));\n");
    return text;
  }
  w.f32("power", static_cast<float>(form.p));
  text.tap = StrCat("sum += pow(abs(v), ", form.compute, "(p.power));\n");
  text.after = StrCat("  dst[i] = ", form.stored, "(pow(sum, ", form.compute, "(1.0 / p.power)));\n");
  return text;
}

PoolForm choose_form(const WgslContext& ctx, const SpatialDims& x) {
  PoolForm form;
  form.kind = pool_kind(ctx.node);
  form.indices = ctx.outputs.size() > 1 && ctx.node.outputs[1] != kNone;
  form.p = ctx.attrs().i("p", 2);
  const bool vectors = is_nhwc(ctx.node) && x.channels % 4 == 0 && !form.indices && !ctx.target.force_plain;
  form.width = vectors ? 4 : 1;
  const wgsl::Storage stored = storage(ctx, ctx.inputs[0]);
  const auto vector = [&](std::string_view element) {
    return form.width == 4 ? StrCat("vec4<", element, ">") : std::string(element);
  };
  form.stored = vector(wgsl::element_type(stored));
  form.compute = vector(stored == wgsl::Storage::f16 ? "f32" : wgsl::element_type(stored));
  return form;
}

}  // namespace

Result<> pool_wgsl(WgslContext& ctx) {
  if (ctx.out_shape().numel() == 0) return {};
  const Window window = SINTER_TRY(resolve_window(ctx.node, ctx.in_shape(0)));
  const SpatialDims x = SINTER_TRY(spatial_dims(ctx.node, ctx.in_shape(0)));
  const SpatialDims y = SINTER_TRY(spatial_dims(ctx.node, ctx.out_shape()));
  SINTER_CHECK_OK(check_device_operands(ctx));
  SINTER_CHECK_OK(check_device_window(ctx.node, window));
  const PoolForm form = choose_form(ctx, x);
  constexpr std::string_view kNames[] = {"max_pool", "average_pool", "lp_pool"};
  Writer w(kNames[static_cast<size_t>(form.kind)], ctx.target);
  bind_input(w, ctx, "src", 0, form.width);
  bind_output(w, ctx, "dst", 0, form.width);
  if (form.indices) bind_output(w, ctx, "indices", 1);
  w.linear(static_cast<uint64_t>(ctx.out_shape().numel() / form.width));
  uniforms(w, form, window, x, y);
  if (form.indices) {
    const auto steps = index_strides(ctx.node, window);
    for (size_t a = 0; a < kMaxSpatial; ++a) w.u32(wgsl::indexed("step", a), u(steps[a]));
    w.u32("points", u(window.in_points()));
  }
  PoolText text;
  switch (form.kind) {
    case PoolKind::max:
      text = max_text(w, ctx, form);
      break;
    case PoolKind::average:
      text = average_text(w, ctx.node, form, window);
      break;
    case PoolKind::lp:
      text = lp_text(w, form);
      break;
  }
  w.body("  let c = i / p.yc % p.channels;\n  let base = i / p.yn * p.xn + c * p.xc;\n");
  w.body(unroll(3, "  let q$ = i / p.y$ % p.out$;\n  let o$ = i32(q$ * p.stride$) - p.pad$;\n"));
  w.body(text.before);
  // A negative position wraps to a large one, so that one comparison checks both ends.
  w.body(unroll(3,
                "  for (var k$ = 0u; k$ < p.taps$; k$ += 1u) {\n  let i$ = u32(o$ + i32(k$ * p.dilation$));\n"
                "  if (i$ >= p.in$) { continue; }\n"));
  w.body(StrCat("  let v = ", form.compute, "(src[base + i0 * p.x0 + i1 * p.x1 + i2 * p.x2]);\n  ", text.tap,
                "  }\n  }\n  }\n", text.after));
  return emit(ctx, w);
}

}  // namespace sinter::ops
