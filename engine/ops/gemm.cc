// SPDX-License-Identifier: Apache-2.0
// ONNX Gemm, opset 7 to newest: Y = alpha * A' * B' + beta * C; C broadcasts to Y's shape and may be absent.
// Attributes: alpha, beta, transA, transB. On the device: floats; integers run on the host.
#include <cmath>

#include "engine/ops/product.h"
#include "engine/ops/util.h"

namespace sinter {

using namespace ops;

namespace {

Result<> infer_gemm(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const auto &a = ctx.inputs[0].shape, &b = ctx.inputs[1].shape;
  for (const auto& shape : {a, b}) {
    if (shape && shape->rank() != 2) {
      return bad(ctx.node, StrCat("A and B must be matrices, one has shape ", to_string(*shape)));
    }
  }
  const bool ta = ctx.attrs().i("transA", 0), tb = ctx.attrs().i("transB", 0);
  if (a && b) {
    const int64_t ka = (*a)[ta ? 0 : 1], kb = (*b)[tb ? 1 : 0];
    if (is_known(ka) && is_known(kb) && ka != kb) {
      return bad(ctx.node, StrCat("inner dimensions differ: A ", to_string(*a), ta ? " transposed" : "", " and B ",
                                  to_string(*b), tb ? " transposed" : ""));
    }
  }
  const Shape y{a ? (*a)[ta ? 1 : 0] : kUnknownDim, b ? (*b)[tb ? 0 : 1] : kUnknownDim};
  if (ctx.has(2) && ctx.inputs[2].shape && y.is_static()) {
    const auto joined = broadcast(*ctx.inputs[2].shape, y);
    if (!joined || !(*joined == y)) {
      return bad(ctx.node, StrCat("C ", to_string(*ctx.inputs[2].shape), " does not broadcast to the result's shape ",
                                  to_string(y)));
    }
  }
  ctx.outputs[0].shape = y;
  return {};
}

Product gemm_product(const Attrs& attrs, const Shape& a, const Shape& y, const Shape* c) {
  Product p;
  const bool ta = attrs.i("transA", 0), tb = attrs.i("transB", 0);
  p.m = y[0];
  p.n = y[1];
  p.k = a[ta ? 0 : 1];
  p.a = {0, ta ? 1 : p.k, ta ? p.m : 1, {}};
  p.b = {1, tb ? 1 : p.n, tb ? p.k : 1, {}};
  p.alpha = attrs.f("alpha", 1);
  p.beta = attrs.f("beta", 1);
  p.has_c = c != nullptr;
  if (c) {
    const Shape strides = broadcast_strides(*c, y);
    p.c = {2, strides[0], strides[1], {}};
  }
  return p;
}

Result<> reference_gemm(const RefContext& ctx) {
  const Shape* c = ctx.has(2) ? &ctx.in(2).shape() : nullptr;
  return reference_product(ctx, gemm_product(ctx.attrs(), ctx.in(0).shape(), ctx.out().shape(), c));
}

Result<> wgsl_gemm(WgslContext& ctx) {
  const Shape* c = ctx.has(2) ? &ctx.in_shape(2) : nullptr;
  return wgsl_product(ctx, gemm_product(ctx.attrs(), ctx.in_shape(0), ctx.out_shape(), c));
}

OpCase gemm_case(std::string name, Shape a, Shape b, std::optional<Shape> c, bool ta, bool tb) {
  OpCase out{.name = std::move(name), .inputs = {{.shape = a}, {.shape = b, .constant = true}}};
  if (c) out.inputs.push_back({.shape = *c, .constant = true});
  out.attrs.set("transA", int64_t{ta});
  out.attrs.set("transB", int64_t{tb});
  return out;
}

void gemm_cases(std::vector<OpCase>& out) {
  out.push_back(gemm_case("the smallest one that waited", {1, 4}, {3, 4}, Shape{3}, false, true));
  out.push_back(gemm_case("classifier", {1, 130}, {10, 130}, Shape{10}, false, true));
  out.push_back(gemm_case("classifier, vectors, batch 3", {3, 64}, {12, 64}, Shape{12}, false, true));
  out.push_back(gemm_case("few rows, B not transposed", {2, 65}, {65, 36}, Shape{36}, false, false));
  out.push_back(gemm_case("few rows, odd columns", {5, 40}, {40, 7}, Shape{1, 7}, false, false));
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      const auto shape = [](bool t, int64_t r, int64_t c) { return t ? Shape{c, r} : Shape{r, c}; };
      const std::string name = StrCat(ta ? "transA " : "", tb ? "transB " : "");
      out.push_back(gemm_case(StrCat(name, "tails"), shape(ta, 13, 19), shape(tb, 19, 17), Shape{13, 1}, ta, tb));
      out.push_back(gemm_case(StrCat(name, "vectors"), shape(ta, 36, 20), shape(tb, 20, 72), Shape{72}, ta, tb));
    }
  }
  out.push_back(gemm_case("no C", {3, 2}, {2, 5}, std::nullopt, false, false));
  out.push_back(gemm_case("scalar C", {2, 3}, {3, 4}, Shape{}, false, false));
  OpCase scaled = gemm_case("alpha and beta", {17, 9}, {9, 18}, Shape{17, 18}, false, false);
  scaled.attrs.set("alpha", 0.25f);
  scaled.attrs.set("beta", 0.5f);
  out.push_back(scaled);
  OpCase ignored = gemm_case("beta 0 ignores C", {2, 3}, {3, 4}, Shape{4}, false, false);
  ignored.inputs[2].values = {INFINITY};
  ignored.attrs.set("beta", 0.0f);
  out.push_back(ignored);
  out.push_back(gemm_case("inner dimension 0", {2, 0}, {0, 3}, Shape{3}, false, false));
  out.push_back(gemm_case("no rows", {0, 4}, {4, 3}, Shape{3}, false, false));
  for (const int64_t n : {8, 7}) {  // both widths of the tiled kernel, and few rows
    for (const int64_t m : {1, 24}) {
      OpCase residual =
          gemm_case(StrCat("residual add and relu [", m, ",", n, "]"), {m, 40}, {n, 40}, Shape{n}, false, true);
      residual.inputs.push_back({.shape = {m, n}});
      residual.epilogue_first = 3;
      Expr& e = residual.expr;
      e.unary(ScalarOp::relu, e.binary(ScalarOp::add, e.input(0), e.input(1)));
      out.push_back(residual);
    }
  }
  OpCase gated = gemm_case("no C, scaled tanh epilogue", {9, 16}, {16, 12}, std::nullopt, false, false);
  gated.inputs.push_back({.absent = true});
  gated.inputs.push_back({.shape = {9, 12}});
  gated.epilogue_first = 3;
  Expr& e = gated.expr;
  e.binary(ScalarOp::mul, e.unary(ScalarOp::tanh, e.input(0)), e.input(1));
  out.push_back(gated);
  for (const int64_t m : {1, 20}) {
    OpCase half = gemm_case(StrCat("f16, ", m, " rows"), {m, 64}, {12, 64}, Shape{12}, false, true);
    for (auto& input : half.inputs) input.dtype = DType::f16;
    half.rtol = 5e-3;
    half.atol = 5e-3;
    out.push_back(half);
  }
}

}  // namespace

extern const OpDef op_gemm{.name = "Gemm",
                           .first_opset = 7,
                           .min_inputs = 2,
                           .max_inputs = 3,
                           .notes = "integers run on the host",
                           .accepts_epilogue = true,
                           .infer = infer_gemm,
                           .reference = reference_gemm,
                           .wgsl = wgsl_gemm,
                           .cases = gemm_cases};

}  // namespace sinter
