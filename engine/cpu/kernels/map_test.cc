// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "engine/cpu/kernels/program.h"
#include "engine/cpu/testing.h"
#include "engine/tensor/strides.h"

namespace sinter::cpu {
namespace {

using testing::Call;
using testing::everywhere;
using testing::expect_near;
using testing::random;

const OpDef kMap{.name = "Map", .domain = "sinter", .max_inputs = -1, .op_class = OpClass::elementwise};

Call map_call(Expr expr, std::vector<Tensor> inputs, const Shape& out) {
  Call call{{}, std::move(inputs), {}, out, "map_f32"};
  call.node.name = "map";
  call.node.op = &kMap;
  call.node.expr = std::move(expr);
  call.node.inputs.resize(call.inputs.size());
  call.node.outputs = {9};
  return call;
}

// The expression's own scalar definition, in double.
std::vector<double> expected(const Call& call) {
  std::vector<Shape> strides;
  for (const Tensor& input : call.inputs) strides.push_back(broadcast_strides(input.shape(), call.output));
  std::vector<double> y;
  std::vector<double> values(call.inputs.size());
  for (int64_t i = 0; i < call.output.numel(); ++i) {
    for (size_t k = 0; k < values.size(); ++k) {
      int64_t left = i, at = 0;
      for (size_t axis = call.output.rank(); axis-- > 0;) {
        at += left % call.output[axis] * strides[k][axis];
        left /= call.output[axis];
      }
      values[k] = call.inputs[k].data<float>()[at];
    }
    y.push_back(call.node.expr.eval(std::span<const double>(values)));
  }
  return y;
}

Expr unary(ScalarOp op) {
  Expr e;
  e.unary(op, e.input(0));
  return e;
}
Expr binary(ScalarOp op) {
  Expr e;
  const auto a = e.input(0);
  e.binary(op, a, e.input(1));
  return e;
}

Tensor specials() {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {nan,      inf,   -inf,  0.0f,   -0.0f,  1.0f,   -1.0f, 0.5f,   2.5f,
                                     -2.5f,    3.5f,  88.5f, -87.2f, 100.0f, -104.f, 1e-3f, -1e-3f, 1e-30f,
                                     3.0e-39f, 1e30f, 9.5f,  -9.5f,  0.62f,  -0.63f, 20.0f, -20.f,  1e-7f};
  Tensor tensor = testing::make(DType::f32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.mutable_data<float>().begin());
  return tensor;
}

constexpr ScalarOp kLastUnary = ScalarOp::is_inf, kFirstBinary = ScalarOp::add, kLastBinary = ScalarOp::prelu;

bool of_integers(ScalarOp op) {
  switch (op) {
    case ScalarOp::bit_not:
    case ScalarOp::bit_and:
    case ScalarOp::bit_or:
    case ScalarOp::bit_xor:
    case ScalarOp::shift_left:
    case ScalarOp::shift_right:
      return true;
    default:
      return false;
  }
}

template <class F>
void each_op(ScalarOp first, ScalarOp last, F&& f) {
  for (int op = static_cast<int>(first); op <= static_cast<int>(last); ++op) {
    if (!of_integers(static_cast<ScalarOp>(op))) f(static_cast<ScalarOp>(op));
  }
}

// Results in single precision: what overflows there is infinite, what underflows is nearly zero.
std::vector<double> in_float(std::vector<double> values) {
  for (double& value : values) value = static_cast<float>(value);
  return values;
}

TEST(MapKernel, EveryUnaryOperation) {
  each_op(ScalarOp::neg, kLastUnary, [](ScalarOp op) {
    SCOPED_TRACE(name_of(op));
    for (const Tensor& x :
         {specials(), random({3, 333}, 1, -1, 1), random({777}, 2, -12, 12), random({777}, 3, 0, 4)}) {
      const Call call = map_call(unary(op), {x}, x.shape());
      // Far from zero, trigonometry in single precision differs from the definition only by the argument's rounding.
      everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), in_float(expected(call)), 1e-6); });
    }
  });
}

TEST(MapKernel, EveryBinaryOperation) {
  const Tensor x = specials();
  const int64_t n = x.shape()[0];
  each_op(kFirstBinary, kLastBinary, [&](ScalarOp op) {
    SCOPED_TRACE(name_of(op));
    // All pairs of special values, NaN on either side included.
    const Call pairs = map_call(binary(op), {x.reshaped({n, 1}), x}, {n, n});
    everywhere([&](unsigned threads) { expect_near(testing::run(pairs, threads), in_float(expected(pairs)), 1e-6); });
    const Call plain = map_call(binary(op), {random({5, 67}, 1, 0.1f, 2), random({5, 67}, 2, 0.1f, 2)}, {5, 67});
    everywhere([&](unsigned threads) { expect_near(testing::run(plain, threads), in_float(expected(plain)), 1e-6); });
  });
}

TEST(MapKernel, Broadcasting) {
  struct Shapes {
    Shape a, b, out;
  };
  const Shapes list[] = {
      {{}, {}, {}},
      {{1}, {1}, {1}},
      {{5}, {}, {5}},
      {{2, 3, 4}, {4}, {2, 3, 4}},
      {{2, 3, 4}, {3, 1}, {2, 3, 4}},
      {{2, 1, 4}, {1, 3, 1}, {2, 3, 4}},
      {{40, 50, 3}, {3}, {40, 50, 3}},
      {{7, 9, 130}, {130}, {7, 9, 130}},
      {{7, 9, 130}, {7, 9, 1}, {7, 9, 130}},
      {{7, 1, 130}, {9, 1}, {7, 9, 130}},
      {{3, 2100}, {3, 1}, {3, 2100}},
      {{1, 2, 1, 2, 1, 2, 1, 2}, {2, 1, 2, 1, 2, 1, 2, 1}, Shape::filled(8, 2)},
      {{100, 1000}, {100, 1000}, {100, 1000}},
      {{300, 300}, {1, 300}, {300, 300}},
  };
  for (const Shapes& shapes : list) {
    SCOPED_TRACE(StrCat(to_string(shapes.a), " and ", to_string(shapes.b)));
    const Call call = map_call(binary(ScalarOp::sub), {random(shapes.a, 1), random(shapes.b, 2)}, shapes.out);
    everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), expected(call), 1e-6); });
  }
}

TEST(MapKernel, DeepExpressionsReuseTheirSlots) {
  // A chain needs two slots, a tree of depth 6 keeps several alive.
  Expr chain;
  auto at = chain.input(0);
  for (int i = 0; i < 200; ++i) {
    at = chain.binary(i % 2 ? ScalarOp::add : ScalarOp::mul, at, i % 3 ? chain.constant(0.75) : chain.input(1));
  }
  Expr tree;
  std::vector<uint16_t> level;
  for (int i = 0; i < 64; ++i) level.push_back(tree.unary(ScalarOp::tanh, tree.input(static_cast<uint16_t>(i % 2))));
  while (level.size() > 1) {
    std::vector<uint16_t> next;
    for (size_t i = 0; i < level.size(); i += 2) next.push_back(tree.binary(ScalarOp::add, level[i], level[i + 1]));
    level = next;
  }
  for (const Expr& expr : {chain, tree}) {
    ASSERT_TRUE(Program::make(expr).has_value());
    const Call call = map_call(expr, {random({1000, 3}, 1), random({3}, 2)}, {1000, 3});
    everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), expected(call), 1e-4); });
  }
}

TEST(MapKernel, IdentityConstantAndSelect) {
  Expr identity, constant, select;
  identity.input(0);
  constant.constant(2.5);
  const auto condition = select.binary(ScalarOp::less, select.input(0), select.constant(0));
  select.select(condition, select.input(1), select.constant(7));
  const Tensor x = random({4, 9}, 1), y = random({9}, 2);
  for (const Expr& expr : {identity, constant, select}) {
    const Call call = map_call(expr, {x, y}, {4, 9});
    everywhere([&](unsigned threads) { expect_near(testing::run(call, threads), expected(call), 1e-6); });
  }
}

TEST(Program, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(Program::make(Expr()).has_value());
  Expr many;
  auto at = many.input(0);
  for (uint16_t i = 1; i <= Program::kMaxInputs; ++i) at = many.binary(ScalarOp::add, at, many.input(i));
  EXPECT_FALSE(Program::make(many).has_value());
  // 80 values alive at once.
  Expr wide;
  std::vector<uint16_t> alive;
  for (int i = 0; i < 80; ++i) alive.push_back(wide.unary(ScalarOp::exp, wide.input(0)));
  uint16_t sum = alive[0];
  for (int i = 1; i < 80; ++i) sum = wide.binary(ScalarOp::add, sum, alive[i]);
  EXPECT_FALSE(Program::make(wide).has_value());
}

}  // namespace
}  // namespace sinter::cpu
