// SPDX-License-Identifier: Apache-2.0
// Trilu: the upper or lower triangle of matrices, 0 elsewhere.
// https://onnx.ai/onnx/operators/onnx__Trilu.html (14+). Nothing is refused.
#include <algorithm>
#include <cstring>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// Attribute upper; operands data, k (0 where absent): column - row >= k is kept, or <= k for the lower triangle.
Result<> infer(InferContext& ctx) {
  if (ctx.inputs[0].shape && ctx.inputs[0].shape->rank() < 2) {
    return bad(ctx.node, StrCat("input ", to_string(*ctx.inputs[0].shape), " is not a matrix"));
  }
  return infer_same(ctx);
}

Result<> reference(const RefContext& ctx) {
  const Shape& shape = ctx.out().shape();
  const size_t n = ctx.out().numel(), rank = shape.rank(), size = size_of(ctx.out().dtype());
  const int64_t k = ctx.has(1) && ctx.in(1).numel() ? get_i64(ctx.in(1), 0) : 0;
  const bool upper = ctx.attrs().i("upper", 1) != 0;
  for (size_t i = 0; i < n; ++i) {
    const int64_t at = static_cast<int64_t>(i), columns = shape[rank - 1];
    const int64_t ahead = at % columns - at / columns % shape[rank - 2];
    if (upper ? ahead >= k : ahead <= k) {
      std::memcpy(ctx.out().mutable_bytes().data() + i * size, ctx.in(0).bytes().data() + i * size, size);
    }
  }
  return {};
}

Result<> device(WgslContext& ctx) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[0].dtype));
  const Shape& shape = ctx.out_shape();
  if (shape.numel() == 0) return {};
  const bool upper = ctx.attrs().i("upper", 1) != 0, computed = ctx.has(1) && !ctx.inputs[1].constant;
  if (computed) SINTER_CHECK_OK(check_distinct(ctx, 0, 1));
  wgsl::Writer writer("trilu", ctx.target);
  bind_units(writer, ctx, "a", 0, bytes);
  if (computed) SINTER_CHECK_OK(bind_index(writer, ctx, "diagonal", 1));
  bind_output_units(writer, "o", 0, bytes);
  writer.linear(static_cast<uint64_t>(shape.numel()));
  writer.u32("rows", static_cast<uint32_t>(shape[shape.rank() - 2]));
  writer.u32("columns", static_cast<uint32_t>(shape[shape.rank() - 1]));
  if (!computed) {
    const int64_t k = ctx.has(1) && ctx.inputs[1].constant->numel() ? get_i64(*ctx.inputs[1].constant, 0) : 0;
    writer.i32("k", static_cast<int32_t>(std::clamp<int64_t>(k, INT32_MIN, INT32_MAX)));
  }
  writer.body(
      StrCat("  let ahead = i32(i % p.columns) - i32(i / p.columns % p.rows);\n  var moved = ", unit_type(bytes),
             "();\n  if (ahead ", upper ? ">= " : "<= ", computed ? read_index(ctx, 1, "diagonal", "0u") : "p.k",
             ") { moved = a[i]; }\n  o[i] = moved;\n"));
  return emit(ctx, writer);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, int64_t upper, double k, bool constant) {
    cases.push_back({.name = std::move(name),
                     .attrs = make_attrs({{"upper", upper}}),
                     .inputs = {{.dtype = dtype, .shape = {2, 3, 5}, .lo = 1, .hi = 9},
                                {.dtype = DType::i64, .values = {k}, .constant = constant}}});
  };
  cases.push_back({.name = "no k", .inputs = {{.shape = {4, 3}}}});
  add("upper 1", DType::f32, 1, 1, true);
  add("upper -2, int64", DType::i64, 1, -2, true);
  add("lower 1, computed k", DType::f32, 0, 1, false);
  add("lower -7, bool", DType::boolean, 0, -7, true);
  add("lower, float16", DType::f16, 0, 0, true);
}

}  // namespace

extern const OpDef op_trilu = {.name = "Trilu",
                               .first_opset = 14,
                               .max_inputs = 2,
                               .op_class = OpClass::movement,
                               .infer = infer,
                               .reference = reference,
                               .wgsl = device,
                               .cases = cases};

}  // namespace sinter
