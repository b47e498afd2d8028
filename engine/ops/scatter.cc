// SPDX-License-Identifier: Apache-2.0
// ScatterElements, ScatterND: a copy of the data with updates written, or combined, at indices.
// https://onnx.ai/onnx/operators/onnx__ScatterElements.html (11+; 9 as Scatter), ScatterND (11+). Out-of-range indices: as Gather. Two updates
// of one element without reduction: the last wins on the CPU, either on the device (ONNX leaves it open).
#include <algorithm>
#include <array>
#include <cstring>

#include "engine/ops/movement.h"
#include "engine/ops/movement_wgsl.h"
#include "engine/wgsl/expr_wgsl.h"

namespace sinter {
namespace {

using namespace ops;

// Attribute reduction, as a scalar expression of the old value (input 0) and the update (input 1); empty: the update.
Result<Expr> reduction(const Node& node) {
  const std::string_view name = node.attrs.s("reduction", "none");
  Expr expr;
  if (name == "none") return expr;
  constexpr std::pair<std::string_view, ScalarOp> kOps[] = {
      {"add", ScalarOp::add}, {"mul", ScalarOp::mul}, {"min", ScalarOp::min}, {"max", ScalarOp::max}};
  for (const auto& [key, op] : kOps) {
    if (key != name) continue;
    const uint16_t old = expr.input(0), update = expr.input(1);
    expr.binary(op, old, update);
    return expr;
  }
  return bad(node, StrCat("unknown reduction '", name, "'"), "reductions are none, add, mul, min and max");
}

void combine(const Expr& expr, Tensor& out, size_t at, const Tensor& updates, size_t from) {
  if (expr.empty()) {
    const size_t size = size_of(out.dtype());
    std::memcpy(out.mutable_bytes().data() + at * size, updates.bytes().data() + from * size, size);
  } else if (is_float(out.dtype())) {
    set_f64(out, at, expr.eval(std::array{get_f64(out, at), get_f64(updates, from)}));
  } else {
    set_i64(out, at, expr.eval(std::array{get_i64(out, at), get_i64(updates, from)}));
  }
}

Result<> infer_scatter(InferContext& ctx) {
  SINTER_CHECK_OK(reduction(ctx.node));
  if (ctx.inputs[2].dtype != ctx.inputs[0].dtype) {
    return bad(ctx.node, StrCat("updates are ", name_of(ctx.inputs[2].dtype), ", data ", name_of(ctx.inputs[0].dtype)));
  }
  return infer_same(ctx);
}

bool same_where_known(const Shape& a, const Shape& b) {
  bool same = a.rank() == b.rank();
  for (size_t i = 0; same && i < a.rank(); ++i) same = a[i] == b[i] || !is_known(a[i]) || !is_known(b[i]);
  return same;
}

// What both write on the device: `o[at]` from update `from`, in a loop over what may hit one element when a reduction
// must see its updates one after the other.
struct Scatter {
  wgsl::Writer writer;
  std::string store;  // WGSL statement
};

Result<Scatter> begin_scatter(WgslContext& ctx, std::string_view name, const Expr& expr, uint32_t unit_bytes) {
  const wgsl::Storage form = storage(ctx, ctx.inputs[0]);
  const DType dtype = ctx.inputs[0].dtype;
  const bool reduces = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::i32 || dtype == DType::u32;
  if (!expr.empty() && !reduces)
    return unsupported(ctx.node, StrCat("a reduction of ", name_of(dtype), " on the device"));
  SINTER_CHECK_OK(check_distinct(ctx, 1, 2));
  Scatter scatter{wgsl::Writer(name, ctx.target), ""};
  wgsl::Writer& writer = scatter.writer;
  SINTER_CHECK_OK(bind_index(writer, ctx, "indices", 1));
  if (expr.empty()) {
    bind_units(writer, ctx, "updates", 2, unit_bytes);
    bind_output_units(writer, "o", 0, unit_bytes);
    scatter.store = "o[at] = updates[src];\n";
  } else {
    bind_input(writer, ctx, "updates", 2);
    bind_output(writer, ctx, "o");
    const std::string_view type = form == wgsl::Storage::f16 ? "f32" : wgsl::element_type(form);
    const std::string function = wgsl::declare_expr(writer, expr, 2, type);
    scatter.store = StrCat("o[at] = ", wgsl::element_type(form), "(", function, "(", type, "(o[at]), ", type,
                           "(updates[src])));\n");
  }
  declare_fold_index(writer);
  return scatter;
}

// --- ScatterElements: attributes axis, reduction; operands data, indices, updates.

Result<> infer_elements(InferContext& ctx) {
  SINTER_CHECK_OK(infer_scatter(ctx));
  if (!ctx.inputs[0].shape || !ctx.inputs[1].shape || !ctx.inputs[2].shape) return {};
  const Shape &data = *ctx.inputs[0].shape, &indices = *ctx.inputs[1].shape, &updates = *ctx.inputs[2].shape;
  const size_t axis = SINTER_TRY(checked_axis(ctx.node, ctx.attrs().i("axis", 0), data.rank()));
  bool fits = data.rank() == indices.rank() && same_where_known(indices, updates);
  for (size_t i = 0; fits && i < data.rank(); ++i) {
    fits = i == axis || !is_known(data[i]) || !is_known(indices[i]) || indices[i] <= data[i];
  }
  if (!fits) {
    return bad(ctx.node, StrCat("indices ", to_string(indices), " and updates ", to_string(updates),
                                " do not fit data ", to_string(data), " along axis ", axis));
  }
  if (const Tensor* known = ctx.inputs[1].constant; known && is_known(data[axis])) {
    for (size_t i = 0; i < known->numel(); ++i) {
      const int64_t index = get_i64(*known, i);
      if (!fold_index(index, data[axis])) return index_error(ctx.node, index, i, data[axis], axis);
    }
  }
  return {};
}

Result<> reference_elements(const RefContext& ctx) {
  const Tensor& indices = ctx.in(1);
  const Shape &dims = indices.shape(), &data = ctx.in(0).shape();
  const Shape strides = row_major_strides(data);
  const size_t axis = *fold_axis(ctx.attrs().i("axis", 0), data.rank()), n = indices.numel();
  const Expr expr = SINTER_TRY(reduction(ctx.node));
  copy_all(ctx.in(0), ctx.out());
  for (size_t i = 0; i < n; ++i) {
    const int64_t index = get_i64(indices, i);
    const auto folded = fold_index(index, data[axis]);
    if (!folded) return index_error(ctx.node, index, i, data[axis], axis);
    int64_t at = *folded * strides[axis], rest = static_cast<int64_t>(i);
    for (size_t d = dims.rank(); d-- > 0; rest /= dims[d]) {
      if (d != axis) at += rest % dims[d] * strides[d];
    }
    combine(expr, ctx.out(), static_cast<size_t>(at), ctx.in(2), i);
  }
  return {};
}

Result<> device_elements(WgslContext& ctx) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[0].dtype));
  SINTER_CHECK_OK(emit_alias(ctx));
  const Shape &data = ctx.in_shape(0), &indices = ctx.in_shape(1);
  if (indices.numel() == 0) return {};
  const Expr expr = SINTER_TRY(reduction(ctx.node));
  auto [writer, store] = SINTER_TRY(begin_scatter(ctx, "scatter_elements", expr, bytes));
  const size_t axis = *fold_axis(ctx.attrs().i("axis", 0), data.rank());
  Shape to = row_major_strides(data), from = row_major_strides(indices), threads = indices;
  writer.u32("extent", static_cast<uint32_t>(data[axis]));
  writer.u32("to_stride", static_cast<uint32_t>(to[axis]));
  writer.u32("from_stride", static_cast<uint32_t>(from[axis]));
  // Updates of one element lie along the axis: a thread each, or one for all.
  writer.u32("steps", static_cast<uint32_t>(expr.empty() ? 1 : indices[axis]));
  if (!expr.empty()) threads[axis] = 1;
  to[axis] = 0;
  writer.linear(static_cast<uint64_t>(threads.numel()));
  writer.offsets("i", merge_axes(threads, std::array{to, from}), {"base", "src"});
  writer.body(StrCat("  for (var step = 0u; step < p.steps; step++) {\n    let at = base + fold_index(",
                     read_index(ctx, 1, "indices", "src"), ", p.extent) * p.to_stride;\n    ", store,
                     "    src += p.from_stride;\n  }\n"));
  return emit(ctx, writer);
}

void elements_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, int64_t axis, std::string_view reduction, Shape data,
                       Shape indices, std::vector<double> values) {
    cases.push_back({.name = std::move(name),
                     .attrs = make_attrs({{"axis", axis}, {"reduction", std::string(reduction)}}),
                     .inputs = {{.dtype = dtype, .shape = data, .lo = -9, .hi = 9},
                                {.dtype = DType::i64, .shape = indices, .values = std::move(values)},
                                {.dtype = dtype, .shape = indices, .lo = -9, .hi = 9}}});
  };
  add("axis 1", DType::f32, 1, "none", {2, 5}, {2, 2}, {1, 3, 0, -1});
  add("axis 0, int64", DType::i64, 0, "none", {3, 3}, {2, 3}, {1, 0, 2, 0, 2, 1});
  add("bool", DType::boolean, 0, "none", {4}, {2}, {1, -4});
  add("add", DType::f32, 1, "add", {2, 5}, {2, 3}, {1, 1, 0, 4, -1, 4});
  add("mul int32", DType::i32, 0, "mul", {3, 2}, {4, 2}, {1, 0, 1, 0, 2, 1, 1, 1});
  add("min", DType::f32, -1, "min", {6}, {5}, {0, 0, 2, 5, 5});
  add("max float16", DType::f16, 0, "max", {6}, {5}, {0, 0, 2, 5, 5});
}

// --- ScatterND: attribute reduction; operands data, indices [tuples..., length], updates [tuples..., slice...].

Result<> infer_nd(InferContext& ctx) {
  SINTER_CHECK_OK(infer_scatter(ctx));
  if (!ctx.inputs[0].shape || !ctx.inputs[1].shape) return {};
  const Shape &data = *ctx.inputs[0].shape, &indices = *ctx.inputs[1].shape;
  if (indices.rank() == 0 || data.rank() == 0) return bad(ctx.node, "data and indices need an axis");
  const int64_t length = indices[indices.rank() - 1];
  if (!is_known(length)) return {};
  if (length > static_cast<int64_t>(data.rank())) {
    return bad(ctx.node, StrCat("indices ", to_string(indices), " name more axes than data ", to_string(data), " has"));
  }
  SINTER_CHECK_OK(check_rank(ctx.node, indices.rank() - 1 + data.rank() - static_cast<size_t>(length)));
  Shape expected;
  for (size_t i = 0; i + 1 < indices.rank(); ++i) expected.push_back(indices[i]);
  for (size_t i = static_cast<size_t>(length); i < data.rank(); ++i) expected.push_back(data[i]);
  if (ctx.inputs[2].shape && !same_where_known(*ctx.inputs[2].shape, expected)) {
    return bad(ctx.node, StrCat("updates ", to_string(*ctx.inputs[2].shape), " must have shape ", to_string(expected)));
  }
  if (const Tensor* known = ctx.inputs[1].constant) {
    for (size_t i = 0; i < known->numel(); ++i) {
      const size_t axis = i % static_cast<size_t>(length);
      const int64_t index = get_i64(*known, i);
      if (is_known(data[axis]) && !fold_index(index, data[axis]))
        return index_error(ctx.node, index, i, data[axis], axis);
    }
  }
  return {};
}

struct Tuples {
  size_t length;
  int64_t count, slice;
};

Tuples tuples(const Shape& data, const Shape& indices) {
  const size_t length = static_cast<size_t>(indices[indices.rank() - 1]);
  return {length, indices.product(0, indices.rank() - 1), data.product(length, data.rank())};
}

Result<> reference_nd(const RefContext& ctx) {
  const Shape& data = ctx.in(0).shape();
  const Tuples t = tuples(data, ctx.in(1).shape());
  const Shape strides = row_major_strides(data);
  const Expr expr = SINTER_TRY(reduction(ctx.node));
  copy_all(ctx.in(0), ctx.out());
  for (int64_t k = 0; k < t.count; ++k) {
    int64_t at = 0;
    for (size_t axis = 0; axis < t.length; ++axis) {
      const size_t element = static_cast<size_t>(k) * t.length + axis;
      const int64_t index = get_i64(ctx.in(1), element);
      const auto folded = fold_index(index, data[axis]);
      if (!folded) return index_error(ctx.node, index, element, data[axis], axis);
      at += *folded * strides[axis];
    }
    for (int64_t j = 0; j < t.slice; ++j) {
      combine(expr, ctx.out(), static_cast<size_t>(at + j), ctx.in(2), static_cast<size_t>(k * t.slice + j));
    }
  }
  return {};
}

Result<> device_nd(WgslContext& ctx) {
  const uint32_t bytes = SINTER_TRY(element_bytes(ctx, ctx.inputs[0].dtype));
  SINTER_CHECK_OK(emit_alias(ctx));
  const Shape& data = ctx.in_shape(0);
  const Tuples t = tuples(data, ctx.in_shape(1));
  if (t.count * t.slice == 0) return {};
  const Expr expr = SINTER_TRY(reduction(ctx.node));
  const uint32_t unit = expr.empty() ? unit_elements(ctx, bytes, std::array{t.slice}) : 1;
  auto [writer, store] = SINTER_TRY(begin_scatter(ctx, "scatter_nd", expr, bytes * unit));
  const Shape strides = row_major_strides(data);
  const int64_t slice = t.slice / unit;
  writer.u32("slice", static_cast<uint32_t>(slice));
  // Without reduction a thread writes one unit of one slice; with one it goes through all tuples in order.
  writer.u32("steps", static_cast<uint32_t>(expr.empty() ? 1 : t.count));
  writer.linear(static_cast<uint64_t>(expr.empty() ? t.count * slice : slice));
  writer.body(
      "  for (var k = i / p.slice; k < i / p.slice + p.steps; k++) {\n    var at = i % p.slice;\n    let src = k * "
      "p.slice + at;\n");
  for (size_t j = 0; j < t.length; ++j) {
    writer.u32(wgsl::indexed("extent", j), static_cast<uint32_t>(data[j]));
    writer.u32(wgsl::indexed("stride", j), static_cast<uint32_t>(strides[j] / unit));
    writer.body(StrCat("    at += fold_index(", read_index(ctx, 1, "indices", StrCat("k * ", t.length, "u + ", j, "u")),
                       ", p.extent", j, ") * p.stride", j, ";\n"));
  }
  writer.body(StrCat("    ", store, "  }\n"));
  return emit(ctx, writer);
}

void nd_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, DType dtype, std::string_view reduction, Shape data, Shape indices,
                       std::vector<double> values, Shape updates) {
    cases.push_back({.name = std::move(name),
                     .attrs = make_attrs({{"reduction", std::string(reduction)}}),
                     .inputs = {{.dtype = dtype, .shape = data, .lo = -9, .hi = 9},
                                {.dtype = DType::i64, .shape = indices, .values = std::move(values)},
                                {.dtype = dtype, .shape = updates, .lo = -9, .hi = 9}}});
  };
  add("elements", DType::f32, "none", {8}, {4, 1}, {4, 3, 1, -1}, {4});
  add("slices", DType::f32, "none", {4, 4, 4}, {2, 1}, {0, 2}, {2, 4, 4});
  add("int64 pairs", DType::i64, "none", {2, 3}, {2, 2}, {0, 2, -1, 0}, {2});
  add("add", DType::f32, "add", {4, 3}, {3, 1}, {1, 1, -1}, {3, 3});
  add("mul int32", DType::i32, "mul", {4}, {3, 1}, {1, 1, 3}, {3});
  add("min float16", DType::f16, "min", {4, 2}, {3, 1}, {1, 1, 3}, {3, 2});
  add("max", DType::f32, "max", {4, 2}, {3, 2}, {1, 1, 3, 0, 1, 1}, {3});
}

}  // namespace

extern const OpDef op_scatter_elements = {
    .name = "ScatterElements",
    .first_opset = 9,  // as Scatter
    .min_inputs = 3,
    .max_inputs = 3,
    .notes = "on webgpu, out-of-range indices computed during the run clamp to the axis",
    .infer = infer_elements,
    .reference = reference_elements,
    .wgsl = device_elements,
    .cases = elements_cases};

extern const OpDef op_scatter_nd = {
    .name = "ScatterND",
    .first_opset = 11,
    .min_inputs = 3,
    .max_inputs = 3,
    .notes = "on webgpu, out-of-range indices computed during the run clamp to the axis",
    .infer = infer_nd,
    .reference = reference_nd,
    .wgsl = device_nd,
    .cases = nd_cases};

}  // namespace sinter
