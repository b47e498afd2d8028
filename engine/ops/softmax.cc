// SPDX-License-Identifier: Apache-2.0
// ONNX Softmax, LogSoftmax and Hardmax, opset 13 and newer (import brings older forms here): along one axis, `axis` (-1).
// The largest element is subtracted first, so nothing overflows. NaN makes its whole row NaN (Hardmax: the NaN is the
// largest).
#include <cmath>

#include "engine/ops/util.h"
#include "engine/wgsl/expr_wgsl.h"

namespace sinter {

using namespace ops;

namespace {

enum class Kind : uint8_t { softmax, log_softmax, hardmax };

// The axis splits the tensor into outer x length x inner.
struct Rows {
  int64_t outer, length, inner;
  int64_t count() const { return outer * inner; }
};

Rows rows_of(const Attrs& attrs, const Shape& shape) {
  const size_t axis = *fold_axis(attrs.i("axis", -1), shape.rank());
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.rank())};
}

Result<> infer_softmax(InferContext& ctx) {
  const auto& shape = ctx.inputs[0].shape;
  const int64_t axis = ctx.attrs().i("axis", -1);
  if (shape && !fold_axis(axis, shape->rank())) {
    return bad(ctx.node, StrCat("axis ", axis, " is outside the rank of its input ", to_string(*shape)));
  }
  return infer_same(ctx);
}

template <Kind kind>
void reference_row(const Tensor& x, Tensor& y, size_t base, size_t length, size_t stride) {
  double largest = -INFINITY, sum = 0;
  size_t at_largest = 0;
  for (size_t i = 0; i < length; ++i) {
    const double v = get_f64(x, base + i * stride);
    if (!(v > largest) && !(std::isnan(v) && !std::isnan(largest))) continue;
    largest = v;
    at_largest = i;
  }
  for (size_t i = 0; kind != Kind::hardmax && i < length; ++i) sum += std::exp(get_f64(x, base + i * stride) - largest);
  for (size_t i = 0; i < length; ++i) {
    const size_t at = base + i * stride;
    const double shifted = get_f64(x, at) - largest;
    double value = i == at_largest;
    if (kind == Kind::softmax) value = std::exp(shifted) / sum;
    if (kind == Kind::log_softmax) value = shifted - std::log(sum);
    set_f64(y, at, value);
  }
}

template <Kind kind>
Result<> reference_softmax(const RefContext& ctx) {
  const Rows rows = rows_of(ctx.attrs(), ctx.out().shape());
  for (int64_t row = 0; row < rows.count(); ++row) {
    const int64_t base = row / rows.inner * rows.length * rows.inner + row % rows.inner;
    reference_row<kind>(ctx.in(0), ctx.out(), static_cast<size_t>(base), static_cast<size_t>(rows.length),
                        static_cast<size_t>(rows.inner));
  }
  return {};
}

// One thread per row, or one workgroup per row where rows are long and lie dense.
Result<> wgsl_rows(WgslContext& ctx, Kind kind) {
  const wgsl::Storage held = storage(ctx, ctx.outputs[0]);
  if (held != wgsl::Storage::f32 && held != wgsl::Storage::f16) {
    return unsupported(ctx.node, StrCat(name_of(ctx.outputs[0].dtype), " runs on the host"));
  }
  const Rows rows = rows_of(ctx.attrs(), ctx.out_shape());
  if (rows.count() * rows.length == 0) return {};
  const bool shared = rows.length >= 64 && (rows.inner == 1 || rows.count() < 256) && kind != Kind::hardmax &&
                      ctx.target.max_invocations >= 64 && !ctx.target.force_plain;
  const uint32_t threads = rows.length >= 1024 && ctx.target.max_invocations >= 256 ? 256 : 64;
  wgsl::Writer writer(StrCat(ctx.node.op->name, shared ? "_shared" : ""), ctx.target);
  bind_input(writer, ctx, "x", 0);
  bind_output(writer, ctx, "y");
  if (shared) {
    writer.groups(static_cast<uint64_t>(rows.count()), threads);
  } else {
    writer.linear(static_cast<uint64_t>(rows.count()));
  }
  writer.u32("length", static_cast<uint32_t>(rows.length));
  writer.u32("inner", static_cast<uint32_t>(rows.inner));
  const std::string row = shared ? "group" : "i";
  const std::string from = shared ? "lindex" : "0u", step = shared ? StrCat(threads, "u") : "1u";
  const std::string loop = StrCat("  for (var k = ", from, "; k < p.length; k += ", step, ") {\n");
  const std::string max = wgsl::declare_max(writer, "f32");
  const std::string is_nan = wgsl::declare_is_nan(writer, "f32");
  std::string text = StrCat("  let base = ", row, " / p.inner * p.length * p.inner + ", row, " % p.inner;\n");
  // Rows start from their first element: there is no infinity literal.
  text += "  var largest = f32(x[base]);\n";
  if (kind == Kind::hardmax) {
    text += StrCat("  var best = 0u;\n", loop, "    let v = f32(x[base + k * p.inner]);\n    if (v > largest || (",
                   is_nan, "(v) && !", is_nan, "(largest))) { largest = v; best = k; }\n  }\n", loop,
                   "    y[base + k * p.inner] = ", wgsl::element_type(held), "(select(0.0, 1.0, k == best));\n  }\n");
    writer.body(text);
    return emit(ctx, writer);
  }
  // exp need not keep NaN.
  writer.declare(StrCat("fn power(v: f32) -> f32 { return select(exp(v), v, ", is_nan, "(v)); }\n"));
  const auto combine = [&](std::string_view var, std::string_view joined) {
    if (!shared) return std::string();
    return StrCat("  part[lindex] = ", var, ";\n  workgroupBarrier();\n  for (var half = ", threads / 2,
                  "u; half > 0u; half = half / 2u) {\n    if (lindex < half) { part[lindex] = ", joined,
                  "; }\n    workgroupBarrier();\n  }\n  ", var, " = part[0];\n  workgroupBarrier();\n");
  };
  if (shared) writer.declare(StrCat("var<workgroup> part: array<f32, ", threads, ">;\n"));
  text += StrCat(loop, "    largest = ", max, "(largest, f32(x[base + k * p.inner]));\n  }\n",
                 combine("largest", StrCat(max, "(part[lindex], part[lindex + half])")), "  var sum = 0.0;\n", loop,
                 "    sum += power(f32(x[base + k * p.inner]) - largest);\n  }\n",
                 combine("sum", "part[lindex] + part[lindex + half]"));
  const std::string_view result = kind == Kind::softmax ? "power(v) / sum" : "v - offset";
  if (kind == Kind::log_softmax) text += StrCat("  let offset = select(log(sum), sum, ", is_nan, "(sum));\n");
  text += StrCat(loop, "    let v = f32(x[base + k * p.inner]) - largest;\n    y[base + k * p.inner] = ",
                 wgsl::element_type(held), "(", result, ");\n  }\n");
  writer.body(text);
  return emit(ctx, writer);
}

template <Kind kind>
Result<> wgsl_softmax(WgslContext& ctx) {
  return wgsl_rows(ctx, kind);
}

void softmax_cases(std::vector<OpCase>& out) {
  const struct {
    Shape shape;
    int64_t axis;
  } shapes[] = {
      {{2, 10}, -1},     {{1, 1000}, 1},     {{3, 1500}, 1}, {{2, 84, 5, 7}, 1}, {{7}, 0},
      {{2, 3, 1, 2}, 2}, {{2, 100, 300}, 1}, {{0, 4}, 1},    {{4, 0}, -1},       {{1, 2, 1, 2, 1, 3, 2, 2}, -3}};
  for (const auto& [shape, axis] : shapes) {
    OpCase c{.name = StrCat(to_string(shape), " axis ", axis), .inputs = {{.shape = shape, .lo = -5, .hi = 5}}};
    c.attrs.set("axis", axis);
    out.push_back(c);
  }
  out.push_back({.name = "large values", .inputs = {{.shape = {2, 4}, .values = {1000, 1001, 999, -1000}}}});
  out.push_back(
      {.name = "NaN and infinities",
       .inputs = {{.shape = {4, 3},
                   .values = {1, NAN, 2, -INFINITY, 0, 1, INFINITY, 1, 2, -INFINITY, -INFINITY, -INFINITY}}}});
  out.push_back({.name = "NaN in a long row",
                 .inputs = {{.shape = {2, 65}, .values = {1, 2, 3, NAN, 5, 6, 7, 8, 9, 10, 11, 12, 13}}}});
  out.push_back({.name = "f16", .inputs = {{.dtype = DType::f16, .shape = {3, 70}}}, .rtol = 3e-3, .atol = 1e-3});
}

void log_softmax_cases(std::vector<OpCase>& out) {
  softmax_cases(out);
  // Rounding of f16 results around -4.
  out.back().atol = 5e-3;
}

}  // namespace

extern const OpDef op_softmax{.name = "Softmax",
                              .infer = infer_softmax,
                              .reference = reference_softmax<Kind::softmax>,
                              .wgsl = wgsl_softmax<Kind::softmax>,
                              .cases = softmax_cases};

extern const OpDef op_log_softmax{.name = "LogSoftmax",
                                  .infer = infer_softmax,
                                  .reference = reference_softmax<Kind::log_softmax>,
                                  .wgsl = wgsl_softmax<Kind::log_softmax>,
                                  .cases = log_softmax_cases};

extern const OpDef op_hardmax{.name = "Hardmax",
                              .infer = infer_softmax,
                              .reference = reference_softmax<Kind::hardmax>,
                              .wgsl = wgsl_softmax<Kind::hardmax>,
                              .cases = softmax_cases};

}  // namespace sinter
