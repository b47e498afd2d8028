// SPDX-License-Identifier: Apache-2.0
// GatherND: slices picked by index tuples.
// https://onnx.ai/onnx/operators/onnx__GatherND.html (11+). Out-of-range indices: as Gather.
#include <array>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// Attribute batch_dims; operands data, indices [batch..., tuples..., length].
Result<> infer(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  if (!ctx.inputs[0].shape || !ctx.inputs[1].shape) return {};
  const Shape &data = *ctx.inputs[0].shape, &indices = *ctx.inputs[1].shape;
  const int64_t batch = ctx.attrs().i("batch_dims", 0);
  const auto misfit = [&] {
    return bad(ctx.node, StrCat("indices ", to_string(indices), " do not fit data ", to_string(data),
                                " with batch_dims ", batch));
  };
  if (indices.rank() == 0 || batch < 0 || batch >= static_cast<int64_t>(std::min(data.rank(), indices.rank())))
    return misfit();
  const size_t b = static_cast<size_t>(batch);
  for (size_t i = 0; i < b; ++i) {
    if (is_known(data[i]) && is_known(indices[i]) && data[i] != indices[i]) return misfit();
  }
  const int64_t length = indices[indices.rank() - 1];
  if (!is_known(length)) return {};
  if (length < 1 || length > static_cast<int64_t>(data.rank() - b)) return misfit();
  const size_t first = b + static_cast<size_t>(length);
  SINTER_CHECK_OK(check_rank(ctx.node, indices.rank() - 1 + data.rank() - first));
  Shape out;
  for (size_t i = 0; i + 1 < indices.rank(); ++i) out.push_back(indices[i]);
  for (size_t i = first; i < data.rank(); ++i) out.push_back(data[i]);
  ctx.outputs[0].shape = out;
  if (const Tensor* known = ctx.inputs[1].constant) {
    for (size_t i = 0; i < known->numel(); ++i) {
      const size_t axis = b + i % static_cast<size_t>(length);
      const int64_t index = get_i64(*known, i);
      if (is_known(data[axis]) && !fold_index(index, data[axis]))
        return index_error(ctx.node, index, i, data[axis], axis);
    }
  }
  return {};
}

struct Tuples {
  size_t first_axis, length;
  int64_t count, per_batch, batch_stride, slice;  // count: all tuples; the rest in elements of data
};

Tuples tuples(const Node& node, const Shape& data, const Shape& indices) {
  const size_t b = static_cast<size_t>(node.attrs.i("batch_dims", 0));
  const size_t length = static_cast<size_t>(indices[indices.rank() - 1]);
  return {b,
          length,
          indices.product(0, indices.rank() - 1),
          indices.product(b, indices.rank() - 1),
          data.product(b, data.rank()),
          data.product(b + length, data.rank())};
}

Result<> reference(const RefContext& ctx) {
  const Tensor &data = ctx.in(0), &indices = ctx.in(1);
  const Tuples t = tuples(ctx.node, data.shape(), indices.shape());
  const Shape strides = row_major_strides(data.shape());
  const int64_t size = static_cast<int64_t>(size_of(data.dtype()));
  for (int64_t k = 0; k < t.count; ++k) {
    int64_t from = k / t.per_batch * t.batch_stride;
    for (size_t j = 0; j < t.length; ++j) {
      const size_t element = static_cast<size_t>(k) * t.length + j, axis = t.first_axis + j;
      const int64_t index = get_i64(indices, element);
      const auto at = fold_index(index, data.shape()[axis]);
      if (!at) return index_error(ctx.node, index, element, data.shape()[axis], axis);
      from += *at * strides[axis];
    }
    strided_copy(ctx.out().mutable_bytes().data() + k * t.slice * size, {1}, data.bytes().data() + from * size, {1},
                 {t.slice}, static_cast<size_t>(size));
  }
  return {};
}

Result<> device(WgslContext& ctx) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[0].dtype));
  const int64_t numel = ctx.out_shape().numel();
  if (numel == 0) return {};
  SINTER_CHECK_OK(check_distinct(ctx, 0, 1));
  const Shape& data = ctx.in_shape(0);
  const Tuples t = tuples(ctx.node, data, ctx.in_shape(1));
  const Shape strides = row_major_strides(data);
  const uint32_t unit = unit_elements(ctx, bytes, std::array{t.slice});
  wgsl::Writer writer("gather_nd", ctx.target);
  bind_units(writer, ctx, "a", 0, bytes * unit);
  SINTER_CHECK_OK(bind_index(writer, ctx, "indices", 1));
  bind_output_units(writer, "o", 0, bytes * unit);
  declare_fold_index(writer);
  writer.u32("slice", static_cast<uint32_t>(t.slice / unit));
  writer.u32("per_batch", static_cast<uint32_t>(t.per_batch));
  writer.u32("batch_stride", static_cast<uint32_t>(t.batch_stride / unit));
  writer.linear(static_cast<uint64_t>(numel / unit));
  writer.body("  let k = i / p.slice;\n  var src = k / p.per_batch * p.batch_stride + i % p.slice;\n");
  for (size_t j = 0; j < t.length; ++j) {
    writer.u32(wgsl::indexed("extent", j), static_cast<uint32_t>(data[t.first_axis + j]));
    writer.u32(wgsl::indexed("stride", j), static_cast<uint32_t>(strides[t.first_axis + j] / unit));
    writer.body(StrCat("  src += fold_index(", read_index(ctx, 1, "indices", StrCat("k * ", t.length, "u + ", j, "u")),
                       ", p.extent", j, ") * p.stride", j, ";\n"));
  }
  writer.body("  o[i] = a[src];\n");
  return emit(ctx, writer);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, Shape shape, int64_t batch, DType index, Shape indices,
                       std::vector<double> values) {
    cases.push_back({.name = std::move(name),
                     .attrs = make_attrs({{"batch_dims", batch}}),
                     .inputs = {{.dtype = dtype, .shape = shape, .lo = 0, .hi = 9},
                                {.dtype = index, .shape = indices, .values = std::move(values)}}});
  };
  add("elements", DType::f32, {2, 3}, 0, DType::i64, {2, 2}, {0, 2, -1, 1});
  add("slices", DType::i64, {2, 3, 4}, 0, DType::i64, {3, 1}, {1, 0, -2});
  add("batch 1", DType::f32, {2, 3, 4}, 1, DType::i32, {2, 5, 1}, {2, 0, -1, 1, 1});
  add("batch 2", DType::f16, {2, 1, 5}, 2, DType::i64, {2, 1, 1}, {4, -5});
}

}  // namespace

extern const OpDef op_gather_nd = {.name = "GatherND",
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
