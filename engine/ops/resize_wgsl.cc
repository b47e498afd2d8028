// SPDX-License-Identifier: Apache-2.0
// Resize on the device: a thread per output element, or per 4 where the last axis is not resized. Axes that are not
// resized merge, so a text depends on the few that remain.
#include <algorithm>
#include <cmath>

#include "engine/ops/resize.h"
#include "engine/ops/spatial_wgsl.h"
#include "engine/ops/util.h"
#include "engine/wgsl/text.h"

namespace sinter::ops {
namespace {

using wgsl::indexed;
using wgsl::Writer;

/// index(o) = clamp((o * step + start) >> bits, 0, in - 1), in integers: the same for every output as the reference, which
/// float arithmetic on a device is not where positions fall on the boundary between two elements.
struct FixedPoint {
  int32_t step = 0, start = 0;
  uint32_t bits = 0;
};

std::optional<FixedPoint> fixed_point(const Node& node, const ResizeAxis& axis) {
  if (axis.out > (1 << 20)) return std::nullopt;  // the search looks at every output
  const std::vector<int64_t> table = nearest_table(node, axis);
  const double reach =
      std::max({std::abs(axis.offset), std::abs(axis.slope * static_cast<double>(axis.out) + axis.offset),
                static_cast<double>(axis.in)});
  if (!(reach < (1 << 24))) return std::nullopt;
  const auto bits = static_cast<uint32_t>(29 - std::ilogb(reach + 2));
  const double unit = std::ldexp(1.0, static_cast<int>(bits));
  const auto step = static_cast<int64_t>(std::nearbyint(axis.slope * unit));
  // Rounding modes differ in where a step begins; nudges make up for the rounded slope, and for positions that float32
  // rounds to a whole number.
  const int64_t rounding = axis.out + ((axis.in << bits) >> 22);
  for (const double shift : {0.0, 0.5, 1.0}) {
    for (const int64_t nudge : {int64_t{0}, axis.out, -axis.out, rounding, -rounding}) {
      const int64_t start = static_cast<int64_t>(std::nearbyint((axis.offset + shift) * unit)) + nudge;
      bool fits = true;
      for (int64_t o = 0; fits && o < axis.out; ++o) {
        const int64_t value = o * step + start;
        fits = value == static_cast<int32_t>(value) &&
               std::clamp<int64_t>(value >> bits, 0, axis.in - 1) == table[static_cast<size_t>(o)];
      }
      if (fits) return FixedPoint{static_cast<int32_t>(step), static_cast<int32_t>(start), bits};
    }
  }
  return std::nullopt;
}

/// A run of axes: one that is resized, or neighbours that are not.
struct Run {
  const ResizeAxis* resized = nullptr;
  int64_t out = 1, out_stride = 1, in_stride = 1;  // in units
};

std::vector<Run> runs_of(const ResizeGeometry& g, const Shape& x, const Shape& y, int width) {
  const Shape in_strides = row_major_strides(x), out_strides = row_major_strides(y);
  std::vector<Run> runs;
  for (size_t a = 0; a < g.axes.size(); ++a) {
    const bool last = a + 1 == g.axes.size();
    const auto units = [&](int64_t stride) { return last ? stride : stride / width; };
    const int64_t out = last ? y[a] / width : y[a];
    if (g.axes[a].identity && y[a] == 1) continue;
    if (g.axes[a].identity && !runs.empty() && runs.back().resized == nullptr) {
      runs.back().out *= out;
      runs.back().in_stride = units(in_strides[a]);
      runs.back().out_stride = units(out_strides[a]);
      continue;
    }
    runs.push_back({g.axes[a].identity ? nullptr : &g.axes[a], out, units(out_strides[a]), units(in_strides[a])});
  }
  return runs;
}

class Kernel {
 public:
  Kernel(WgslContext& ctx, const ResizeGeometry& g, int width)
      : ctx_(ctx),
        g_(g),
        width_(width),
        runs_(runs_of(g, ctx.in_shape(0), ctx.out_shape(), width)),
        w_(g.mode == ResizeMode::nearest ? "resize_nearest" : "resize_interpolate", ctx.target) {}

  Result<> build() {
    bind_input(w_, ctx_, "src", 0, width_);
    bind_output(w_, ctx_, "dst", 0, width_);
    w_.linear(static_cast<uint64_t>(ctx_.out_shape().numel() / width_));
    w_.body("  var base = 0u;\n");
    for (size_t r = 0; r < runs_.size(); ++r) coordinate(r);
    extrapolate();
    if (g_.mode == ResizeMode::nearest) {
      SINTER_CHECK_OK(nearest());
    } else {
      interpolate();
    }
    return emit(ctx_, w_);
  }

 private:
  std::string element() const { return std::string(wgsl::element_type(storage(ctx_, ctx_.outputs[0]))); }
  std::string vector(std::string_view of) const { return width_ == 4 ? StrCat("vec4<", of, ">") : std::string(of); }

  void coordinate(size_t r) {
    const Run& run = runs_[r];
    w_.u32(indexed("out", r), static_cast<uint32_t>(run.out));
    w_.u32(indexed("y", r), static_cast<uint32_t>(run.out_stride));
    w_.u32(indexed("x", r), static_cast<uint32_t>(run.in_stride));
    w_.body(StrCat("  let c", r, " = i / p.y", r, " % p.out", r, ";\n"));
    if (!run.resized) w_.body(StrCat("  base += c", r, " * p.x", r, ";\n"));
  }

  void extrapolate() {
    if (ctx_.attrs().s("coordinate_transformation_mode", "half_pixel") != "tf_crop_and_resize") return;
    w_.f32("extrapolation", ctx_.attrs().f("extrapolation_value", 0));
    for (size_t r = 0; r < runs_.size(); ++r) {
      if (!runs_[r].resized) continue;
      w_.i32(indexed("first", r), static_cast<int32_t>(runs_[r].resized->first));
      w_.i32(indexed("last", r), static_cast<int32_t>(runs_[r].resized->last));
      w_.body(StrCat("  if (i32(c", r, ") < p.first", r, " || i32(c", r, ") > p.last", r, ") {\n    dst[i] = ",
                     vector(element()), "(", element(), "(p.extrapolation));\n    return;\n  }\n"));
    }
  }

  Result<> nearest() {
    for (size_t r = 0; r < runs_.size(); ++r) {
      if (!runs_[r].resized) continue;
      const auto fixed = fixed_point(ctx_.node, *runs_[r].resized);
      if (!fixed) {
        return unsupported(ctx_.node, StrCat("extent ", runs_[r].resized->in, " to ", runs_[r].resized->out,
                                             " has no exact form in 32-bit integers"));
      }
      w_.i32(indexed("step", r), fixed->step);
      w_.i32(indexed("start", r), fixed->start);
      w_.u32(indexed("bits", r), fixed->bits);
      w_.i32(indexed("end", r), static_cast<int32_t>(runs_[r].resized->in - 1));
      w_.body(StrCat("  base += u32(clamp((i32(c", r, ") * p.step", r, " + p.start", r, ") >> p.bits", r, ", 0, p.end",
                     r, ")) * p.x", r, ";\n"));
    }
    w_.body("  dst[i] = src[base];\n");
    return {};
  }

  void interpolate() {
    const bool cubic = g_.mode == ResizeMode::cubic;
    if (cubic) {
      w_.f32("a", g_.cubic_a);
      w_.declare(
          "fn weight(distance: f32) -> f32 {\n  let x = abs(distance);\n"
          "  let inner = ((p.a + 2.0) * x - (p.a + 3.0)) * x * x + 1.0;\n"
          "  let outer = ((p.a * x - 5.0 * p.a) * x + 8.0 * p.a) * x - 4.0 * p.a;\n"
          "  return select(select(0.0, outer, x < 2.0), inner, x <= 1.0);\n}\n");
    } else {
      w_.declare("fn weight(distance: f32) -> f32 { return max(0.0, 1.0 - abs(distance)); }\n");
    }
    std::string open, close;
    std::string offset = "base", product = "1.0";
    for (size_t r = 0; r < runs_.size(); ++r) {
      if (!runs_[r].resized) continue;
      w_.f32(indexed("slope", r), static_cast<float>(runs_[r].resized->slope));
      w_.f32(indexed("offset", r), static_cast<float>(runs_[r].resized->offset));
      w_.i32(indexed("end", r), static_cast<int32_t>(runs_[r].resized->in - 1));
      w_.body(StrCat("  let at", r, " = f32(c", r, ") * p.slope", r, " + p.offset", r, ";\n  let low", r, " = floor(at",
                     r, ");\n"));
      if (g_.antialias) {
        // Shrinking widens the kernel: its taps and their distances are in input elements, scaled.
        const double squeeze = std::min(runs_[r].resized->scale, 1.0);
        w_.f32(indexed("squeeze", r), static_cast<float>(squeeze));
        w_.i32(indexed("reach", r), static_cast<int32_t>(std::ceil((cubic ? 2 : 1) / squeeze)));
      }
      const std::string from = g_.antialias ? StrCat("1 - p.reach", r) : std::string(cubic ? "-1" : "0");
      const std::string to = g_.antialias ? StrCat("p.reach", r) : std::string(cubic ? "2" : "1");
      const std::string squeeze = g_.antialias ? StrCat(" * p.squeeze", r) : std::string();
      open += StrCat("  for (var t", r, " = ", from, "; t", r, " <= ", to, "; t", r, " += 1) {\n    let k", r,
                     " = i32(low", r, ") + t", r, ";\n    ");
      if (g_.exclude_outside) open += StrCat("if (k", r, " < 0 || k", r, " > p.end", r, ") { continue; }\n    ");
      open += StrCat("let w", r, " = ", product, " * weight((f32(t", r, ") - (at", r, " - low", r, "))", squeeze,
                     ");\n    let b", r, " = ", offset, " + u32(clamp(k", r, ", 0, p.end", r, ")) * p.x", r, ";\n");
      offset = indexed("b", r);
      product = indexed("w", r);
      close += "  }\n";
    }
    const std::string sum_type = vector("f32");
    const bool normalise = g_.antialias || g_.exclude_outside;
    w_.body(StrCat("  var sum = ", sum_type, "(0.0);\n", normalise ? "  var total = 0.0;\n" : "", open,
                   "    sum += ", product, " * ", sum_type, "(src[", offset, "]);\n",
                   normalise ? StrCat("    total += ", product, ";\n") : "", close, "  dst[i] = ", vector(element()),
                   normalise ? "(sum / total);\n" : "(sum);\n"));
  }

  WgslContext& ctx_;
  const ResizeGeometry& g_;
  const int width_;
  const std::vector<Run> runs_;
  Writer w_;
};

}  // namespace

Result<> resize_wgsl(WgslContext& ctx) {
  if (ctx.out_shape().numel() == 0) return {};
  SINTER_CHECK_OK(check_device_operands(ctx));
  const auto operand = [&](size_t i) { return ctx.has(i) ? ctx.inputs[i].constant : nullptr; };
  if (ctx.has(1) && !operand(1) && ctx.attrs().s("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    return unsupported(ctx.node, "roi is known only while running");
  }
  const ResizeGeometry g = SINTER_TRY(resize_geometry(ctx.node, ctx.in_shape(0), operand(1), operand(2), operand(3)));
  if (g.mode != ResizeMode::nearest && !is_float(ctx.inputs[0].dtype)) {
    return unsupported(ctx.node, StrCat("interpolation of ", name_of(ctx.inputs[0].dtype), " has no device kernel"));
  }
  const Shape& y = ctx.out_shape();
  const wgsl::Storage stored = storage(ctx, ctx.inputs[0]);
  const bool vectors = y.rank() > 0 && y[y.rank() - 1] % 4 == 0 && g.axes.back().identity && !ctx.target.force_plain &&
                       (stored == wgsl::Storage::f32 || stored == wgsl::Storage::f16);
  return Kernel(ctx, g, vectors ? 4 : 1).build();
}

}  // namespace sinter::ops
