// SPDX-License-Identifier: Apache-2.0
// ONNX MatMul, opset 1 to newest: numpy's matmul. Vectors are matrices of one row or column that the result drops; leading
// axes broadcast. On the device: floats; integers run on the host.
#include "engine/ops/product.h"
#include "engine/ops/util.h"

namespace sinter {

using namespace ops;

namespace {

struct Operands {
  Shape a, b;  // as matrices
  bool vector_a, vector_b;
};

Operands as_matrices(Shape a, Shape b) {
  Operands out{a, b, a.rank() == 1, b.rank() == 1};
  if (out.vector_a) out.a = {1, a[0]};
  if (out.vector_b) out.b = {b[0], 1};
  return out;
}

Shape batch_of(const Shape& shape) { return Shape(shape.dims().first(shape.rank() - 2)); }

Result<> infer_matmul(InferContext& ctx) {
  ctx.outputs[0].dtype = ctx.inputs[0].dtype;
  const auto &a = ctx.inputs[0].shape, &b = ctx.inputs[1].shape;
  if (!a || !b) return {};
  const auto refuse = [&](std::string_view why) {
    return bad(ctx.node, StrCat(why, ": ", to_string(*a), " and ", to_string(*b)));
  };
  if (a->rank() == 0 || b->rank() == 0) return refuse("operands must not be scalars");
  const Operands m = as_matrices(*a, *b);
  const int64_t ka = m.a[m.a.rank() - 1], kb = m.b[m.b.rank() - 2];
  if (is_known(ka) && is_known(kb) && ka != kb) return refuse("inner dimensions differ");
  auto y = broadcast(batch_of(m.a), batch_of(m.b));
  if (!y) return refuse("leading dimensions cannot be broadcast together");
  if (!m.vector_a) y->push_back(m.a[m.a.rank() - 2]);
  if (!m.vector_b) y->push_back(m.b[m.b.rank() - 1]);
  ctx.outputs[0].shape = y;
  return {};
}

Product matmul_product(const Shape& a_shape, const Shape& b_shape) {
  const Operands operands = as_matrices(a_shape, b_shape);
  const Shape &a = operands.a, &b = operands.b;
  Product p;
  p.m = a[a.rank() - 2];
  p.k = a[a.rank() - 1];
  p.n = b[b.rank() - 1];
  p.batch = *broadcast(batch_of(a), batch_of(b));
  const auto strides = [&](const Shape& matrix) {
    Shape found = broadcast_strides(batch_of(matrix), p.batch);
    for (size_t i = 0; i < found.rank(); ++i) found[i] *= matrix.product(matrix.rank() - 2, matrix.rank());
    return found;
  };
  p.a = {0, p.k, 1, strides(a)};
  p.b = {1, p.n, 1, strides(b)};
  return p;
}

Result<> reference_matmul(const RefContext& ctx) {
  return reference_product(ctx, matmul_product(ctx.in(0).shape(), ctx.in(1).shape()));
}

Result<> wgsl_matmul(WgslContext& ctx) { return wgsl_product(ctx, matmul_product(ctx.in_shape(0), ctx.in_shape(1))); }

void matmul_cases(std::vector<OpCase>& out) {
  const struct {
    Shape a, b;
  } shapes[] = {{{3, 4}, {4, 5}},
                {{1, 1}, {1, 1}},
                {{2, 33, 20}, {20, 36}},     // B shared: the batch folds into the rows
                {{2, 3, 20, 33}, {33, 17}},  // the same with tails
                {{2, 1, 9, 8}, {3, 8, 12}},  // both broadcast
                {{1, 18, 7}, {5, 7, 21}},    // A shared
                {{4, 1, 64}, {4, 64, 40}},   // one row a batch
                {{7}, {7}},                  // dot product
                {{70}, {70, 9}},
                {{2, 5, 70}, {70}},  // matrix times vector
                {{3, 4}, {2, 4, 1}},
                {{2, 0}, {0, 3}},
                {{0, 3}, {3, 2}},
                {{2, 1, 2, 1, 3, 1, 4, 5}, {1, 2, 1, 2, 1, 3, 5, 6}}};
  for (const auto& [a, b] : shapes) {
    out.push_back({.name = StrCat(to_string(a), " ", to_string(b)), .inputs = {{.shape = a}, {.shape = b}}});
  }
  out.push_back({.name = "weight", .inputs = {{.shape = {40, 32}}, {.shape = {32, 64}, .constant = true}}});
  OpCase biased{.name = "bias and clamp epilogue",
                .inputs = {{.shape = {2, 20, 16}}, {.shape = {16, 24}, .constant = true}, {.shape = {2, 20, 24}}},
                .epilogue_first = 2};
  Expr& e = biased.expr;
  const uint16_t low = e.binary(ScalarOp::max, e.binary(ScalarOp::add, e.input(0), e.input(1)), e.constant(-0.5));
  e.binary(ScalarOp::min, low, e.constant(0.5));
  out.push_back(biased);
  out.push_back({.name = "f16",
                 .inputs = {{.dtype = DType::f16, .shape = {2, 20, 24}}, {.dtype = DType::f16, .shape = {2, 24, 16}}},
                 .rtol = 5e-3,
                 .atol = 5e-3});
  out.push_back({.name = "f16 whose sums overflow f16 on the way",
                 .inputs = {{.dtype = DType::f16, .shape = {1, 64}, .values = {300, -300}},
                            {.dtype = DType::f16, .shape = {64, 4}, .values = {250}}},
                 .rtol = 5e-3,
                 .atol = 1});
  out.push_back({.name = "i32 on the host",
                 .inputs = {{.dtype = DType::i32, .shape = {2, 3}, .lo = -9, .hi = 9},
                            {.dtype = DType::i32, .shape = {3, 2}, .lo = -9, .hi = 9}}});
}

}  // namespace

extern const OpDef op_matmul{.name = "MatMul",
                             .min_inputs = 2,
                             .max_inputs = 2,
                             .notes = "integers run on the host",
                             .accepts_epilogue = true,
                             .infer = infer_matmul,
                             .reference = reference_matmul,
                             .wgsl = wgsl_matmul,
                             .cases = matmul_cases};

}  // namespace sinter
