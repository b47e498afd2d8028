// SPDX-License-Identifier: Apache-2.0
// ONNX Cast (attribute `to`) and CastLike (input 1's dtype), opset 6 to newest. Floats truncate towards zero on their way to
// integers, integers wrap; what ONNX leaves undefined (out of range, NaN) may differ between host and device. The device
// moves 64-bit integers as two words and converts them exactly up to 24 bits, correctly rounded up to 32.
// Refused: strings, float8 and narrower types.
#include <algorithm>
#include <cmath>

#include "engine/ops/movement.h"
#include "engine/ops/util.h"

namespace sinter {

using namespace ops;

namespace {

Result<> infer_to(InferContext& ctx, DType to) {
  if (size_of(to) == 0) {
    return unsupported(ctx.node, StrCat("to element type ", static_cast<int>(to)),
                       "float, double, float16, bfloat16, bool and integers of 8 to 64 bits are supported");
  }
  ctx.outputs[0].dtype = to;
  ctx.outputs[0].shape = ctx.inputs[0].shape;
  return {};
}

Result<> infer_cast(InferContext& ctx) {
  const int64_t to = ctx.attrs().i("to", 0);
  return infer_to(ctx, to > 0 && to < 32 ? static_cast<DType>(to) : DType::undefined);
}
Result<> infer_cast_like(InferContext& ctx) { return infer_to(ctx, ctx.inputs[1].dtype); }

Result<> reference_cast(const RefContext& ctx) {
  const Tensor converted = SINTER_TRY(convert(ctx.in(0), ctx.out().dtype()));
  std::copy(converted.bytes().begin(), converted.bytes().end(), ctx.out().mutable_bytes().begin());
  return {};
}

// Functions from a storage class to the value's form in between: f32, or two words, sign-extended.
std::string to_f32(wgsl::Storage from, bool is_signed) {
  if (from != wgsl::Storage::words2) return "f32(v)";
  if (!is_signed) return "f32(v.y) * 4294967296.0 + f32(v.x)";
  return "wide(v)";
}

// -x of two words is ~x + 1, with the carry.
constexpr std::string_view kWide = R"(fn wide(v: vec2<u32>) -> f32 {
  if (v.y < 0x80000000u) { return f32(v.y) * 4294967296.0 + f32(v.x); }
  let low = ~v.x + 1u;
  let high = ~v.y + select(0u, 1u, low == 0u);
  return -(f32(high) * 4294967296.0 + f32(low));
}
)";
constexpr std::string_view kFloatToWords = R"(fn words(v: f32) -> vec2<u32> {
  let whole = trunc(abs(v));
  let high = floor(whole * 2.3283064365386963e-10);
  let w = vec2<u32>(u32(whole - high * 4294967296.0), u32(high));
  if (v >= 0.0) { return w; }
  let low = ~w.x + 1u;
  return vec2<u32>(low, ~w.y + select(0u, 1u, low == 0u));
}
)";

std::string to_words(wgsl::Storage from, DType from_dtype) {
  if (from == wgsl::Storage::words2) return "v";
  if (is_float(from_dtype)) return "words(f32(v))";
  return from == wgsl::Storage::i32 ? "vec2<u32>(u32(v), u32(v >> 31u))" : "vec2<u32>(v, 0u)";
}

// The low 32 bits of an integer, or of a float by way of i32, in the type `word`.
std::string to_word(wgsl::Storage from, DType from_dtype, DType to) {
  const std::string word = is_signed_int(to) ? "i32" : "u32";
  if (from == wgsl::Storage::words2) return StrCat(word, "(v.x)");
  if (!is_float(from_dtype) || to == DType::u32 || to == DType::i32) return StrCat(word, "(v)");
  return StrCat(word, "(i32(v))");
}

std::string is_not_zero(wgsl::Storage from, DType from_dtype) {
  if (from == wgsl::Storage::words2) return "any(v != vec2<u32>(0u))";
  // NaN is true; a comparison need not say so.
  if (is_float(from_dtype)) return "(bitcast<u32>(f32(v)) & 0x7fffffffu) != 0u";
  return "v != 0";
}

std::string converted(wgsl::Storage from, DType from_dtype, wgsl::Storage held, DType to) {
  const std::string word = to_word(from, from_dtype, to);
  switch (to) {
    case DType::boolean:
      return StrCat("u32(", is_not_zero(from, from_dtype), ")");
    case DType::u8:
      return StrCat(word, " & 255u");
    case DType::u16:
      return StrCat(word, " & 65535u");
    case DType::i8:
      return StrCat("(", word, " << 24u) >> 24u");
    case DType::i16:
      return StrCat("(", word, " << 16u) >> 16u");
    case DType::i32:
    case DType::u32:
      return word;
    case DType::i64:
    case DType::u64:
      return to_words(from, from_dtype);
    default:
      return StrCat(wgsl::element_type(held), "(", to_f32(from, is_signed_int(from_dtype)), ")");
  }
}

Result<> wgsl_cast(WgslContext& ctx) {
  const DType from = ctx.inputs[0].dtype, to = ctx.outputs[0].dtype;
  const wgsl::Storage source = storage(ctx, ctx.inputs[0]), held = storage(ctx, ctx.outputs[0]);
  if (source == wgsl::Storage::none || held == wgsl::Storage::none) {
    return unsupported(ctx.node, StrCat(name_of(from), " to ", name_of(to), " runs on the host"));
  }
  if (ctx.out_shape().numel() == 0) return {};
  wgsl::Writer writer("Cast", ctx.target);
  bind_input(writer, ctx, "x", 0);
  bind_output(writer, ctx, "y");
  if (source == wgsl::Storage::words2) writer.declare(kWide);
  if (held == wgsl::Storage::words2) writer.declare(kFloatToWords);
  writer.linear(static_cast<uint64_t>(ctx.out_shape().numel()));
  writer.body(StrCat("  let v = x[i];\n  y[i] = ", converted(source, from, held, to), ";\n"));
  return emit(ctx, writer);
}

void cast_cases(std::vector<OpCase>& out) {
  constexpr DType kTypes[] = {DType::f32, DType::f16, DType::boolean, DType::u8,  DType::i8,
                              DType::i16, DType::i32, DType::u32,     DType::i64, DType::u64};
  for (DType from : kTypes) {
    for (DType to : kTypes) {
      OpCase c{.name = StrCat(name_of(from), " to ", name_of(to)), .rtol = 1e-3};
      std::vector<double> values{0, 1, 2.75, 100, 117};
      if (!is_unsigned_int(from) && from != DType::boolean && !is_unsigned_int(to))
        values.insert(values.end(), {-1, -2.75, -100});
      if (is_integer(from) && size_of(from) >= 2) values.insert(values.end(), {300, 32767});
      if (is_signed_int(from) && size_of(from) >= 4 && to != DType::f16) values.insert(values.end(), {-70000, 1e9});
      c.inputs = {{.dtype = from, .shape = {static_cast<int64_t>(values.size())}, .values = values}};
      c.attrs.set("to", static_cast<int64_t>(to));
      out.push_back(c);
    }
  }
  OpCase wide{.name = "int64 beyond 32 bits",
              .inputs = {{.dtype = DType::i64, .shape = {5}, .values = {-5e9, 5e9, -4294967296.0, 1e15, -1}}},
              .rtol = 1e-6};
  wide.attrs.set("to", static_cast<int64_t>(DType::f32));
  out.push_back(wide);
  OpCase back{.name = "float beyond 32 bits",
              .inputs = {{.shape = {6}, .values = {-5e9, 5e9, -4294967296.0, 8589934592.0, -0.5, -3}}}};
  back.attrs.set("to", static_cast<int64_t>(DType::i64));
  out.push_back(back);
  OpCase truth{.name = "NaN and infinity are true", .inputs = {{.shape = {4}, .values = {NAN, INFINITY, -0.0, 1e-30}}}};
  truth.attrs.set("to", static_cast<int64_t>(DType::boolean));
  out.push_back(truth);
  OpCase empty{.name = "empty", .inputs = {{.shape = {0, 3}}}};
  empty.attrs.set("to", static_cast<int64_t>(DType::i32));
  out.push_back(empty);
}

void cast_like_cases(std::vector<OpCase>& out) {
  out.push_back(
      {.name = "to int32", .inputs = {{.shape = {2, 3}, .lo = -9, .hi = 9}, {.dtype = DType::i32, .shape = {1}}}});
}

}  // namespace

extern const OpDef op_cast{.name = "Cast",
                           .first_opset = 6,
                           .notes = "strings and types below 8 bits are refused",
                           .infer = infer_cast,
                           .dims = same_dims,
                           .reference = reference_cast,
                           .wgsl = wgsl_cast,
                           .cases = cast_cases};

extern const OpDef op_cast_like{.name = "CastLike",
                                .first_opset = 15,
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .notes = "strings and types below 8 bits are refused",
                                .infer = infer_cast_like,
                                .reference = reference_cast,
                                .wgsl = wgsl_cast,
                                .cases = cast_like_cases};

}  // namespace sinter
