// SPDX-License-Identifier: Apache-2.0
// Gather: slices of an axis picked by index.
// https://onnx.ai/onnx/operators/onnx__Gather.html (1+). Indices in [-n, n); others are InvalidInput where they are known
// before the run, and on the CPU. On the device indices computed during the run clamp to the axis.
#include <array>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// Attribute axis; operands data, indices.
Result<> infer(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const auto &data = ctx.inputs[0].shape, &indices = ctx.inputs[1].shape;
  if (!data) return {};
  const size_t axis = SINTER_TRY(checked_axis(ctx.node, ctx.attrs().i("axis", 0), data->rank()));
  if (const Tensor* known = ctx.inputs[1].constant; known && is_known((*data)[axis])) {
    for (size_t i = 0; i < known->numel(); ++i) {
      const int64_t index = get_i64(*known, i);
      if (!fold_index(index, (*data)[axis])) return index_error(ctx.node, index, i, (*data)[axis], axis);
    }
  }
  if (!indices) return {};
  SINTER_CHECK_OK(check_rank(ctx.node, data->rank() + indices->rank() - 1));
  Shape out;
  for (size_t i = 0; i < axis; ++i) out.push_back((*data)[i]);
  for (int64_t dim : *indices) out.push_back(dim);
  for (size_t i = axis + 1; i < data->rank(); ++i) out.push_back((*data)[i]);
  ctx.outputs[0].shape = out;
  return {};
}

std::optional<DimValues> gather_dims(const Node&, std::span<const TensorInfo> inputs) {
  const auto data = dim_values(inputs[0]);
  if (!data || !inputs[0].shape || inputs[0].shape->rank() != 1 || !inputs[1].constant) return std::nullopt;
  DimValues picked;
  for (int64_t index : to_ints(*inputs[1].constant)) {
    const auto at = fold_index(index, static_cast<int64_t>(data->size()));
    if (!at) return std::nullopt;
    picked.push_back((*data)[static_cast<size_t>(*at)]);
  }
  return picked;
}

struct Extents {
  size_t axis;
  int64_t outer, extent, inner;
};

Extents extents(const Node& node, const Shape& data) {
  const size_t axis = *fold_axis(node.attrs.i("axis", 0), data.rank());
  return {axis, data.product(0, axis), data[axis], data.product(axis + 1, data.rank())};
}

Result<> reference(const RefContext& ctx) {
  const Tensor &data = ctx.in(0), &indices = ctx.in(1);
  const Extents e = extents(ctx.node, data.shape());
  const int64_t count = static_cast<int64_t>(indices.numel());
  const int64_t size = static_cast<int64_t>(size_of(data.dtype()));
  const Shape rows{e.outer, e.inner};
  for (int64_t k = 0; k < count; ++k) {
    const int64_t index = get_i64(indices, static_cast<size_t>(k));
    const auto at = fold_index(index, e.extent);
    if (!at) return index_error(ctx.node, index, static_cast<size_t>(k), e.extent, e.axis);
    strided_copy(ctx.out().mutable_bytes().data() + k * e.inner * size, {count * e.inner, 1},
                 data.bytes().data() + *at * e.inner * size, {e.extent * e.inner, 1}, rows, static_cast<size_t>(size));
  }
  return {};
}

Result<> device(WgslContext& ctx) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[0].dtype));
  const int64_t numel = ctx.out_shape().numel();
  if (numel == 0) return {};
  const Extents e = extents(ctx.node, ctx.in_shape(0));
  const bool same = first_use(ctx.node, 1) == 0;  // a value that indexes itself is bound once, by element
  const uint32_t unit = same ? 1 : unit_elements(ctx, bytes, std::array{e.inner});
  wgsl::Writer writer("gather", ctx.target);
  if (same) {
    SINTER_CHECK_OK(bind_index(writer, ctx, "a", 0));
    writer.output("o", 0, wgsl::element_type(storage(ctx, ctx.outputs[0])));
  } else {
    bind_units(writer, ctx, "a", 0, bytes * unit);
    SINTER_CHECK_OK(bind_index(writer, ctx, "indices", 1));
    bind_output_units(writer, "o", 0, bytes * unit);
  }
  declare_fold_index(writer);
  writer.u32("inner", static_cast<uint32_t>(e.inner / unit));
  writer.u32("count", static_cast<uint32_t>(ctx.in_shape(1).numel()));
  writer.u32("extent", static_cast<uint32_t>(e.extent));
  writer.linear(static_cast<uint64_t>(numel / unit));
  writer.body(StrCat(
      "  let k = i / p.inner % p.count;\n  let outer = i / p.inner / p.count;\n"
      "  let at = outer * p.extent + fold_index(",
      read_index(ctx, 1, same ? "a" : "indices", "k"), ", p.extent);\n  o[i] = a[at * p.inner + i % p.inner];\n"));
  return emit(ctx, writer);
}

void cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, Shape shape, int64_t axis, DType index, Shape indices,
                       std::vector<double> values, bool constant = false) {
    cases.push_back(
        {.name = std::move(name),
         .attrs = make_attrs({{"axis", axis}}),
         .inputs = {{.dtype = dtype, .shape = shape, .lo = 0, .hi = 9},
                    {.dtype = index, .shape = indices, .values = std::move(values), .constant = constant}}});
  };
  add("rows", DType::f32, {5, 8}, 0, DType::i64, {3}, {0, 4, -1});
  add("middle axis", DType::f32, {2, 4, 3}, 1, DType::i32, {2, 2}, {1, -4, 3, 0});
  add("scalar index", DType::i64, {4}, 0, DType::i64, {}, {-1}, true);
  add("last axis", DType::boolean, {3, 5}, -1, DType::i64, {2}, {4, 1}, true);
  add("float16", DType::f16, {5, 3}, 0, DType::i32, {2}, {4, 1});
  add("no indices", DType::f32, {5, 3}, 0, DType::i32, {0}, {});
}

}  // namespace

extern const OpDef op_gather = {.name = "Gather",
                                .min_inputs = 2,
                                .max_inputs = 2,
                                .op_class = OpClass::movement,
                                .notes = "on webgpu, out-of-range indices computed during the run clamp to the axis",
                                .infer = infer,
                                .dims = gather_dims,
                                .reference = reference,
                                .wgsl = device,
                                .cases = cases};

}  // namespace sinter
