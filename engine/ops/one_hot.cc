// SPDX-License-Identifier: Apache-2.0
// OneHot: a new axis that is `on` at the index and `off` elsewhere.
// https://onnx.ai/onnx/operators/onnx__OneHot.html (9+). An index outside [-depth, depth) leaves its row off. Refused: a depth
// that is known only while running.
#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// Attribute axis; operands indices, depth, values [off, on].
Result<size_t> new_axis(const Node& node, size_t rank) {
  return checked_axis(node, node.attrs.i("axis", -1), rank + 1);
}

Result<> infer(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[2].dtype;
  const bool known = SINTER_TRY(shape_operands_known(ctx));
  if (!ctx.inputs[0].shape) return {};
  const size_t rank = ctx.inputs[0].shape->rank();
  SINTER_CHECK_OK(check_rank(ctx.node, rank + 1));
  int64_t depth = kUnknownDim;
  if (known) {
    if (ctx.inputs[1].constant->numel() != 1) return bad(ctx.node, "depth is not one element");
    depth = get_i64(*ctx.inputs[1].constant, 0);
    if (depth < 0) return bad(ctx.node, StrCat("depth is ", depth));
  }
  Shape out = *ctx.inputs[0].shape;
  out.insert(SINTER_TRY(new_axis(ctx.node, rank)), depth);
  ctx.outputs[0].shape = out;
  return {};
}

Result<> reference(const RefContext& ctx) {
  const Shape& out = ctx.out().shape();
  const size_t axis = SINTER_TRY(new_axis(ctx.node, out.rank() - 1)), n = ctx.in(0).numel();
  const int64_t inner = out.product(axis + 1, out.rank()), depth = out[axis];
  const size_t size = size_of(ctx.out().dtype());
  const std::byte* off = ctx.in(2).bytes().data();
  std::byte* to = ctx.out().mutable_bytes().data();
  const auto element = [&](int64_t i) { return to + static_cast<size_t>(i) * size; };
  strided_copy(to, {1}, off, {0}, {out.numel()}, size);
  for (size_t i = 0; i < n; ++i) {
    const auto at = fold_index(get_i64(ctx.in(0), i), depth);
    const int64_t outer = static_cast<int64_t>(i) / inner, rest = static_cast<int64_t>(i) % inner;
    if (at) strided_copy(element((outer * depth + *at) * inner + rest), {}, off + size, {}, {}, size);
  }
  return {};
}

// WGSL that leaves in `hot` the folded index as u32, or a number beyond any depth.
std::string fold_text(wgsl::Storage form) {
  const std::string fold = "  let hot = u32(select(v, v + i32(p.depth), v < 0));\n";
  switch (form) {
    case wgsl::Storage::u32:
      return "  let hot = indices[at];\n";
    case wgsl::Storage::words2:
      return StrCat("  let words = indices[at];\n  let v = i32(words.x);\n",
                    "  let fits = words.y == select(0u, 0xffffffffu, v < 0);\n",
                    "  let hot = select(0xffffffffu, u32(select(v, v + i32(p.depth), v < 0)), fits);\n");
    default:
      return StrCat("  let v = i32(indices[at]);\n", fold);
  }
}

Result<> device(WgslContext& ctx) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.outputs[0].dtype));
  SINTER_CHECK_OK(element_bytes(ctx, ctx.inputs[0].dtype));
  const Shape& out = ctx.out_shape();
  if (out.numel() == 0) return {};
  SINTER_CHECK_OK(check_distinct(ctx, 0, 2));
  const size_t axis = SINTER_TRY(new_axis(ctx.node, out.rank() - 1));
  wgsl::Writer writer("one_hot", ctx.target);
  bind_input(writer, ctx, "indices", 0);
  bind_units(writer, ctx, "values", 2, bytes);
  bind_output_units(writer, "o", 0, bytes);
  writer.linear(static_cast<uint64_t>(out.numel()));
  writer.u32("inner", static_cast<uint32_t>(out.product(axis + 1, out.rank())));
  writer.u32("depth", static_cast<uint32_t>(out[axis]));
  writer.body("  let at = i / p.inner / p.depth * p.inner + i % p.inner;\n");
  writer.body(fold_text(storage(ctx, ctx.inputs[0])));
  writer.body("  o[i] = values[select(0u, 1u, hot == i / p.inner % p.depth)];\n");
  return emit(ctx, writer);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, int64_t axis, DType index, Shape shape, std::vector<double> indices,
                       DType dtype) {
    cases.push_back({.name = std::move(name),
                     .attrs = make_attrs({{"axis", axis}}),
                     .inputs = {{.dtype = index, .shape = shape, .values = std::move(indices)},
                                constant_ints({5}),
                                {.dtype = dtype, .shape = {2}, .values = {1, 3}}}});
  };
  add("last axis", -1, DType::i64, {2, 3}, {0, 4, -1, -5, 5, -6}, DType::f32);
  add("axis 0", 0, DType::i32, {3}, {1, 7, -2}, DType::i64);
  add("axis 1, float indices", 1, DType::f32, {2, 2}, {0, 3, -4, 9}, DType::i32);
  add("beyond 32 bits", -1, DType::i64, {2}, {4294967297.0, 2}, DType::f32);
  add("uint8 indices", -1, DType::u8, {3}, {0, 4, 200}, DType::f16);
}

}  // namespace

extern const OpDef op_one_hot = {.name = "OneHot",
                                 .first_opset = 9,
                                 .min_inputs = 3,
                                 .max_inputs = 3,
                                 .op_class = OpClass::movement,
                                 .notes = "depth must be computable before the run",
                                 .shape_operands = 0b10,
                                 .infer = infer,
                                 .reference = reference,
                                 .wgsl = device,
                                 .cases = cases};

}  // namespace sinter
