// SPDX-License-Identifier: Apache-2.0
// GlobalAveragePool, GlobalMaxPool and GlobalLpPool (ai.onnx 1-22): one value per image and channel over all spatial axes.
// https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html
// Any number of spatial axes, none included. NaN propagates. Nothing is refused.
#include <cmath>
#include <limits>

#include "engine/ops/cases.h"
#include "engine/ops/pool.h"
#include "engine/ops/spatial_wgsl.h"
#include "engine/ops/util.h"
#include "engine/wgsl/expr_wgsl.h"

namespace sinter::ops {
namespace {

using Ints = std::vector<int64_t>;

Result<> infer_global(InferContext& ctx) {
  const Node& node = ctx.node;
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  if (!is_float(ctx.inputs[0].dtype)) {
    return bad(node, StrCat("dtype ", name_of(ctx.inputs[0].dtype), " is not a floating-point type"));
  }
  if (node.attrs.i("p", 2) < 1) return bad(node, "attribute p must be at least 1");
  if (!ctx.inputs[0].shape) return {};
  const Shape& x = *ctx.inputs[0].shape;
  if (x.rank() < 2) return bad(node, StrCat("the input ", to_string(x), " has no axes for images and channels"));
  Shape y = Shape::filled(x.rank(), 1);
  const size_t channel_axis = is_nhwc(node) ? x.rank() - 1 : 1;
  y[0] = x[0];
  y[channel_axis] = x[channel_axis];
  ctx.outputs[0].shape = y;
  return {};
}

/// Images, channels, points of an image, and the element strides of each; the output is [images, channels] in order.
struct GlobalGeometry {
  int64_t images, channels, points;
  int64_t image_stride, channel_stride, point_stride;
};

GlobalGeometry geometry_of(const Node& node, const Shape& x) {
  const size_t rank = x.rank();
  if (is_nhwc(node)) {
    const int64_t channels = x[rank - 1], points = x.product(1, rank - 1);
    return {x[0], channels, points, channels * points, 1, channels};
  }
  const int64_t channels = x[1], points = x.product(2, rank);
  return {x[0], channels, points, channels * points, points, 1};
}

Result<> reference_global(const RefContext& ctx) {
  const Tensor& x = ctx.in(0);
  const GlobalGeometry g = geometry_of(ctx.node, x.shape());
  const PoolKind kind = pool_kind(ctx.node);
  const double p = static_cast<double>(ctx.attrs().i("p", 2));
  for (int64_t n = 0; n < g.images; ++n) {
    for (int64_t c = 0; c < g.channels; ++c) {
      double result = kind == PoolKind::max ? -std::numeric_limits<double>::infinity() : 0.0;
      for (int64_t i = 0; i < g.points; ++i) {
        const double v =
            get_f64(x, static_cast<size_t>(n * g.image_stride + c * g.channel_stride + i * g.point_stride));
        if (kind == PoolKind::lp) {
          result += std::pow(std::abs(v), p);
        } else if (kind == PoolKind::average) {
          result += v;
        } else if (v > result || std::isnan(v)) {
          result = v;
          if (std::isnan(v)) break;
        }
      }
      if (kind == PoolKind::average) result /= static_cast<double>(g.points);
      if (kind == PoolKind::lp) result = std::pow(result, 1 / p);
      set_f64(ctx.out(), static_cast<size_t>(n * g.channels + c), result);
    }
  }
  return {};
}

struct GlobalText {
  std::string start, add, merge, end;  // of the accumulator `acc`: from `v`, from another accumulator `other`
};

GlobalText global_text(wgsl::Writer& w, const Node& node, std::string_view type, int64_t points) {
  GlobalText text;
  text.start = StrCat(type, "(0.0)");
  text.add = "acc += v;";
  text.merge = "acc += other;";
  text.end = "acc";
  switch (pool_kind(node)) {
    case PoolKind::max: {
      w.f32("lowest", -std::numeric_limits<float>::infinity());
      const std::string max = wgsl::declare_max(w, type);
      return {StrCat(type, "(p.lowest)"), StrCat("acc = ", max, "(acc, v);"), StrCat("acc = ", max, "(acc, other);"),
              "acc"};
    }
    case PoolKind::average:
      w.f32("count", static_cast<float>(points));
      text.end = "acc / p.count";
      return text;
    case PoolKind::lp:
      const int64_t p = node.attrs.i("p", 2);
      if (p > 2) w.f32("power", static_cast<float>(p));
      text.add = p == 1   ? "acc += abs(v);"
                 : p == 2 ? "acc += v * v;"
                          : StrCat("acc += pow(abs(v), ", type, "(p.power));");
      text.end = p == 1 ? "acc" : p == 2 ? "sqrt(acc)" : StrCat("pow(acc, ", type, "(1.0 / p.power))");
      return text;
  }
  return text;
}

constexpr uint32_t kGroup = 64;

/// A workgroup per `lanes` channels: its threads walk over the points side by side and merge what they found.
void shared_reduction(wgsl::Writer& w, const wgsl::Target& target, const GlobalText& text, std::string_view type,
                      uint32_t lanes, uint64_t items) {
  const uint32_t slices = kGroup / lanes;
  const uint64_t groups = (items + lanes - 1) / lanes;
  const uint64_t columns = std::min<uint64_t>(groups, target.max_groups);
  w.grid({static_cast<uint32_t>(columns), static_cast<uint32_t>((groups + columns - 1) / columns), 1},
         {lanes, slices, 1});
  w.u32("count_", static_cast<uint32_t>(items));
  w.u32("row_", static_cast<uint32_t>(columns));
  w.declare(StrCat("var<workgroup> part: array<", type, ", ", kGroup, ">;\n"));
  w.body(StrCat("  let item = (wid.y * p.row_ + wid.x) * ", lanes, "u + lid.x;\n  let i = min(item, p.count_ - 1u);\n",
                "  let base = i / p.channels * p.image + i % p.channels * p.channel;\n  var acc = ", text.start,
                ";\n  for (var k = lid.y; k < p.points; k += ", slices, "u) {\n    let v = ", type,
                "(src[base + k * p.point]);\n    ", text.add, "\n  }\n  part[lindex] = acc;\n  workgroupBarrier();\n"));
  w.body(StrCat("  for (var s = ", slices / 2,
                "u; s > 0u; s = s / 2u) {\n    if (lid.y < s) {\n      let other = part[lindex + s * ", lanes,
                "u];\n      ", text.merge, "\n      part[lindex] = acc;\n    }\n    workgroupBarrier();\n  }\n",
                "  if (lid.y != 0u || item >= p.count_) { return; }\n"));
}

void plain_reduction(wgsl::Writer& w, const GlobalText& text, std::string_view type, uint64_t items) {
  w.linear(items);
  w.body(StrCat("  let base = i / p.channels * p.image + i % p.channels * p.channel;\n  var acc = ", text.start,
                ";\n  for (var k = 0u; k < p.points; k += 1u) {\n    let v = ", type,
                "(src[base + k * p.point]);\n    ", text.add, "\n  }\n"));
}

Result<> wgsl_global(WgslContext& ctx) {
  if (ctx.out_shape().numel() == 0) return {};
  SINTER_CHECK_OK(check_device_operands(ctx));
  const GlobalGeometry g = geometry_of(ctx.node, ctx.in_shape(0));
  const int width = is_nhwc(ctx.node) && g.channels % 4 == 0 && !ctx.target.force_plain ? 4 : 1;
  const std::string type = width == 4 ? "vec4<f32>" : "f32";
  const std::string_view element = wgsl::element_type(storage(ctx, ctx.outputs[0]));
  // Where the channels of a point lie side by side, so do the lanes.
  const uint32_t lanes = is_nhwc(ctx.node) ? 8 : 1;
  const bool shared = !ctx.target.force_plain && !ctx.target.software && g.points > 8;
  wgsl::Writer w(shared ? "global_pool" : "global_pool_plain", ctx.target);
  bind_input(w, ctx, "src", 0, width);
  bind_output(w, ctx, "dst", 0, width);
  const GlobalText text = global_text(w, ctx.node, type, g.points);
  const auto items = static_cast<uint64_t>(g.images * g.channels / width);
  if (shared) {
    shared_reduction(w, ctx.target, text, type, lanes, items);
  } else {
    plain_reduction(w, text, type, items);
  }
  w.u32("channels", static_cast<uint32_t>(g.channels / width));
  w.u32("points", static_cast<uint32_t>(g.points));
  w.u32("image", static_cast<uint32_t>(g.image_stride / width));
  w.u32("channel", static_cast<uint32_t>(g.channel_stride));
  w.u32("point", static_cast<uint32_t>(width == 4 ? g.point_stride / 4 : g.point_stride));
  w.body(
      StrCat("  dst[i] = ", width == 4 ? StrCat("vec4<", element, ">") : std::string(element), "(", text.end, ");\n"));
  return emit(ctx, w);
}

void global_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string_view name, const Shape& x, DType dtype = DType::f32) {
    for (const bool nhwc : {false, true}) {
      OpCase c;
      c.name = StrCat(name, nhwc ? " nhwc" : "");
      if (nhwc) c.attrs.set("nhwc", int64_t{1});
      c.inputs = {{.dtype = dtype, .shape = nhwc ? channels_last(x) : x}};
      if (dtype == DType::f16) c.rtol = c.atol = 2e-3;
      cases.push_back(std::move(c));
    }
  };
  add("5x5 of 3", {1, 3, 5, 5});
  add("7x7 of 40", {2, 40, 7, 7});
  add("13x12 of 36", {1, 36, 13, 12});
  add("1x1", {2, 5, 1, 1});
  add("2x2 of 8", {3, 8, 2, 2});
  add("1-D", {2, 4, 33});
  add("3-D", {1, 4, 2, 7, 7});
  add("5 spatial axes", {1, 3, 2, 2, 2, 2, 2});
  add("no spatial axis", {3, 4});
  add("large", {1, 6, 60, 70});
  add("empty batch", {0, 4, 3, 3});
  add("half", {1, 8, 9, 9}, DType::f16);
}

void global_max_cases(std::vector<OpCase>& cases) {
  global_cases(cases);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const bool nhwc : {false, true}) {
    OpCase c;
    c.name = nhwc ? "nan nhwc" : "nan";
    if (nhwc) c.attrs.set("nhwc", int64_t{1});
    // Images without, with one and with two NaN; the last holds nothing above minus infinity.
    c.inputs = {{.shape = nhwc ? Shape{1, 3, 4, 4} : Shape{1, 4, 3, 4}}};
    for (int i = 0; i < 12; ++i) {
      const double row[] = {double(i), i == 5 ? nan : i, i % 7 == 3 ? nan : -i, -infinity};
      for (double v : row) c.inputs[0].values.push_back(v);
    }
    cases.push_back(std::move(c));
  }
}

void global_lp_cases(std::vector<OpCase>& cases) {
  for (int64_t p : {1, 2, 3}) {
    const size_t first = cases.size();
    global_cases(cases);
    for (size_t i = first; i < cases.size(); ++i) {
      cases[i].name += StrCat(" p", p);
      cases[i].attrs.set("p", p);
    }
  }
}

}  // namespace
}  // namespace sinter::ops

namespace sinter {

extern const OpDef op_global_average_pool;
const OpDef op_global_average_pool = {
    .name = "GlobalAveragePool",
    .op_class = OpClass::spatial,
    .infer = ops::infer_global,
    .reference = ops::reference_global,
    .wgsl = ops::wgsl_global,
    .cases = ops::global_cases,
};

extern const OpDef op_global_max_pool;
const OpDef op_global_max_pool = {
    .name = "GlobalMaxPool",
    .op_class = OpClass::spatial,
    .infer = ops::infer_global,
    .reference = ops::reference_global,
    .wgsl = ops::wgsl_global,
    .cases = ops::global_max_cases,
};

extern const OpDef op_global_lp_pool;
const OpDef op_global_lp_pool = {
    .name = "GlobalLpPool",
    .op_class = OpClass::spatial,
    .infer = ops::infer_global,
    .reference = ops::reference_global,
    .wgsl = ops::wgsl_global,
    .cases = ops::global_lp_cases,
};

}  // namespace sinter
