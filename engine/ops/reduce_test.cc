// SPDX-License-Identifier: Apache-2.0
// Reductions, Softmax, ArgMax: numpy's shapes and values, and the cases on which engines differ.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/op_run.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t A = symbol_dim(0);

TEST(Reduce, Shapes) {
  const auto shape = [](const Shape& in, std::initializer_list<int64_t> axes, int64_t keepdims) {
    OpRun op("ReduceSum", {{"keepdims", keepdims}});
    return op.symbolic(DType::f32, in).constant(int64s(axes)).shape();
  };
  EXPECT_EQ(shape({A, 3, 4}, {1, -1}, 1), "[A,1,1]");
  EXPECT_EQ(shape({A, 3, 4}, {1, -1}, 0), "[A]");
  EXPECT_EQ(shape({2, 3}, {}, 0), "[]");
  EXPECT_THAT(shape({2, 3}, {2}, 1), StartsWith("InvalidModel: ReduceSum: axis 2 is outside rank 2"));
  EXPECT_EQ(OpRun("ReduceSum").symbolic(DType::f32, Shape{2, 3}).symbolic(DType::i64, Shape{1}).shape(), "[?,?]");
}

TEST(Reduce, NoAxesAndNoOpKeepTheShape) {
  OpRun op("ReduceL1", {{"keepdims", int64_t{0}}, {"noop_with_empty_axes", int64_t{1}}});
  EXPECT_EQ(op.input(floats({1}, {-3})).constant(int64s({})).result(), "float32[1]{3}");
  OpRun squares("ReduceSumSquare", {{"noop_with_empty_axes", int64_t{1}}});
  EXPECT_EQ(squares.input(floats({2}, {-3, 2})).result(), "float32[2]{9,4}");
}

TEST(Reduce, Values) {
  const auto run = [](std::string_view op) {
    OpRun row(op, {{"keepdims", int64_t{0}}});
    return row.input(floats({2, 3}, {1, -2, 2, 0, 3, 4})).constant(int64s({1})).result();
  };
  EXPECT_EQ(run("ReduceSum"), "float32[2]{1,7}");
  EXPECT_EQ(run("ReduceMax"), "float32[2]{2,4}");
  EXPECT_EQ(run("ReduceMin"), "float32[2]{-2,0}");
  EXPECT_EQ(run("ReduceProd"), "float32[2]{-4,0}");
  EXPECT_EQ(run("ReduceL1"), "float32[2]{5,7}");
  EXPECT_EQ(run("ReduceL2"), "float32[2]{3,5}");
  EXPECT_EQ(run("ReduceSumSquare"), "float32[2]{9,25}");
}

TEST(Reduce, LogSumExpDoesNotOverflow) {
  auto run = OpRun("ReduceLogSumExp").input(floats({2}, {1000, 1000})).run();
  ASSERT_TRUE(run);
  EXPECT_NEAR(get_f64((*run)[0], 0), 1000 + std::log(2), 1e-4);
  EXPECT_EQ(OpRun("ReduceLogSumExp").input(floats({2}, {-INFINITY, -INFINITY})).result(), "float32[1]{-inf}");
}

TEST(Reduce, NanWinsInEitherPlace) {
  for (const std::string_view op : {"ReduceMax", "ReduceMin"}) {
    OpRun row(op, {{"keepdims", int64_t{0}}});
    EXPECT_EQ(row.input(floats({2, 2}, {NAN, 1, 2, NAN})).constant(int64s({1})).result(), "float32[2]{nan,nan}");
  }
}

TEST(Reduce, OfNothing) {
  const auto run = [](std::string_view op, DType dtype) {
    OpRun row(op, {{"keepdims", int64_t{0}}});
    return row.input(tensor_of(dtype, {1, 0}, {})).constant(int64s({1})).result();
  };
  EXPECT_EQ(run("ReduceSum", DType::f32), "float32[1]{0}");
  EXPECT_EQ(run("ReduceProd", DType::f32), "float32[1]{1}");
  EXPECT_EQ(run("ReduceMax", DType::f32), "float32[1]{-inf}");
  EXPECT_EQ(run("ReduceMax", DType::i8), "int8[1]{-128}");
  EXPECT_EQ(run("ReduceMin", DType::u16), "uint16[1]{65535}");
  EXPECT_EQ(run("ReduceMax", DType::boolean), "bool[1]{0}");
  EXPECT_EQ(run("ReduceLogSumExp", DType::f32), "float32[1]{-inf}");
}

TEST(Reduce, IntegersStayExact) {
  EXPECT_EQ(OpRun("ReduceSum").input(int64s({9007199254740993, 1})).result(), "int64[1]{9007199254740994}");
  EXPECT_EQ(OpRun("ReduceMean").input(int64s({7, -2})).result(), "int64[1]{2}");
}

TEST(Softmax, AnyAxis) {
  auto run = OpRun("Softmax", {{"axis", int64_t{0}}}).input(floats({2, 2}, {0, 1000, 0, 1001})).run();
  ASSERT_TRUE(run);
  const double expected[] = {0.5, 0.26894142, 0.5, 0.73105858};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(get_f64((*run)[0], i), expected[i], 1e-6);
  EXPECT_THAT(OpRun("Softmax", {{"axis", int64_t{2}}}).symbolic(DType::f32, Shape{2, 2}).shape(),
              StartsWith("InvalidModel: Softmax: axis 2 is outside"));
}

TEST(Softmax, NanMakesItsRowNan) {
  EXPECT_EQ(OpRun("Softmax").input(floats({2, 2}, {NAN, 1, 3, 3})).result(), "float32[2,2]{nan,nan,0.5,0.5}");
  EXPECT_EQ(OpRun("Hardmax").input(floats({2, 3}, {1, 3, 3, 0, -1, -2})).result(), "float32[2,3]{0,1,0,1,0,0}");
}

TEST(ArgMax, TiesAndNan) {
  const auto run = [](std::string_view op, int64_t last) {
    OpRun row(op, {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}, {"select_last_index", last}});
    return row.input(floats({3, 3}, {2, 2, 1, 1, NAN, 3, 5, 6, 5})).result();
  };
  EXPECT_EQ(run("ArgMax", 0), "int64[3]{0,1,1}");
  EXPECT_EQ(run("ArgMax", 1), "int64[3]{1,1,1}");
  EXPECT_EQ(run("ArgMin", 0), "int64[3]{2,1,0}");
  EXPECT_EQ(run("ArgMin", 1), "int64[3]{2,1,2}");
  EXPECT_THAT(OpRun("ArgMax").symbolic(DType::f32, Shape{0, 2}).shape(), HasSubstr("has no elements"));
}

TEST(CumSum, DirectionsAndOwnElement) {
  const auto run = [](int64_t exclusive, int64_t reverse) {
    OpRun op("CumSum", {{"exclusive", exclusive}, {"reverse", reverse}});
    return op.input(int64s({1, 2, 3})).constant(int64s({0})).result();
  };
  EXPECT_EQ(run(0, 0), "int64[3]{1,3,6}");
  EXPECT_EQ(run(1, 0), "int64[3]{0,1,3}");
  EXPECT_EQ(run(0, 1), "int64[3]{6,5,3}");
  EXPECT_EQ(run(1, 1), "int64[3]{5,3,0}");
}

}  // namespace
}  // namespace sinter::testing
