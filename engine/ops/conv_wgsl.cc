// SPDX-License-Identifier: Apache-2.0
// Conv on the device. Four kernels:
//   direct     channels last: a thread computes 4 filters of a few neighbouring pixels; 1x1 is the same without window
//   tiled      conv_tiled_wgsl.cc: where there are many outputs
//   depthwise  channels last: a thread computes 4 (or 1) channels of a few pixels of one row
//   plain      any layout, any rank, weights computed at run time: a thread per output element
#include <algorithm>

#include "engine/ops/conv.h"
#include "engine/ops/epilogue.h"
#include "engine/ops/spatial_wgsl.h"
#include "engine/ops/util.h"
#include "engine/wgsl/text.h"

namespace sinter::ops {
namespace {

using wgsl::unroll;
using wgsl::Writer;

uint32_t u(int64_t value) { return static_cast<uint32_t>(value); }

/// How the direct kernel is put together: each combination is one text.
struct DirectForm {
  bool pointwise = false;  // one tap, stride 1, no padding: no window arithmetic
  bool x4 = false;         // channels per group are a multiple of 4: four at a time
  bool y4 = false;         // filters are a multiple of 4: stored four at a time
  bool grouped = false;
  int tile = 4;    // pixels per thread
  int slices = 1;  // threads that share one output, each with a part of the channels
};

constexpr uint32_t kSplitLanes = 16;  // outputs per workgroup where threads share outputs
constexpr int kSlices = 8;

bool split_fits(const wgsl::Target& target) {
  return target.max_invocations >= kSplitLanes * kSlices && target.max_group_size[0] >= kSplitLanes &&
         target.max_group_size[1] >= kSlices;
}

DirectForm choose_form(const ConvGeometry& g, const wgsl::Target& target) {
  DirectForm form;
  const auto& [depth, height, width] = g.window.axes;
  form.pointwise = g.window.pointwise() && height.stride == 1 && width.stride == 1;
  form.x4 = g.channels_per_group() % 4 == 0;
  form.y4 = g.filters % 4 == 0;
  form.grouped = g.group > 1;
  // Each load of a weight serves the whole tile. Larger tiles compile out of proportion on software adapters, where loads
  // are loops over lanes. A GPU hides latency with threads: where outputs are few, threads share them.
  const int64_t points = g.batch * g.window.out_points() * ((g.filters + 3) / 4);
  const int64_t steps = form.x4 ? g.channels_per_group() / 4 : g.channels_per_group();
  if (target.software || points >= (1 << 19)) {
    form.tile = 8;
  } else if (split_fits(target) && points < (1 << 16) && steps >= kSlices) {
    form.tile = 2;
    form.slices = kSlices;
  }
  return form;
}

/// `let i` (the item), uniform over the slices of a workgroup. Threads past the end repeat the last item, because all of
/// them must reach the barrier.
void split_items(Writer& w, const wgsl::Target& target, uint64_t items) {
  const uint64_t groups = (items + kSplitLanes - 1) / kSplitLanes;
  const uint64_t columns = std::min<uint64_t>(groups, target.max_groups);
  w.grid({static_cast<uint32_t>(columns), static_cast<uint32_t>((groups + columns - 1) / columns), 1},
         {kSplitLanes, static_cast<uint32_t>(kSlices), 1});
  w.u32("count_", static_cast<uint32_t>(items));
  w.u32("row_", static_cast<uint32_t>(columns));
  w.body(StrCat("  let item = (wid.y * p.row_ + wid.x) * ", kSplitLanes, "u + lid.x;\n",
                "  let i = min(item, p.count_ - 1u);\n"));
}

void direct_uniforms(Writer& w, const ConvGeometry& g, const DirectForm& form) {
  const int64_t pack = form.x4 ? 4 : 1;
  w.u32("k4", u((g.filters + 3) / 4));
  w.u32("pixels", u(g.batch * g.window.out_points()));
  w.u32("channels", u(g.channels / pack));
  w.u32("steps", u(g.channels_per_group() / pack));
  if (form.grouped) w.u32("group_k4", u(g.filters_per_group() / 4));
  if (!form.y4) w.u32("filters", u(g.filters));
  if (form.pointwise) return;
  w.u32("last", u(g.batch - 1));
  window_uniforms(w, g.window);
}

/// One step over the channels: every pixel of the tile times 4 (or 1) channels' weights.
std::string direct_step(const DirectForm& form) {
  const auto load = [&](std::string_view type) {
    return form.pointwise ? StrCat(type, "(src[a$ + c])")
                          : StrCat("select(", type, "(0.0), ", type, "(src[a$ + c]), in$)");
  };
  if (!form.x4) {
    return StrCat("  let w0 = vec4<f32>(wt[w]);\n", unroll(form.tile, StrCat("  acc$ += ", load("f32"), " * w0;\n")));
  }
  return StrCat(
      "  let w0 = vec4<f32>(wt[w]);\n  let w1 = vec4<f32>(wt[w + p.k4]);\n"
      "  let w2 = vec4<f32>(wt[w + 2u * p.k4]);\n  let w3 = vec4<f32>(wt[w + 3u * p.k4]);\n",
      unroll(form.tile, StrCat("  let v$ = ", load("vec4<f32>"), ";\n")),
      unroll(form.tile, "  acc$ += v$.x * w0;\n  acc$ += v$.y * w1;\n  acc$ += v$.z * w2;\n  acc$ += v$.w * w3;\n"));
}

/// The loop over the channels of one tap. `w` runs over the weights of this tap from `base`.
std::string channel_loop(const DirectForm& form, std::string_view base) {
  const std::string start = form.slices > 1 ? "lid.y" : "0u";
  const std::string step = StrCat(form.slices, "u");
  const std::string weights = StrCat(step, " * ", form.x4 ? "4u * " : "", "p.k4");
  return StrCat("  var w = ", base,
                form.slices > 1 ? StrCat(" + lid.y * ", form.x4 ? "4u * " : "", "p.k4") : std::string(),
                ";\n  for (var c = ", start, "; c < p.steps; c += ", step, ") {\n", direct_step(form),
                "  w += ", weights, ";\n  }\n");
}

std::string window_loops(const DirectForm& form) {
  std::string text =
      "  var px = min(first, p.pixels - 1u);\n  var py = px / p.ow;\n  px = px % p.ow;\n"
      "  var pn = py / p.oh;\n  py = py % p.oh;\n";
  text += unroll(form.tile,
                 "  let y$ = i32(py * p.sh) - p.top;\n  let x$ = i32(px * p.sw) - p.left;\n  let b$ = pn * p.ih;\n"
                 "  px += 1u;\n"
                 "  if (px == p.ow) { px = 0u; py += 1u; if (py == p.oh) { py = 0u; pn = min(pn + 1u, p.last); } }\n");
  text += "  var base = k;\n  for (var ky = 0u; ky < p.kh; ky += 1u) {\n  for (var kx = 0u; kx < p.kw; kx += 1u) {\n";
  // A negative position wraps to a large one, so that one comparison checks both ends.
  text += unroll(form.tile,
                 "  let iy$ = u32(y$ + i32(ky * p.dh));\n  let ix$ = u32(x$ + i32(kx * p.dw));\n"
                 "  let in$ = iy$ < p.ih && ix$ < p.iw;\n"
                 "  let a$ = select(0u, ((b$ + iy$) * p.iw + ix$) * p.channels, in$) + group;\n");
  text += channel_loop(form, "base");
  text += StrCat("  base += p.steps * ", form.x4 ? "4u * " : "", "p.k4;\n  }\n  }\n");
  return text;
}

/// Stores `value` (vec4<f32>) as pixel `pixel`.
std::string direct_store(const DirectForm& form, std::string_view type, std::string_view value,
                         std::string_view pixel) {
  if (form.y4) {
    return StrCat("  if (", pixel, " < p.pixels) {\n    let o = ", pixel, " * p.k4 + k;\n    dst[o] = vec4<", type,
                  ">(finish(", value, ", o));\n  }\n");
  }
  std::string text = StrCat("  if (", pixel, " < p.pixels) {\n    let o = ", pixel,
                            " * p.filters + 4u * k;\n    let r = ", value, ";\n");
  for (int j = 0; j < 4; ++j) {
    text += StrCat("    if (4u * k + ", j, "u < p.filters) { dst[o + ", j, "u] = ", type, "(finish(r[", j, "], o + ", j,
                   "u)); }\n");
  }
  return text + "  }\n";
}

/// Adds up what the slices found; slice s stores pixel s.
std::string split_store(Writer& w, const DirectForm& form, std::string_view type, std::string_view bias) {
  const uint32_t lanes = kSplitLanes;
  w.declare(
      StrCat("var<workgroup> part: array<vec4<f32>, ", lanes * static_cast<uint32_t>(form.tile * form.slices), ">;\n"));
  std::string text =
      unroll(form.tile, StrCat("  part[(lid.y * ", form.tile, "u + $u) * ", lanes, "u + lid.x] = acc$;\n"));
  text += StrCat("  workgroupBarrier();\n  if (lid.y < ", form.tile,
                 "u && item < p.count_) {\n  var sum = vec4<f32>(0.0);\n", "  for (var s = 0u; s < ", form.slices,
                 "u; s += 1u) { sum += part[(s * ", form.tile, "u + lid.y) * ", lanes,
                 "u + lid.x]; }\n  let pixel = first + lid.y;\n");
  return StrCat(text, direct_store(form, type, StrCat("sum", bias), "pixel"), "  }\n");
}

Result<> direct(WgslContext& ctx, const ConvGeometry& g) {
  const DirectForm form = choose_form(g, ctx.target);
  Writer w(form.pointwise ? (form.slices > 1 ? "conv1x1_split" : "conv1x1") : (form.slices > 1 ? "conv_split" : "conv"),
           ctx.target);
  const int64_t pack = weight_pack_arg(storage(ctx, ctx.inputs[1]), true);
  bind_input(w, ctx, "src", 0, form.x4 ? 4 : 1);
  bind_input(w, ctx, "wt", 1, 4, &kTapsFirst, pack);
  if (ctx.has(2)) bind_input(w, ctx, "bias", 2, 4, &kPadVector, pack);
  bind_output(w, ctx, "dst", 0, form.y4 ? 4 : 1);
  const std::string_view type = wgsl::element_type(storage(ctx, ctx.outputs[0]));
  const std::string_view reusable = form.x4 == form.y4 ? "src" : "";
  declare_finish(w, ctx, form.y4 ? 4 : 1, {&reusable, 1});

  const int64_t pixels = g.batch * g.window.out_points();
  const uint64_t items = static_cast<uint64_t>((pixels + form.tile - 1) / form.tile * ((g.filters + 3) / 4));
  if (form.slices > 1) {
    split_items(w, ctx.target, items);
  } else {
    w.linear(items);
  }
  direct_uniforms(w, g, form);
  w.body(StrCat("  let k = i % p.k4;\n  let first = i / p.k4 * ", form.tile, "u;\n"));
  w.body(form.grouped ? "  let group = k / p.group_k4 * p.steps;\n" : "  let group = 0u;\n");
  // With slices the bias is added where they meet.
  const bool starts_with_bias = ctx.has(2) && form.slices == 1;
  w.body(StrCat("  let start = vec4<f32>(", starts_with_bias ? "bias[k]" : "0.0", ");\n"));
  w.body(unroll(form.tile, "  var acc$ = start;\n"));
  if (form.pointwise) {
    w.body(unroll(form.tile, "  let a$ = min(first + $u, p.pixels - 1u) * p.channels + group;\n"));
    w.body(StrCat("  {\n", channel_loop(form, "k"), "  }\n"));
  } else {
    w.body(window_loops(form));
  }
  if (form.slices > 1) {
    w.body(split_store(w, form, type, ctx.has(2) ? " + vec4<f32>(bias[k])" : ""));
  } else {
    for (int t = 0; t < form.tile; ++t) {
      w.body(direct_store(form, type, wgsl::indexed("acc", static_cast<size_t>(t)), StrCat("(first + ", t, "u)")));
    }
  }
  return emit(ctx, w);
}

Result<> depthwise(WgslContext& ctx, const ConvGeometry& g) {
  const auto& [depth, height, width] = g.window.axes;
  const int pack = g.channels % 4 == 0 ? 4 : 1;
  const std::string type = pack == 4 ? "vec4<f32>" : "f32";
  // Pixels of one thread share the weights; few outputs are better spread over more threads.
  const int64_t points = g.batch * g.window.out_points() * (g.channels / pack);
  const int tile = width.out >= 4 && (ctx.target.software || points >= (1 << 17)) ? 4 : 1;
  Writer w("conv_depthwise", ctx.target);
  const int64_t arg = weight_pack_arg(storage(ctx, ctx.inputs[1]), false);
  bind_input(w, ctx, "src", 0, pack);
  bind_input(w, ctx, "wt", 1, pack, &kTapsFirst, arg);
  if (ctx.has(2)) bind_input(w, ctx, "bias", 2, pack);
  bind_output(w, ctx, "dst", 0, pack);
  const std::string_view reusable = "src";
  declare_finish(w, ctx, pack, {&reusable, 1});

  const int64_t row_items = (width.out + tile - 1) / tile;
  w.linear(static_cast<uint64_t>(g.batch * height.out * row_items * (g.channels / pack)));
  w.u32("channels", u(g.channels / pack));
  w.u32("row_items", u(row_items));
  window_uniforms(w, g.window);

  w.body(StrCat("  let c = i % p.channels;\n  let item = i / p.channels;\n  let ox = item % p.row_items * ", tile,
                "u;\n  let row = item / p.row_items;\n  let oy = row % p.oh;\n  let image = row / p.oh * p.ih;\n"
                "  let y = i32(oy * p.sh) - p.top;\n"));
  w.body(StrCat("  let start = ", type, "(", ctx.has(2) ? "bias[c]" : "0.0", ");\n"));
  w.body(unroll(tile, "  let x$ = i32((ox + $u) * p.sw) - p.left;\n  var acc$ = start;\n"));
  w.body(
      "  for (var ky = 0u; ky < p.kh; ky += 1u) {\n    let iy = u32(y + i32(ky * p.dh));\n    if (iy >= p.ih) { "
      "continue; }\n"
      "    let line = (image + iy) * p.iw;\n    for (var kx = 0u; kx < p.kw; kx += 1u) {\n");
  w.body(StrCat("      let weight = ", type, "(wt[(ky * p.kw + kx) * p.channels + c]);\n"));
  w.body(unroll(tile, StrCat("      let ix$ = u32(x$ + i32(kx * p.dw));\n      if (ix$ < p.iw) { acc$ += ", type,
                             "(src[(line + ix$) * p.channels + c]) * weight; }\n")));
  w.body("    }\n  }\n");
  const std::string_view element = wgsl::element_type(storage(ctx, ctx.outputs[0]));
  const std::string stored = pack == 4 ? StrCat("vec4<", element, ">") : std::string(element);
  w.body(unroll(tile,
                StrCat("  if (ox + $u < p.ow) {\n    let o = (row * p.ow + ox + $u) * p.channels + c;\n    dst[o] = ",
                       stored, "(finish(acc$, o));\n  }\n")));
  return emit(ctx, w);
}

void plain_uniforms(Writer& w, const ConvGeometry& g, const SpatialDims& x, const SpatialDims& y) {
  w.u32("filters", u(g.filters));
  w.u32("group_filters", u(g.filters_per_group()));
  w.u32("group_channels", u(g.channels_per_group()));
  w.u32("xn", u(x.batch_stride));
  w.u32("xc", u(x.channel_stride));
  w.u32("yn", u(y.batch_stride));
  w.u32("yc", u(y.channel_stride));
  for (size_t a = 0; a < kMaxSpatial; ++a) {
    const WindowAxis& axis = g.window.axes[a];
    w.u32(wgsl::indexed("in", a), u(axis.in));
    w.u32(wgsl::indexed("out", a), u(axis.out));
    w.u32(wgsl::indexed("taps", a), u(axis.kernel));
    w.u32(wgsl::indexed("stride", a), u(axis.stride));
    w.u32(wgsl::indexed("dilation", a), u(axis.dilation));
    w.i32(wgsl::indexed("pad", a), static_cast<int32_t>(axis.pad_begin));
    w.u32(wgsl::indexed("x", a), u(x.stride[a]));
    // An axis that the operator does not have keeps coordinate 0.
    w.u32(wgsl::indexed("y", a), y.stride[a] == 0 ? 1 : u(y.stride[a]));
  }
}

Result<> plain(WgslContext& ctx, const ConvGeometry& g) {
  if (ctx.node.inputs[0] == ctx.node.inputs[1] && !ctx.inputs[1].weight) {
    return unsupported(ctx.node, "the weight is the input itself, which a device kernel cannot bind twice");
  }
  Writer w("conv_plain", ctx.target);
  bind_input(w, ctx, "src", 0);
  bind_input(w, ctx, "wt", 1);
  if (ctx.has(2)) bind_input(w, ctx, "bias", 2);
  bind_output(w, ctx, "dst");
  const std::string_view reusable = "src";
  declare_finish(w, ctx, 1, {&reusable, 1});
  w.linear(static_cast<uint64_t>(ctx.out_shape().numel()));
  plain_uniforms(w, g, SINTER_TRY(spatial_dims(ctx.node, ctx.in_shape(0))),
                 SINTER_TRY(spatial_dims(ctx.node, ctx.out_shape())));
  w.body("  let m = i / p.yc % p.filters;\n  let image = i / p.yn * p.xn;\n");
  w.body(unroll(3, "  let o$ = i32(i / p.y$ % p.out$ * p.stride$) - p.pad$;\n"));
  w.body(
      "  let group = m / p.group_filters * p.group_channels;\n  var k = m * p.group_channels * p.taps0 * p.taps1 * "
      "p.taps2;\n"
      "  var acc = 0.0;\n"
      "  for (var c = 0u; c < p.group_channels; c += 1u) {\n    let channel = image + (group + c) * p.xc;\n"
      "    for (var k0 = 0u; k0 < p.taps0; k0 += 1u) {\n      let i0 = u32(o0 + i32(k0 * p.dilation0));\n"
      "      for (var k1 = 0u; k1 < p.taps1; k1 += 1u) {\n        let i1 = u32(o1 + i32(k1 * p.dilation1));\n"
      "        for (var k2 = 0u; k2 < p.taps2; k2 += 1u) {\n          let i2 = u32(o2 + i32(k2 * p.dilation2));\n"
      "          if (i0 < p.in0 && i1 < p.in1 && i2 < p.in2) {\n"
      "            acc += f32(src[channel + i0 * p.x0 + i1 * p.x1 + i2 * p.x2]) * f32(wt[k]);\n          }\n"
      "          k += 1u;\n        }\n      }\n    }\n  }\n");
  if (ctx.has(2)) w.body("  acc += f32(bias[m]);\n");
  w.body(StrCat("  dst[i] = ", wgsl::element_type(storage(ctx, ctx.outputs[0])), "(finish(acc, i));\n"));
  return emit(ctx, w);
}

}  // namespace

Result<> conv_wgsl(WgslContext& ctx) {
  if (ctx.out_shape().numel() == 0) return {};
  const ConvGeometry g = SINTER_TRY(conv_geometry(ctx.node, ctx.in_shape(0), ctx.in_shape(1)));
  SINTER_CHECK_OK(check_device_operands(ctx));
  SINTER_CHECK_OK(check_device_window(ctx.node, g.window));
  const bool constants = ctx.inputs[1].weight && (!ctx.has(2) || ctx.inputs[2].weight);
  if (is_nhwc(ctx.node) && constants && g.window.rank <= 2 && !ctx.target.force_plain) {
    if (g.depthwise()) return depthwise(ctx, g);
    if (conv_tiled_fits(g, ctx.target)) return conv_tiled(ctx, g);
    if (g.group == 1 || g.filters_per_group() % 4 == 0) return direct(ctx, g);
  }
  return plain(ctx, g);
}

}  // namespace sinter::ops
