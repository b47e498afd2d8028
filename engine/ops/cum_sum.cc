// SPDX-License-Identifier: Apache-2.0
// ONNX CumSum, opset 11 to newest: running sums along the axis in input 1. Attributes: exclusive, reverse.
// On the device: floats and integers up to 32 bits, the axis known when planning.
#include "engine/ops/util.h"

namespace sinter {

using namespace ops;

namespace {

Result<> infer_cum_sum(InferContext& ctx) { return infer_same(ctx); }

// First element of each row, the step along it, and the row's length.
struct Rows {
  int64_t count, length, inner;
};

Result<Rows> rows_of(const Node& node, const Shape& shape, const Tensor& axis) {
  if (axis.numel() != 1)
    return bad(node, StrCat("the axis must be one number, its shape is ", to_string(axis.shape())));
  const int64_t given = get_i64(axis, 0);
  const auto folded = fold_axis(given, shape.rank());
  if (!folded) return bad(node, StrCat("axis ", given, " is outside the rank of its input ", to_string(shape)));
  const int64_t inner = shape.product(*folded + 1, shape.rank());
  return Rows{shape.product(0, *folded) * inner, shape[*folded], inner};
}

template <class T>
void scan(const Tensor& x, Tensor& y, const Rows& rows, bool exclusive, bool reverse, auto&& get, auto&& set) {
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t base = row / rows.inner * rows.length * rows.inner + row % rows.inner;
    T sum = 0;
    for (int64_t i = 0; i < rows.length; ++i) {
      const auto at = static_cast<size_t>(base + (reverse ? rows.length - 1 - i : i) * rows.inner);
      const T v = static_cast<T>(get(x, at));
      const T before = sum;
      sum += v;
      set(y, at, exclusive ? before : sum);
    }
  }
}

Result<> reference_cum_sum(const RefContext& ctx) {
  const Rows rows = SINTER_TRY(rows_of(ctx.node, ctx.in(0).shape(), ctx.in(1)));
  const bool exclusive = ctx.attrs().i("exclusive", 0), reverse = ctx.attrs().i("reverse", 0);
  if (is_float(ctx.out().dtype())) {
    scan<double>(ctx.in(0), ctx.out(), rows, exclusive, reverse, get_f64, set_f64);
  } else {  // integers wrap
    scan<uint64_t>(ctx.in(0), ctx.out(), rows, exclusive, reverse, get_i64,
                   [](Tensor& y, size_t at, uint64_t v) { set_i64(y, at, static_cast<int64_t>(v)); });
  }
  return {};
}

Result<> wgsl_cum_sum(WgslContext& ctx) {
  if (!ctx.inputs[1].constant) return unsupported(ctx.node, "the axis is computed while the model runs");
  std::string_view type;
  const wgsl::Storage held = storage(ctx, ctx.outputs[0]);
  switch (held) {
    case wgsl::Storage::f32:
    case wgsl::Storage::f16:
      type = "f32";
      break;
    case wgsl::Storage::i32:
      type = "i32";
      break;
    case wgsl::Storage::u32:
      type = "u32";
      break;
    default:
      return unsupported(ctx.node, StrCat(name_of(ctx.outputs[0].dtype), " arithmetic runs on the host"));
  }
  const Rows rows = SINTER_TRY(rows_of(ctx.node, ctx.in_shape(0), *ctx.inputs[1].constant));
  if (rows.count * rows.length == 0) return {};
  wgsl::Writer writer("CumSum", ctx.target);
  bind_input(writer, ctx, "x", 0);
  bind_output(writer, ctx, "y");
  writer.linear(static_cast<uint64_t>(rows.count));
  writer.u32("length", static_cast<uint32_t>(rows.length));
  writer.u32("inner", static_cast<uint32_t>(rows.inner));
  const bool reverse = ctx.attrs().i("reverse", 0);
  // Stepping back works by wrap-around.
  writer.u32("first", reverse ? static_cast<uint32_t>((rows.length - 1) * rows.inner) : 0);
  writer.u32("step", static_cast<uint32_t>(reverse ? -rows.inner : rows.inner));
  const bool exclusive = ctx.attrs().i("exclusive", 0);
  writer.body(StrCat("  var at = i / p.inner * p.length * p.inner + i % p.inner + p.first;\n  var sum = ", type,
                     "(0);\n  for (var k = 0u; k < p.length; k++) {\n    let before = sum;\n    sum += ", type,
                     "(x[at]);\n    y[at] = ", wgsl::element_type(held), "(", exclusive ? "before" : "sum",
                     ");\n    at += p.step;\n  }\n"));
  return emit(ctx, writer);
}

void cum_sum_cases(std::vector<OpCase>& out) {
  for (const int64_t exclusive : {0, 1}) {
    for (const int64_t reverse : {0, 1}) {
      OpCase c{.name = StrCat("exclusive ", exclusive, " reverse ", reverse)};
      c.inputs = {{.shape = {2, 5, 3}}, {.dtype = DType::i32, .shape = {}, .values = {-2}, .constant = true}};
      c.attrs.set("exclusive", exclusive);
      c.attrs.set("reverse", reverse);
      out.push_back(c);
    }
  }
  const OpCase::Input axis{.dtype = DType::i64, .shape = {1}, .values = {0}, .constant = true};
  out.push_back({.name = "i32", .inputs = {{.dtype = DType::i32, .shape = {7}, .lo = -9, .hi = 9}, axis}});
  out.push_back({.name = "empty", .inputs = {{.shape = {0, 3}}, axis}});
}

}  // namespace

extern const OpDef op_cum_sum{.name = "CumSum",
                              .first_opset = 11,
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .infer = infer_cum_sum,
                              .reference = reference_cum_sum,
                              .wgsl = wgsl_cum_sum,
                              .cases = cum_sum_cases};

}  // namespace sinter
