// SPDX-License-Identifier: Apache-2.0
// Expand: numpy broadcasting to a shape given as operand (which may itself be broadcast).
// https://onnx.ai/onnx/operators/onnx__Expand.html (8+). Refused: more than 8 axes.
#include <algorithm>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

Result<> infer(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const std::optional<Shape>& in = ctx.inputs[0].shape;
  SINTER_CHECK_OK(shape_operands_known(ctx));
  const auto wanted = dim_values(ctx.inputs[1]);
  const auto length = wanted ? wanted->size() : operand_length(ctx, 1);
  if (!length) return {};
  SINTER_CHECK_OK(check_rank(ctx.node, *length));
  Shape to = Shape::filled(*length, kUnknownDim);
  for (size_t i = 0; wanted && i < *length; ++i) {
    const auto [dim, number] = (*wanted)[i];
    if (number && dim < 0) return bad(ctx.node, StrCat("the shape's element ", i, " is negative: ", dim));
    to[i] = dim;
  }
  if (!in) return {};
  if (!wanted) {
    ctx.outputs[0].shape = Shape::filled(std::max(in->rank(), *length), kUnknownDim);
    return {};
  }
  const auto out = broadcast(*in, to);
  if (!out) return bad(ctx.node, StrCat("input ", to_string(*in), " cannot be broadcast to ", to_string(to)));
  ctx.outputs[0].shape = *out;
  return {};
}

Result<> reference(const RefContext& ctx) {
  const Shape& out = ctx.out().shape();
  strided_copy(ctx.out().mutable_bytes().data(), row_major_strides(out), ctx.in(0).bytes().data(),
               broadcast_strides(ctx.in(0).shape(), out), out, size_of(ctx.out().dtype()));
  return {};
}

Result<> device(WgslContext& ctx) {
  const Shape& out = ctx.out_shape();
  return emit_copy(
      ctx, "expand",
      {.dims = out, .from_strides = broadcast_strides(ctx.in_shape(0), out), .to_strides = row_major_strides(out)});
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, Shape shape, std::initializer_list<int64_t> to) {
    cases.push_back(
        {.name = std::move(name), .inputs = {{.dtype = dtype, .shape = shape, .lo = 0, .hi = 9}, constant_ints(to)}});
  };
  add("middle axis", DType::f32, {2, 1, 3}, {2, 4, 3});
  add("5 axes", DType::f32, {2, 1, 3, 1, 2}, {1, 4, 1, 5, 1});
  add("more axes", DType::i64, {3, 1}, {2, 1, 4});
  add("scalar", DType::boolean, {}, {2, 3});
  add("whole units", DType::f32, {1, 8}, {5, 8});
  add("8 axes", DType::f16, {1, 2, 1, 3, 1, 2, 1, 2}, {2, 1, 2, 1, 2, 1, 2, 1});
  add("empty", DType::f32, {1, 3}, {0, 3});
}

}  // namespace

extern const OpDef op_expand = {.name = "Expand",
                                .first_opset = 8,
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .op_class = OpClass::movement,
                                .notes = "at most 8 axes; the shape must be computable before the run",
                                .shape_operands = 0b10,
                                .infer = infer,
                                .reference = reference,
                                .wgsl = device,
                                .cases = cases};

}  // namespace sinter
