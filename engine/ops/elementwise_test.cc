// SPDX-License-Identifier: Apache-2.0
// Elementwise operators: the shapes and types they give, and values that ONNX Runtime gives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_run.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t A = symbol_dim(0);

TEST(Elementwise, BroadcastsWithSymbols) {
  const auto add = [](std::optional<Shape> a, std::optional<Shape> b) {
    return OpRun("Add").symbolic(DType::f32, a).symbolic(DType::f32, b).shape();
  };
  EXPECT_EQ(add(Shape{A, 1, 4}, Shape{3, 1}), "[A,3,4]");
  EXPECT_EQ(add(Shape{A, 4}, Shape{A, 4}), "[A,4]");
  EXPECT_EQ(add(Shape{2, 0}, Shape{2, 1}), "[2,0]");
  EXPECT_THAT(add(Shape{2, 3}, Shape{4}), HasSubstr("[2,3] and [4] cannot be broadcast together"));
}

TEST(Elementwise, RefusesMixedTypes) {
  EXPECT_THAT(OpRun("Add").symbolic(DType::f32, Shape{1}).symbolic(DType::i64, Shape{1}).shape(),
              StartsWith("InvalidModel: Add: operands have different types, float32 and int64"));
  EXPECT_THAT(OpRun("Where")
                  .symbolic(DType::boolean, Shape{1})
                  .symbolic(DType::f32, Shape{1})
                  .symbolic(DType::f16, Shape{1})
                  .shape(),
              StartsWith("InvalidModel"));
}

TEST(Elementwise, TypesFollowFromTheExpression) {
  const auto dtype = [](OpRun& op) { return (*op.infer())[0].dtype; };
  EXPECT_EQ(dtype(OpRun("Less").symbolic(DType::i64, Shape{2}).symbolic(DType::i64, Shape{2})), DType::boolean);
  EXPECT_EQ(dtype(OpRun("IsNaN").symbolic(DType::f16, Shape{2})), DType::boolean);
  EXPECT_EQ(dtype(OpRun("Pow").symbolic(DType::i32, Shape{2}).symbolic(DType::f32, Shape{2})), DType::i32);
  EXPECT_EQ(dtype(OpRun("Where")
                      .symbolic(DType::boolean, Shape{2})
                      .symbolic(DType::i64, Shape{2})
                      .symbolic(DType::i64, Shape{})),
            DType::i64);
}

TEST(Elementwise, NarrowIntegersWrap) {
  const auto add = [](DType dtype, double a, double b) {
    return OpRun("Add").input(tensor_of(dtype, {1}, {a})).input(tensor_of(dtype, {1}, {b})).result();
  };
  EXPECT_EQ(add(DType::u8, 200, 100), "uint8[1]{44}");
  EXPECT_EQ(add(DType::i8, 100, 100), "int8[1]{-56}");
  EXPECT_EQ(add(DType::i32, 2147483647, 1), "int32[1]{-2147483648}");
}

TEST(Elementwise, Int64IsExact) {
  EXPECT_EQ(OpRun("Sub").input(int64s({9007199254740993})).input(int64s({1})).result(), "int64[1]{9007199254740992}");
  EXPECT_EQ(OpRun("Equal").input(int64s({9007199254740993})).input(int64s({9007199254740992})).result(), "bool[1]{0}");
}

TEST(Elementwise, DivisionAndRemainder) {
  const auto run = [](std::string_view op, int64_t fmod) {
    OpRun row(op, {{"fmod", fmod}});
    return row.input(int64s({-7, 7, -7, 5})).input(int64s({2, -2, -2, 0})).result();
  };
  EXPECT_EQ(run("Div", 0), "int64[4]{-3,-3,3,0}");
  EXPECT_EQ(run("Mod", 0), "int64[4]{1,-1,-1,0}");
  EXPECT_EQ(run("Mod", 1), "int64[4]{-1,1,-1,0}");
}

TEST(Elementwise, ClipTakesAbsentBounds) {
  const Tensor x = floats({4}, {-2, 0.5, 3, NAN});
  EXPECT_EQ(OpRun("Clip").input(x).input(floats({}, {0})).result(), "float32[4]{0,0.5,3,nan}");
  EXPECT_EQ(OpRun("Clip").input(x).absent().input(floats({}, {1})).result(), "float32[4]{-2,0.5,1,nan}");
  EXPECT_EQ(OpRun("Clip").input(x).input(floats({}, {2})).input(floats({}, {1})).result(), "float32[4]{1,1,1,nan}");
  EXPECT_THAT(OpRun("Clip").symbolic(DType::f32, Shape{4}).symbolic(DType::f32, Shape{4}).shape(),
              HasSubstr("min must be one number"));
}

TEST(Elementwise, MeanDividesByTheNumberOfInputs) {
  EXPECT_EQ(OpRun("Mean").input(floats({2}, {1, 2})).input(floats({1}, {4})).input(floats({2}, {4, 6})).result(),
            "float32[2]{3,4}");
  EXPECT_EQ(OpRun("Max").input(floats({2}, {1, NAN})).input(floats({2}, {NAN, 2})).result(), "float32[2]{nan,nan}");
}

TEST(Elementwise, PowOfMixedTypes) {
  EXPECT_EQ(OpRun("Pow").input(floats({3}, {1, 2, 3})).input(int64s({4, 5, 6})).result(), "float32[3]{1,32,729}");
  EXPECT_EQ(OpRun("Pow").input(int64s({2, 3})).input(floats({2}, {0.5, 2})).result(), "int64[2]{1,9}");
}

TEST(Elementwise, InfinitiesByDirection) {
  const auto is_inf = [](int64_t negative, int64_t positive) {
    OpRun op("IsInf", {{"detect_negative", negative}, {"detect_positive", positive}});
    return op.input(floats({4}, {-INFINITY, INFINITY, NAN, 1})).result();
  };
  EXPECT_EQ(is_inf(1, 1), "bool[4]{1,1,0,0}");
  EXPECT_EQ(is_inf(1, 0), "bool[4]{1,0,0,0}");
  EXPECT_EQ(is_inf(0, 1), "bool[4]{0,1,0,0}");
  EXPECT_EQ(is_inf(0, 0), "bool[4]{0,0,0,0}");
}

TEST(Elementwise, WhereDoesNotMixInWhatIsNotTaken) {
  EXPECT_EQ(OpRun("Where")
                .input(tensor_of(DType::boolean, {2}, {1, 0}))
                .input(floats({2}, {1, NAN}))
                .input(floats({}, {7}))
                .result(),
            "float32[2]{1,7}");
}

// Values of onnxruntime 1.26 on the CPU at -2, -0.5, 0, 0.75, 3.
void expect_values(OpRun op, std::initializer_list<double> expected) {
  auto run = op.input(floats({5}, {-2, -0.5, 0, 0.75, 3})).run();
  ASSERT_TRUE(run);
  size_t i = 0;
  for (double value : expected) {
    EXPECT_NEAR(get_f64((*run)[0], i), value, 2e-6) << i;
    ++i;
  }
}

TEST(Activations, HaveOnnxRuntimesValues) {
  expect_values(OpRun("Gelu"), {-0.04550028, -0.1542688, 0.0, 0.5800295, 2.99595});
  expect_values(OpRun("Gelu", {{"approximate", "tanh"}}), {-0.04540235, -0.154286, 0.0, 0.5799606, 2.996363});
  expect_values(OpRun("Mish"), {-0.2525015, -0.2207438, 0.0, 0.6100184, 2.986536});
  expect_values(OpRun("Elu", {{"alpha", 0.7f}}), {-0.6052653, -0.2754285, 0.0, 0.75, 3.0});
  expect_values(OpRun("Selu"), {-1.520167, -0.6917582, 0.0, 0.7880257, 3.152103});
  expect_values(OpRun("HardSigmoid"), {0.1, 0.4, 0.5, 0.65, 1.0});
  expect_values(OpRun("HardSwish"), {-0.3333333, -0.2083333, 0.0, 0.46875, 3.0});
  expect_values(OpRun("Softplus"), {0.126928, 0.474077, 0.6931472, 1.136871, 3.048587});
  expect_values(OpRun("Softsign"), {-0.6666667, -0.3333333, 0.0, 0.4285715, 0.75});
  expect_values(OpRun("Erf"), {-0.9953223, -0.5204999, 0.0, 0.7111557, 0.9999779});
  expect_values(OpRun("Celu", {{"alpha", 2.0f}}), {-1.264241, -0.4423984, 0.0, 0.75, 3.0});
  expect_values(OpRun("LeakyRelu", {{"alpha", 0.2f}}), {-0.4, -0.1, 0.0, 0.75, 3.0});
  expect_values(OpRun("ThresholdedRelu", {{"alpha", 0.5f}}), {0.0, 0.0, 0.0, 0.75, 3.0});
  expect_values(OpRun("Shrink", {{"lambd", 0.6f}, {"bias", 0.25f}}), {-1.75, 0.0, 0.0, 0.5, 2.75});
  expect_values(OpRun("Sigmoid"), {0.1192029, 0.3775407, 0.5, 0.6791787, 0.9525741});
  expect_values(OpRun("Tanh"), {-0.9640276, -0.4621172, 0.0, 0.635149, 0.9950547});
}

}  // namespace
}  // namespace sinter::testing
