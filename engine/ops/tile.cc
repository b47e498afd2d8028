// SPDX-License-Identifier: Apache-2.0
// Tile: the input repeated along each axis.
// https://onnx.ai/onnx/operators/onnx__Tile.html (6+). Refused: repeats that are known only while running.
#include <array>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

Result<> infer(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  const std::optional<Shape>& in = ctx.inputs[0].shape;
  if (!known) {
    if (in) ctx.outputs[0].shape = Shape::filled(in->rank(), kUnknownDim);
    return {};
  }
  const std::vector<int64_t> repeats = *known_ints(ctx, 1);
  SINTER_CHECK_OK(check_rank(ctx.node, repeats.size()));
  if (in && in->rank() != repeats.size()) {
    return bad(ctx.node, StrCat("repeats has ", repeats.size(), " entries, input ", to_string(*in), " has ", in->rank(),
                                " axes"));
  }
  Shape out = in.value_or(Shape::filled(repeats.size(), kUnknownDim));
  for (size_t i = 0; i < out.rank(); ++i) {
    if (repeats[i] < 0) return bad(ctx.node, StrCat("repeats holds ", repeats[i]));
    if (repeats[i] == 1) continue;
    if (is_known(out[i])) {
      if (__builtin_mul_overflow(out[i], repeats[i], &out[i])) return bad(ctx.node, StrCat("axis ", i, " overflows"));
    } else {
      out[i] = repeats[i] == 0 ? 0 : kUnknownDim;
    }
  }
  ctx.outputs[0].shape = out;
  return {};
}

Result<> reference(const RefContext& ctx) {
  const Shape &in = ctx.in(0).shape(), &out = ctx.out().shape();
  const Shape strides = row_major_strides(in);
  AxisTables tables(out.rank());
  for (size_t i = 0; i < out.rank(); ++i) {
    for (int64_t c = 0; c < out[i]; ++c) tables[i].push_back(c % in[i] * strides[i]);
  }
  copy_by_tables(ctx.in(0), ctx.out(), tables);
  return {};
}

// An axis that is not repeated merges into the one before it.
struct Merged {
  Shape in, out;
};

Merged merge(const Shape& in, const Shape& out) {
  Merged merged;
  for (size_t i = 0; i < in.rank(); ++i) {
    if (in[i] == out[i] && merged.in.rank() > 0) {
      merged.in[merged.in.rank() - 1] *= in[i];
      merged.out[merged.out.rank() - 1] *= out[i];
    } else {
      merged.in.push_back(in[i]);
      merged.out.push_back(out[i]);
    }
  }
  return merged;
}

Result<> device(WgslContext& ctx) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[0].dtype));
  const int64_t numel = ctx.out_shape().numel();
  if (numel == 0) return {};
  Merged tile = merge(ctx.in_shape(0), ctx.out_shape());
  const size_t rank = tile.in.rank();
  uint32_t unit = 1;
  if (rank > 0) {
    unit = unit_elements(ctx, bytes, std::array{tile.in[rank - 1]});
    tile.in[rank - 1] /= unit;
    tile.out[rank - 1] /= unit;
  }
  const Shape strides = row_major_strides(tile.in);
  wgsl::Writer writer("tile", ctx.target);
  bind_units(writer, ctx, "a", 0, bytes * unit);
  bind_output_units(writer, "o", 0, bytes * unit);
  writer.linear(static_cast<uint64_t>(numel / unit));
  writer.body("  var rest = i;\n  var src = 0u;\n");
  for (size_t axis = rank; axis-- > 0;) {
    writer.u32(wgsl::indexed("in", axis), static_cast<uint32_t>(tile.in[axis]));
    writer.u32(wgsl::indexed("out", axis), static_cast<uint32_t>(tile.out[axis]));
    writer.u32(wgsl::indexed("stride", axis), static_cast<uint32_t>(strides[axis]));
    writer.body(
        StrCat("  src += rest % p.out", axis, " % p.in", axis, " * p.stride", axis, ";\n  rest /= p.out", axis, ";\n"));
  }
  writer.body("  o[i] = a[src];\n");
  return emit(ctx, writer);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, Shape shape, std::initializer_list<int64_t> repeats) {
    cases.push_back({.name = std::move(name),
                     .inputs = {{.dtype = dtype, .shape = shape, .lo = 0, .hi = 9}, constant_ints(repeats)}});
  };
  add("2 axes", DType::f32, {2, 3}, {2, 3});
  add("6 axes", DType::f32, {2, 1, 3, 2, 1, 2}, {1, 3, 2, 1, 2, 2});
  add("8 axes", DType::u8, {2, 1, 2, 1, 2, 1, 2, 1}, {2, 2, 2, 1, 2, 1, 2, 2});
  add("whole units", DType::f32, {2, 8}, {3, 2});
  add("int64", DType::i64, {3}, {2});
  add("float16", DType::f16, {3, 1}, {1, 3});
  add("scalar", DType::f32, {}, {});
  add("0 repeats", DType::f32, {2, 3}, {2, 0});
}

}  // namespace

extern const OpDef op_tile = {.name = "Tile",
                              .first_opset = 6,
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .op_class = OpClass::movement,
                              .notes = "repeats must be computable before the run",
                              .shape_operands = 0b10,
                              .infer = infer,
                              .reference = reference,
                              .wgsl = device,
                              .cases = cases};

}  // namespace sinter
