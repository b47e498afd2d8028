// SPDX-License-Identifier: Apache-2.0
// Pad, CenterCropPad: elements added to or (negative pads) cut from the ends of axes.
// https://onnx.ai/onnx/operators/onnx__Pad.html (1+), CenterCropPad (18+). Modes constant, edge, reflect, wrap. Refused: pads that are known only
// while running. Cuts come before a mode other than constant looks for elements.
#include <algorithm>
#include <array>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {

extern const OpDef op_center_crop_pad;

namespace {

using namespace ops;

// Attribute mode; operands data, pads, constant_value, axes.
enum class Mode : uint8_t { constant, edge, reflect, wrap };

Result<Mode> mode_of(const Node& node) {
  const std::string_view mode = node.attrs.s("mode", "constant");
  if (mode == "constant") return Mode::constant;
  if (mode == "edge") return Mode::edge;
  if (mode == "reflect") return Mode::reflect;
  if (mode == "wrap") return Mode::wrap;
  return bad(node, StrCat("unknown mode '", mode, "'"), "modes are constant, edge, reflect and wrap");
}

// The axis as its mode sees it: `extent` of `dim` elements, from `first` on, with `before` new ones in front.
struct PadAxis {
  int64_t dim = 0, first = 0, extent = 0, before = 0, out = 0;

  bool whole() const { return extent == dim && out == dim && before == 0; }
};

struct Pads {
  Mode mode = Mode::constant;
  std::vector<PadAxis> axes;  // one per axis of the input
};

Result<PadAxis> pad_axis(const Node& node, Mode mode, size_t axis, int64_t dim, int64_t begin, int64_t end) {
  PadAxis pad{dim, 0, dim, begin, kUnknownDim};
  if (begin == 0 && end == 0) pad.out = dim;
  if (!is_known(dim)) return pad;
  constexpr int64_t kMost = INT64_MAX / 4;
  if (std::max({begin, end, -begin, -end, dim}) > kMost || dim + begin + end < 0) {
    return bad(node, StrCat("pads ", begin, " and ", end, " do not fit axis ", axis, " with ", dim, " elements"));
  }
  pad.out = dim + begin + end;
  if (mode == Mode::constant) return pad;
  pad.first = std::max<int64_t>(0, -begin);
  pad.extent = dim - pad.first - std::max<int64_t>(0, -end);
  pad.before = std::max<int64_t>(0, begin);
  if (pad.extent <= 0 && pad.out > 0) {
    return bad(node, StrCat("axis ", axis, " has no elements that pads ", begin, " and ", end, " could repeat"));
  }
  return pad;
}

// Pad's operands, or CenterCropPad's: data, shape of the axes of attribute axes, the same amount on both sides.
Result<Pads> resolve(const Node& node, const Shape& in, const IntOperands& ints) {
  const size_t rank = in.rank();
  const std::vector<int64_t>& amounts = *ints[1];
  const bool centers = node.op == &op_center_crop_pad;
  Pads pads{.mode = SINTER_TRY(mode_of(node)), .axes = std::vector<PadAxis>(rank)};
  std::vector<int64_t> named(rank);
  for (size_t i = 0; i < rank; ++i) named[i] = static_cast<int64_t>(i);
  if (ints.size() > 3 && ints[3]) named = *ints[3];
  if (centers && node.attrs.has("axes")) named.assign(node.attrs.ints("axes").begin(), node.attrs.ints("axes").end());
  const std::vector<size_t> axes = SINTER_TRY(checked_axes(node, named, rank));
  const size_t expected = centers ? axes.size() : 2 * axes.size();
  if (amounts.size() != expected) {
    return bad(node, StrCat(centers ? "shape" : "pads", " has ", amounts.size(), " entries, ", axes.size(),
                            " axes need ", expected));
  }
  for (size_t i = 0; i < rank; ++i) pads.axes[i] = {in[i], 0, in[i], 0, in[i]};
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t dim = in[axes[i]];
    if (!centers) {
      pads.axes[axes[i]] = SINTER_TRY(pad_axis(node, pads.mode, axes[i], dim, amounts[i], amounts[axes.size() + i]));
    } else if (amounts[i] < 0) {
      return bad(node, StrCat("shape holds ", amounts[i]));
    } else if (is_known(dim)) {
      const int64_t more = amounts[i] - dim, before = more / 2;  // the odd element goes to the end
      pads.axes[axes[i]] = SINTER_TRY(pad_axis(node, pads.mode, axes[i], dim, before, more - before));
    } else {
      pads.axes[axes[i]].out = amounts[i];
    }
  }
  return pads;
}

Result<> infer(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  if (ctx.has(2) && ctx.inputs[2].dtype != ctx.inputs[0].dtype) {
    return bad(ctx.node,
               StrCat("constant_value is ", name_of(ctx.inputs[2].dtype), ", data are ", name_of(ctx.inputs[0].dtype)));
  }
  if (ctx.has(2) && ctx.inputs[2].shape && ctx.inputs[2].shape->is_static() && ctx.inputs[2].shape->numel() != 1) {
    return bad(ctx.node, StrCat("constant_value has shape ", to_string(*ctx.inputs[2].shape), ", must be one element"));
  }
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  if (!ctx.inputs[0].shape) return {};
  const Shape& in = *ctx.inputs[0].shape;
  if (!known) {
    ctx.outputs[0].shape = Shape::filled(in.rank(), kUnknownDim);
    return {};
  }
  Shape out;
  for (const PadAxis& axis : SINTER_TRY(resolve(ctx.node, in, int_operands(ctx))).axes) out.push_back(axis.out);
  ctx.outputs[0].shape = out;
  return {};
}

int64_t period_of(Mode mode, int64_t extent) {
  return mode == Mode::wrap ? extent : std::max<int64_t>(1, 2 * (extent - 1));
}

// Input coordinate of output coordinate c, or -1 for the constant.
int64_t source(Mode mode, const PadAxis& axis, int64_t c) {
  const int64_t at = c - axis.before, n = axis.extent;
  if (mode == Mode::constant) return at < 0 || at >= n ? -1 : at;
  if (mode == Mode::edge) return axis.first + std::clamp<int64_t>(at, 0, n - 1);
  const int64_t period = period_of(mode, n);
  const int64_t folded = (at % period + period) % period;
  return axis.first + (folded < n ? folded : period - folded);
}

Result<> reference(const RefContext& ctx) {
  const Pads pads = SINTER_TRY(resolve(ctx.node, ctx.in(0).shape(), int_operands(ctx)));
  const Shape strides = row_major_strides(ctx.in(0).shape());
  AxisTables tables(pads.axes.size());
  for (size_t i = 0; i < tables.size(); ++i) {
    for (int64_t c = 0; c < pads.axes[i].out; ++c) {
      const int64_t at = source(pads.mode, pads.axes[i], c);
      tables[i].push_back(at < 0 ? -1 : at * strides[i]);
    }
  }
  const std::array<std::byte, 8> zero{};
  copy_by_tables(ctx.in(0), ctx.out(), tables, ctx.has(2) ? ctx.in(2).bytes().data() : zero.data());
  return {};
}

// An axis without pads merges into the one before it, unless that one repeats elements.
std::vector<PadAxis> merge(const Pads& pads) {
  std::vector<PadAxis> merged;
  for (const PadAxis& axis : pads.axes) {
    if (!merged.empty() && axis.whole() && (pads.mode == Mode::constant || merged.back().whole())) {
      PadAxis& last = merged.back();
      const int64_t n = axis.dim;
      last = {last.dim * n, 0, last.extent * n, last.before * n, last.out * n};
    } else {
      merged.push_back(axis);
    }
  }
  return merged;
}

// Elements per unit; the last axis is then counted in units.
uint32_t widen(const WgslContext& ctx, Mode mode, std::vector<PadAxis>& axes, uint32_t bytes) {
  if (axes.empty() || (mode != Mode::constant && !axes.back().whole())) return 1;
  PadAxis& last = axes.back();
  const uint32_t unit = unit_elements(ctx, bytes, std::array{last.dim, last.before, last.out});
  last = {last.dim / unit, 0, last.extent / unit, last.before / unit, last.out / unit};
  return unit;
}

// The fill value as WGSL; binds what it needs.
Result<std::string> fill_text(const WgslContext& ctx, wgsl::Writer& writer, uint32_t unit_bytes) {
  if (!ctx.has(2) || ctx.inputs[2].constant) {
    const Tensor* value = ctx.has(2) ? ctx.inputs[2].constant : nullptr;
    return uniform_unit(writer, "fill", SINTER_TRY(device_scalar(ctx, value, 0, ctx.inputs[0].dtype)), unit_bytes);
  }
  if (first_use(ctx.node, 2) == 0) return "a[0]";
  bind_units(writer, ctx, "value", 2, unit_bytes);
  return "value[0]";
}

// WGSL from `c`, the output coordinate less the elements in front, to the input coordinate.
std::string axis_text(Mode mode, size_t k) {
  const std::string n = StrCat("p.extent", k);
  switch (mode) {
    case Mode::constant:
      return StrCat("    inside = inside && c < ", n, ";\n");  // negatives have wrapped around
    case Mode::edge:
      return StrCat("    c = u32(clamp(i32(c), 0, i32(", n, ") - 1));\n");
    case Mode::wrap:
      return StrCat("    c = (c + p.lift", k, ") % ", n, ";\n");
    case Mode::reflect:
      return StrCat("    c = (c + p.lift", k, ") % p.period", k, ";\n    c = select(p.period", k, " - c, c, c < ", n,
                    ");\n");
  }
  return "";
}

void write_axis(wgsl::Writer& writer, Mode mode, const PadAxis& axis, size_t k, int64_t stride) {
  writer.u32(wgsl::indexed("out", k), static_cast<uint32_t>(axis.out));
  writer.u32(wgsl::indexed("before", k), static_cast<uint32_t>(axis.before));
  writer.u32(wgsl::indexed("extent", k), static_cast<uint32_t>(axis.extent));
  writer.u32(wgsl::indexed("first", k), static_cast<uint32_t>(axis.first));
  writer.u32(wgsl::indexed("stride", k), static_cast<uint32_t>(stride));
  if (mode == Mode::wrap || mode == Mode::reflect) {
    // Lifted by whole periods, no coordinate is negative.
    const int64_t period = period_of(mode, axis.extent);
    writer.u32(wgsl::indexed("lift", k), static_cast<uint32_t>((axis.before + period - 1) / period * period));
    writer.u32(wgsl::indexed("period", k), static_cast<uint32_t>(period));
  }
  writer.body(StrCat("  {\n    var c = rest % p.out", k, " - p.before", k, ";\n", axis_text(mode, k),
                     "    src += (c + p.first", k, ") * p.stride", k, ";\n    rest /= p.out", k, ";\n  }\n"));
}

Result<> device(WgslContext& ctx) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[0].dtype));
  const int64_t numel = ctx.out_shape().numel();
  if (numel == 0) return {};
  const Pads pads = SINTER_TRY(resolve(ctx.node, ctx.in_shape(0), int_operands(ctx)));
  const bool fills = pads.mode == Mode::constant;
  const bool computed_fill = fills && ctx.has(2) && !ctx.inputs[2].constant;
  std::vector<PadAxis> axes = merge(pads);
  const uint32_t unit = computed_fill ? 1 : widen(ctx, pads.mode, axes, bytes);
  wgsl::Writer writer("pad", ctx.target);
  const bool empty = ctx.in_shape(0).numel() == 0;
  if (!empty) bind_units(writer, ctx, "a", 0, bytes * unit);
  const std::string fill = fills ? SINTER_TRY(fill_text(ctx, writer, bytes * unit)) : "";
  bind_output_units(writer, "o", 0, bytes * unit);
  writer.linear(static_cast<uint64_t>(numel / unit));
  if (empty) {
    writer.body(StrCat("  o[i] = ", fill, ";\n"));
    return emit(ctx, writer);
  }
  writer.body(StrCat("  var rest = i;\n  var src = 0u;\n", fills ? "  var inside = true;\n" : ""));
  int64_t stride = 1;
  for (size_t k = axes.size(); k-- > 0; stride *= axes[k].dim) write_axis(writer, pads.mode, axes[k], k, stride);
  writer.body(fills ? StrCat("  var moved = ", fill, ";\n  if (inside) { moved = a[src]; }\n  o[i] = moved;\n")
                    : "  o[i] = a[src];\n");
  return emit(ctx, writer);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string_view mode, std::string_view name, DType dtype, Shape shape,
                       std::initializer_list<int64_t> pads, std::initializer_list<OpCase::Input> more = {}) {
    OpCase item{.name = StrCat(mode, " ", name),
                .attrs = make_attrs({{"mode", std::string(mode)}}),
                .inputs = {{.dtype = dtype, .shape = shape, .lo = 0, .hi = 9}, constant_ints(pads)}};
    item.inputs.insert(item.inputs.end(), more.begin(), more.end());
    cases.push_back(std::move(item));
  };
  const OpCase::Input seven{.values = {7}, .constant = true};
  const OpCase::Input computed{.values = {7}};
  const OpCase::Input absent{.absent = true};
  add("constant", "image", DType::f32, {1, 2, 5, 5}, {0, 0, 1, 1, 0, 0, 1, 1});
  add("constant", "channels by units", DType::f32, {1, 3, 4, 4}, {0, 1, 0, 0, 0, 2, 0, 0}, {seven});
  add("constant", "negative pads", DType::f32, {5, 6}, {-1, 2, 3, -4}, {seven});
  add("constant", "axes", DType::f32, {2, 3, 4}, {1, 2}, {absent, constant_ints({-1})});
  add("constant", "computed value", DType::f32, {2, 4}, {0, 4, 0, 4}, {computed});
  add("constant", "bool", DType::boolean, {3}, {1, 1});
  add("constant", "int64", DType::i64, {3, 2}, {1, 0, 1, 1}, {{.dtype = DType::i64, .values = {-5}, .constant = true}});
  add("constant", "float16", DType::f16, {3}, {1, 1}, {{.dtype = DType::f16, .values = {0.5}, .constant = true}});
  add("constant", "empty input", DType::f32, {0, 3}, {1, 0, 1, 0}, {seven});
  for (std::string_view mode : {"edge", "reflect", "wrap"}) {
    add(mode, "image", DType::f32, {1, 2, 5, 4}, {0, 0, 2, 1, 0, 0, 1, 3});
    add(mode, "longer than the axis", DType::i64, {3}, {7, 8});
    add(mode, "cut and padded", DType::f32, {6, 4}, {-1, 2, 3, -1});
    add(mode, "outer axis by units", DType::f32, {3, 4}, {1, 0, 2, 0});
  }
}

void center_cases(std::vector<OpCase>& cases) {
  cases.push_back({.name = "crop and pad", .inputs = {{.shape = {20, 7, 3}}, constant_ints({10, 10, 4})}});
  cases.push_back({.name = "some axes",
                   .attrs = make_attrs({{"axes", ints_attr({-1, 0})}}),
                   .inputs = {{.dtype = DType::i64, .shape = {5, 2, 4}, .lo = -9, .hi = 9}, constant_ints({7, 2})}});
}

}  // namespace

extern const OpDef op_center_crop_pad = {.name = "CenterCropPad",
                                         .first_opset = 18,
                                         .min_inputs = 2,
                                         .max_inputs = 2,
                                         .op_class = OpClass::movement,
                                         .notes = "the shape must be computable before the run",
                                         .shape_operands = 0b10,
                                         .infer = infer,
                                         .reference = reference,
                                         .wgsl = device,
                                         .cases = center_cases};

extern const OpDef op_pad = {.name = "Pad",
                             .min_inputs = 2,
                             .max_inputs = 4,
                             .op_class = OpClass::movement,
                             .notes = "pads and axes must be computable before the run",
                             .shape_operands = 0b1010,
                             .infer = infer,
                             .reference = reference,
                             .wgsl = device,
                             .cases = cases};

}  // namespace sinter
