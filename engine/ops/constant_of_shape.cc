// SPDX-License-Identifier: Apache-2.0
// ConstantOfShape, EyeLike: tensors of one value, and the identity matrix.
// https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html (9+), EyeLike (9+). Refused: more than 8 axes.
#include <array>
#include <cstring>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// --- ConstantOfShape: attribute value (one element, float32 0 where absent); operand shape.

Result<> infer_constant(InferContext& ctx) {
  const Tensor* value = ctx.attrs().tensor("value");
  if (value && value->numel() != 1)
    return bad(ctx.node, StrCat("value has ", value->numel(), " elements, must have one"));
  ctx.outputs[0].dtype = value ? value->dtype() : DType::f32;
  SINTER_CHECK_OK(shape_operands_known(ctx));
  const auto wanted = dim_values(ctx.inputs[0]);
  const auto length = wanted ? wanted->size() : operand_length(ctx, 0);
  if (!length) return {};
  SINTER_CHECK_OK(check_rank(ctx.node, *length));
  Shape out = Shape::filled(*length, kUnknownDim);
  for (size_t i = 0; wanted && i < *length; ++i) {
    const auto [dim, number] = (*wanted)[i];
    if (number && dim < 0) return bad(ctx.node, StrCat("the shape's element ", i, " is negative: ", dim));
    out[i] = dim;
  }
  ctx.outputs[0].shape = out;
  return {};
}

Result<> reference_constant(const RefContext& ctx) {
  const Tensor* value = ctx.attrs().tensor("value");
  if (!value) return {};
  const size_t n = ctx.out().numel(), size = size_of(value->dtype());
  for (size_t i = 0; i < n; ++i) std::memcpy(ctx.out().mutable_bytes().data() + i * size, value->bytes().data(), size);
  return {};
}

Result<> device_constant(WgslContext& ctx) {
  const DType dtype = ctx.outputs[0].dtype;
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, dtype));
  const int64_t numel = ctx.out_shape().numel();
  if (numel == 0) return {};
  const uint32_t unit = unit_elements(ctx, bytes, std::array{numel});
  wgsl::Writer writer("fill", ctx.target);
  bind_output_units(writer, "o", 0, bytes * unit);
  writer.linear(static_cast<uint64_t>(numel / unit));
  const auto value = SINTER_TRY(device_scalar(ctx, ctx.attrs().tensor("value"), 0, dtype));
  writer.body(StrCat("  o[i] = ", uniform_unit(writer, "fill", value, bytes * unit), ";\n"));
  return emit(ctx, writer);
}

void constant_cases(std::vector<OpCase>& cases) {
  cases.push_back({.name = "float 0", .inputs = {constant_ints({2, 3})}});
  cases.push_back({.name = "scalar", .inputs = {constant_ints({})}});
  cases.push_back({.name = "empty", .inputs = {constant_ints({0, 2})}});
  for (DType dtype : {DType::f32, DType::f16, DType::i64, DType::u8, DType::boolean}) {
    Result<Tensor> value = Tensor::alloc(dtype, {1});
    if (!value) continue;
    set_f64(*value, 0, 1);
    cases.push_back({.name = StrCat(name_of(dtype), " 1"),
                     .attrs = make_attrs({{"value", *value}}),
                     .inputs = {constant_ints({3, 4})}});
  }
}

// --- EyeLike: attributes dtype (the operand's where absent) and k; an operand that lends its shape.

Result<> infer_eye(InferContext& ctx) {
  const int64_t dtype = ctx.attrs().i("dtype", static_cast<int64_t>(ctx.inputs[0].dtype));
  if (dtype < 0 || dtype > 255 || size_of(static_cast<DType>(dtype)) == 0) {
    return unsupported(ctx.node, StrCat("dtype ", dtype));
  }
  ctx.outputs[0].dtype = static_cast<DType>(dtype);
  ctx.outputs[0].shape = ctx.inputs[0].shape;
  if (ctx.inputs[0].shape && ctx.inputs[0].shape->rank() != 2) {
    return bad(ctx.node, StrCat("input ", to_string(*ctx.inputs[0].shape), " is not a matrix"));
  }
  return {};
}

Result<> reference_eye(const RefContext& ctx) {
  const int64_t rows = ctx.out().shape()[0], columns = ctx.out().shape()[1], k = ctx.attrs().i("k", 0);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      if (c - r == k) set_i64(ctx.out(), static_cast<size_t>(r * columns + c), 1);
    }
  }
  return {};
}

Result<> device_eye(WgslContext& ctx) {
  const DType dtype = ctx.outputs[0].dtype;
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, dtype));
  const Shape& shape = ctx.out_shape();
  if (shape.numel() == 0) return {};
  Tensor one = SINTER_TRY(Tensor::alloc(dtype, {}));
  set_i64(one, 0, 1);
  wgsl::Writer writer("eye", ctx.target);
  bind_output_units(writer, "o", 0, bytes);
  writer.linear(static_cast<uint64_t>(shape.numel()));
  writer.u32("columns", static_cast<uint32_t>(shape[1]));
  const int64_t k = ctx.attrs().i("k", 0);
  const bool outside = k >= shape[1] || k <= -shape[0];
  writer.i32("k", static_cast<int32_t>(outside ? shape[1] : k));
  const std::string on = uniform_unit(writer, "one", SINTER_TRY(device_scalar(ctx, &one, 0, dtype)), bytes);
  writer.body(StrCat("  let ahead = i32(i % p.columns) - i32(i / p.columns);\n  o[i] = select(", unit_type(bytes),
                     "(), ", on, ", ahead == p.k);\n"));
  return emit(ctx, writer);
}

void eye_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, int64_t k) {
    cases.push_back({.name = std::move(name),
                     .attrs = make_attrs({{"k", k}, {"dtype", static_cast<int64_t>(dtype)}}),
                     .inputs = {{.shape = {4, 5}}}});
  };
  add("float", DType::f32, 0);
  add("int64 above", DType::i64, 2);
  add("bool below", DType::boolean, -3);
  add("float16", DType::f16, 1);
  add("outside", DType::f32, 7);
}

}  // namespace

extern const OpDef op_constant_of_shape = {.name = "ConstantOfShape",
                                           .first_opset = 9,
                                           .op_class = OpClass::movement,
                                           .notes = "at most 8 axes; the shape must be computable before the run",
                                           .shape_operands = 0b1,
                                           .infer = infer_constant,
                                           .reference = reference_constant,
                                           .wgsl = device_constant,
                                           .cases = constant_cases};

extern const OpDef op_eye_like = {.name = "EyeLike",
                                  .first_opset = 9,
                                  .op_class = OpClass::other,
                                  .shape_only = true,
                                  .infer = infer_eye,
                                  .reference = reference_eye,
                                  .wgsl = device_eye,
                                  .cases = eye_cases};

}  // namespace sinter
