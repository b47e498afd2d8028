// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/testing.h"
#include "engine/tensor/strides.h"

namespace sinter::cpu {
namespace {

using testing::Call;
using testing::everywhere;
using testing::expect_near;
using testing::random;

const OpDef kMatMul{.name = "MatMul", .accepts_epilogue = true};
const OpDef kGemm{.name = "Gemm", .accepts_epilogue = true};

Node node_of(const OpDef& op, size_t inputs) {
  Node node;
  node.name = op.name;
  node.op = &op;
  node.inputs.resize(inputs);
  node.outputs = {9};
  return node;
}

struct Product {
  Shape a, b;
};

// numpy.matmul by plain loops over flat indices.
std::pair<Shape, std::vector<double>> expected_product(const Tensor& a_in, const Tensor& b_in) {
  Shape a = a_in.shape(), b = b_in.shape();
  const bool a_vector = a.rank() == 1, b_vector = b.rank() == 1;
  if (a_vector) a.insert(0, 1);
  if (b_vector) b.push_back(1);
  const int64_t m = a[a.rank() - 2], k = a[a.rank() - 1], n = b[b.rank() - 1];
  const Shape a_batch(a.dims().first(a.rank() - 2)), b_batch(b.dims().first(b.rank() - 2));
  const Shape batch = *broadcast(a_batch, b_batch);
  const Shape a_strides = broadcast_strides(a_batch, batch), b_strides = broadcast_strides(b_batch, batch);
  std::vector<double> y;
  for (int64_t i = 0; i < batch.numel(); ++i) {
    int64_t left = i, a_at = 0, b_at = 0;
    for (size_t axis = batch.rank(); axis-- > 0;) {
      a_at += left % batch[axis] * a_strides[axis];
      b_at += left % batch[axis] * b_strides[axis];
      left /= batch[axis];
    }
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (int64_t d = 0; d < k; ++d) {
          sum += static_cast<double>(a_in.data<float>()[(a_at * m + r) * k + d]) *
                 b_in.data<float>()[(b_at * k + d) * n + c];
        }
        y.push_back(sum);
      }
    }
  }
  Shape out = batch;
  if (!a_vector) out.push_back(m);
  if (!b_vector) out.push_back(n);
  return {out, y};
}

TEST(MatMulKernel, AgreesWithPlainLoops) {
  std::vector<Product> products = {
      {{5}, {5}},
      {{5}, {5, 7}},
      {{6, 5}, {5}},
      {{3, 2, 5}, {5}},
      {{5}, {3, 5, 4}},
      {{2, 3, 4, 5}, {5, 6}},
      {{2, 3, 4, 5}, {2, 3, 5, 6}},
      {{2, 1, 4, 5}, {1, 3, 5, 6}},
      {{4, 5}, {3, 5, 6}},
      {{1, 3, 4, 5}, {2, 1, 5, 6}},
      {{60, 33}, {33, 130}},
      {{1, 300}, {300, 1000}},
      {{257, 1}, {1, 17}},
  };
  for (int64_t rows : {1, 2, 3, 5, 7, 8, 9, 13}) {
    for (int64_t columns : {1, 2, 3, 5, 7, 16, 17, 48, 64, 112}) products.push_back({{rows, 6}, {6, columns}});
  }
  for (const Product& product : products) {
    const Tensor a = random(product.a, 1), b = random(product.b, 2);
    const auto [shape, y] = expected_product(a, b);
    for (const bool constant : {true, false}) {
      SCOPED_TRACE(StrCat(to_string(product.a), " x ", to_string(product.b), constant ? " constant" : ""));
      const Call call{node_of(kMatMul, 2), {a, b}, {false, constant}, shape, "matmul_f32"};
      everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), y, 1e-5); });
      if (HasFatalFailure()) return;
    }
  }
}

TEST(MatMulKernel, BatchesGetTheirPartOfTheEpilogue) {
  const Tensor a = random({3, 4, 5}, 1), b = random({3, 5, 6}, 2), r = random({3, 4, 6}, 3);
  auto [shape, y] = expected_product(a, b);
  for (const bool general : {true, false}) {
    Call call{node_of(kMatMul, 3), {a, b, r}, {}, shape, "matmul_f32"};
    Expr& e = call.node.expr;
    const auto x = e.input(0);
    const auto sum = e.binary(general ? ScalarOp::mul : ScalarOp::add, x, e.input(1));
    e.unary(ScalarOp::relu, sum);
    call.node.epilogue_first = 2;
    std::vector<double> z(y.size());
    for (size_t i = 0; i < z.size(); ++i) {
      const double operand = r.data<float>()[i];
      z[i] = std::max(0.0, general ? y[i] * operand : y[i] + operand);
    }
    everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), z, 1e-5); });
  }
}

struct GemmCase {
  int64_t m, k, n;
  bool trans_a, trans_b;
  float alpha, beta;
  Shape c;  // rank 8 marker: absent
};

const Shape kAbsent = Shape::filled(8, 1);

std::vector<GemmCase> gemm_cases() {
  std::vector<GemmCase> cases = {{1, 4, 3, false, true, 1, 1, {3}}};
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const Shape& c :
           {kAbsent, Shape{}, Shape{1}, Shape{11}, Shape{1, 11}, Shape{5, 1}, Shape{5, 11}, Shape{1, 1}}) {
        cases.push_back({5, 7, 11, trans_a, trans_b, 0.5f, -2.0f, c});
        cases.push_back({5, 7, 11, trans_a, trans_b, 1.0f, 1.0f, c});
      }
    }
  }
  cases.push_back({1, 6, 1, false, true, 2, 3, {1}});
  cases.push_back({6, 3, 1, false, false, 2, 3, {6, 1}});
  cases.push_back({70, 50, 100, true, true, 1, 1, {100}});
  return cases;
}

TEST(GemmKernel, AgreesWithPlainLoops) {
  for (const GemmCase& g : gemm_cases()) {
    const Tensor a = random(g.trans_a ? Shape{g.k, g.m} : Shape{g.m, g.k}, 1);
    const Tensor b = random(g.trans_b ? Shape{g.n, g.k} : Shape{g.k, g.n}, 2);
    const bool has_c = !(g.c == kAbsent);
    const Tensor c = has_c ? random(g.c, 3) : Tensor();
    const Shape c_strides = has_c ? broadcast_strides(g.c, {g.m, g.n}) : Shape{0, 0};
    std::vector<double> y;
    for (int64_t r = 0; r < g.m; ++r) {
      for (int64_t col = 0; col < g.n; ++col) {
        double sum = 0;
        for (int64_t d = 0; d < g.k; ++d) {
          sum += static_cast<double>(a.data<float>()[g.trans_a ? d * g.m + r : r * g.k + d]) *
                 b.data<float>()[g.trans_b ? col * g.k + d : d * g.n + col];
        }
        y.push_back(g.alpha * sum + (has_c ? g.beta * c.data<float>()[r * c_strides[0] + col * c_strides[1]] : 0));
      }
    }
    const Tensor residual = random({g.m, g.n}, 4);
    for (const bool constant : {true, false}) {
      for (const bool add : {false, true}) {
        SCOPED_TRACE(StrCat(g.m, "x", g.k, "x", g.n, g.trans_a ? " A'" : "", g.trans_b ? " B'" : "", " C ",
                            has_c ? to_string(g.c) : "absent", constant ? " constant" : "", add ? " added to" : ""));
        Call call{node_of(kGemm, 3), {a, b, c}, {false, constant, constant}, {g.m, g.n}, "gemm_f32"};
        call.node.attrs.set("transA", int64_t{g.trans_a});
        call.node.attrs.set("transB", int64_t{g.trans_b});
        call.node.attrs.set("alpha", g.alpha);
        call.node.attrs.set("beta", g.beta);
        std::vector<double> z = y;
        if (add) {
          call.inputs.push_back(residual);
          call.node.inputs.resize(4);
          call.node.epilogue_first = 3;
          Expr& e = call.node.expr;
          const auto x = e.input(0);
          e.unary(ScalarOp::relu, e.binary(ScalarOp::add, x, e.input(1)));
          for (size_t i = 0; i < z.size(); ++i) z[i] = std::max(0.0, z[i] + residual.data<float>()[i]);
        }
        everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), z, 1e-5); });
        if (HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace sinter::cpu
