// SPDX-License-Identifier: Apache-2.0
// GatherElements: one index per output element, along one axis.
// https://onnx.ai/onnx/operators/onnx__GatherElements.html (11+). Out-of-range indices: as Gather.
#include <array>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// Attribute axis; operands data, indices.
Result<> infer(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  ctx.outputs[0].shape = ctx.inputs[1].shape;
  if (!ctx.inputs[0].shape || !ctx.inputs[1].shape) return {};
  const Shape &data = *ctx.inputs[0].shape, &indices = *ctx.inputs[1].shape;
  const size_t axis = SINTER_TRY(checked_axis(ctx.node, ctx.attrs().i("axis", 0), data.rank()));
  bool fits = data.rank() == indices.rank();
  for (size_t i = 0; fits && i < data.rank(); ++i) {
    fits = i == axis || !is_known(data[i]) || !is_known(indices[i]) || indices[i] <= data[i];
  }
  if (!fits) {
    return bad(ctx.node,
               StrCat("indices ", to_string(indices), " do not fit data ", to_string(data), " along axis ", axis));
  }
  if (const Tensor* known = ctx.inputs[1].constant; known && is_known(data[axis])) {
    for (size_t i = 0; i < known->numel(); ++i) {
      const int64_t index = get_i64(*known, i);
      if (!fold_index(index, data[axis])) return index_error(ctx.node, index, i, data[axis], axis);
    }
  }
  return {};
}

Result<> reference(const RefContext& ctx) {
  const Tensor &data = ctx.in(0), &indices = ctx.in(1);
  const Shape strides = row_major_strides(data.shape()), dims = indices.shape();
  const size_t axis = *fold_axis(ctx.attrs().i("axis", 0), dims.rank()), n = indices.numel();
  const size_t size = size_of(data.dtype());
  for (size_t i = 0; i < n; ++i) {
    const int64_t index = get_i64(indices, i);
    const auto at = fold_index(index, data.shape()[axis]);
    if (!at) return index_error(ctx.node, index, i, data.shape()[axis], axis);
    int64_t from = *at * strides[axis], rest = static_cast<int64_t>(i);
    for (size_t d = dims.rank(); d-- > 0;) {
      if (d != axis) from += rest % dims[d] * strides[d];
      rest /= dims[d];
    }
    strided_copy(ctx.out().mutable_bytes().data() + i * size, {},
                 data.bytes().data() + static_cast<size_t>(from) * size, {}, {}, size);
  }
  return {};
}

Result<> device(WgslContext& ctx) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[0].dtype));
  const Shape& out = ctx.out_shape();
  if (out.numel() == 0) return {};
  SINTER_CHECK_OK(check_distinct(ctx, 0, 1));
  Shape strides = row_major_strides(ctx.in_shape(0));
  const size_t axis = *fold_axis(ctx.attrs().i("axis", 0), out.rank());
  wgsl::Writer writer("gather_elements", ctx.target);
  bind_units(writer, ctx, "a", 0, bytes);
  SINTER_CHECK_OK(bind_index(writer, ctx, "indices", 1));
  bind_output_units(writer, "o", 0, bytes);
  declare_fold_index(writer);
  writer.u32("extent", static_cast<uint32_t>(ctx.in_shape(0)[axis]));
  writer.u32("stride", static_cast<uint32_t>(strides[axis]));
  strides[axis] = 0;
  writer.linear(static_cast<uint64_t>(out.numel()));
  writer.offsets("i", merge_axes(out, std::array{strides}), {"src"});
  writer.body(StrCat("  o[i] = a[src + fold_index(", read_index(ctx, 1, "indices", "i"), ", p.extent) * p.stride];\n"));
  return emit(ctx, writer);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, Shape shape, int64_t axis, DType index, Shape indices,
                       std::vector<double> values) {
    cases.push_back({.name = std::move(name),
                     .attrs = make_attrs({{"axis", axis}}),
                     .inputs = {{.dtype = dtype, .shape = shape, .lo = 0, .hi = 9},
                                {.dtype = index, .shape = indices, .values = std::move(values)}}});
  };
  add("axis 1", DType::f32, {2, 3}, 1, DType::i64, {2, 2}, {0, 2, -1, 1});
  add("axis 0, fewer columns", DType::i64, {4, 3}, 0, DType::i32, {2, 2}, {3, -4, 0, 1});
  add("3 axes", DType::f16, {2, 3, 5}, -2, DType::i64, {2, 4, 5}, {2, 1, 0, -1, -3});
}

}  // namespace

extern const OpDef op_gather_elements = {
    .name = "GatherElements",
    .first_opset = 11,
    .min_inputs = 2,
    .max_inputs = 2,
    .op_class = OpClass::movement,
    .notes = "on webgpu, out-of-range indices computed during the run clamp to the axis",
    .infer = infer,
    .reference = reference,
    .wgsl = device,
    .cases = cases};

}  // namespace sinter
