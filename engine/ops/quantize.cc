// SPDX-License-Identifier: Apache-2.0
// ONNX QuantizeLinear and DequantizeLinear (opset 10 to newest), DynamicQuantizeLinear (11).
//   quantize    y = saturate(round_half_even(x / scale) + zero_point)     dequantize    y = (x - zero_point) * scale
// The scale is one value, one per index of `axis`, or one per block of `block_size` along it. Computed in float32, as the
// exporters' runtimes do. Refused: float8 and types below 8 bits.
#include <algorithm>
#include <cmath>

#include "engine/ops/cases.h"
#include "engine/ops/util.h"

namespace sinter {

using namespace ops;

namespace {

// Which scale belongs to element i of x.
struct Scales {
  enum class Mode : uint8_t { one, axis, blocked } mode = Mode::one;
  int64_t inner = 1, dim = 1, block = 1, blocks = 1;

  size_t at(int64_t i) const {
    if (mode == Mode::one) return 0;
    const int64_t c = i / inner % dim;
    return static_cast<size_t>(mode == Mode::axis ? c : (i / inner / dim * blocks + c / block) * inner + i % inner);
  }
};

Result<Scales> scales_of(const Node& node, const Shape& x, const Shape& scale) {
  Scales s;
  if (scale.rank() == 0 || (scale.rank() == 1 && scale[0] == 1)) return s;
  const auto rank = static_cast<int64_t>(x.rank());
  int64_t axis = node.attrs.i("axis", 1);
  if (axis < -rank || axis >= rank) {
    return bad(node, StrCat("attribute axis = ", axis, " lies outside of the input ", to_string(x)));
  }
  axis += axis < 0 ? rank : 0;
  const auto a = static_cast<size_t>(axis);
  s.inner = x.product(a + 1, x.rank());
  s.dim = x[a];
  s.block = node.attrs.i("block_size", 0);
  if (s.block == 0) {
    if (scale.rank() != 1 || scale[0] != s.dim) {
      return bad(node, StrCat("the scale ", to_string(scale), " must have one value, or one for each index of axis ",
                              axis, " of the input ", to_string(x)));
    }
    s.mode = Scales::Mode::axis;
    return s;
  }
  s.mode = Scales::Mode::blocked;
  Shape wanted = x;
  if (s.block > 0) wanted[a] = s.blocks = (s.dim + s.block - 1) / s.block;
  if (s.block < 0 || scale != wanted) {
    return bad(node, StrCat("blocks of ", s.block, " along axis ", axis, " of the input ", to_string(x),
                            " need a scale of ", to_string(wanted), ", not ", to_string(scale)));
  }
  return s;
}

Result<> check_operands(const InferContext& ctx) {
  const auto &x = ctx.inputs[0].shape, &scale = ctx.inputs[1].shape;
  if (ctx.has(2) && ctx.inputs[2].shape && scale && ctx.inputs[2].shape->is_static() && scale->is_static()) {
    // One value may be a scalar here and a vector there.
    const Shape& zero = *ctx.inputs[2].shape;
    if (zero != *scale && (zero.numel() != 1 || scale->numel() != 1)) {
      return bad(ctx.node,
                 StrCat("the zero point ", to_string(zero), " must have the scale's shape ", to_string(*scale)));
    }
  }
  if (!x || !scale || !x->is_static() || !scale->is_static()) return {};
  SINTER_TRY(scales_of(ctx.node, *x, *scale));
  return {};
}

struct Range {
  double low, high;
};

Range range_of(DType dtype) {
  const double half = std::ldexp(1.0, static_cast<int>(8 * size_of(dtype)) - 1);
  return is_signed_int(dtype) ? Range{-half, half - 1} : Range{0, 2 * half - 1};
}

Result<> infer_quantize(InferContext& ctx) {
  const int64_t given = ctx.attrs().i("output_dtype", 0);
  DType to = given > 0 && given < 32 ? static_cast<DType>(given) : DType::u8;
  if (ctx.has(2)) to = ctx.inputs[2].dtype;
  if (!is_integer(to) || size_of(to) > 2) {
    return unsupported(ctx.node, StrCat("to ", name_of(to)), "int8, uint8, int16 and uint16 are supported");
  }
  ctx.outputs[0].dtype = to;
  ctx.outputs[0].shape = ctx.inputs[0].shape;
  return check_operands(ctx);
}

Result<> infer_dequantize(InferContext& ctx) {
  if (!is_integer(ctx.inputs[0].dtype) || size_of(ctx.inputs[0].dtype) > 4) {
    return unsupported(ctx.node, StrCat("from ", name_of(ctx.inputs[0].dtype)),
                       "integers of 8, 16 and 32 bits are supported");
  }
  const int64_t given = ctx.attrs().i("output_dtype", 0);
  ctx.outputs[0].dtype = given > 0 && given < 32 ? static_cast<DType>(given) : ctx.inputs[1].dtype;
  if (!is_float(ctx.outputs[0].dtype)) return unsupported(ctx.node, StrCat("to ", name_of(ctx.outputs[0].dtype)));
  ctx.outputs[0].shape = ctx.inputs[0].shape;
  return check_operands(ctx);
}

double quantized(float value, float scale, double zero, Range range) {
  const double rounded = std::nearbyint(value / scale) + zero;
  return std::isnan(rounded) ? zero : std::clamp(rounded, range.low, range.high);
}

Result<> reference_quantize(const RefContext& ctx) {
  const Tensor &x = ctx.in(0), &scale = ctx.in(1);
  const Scales s = SINTER_TRY(scales_of(ctx.node, x.shape(), scale.shape()));
  const Range range = range_of(ctx.out().dtype());
  for (size_t i = 0; i < x.numel(); ++i) {
    const size_t at = s.at(static_cast<int64_t>(i));
    const double zero = ctx.has(2) ? get_f64(ctx.in(2), at) : 0;
    set_f64(ctx.out(), i,
            quantized(static_cast<float>(get_f64(x, i)), static_cast<float>(get_f64(scale, at)), zero, range));
  }
  return {};
}

Result<> reference_dequantize(const RefContext& ctx) {
  const Tensor &x = ctx.in(0), &scale = ctx.in(1);
  const Scales s = SINTER_TRY(scales_of(ctx.node, x.shape(), scale.shape()));
  for (size_t i = 0; i < x.numel(); ++i) {
    const size_t at = s.at(static_cast<int64_t>(i));
    const double zero = ctx.has(2) ? get_f64(ctx.in(2), at) : 0;
    set_f64(ctx.out(), i, static_cast<float>(get_f64(x, i) - zero) * static_cast<float>(get_f64(scale, at)));
  }
  return {};
}

/// `let s`: the index of element i's scale.
Result<> bind_scales(wgsl::Writer& w, const WgslContext& ctx) {
  const Scales s = SINTER_TRY(scales_of(ctx.node, ctx.in_shape(0), ctx.in_shape(1)));
  bind_input(w, ctx, "x", 0);
  bind_input(w, ctx, "scale", 1);
  if (ctx.has(2)) bind_input(w, ctx, "zero", 2);
  bind_output(w, ctx, "y");
  w.linear(static_cast<uint64_t>(ctx.out_shape().numel()));
  if (s.mode == Scales::Mode::one) {
    w.body("  let s = 0u;\n");
    return {};
  }
  w.u32("inner", static_cast<uint32_t>(s.inner));
  w.u32("dim", static_cast<uint32_t>(s.dim));
  if (s.mode == Scales::Mode::axis) {
    w.body("  let s = i / p.inner % p.dim;\n");
    return {};
  }
  w.u32("block", static_cast<uint32_t>(s.block));
  w.u32("blocks", static_cast<uint32_t>(s.blocks));
  w.body(
      "  let c = i / p.inner % p.dim;\n"
      "  let s = (i / p.inner / p.dim * p.blocks + c / p.block) * p.inner + i % p.inner;\n");
  return {};
}

Result<> check_storage(const WgslContext& ctx) {
  for (size_t k = 0; k < ctx.inputs.size(); ++k) {
    if (ctx.has(k) && storage(ctx, ctx.inputs[k]) == wgsl::Storage::none) {
      return unsupported(ctx.node, StrCat(name_of(ctx.inputs[k].dtype), " runs on the host"));
    }
  }
  if (storage(ctx, ctx.outputs[0]) != wgsl::Storage::none) return {};
  return unsupported(ctx.node, StrCat(name_of(ctx.outputs[0].dtype), " runs on the host"));
}

Result<> wgsl_quantize(WgslContext& ctx) {
  SINTER_CHECK_OK(check_storage(ctx));
  if (ctx.out_shape().numel() == 0) return {};
  wgsl::Writer w("QuantizeLinear", ctx.target);
  SINTER_CHECK_OK(bind_scales(w, ctx));
  const Range range = range_of(ctx.outputs[0].dtype);
  w.f32("low", static_cast<float>(range.low));
  w.f32("high", static_cast<float>(range.high));
  w.body(StrCat("  let v = round(f32(x[i]) / f32(scale[s])) + ", ctx.has(2) ? "f32(zero[s])" : "0.0",
                ";\n  y[i] = ", wgsl::element_type(storage(ctx, ctx.outputs[0])), "(clamp(v, p.low, p.high));\n"));
  return emit(ctx, w);
}

Result<> wgsl_dequantize(WgslContext& ctx) {
  SINTER_CHECK_OK(check_storage(ctx));
  if (ctx.out_shape().numel() == 0) return {};
  wgsl::Writer w("DequantizeLinear", ctx.target);
  SINTER_CHECK_OK(bind_scales(w, ctx));
  // The difference is an integer one: int32 does not fit a float.
  w.body(StrCat("  y[i] = ", wgsl::element_type(storage(ctx, ctx.outputs[0])), "(f32(i32(x[i])",
                ctx.has(2) ? " - i32(zero[s])" : "", ") * f32(scale[s]));\n"));
  return emit(ctx, w);
}

Result<> infer_dynamic(InferContext& ctx) {
  ctx.outputs[0] = {.dtype = DType::u8, .shape = ctx.inputs[0].shape};
  if (ctx.outputs.size() > 1) ctx.outputs[1] = {.dtype = DType::f32, .shape = Shape{}};
  if (ctx.outputs.size() > 2) ctx.outputs[2] = {.dtype = DType::u8, .shape = Shape{}};
  return {};
}

Result<> reference_dynamic(const RefContext& ctx) {
  const Tensor& x = ctx.in(0);
  float low = 0, high = 0;
  for (size_t i = 0; i < x.numel(); ++i) {
    low = std::min(low, static_cast<float>(get_f64(x, i)));
    high = std::max(high, static_cast<float>(get_f64(x, i)));
  }
  const Range range = range_of(DType::u8);
  const float scale = high > low ? (high - low) / 255.0f : 1.0f;
  const double zero = std::nearbyint(std::clamp(-low / scale, 0.0f, 255.0f));
  for (size_t i = 0; i < x.numel(); ++i) {
    set_f64(ctx.out(), i, quantized(static_cast<float>(get_f64(x, i)), scale, zero, range));
  }
  set_f64(ctx.out(1), 0, scale);
  set_f64(ctx.out(2), 0, zero);
  return {};
}

// Scales are powers of two: no quotient is near a tie that a device's division could miss.
void quantize_cases(std::vector<OpCase>& out) {
  for (const DType dtype : {DType::u8, DType::i8, DType::i16, DType::u16}) {
    out.push_back({.name = StrCat("to ", name_of(dtype)),
                   .inputs = {{.shape = {3, 7}, .values = {-3, -1.25, 0.125, 0.375, 2, 300, -300, 40000}},
                              {.shape = {}, .values = {0.25}, .constant = true},
                              {.dtype = dtype, .shape = {}, .values = {3}, .constant = true}}});
  }
  out.push_back({.name = "without zero point",
                 .inputs = {{.shape = {2, 5}, .lo = 0, .hi = 99}, {.shape = {1}, .values = {0.5}}}});
  OpCase axis{.name = "per axis",
              .inputs = {{.shape = {2, 3, 5}, .lo = -9, .hi = 9},
                         {.shape = {3}, .values = {0.5, 0.25, 0.125}, .constant = true},
                         {.dtype = DType::i8, .shape = {3}, .values = {0, -5, 9}, .constant = true}}};
  out.push_back(axis);
  axis.name = "per last axis";
  axis.attrs = attrs_of({{"axis", int64_t{-1}}});
  axis.inputs[0].shape = {2, 5, 3};
  out.push_back(axis);
  out.push_back({.name = "blocks",
                 .attrs = attrs_of({{"axis", int64_t{1}}, {"block_size", int64_t{2}}}),
                 .inputs = {{.shape = {2, 5, 3}, .lo = -9, .hi = 9},
                            {.shape = {2, 3, 3}, .values = {0.5, 0.25, 0.125, 1}, .constant = true},
                            {.dtype = DType::i8, .shape = {2, 3, 3}, .values = {0, -5, 9}, .constant = true}}});
}

void dequantize_cases(std::vector<OpCase>& out) {
  for (const DType dtype : {DType::u8, DType::i8, DType::i16, DType::u16, DType::i32}) {
    out.push_back(
        {.name = StrCat("from ", name_of(dtype)),
         .inputs = {{.dtype = dtype, .shape = {3, 7}, .lo = 0, .hi = 127},
                    {.shape = {}, .values = {0.037}, .constant = true},
                    {.dtype = dtype, .shape = {}, .values = {3}, .constant = true, .absent = dtype == DType::i32}}});
  }
  out.push_back({.name = "per axis 0",
                 .attrs = attrs_of({{"axis", int64_t{0}}}),
                 .inputs = {{.dtype = DType::i8, .shape = {3, 2, 5}, .lo = -128, .hi = 127},
                            {.shape = {3}, .values = {0.5, 0.3, 0.1}, .constant = true}}});
  out.push_back({.name = "blocks",
                 .attrs = attrs_of({{"axis", int64_t{0}}, {"block_size", int64_t{3}}}),
                 .inputs = {{.dtype = DType::u8, .shape = {7, 4}, .lo = 0, .hi = 255},
                            {.shape = {3, 4}, .lo = 0.1, .hi = 2},
                            {.dtype = DType::u8, .shape = {3, 4}, .lo = 0, .hi = 255}}});
}

void dynamic_cases(std::vector<OpCase>& out) {
  out.push_back({.name = "both signs", .inputs = {{.shape = {3, 5}, .lo = -2, .hi = 6}}, .outputs = 3});
  out.push_back({.name = "all zero", .inputs = {{.shape = {4}, .lo = 0, .hi = 0}}, .outputs = 3});
}

}  // namespace

extern const OpDef op_dequantize_linear{.name = "DequantizeLinear",
                                        .first_opset = 10,
                                        .min_inputs = 2,
                                        .max_inputs = 3,
                                        .notes = "float8 and types below 8 bits are refused",
                                        .infer = infer_dequantize,
                                        .reference = reference_dequantize,
                                        .wgsl = wgsl_dequantize,
                                        .cases = dequantize_cases};

extern const OpDef op_dynamic_quantize_linear{.name = "DynamicQuantizeLinear",
                                              .first_opset = 11,
                                              .min_outputs = 3,
                                              .max_outputs = 3,
                                              .notes = "on the host",
                                              .infer = infer_dynamic,
                                              .reference = reference_dynamic,
                                              .cases = dynamic_cases};

extern const OpDef op_quantize_linear{.name = "QuantizeLinear",
                                      .first_opset = 10,
                                      .min_inputs = 2,
                                      .max_inputs = 3,
                                      .notes = "float8 and types below 8 bits are refused",
                                      .infer = infer_quantize,
                                      .reference = reference_quantize,
                                      .wgsl = wgsl_quantize,
                                      .cases = quantize_cases};

}  // namespace sinter
