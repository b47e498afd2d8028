// SPDX-License-Identifier: Apache-2.0
// Reshape, Flatten, Squeeze, Unsqueeze, Shape, Size: the shapes they give, with symbols and concrete.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_run.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t A = symbol_dim(0), B = symbol_dim(1);

std::string reshape(const Shape& in, std::initializer_list<int64_t> to, int64_t allowzero = 0) {
  return OpRun("Reshape", {{"allowzero", allowzero}}).symbolic(DType::f32, in).constant(int64s(to)).shape();
}

TEST(Reshape, ZeroCopiesAndMinusOneTakesTheRest) {
  EXPECT_EQ(reshape({2, 3, 4}, {0, -1}), "[2,12]");
  EXPECT_EQ(reshape({2, 3, 4}, {4, 0, 2}), "[4,3,2]");
  EXPECT_EQ(reshape({1}, {}), "[]");
}

TEST(Reshape, SymbolsSurviveWhereTheyCancel) {
  EXPECT_EQ(reshape({A, 3, 4}, {0, -1}), "[A,12]");
  EXPECT_EQ(reshape({A, 3, 4}, {-1, 12}), "[A,12]");
  EXPECT_EQ(reshape({A, 3, 4}, {-1, 6}), "[?,6]");
  EXPECT_EQ(reshape({A, B, 4}, {0, 0, 2, 2}), "[A,B,2,2]");
  EXPECT_EQ(reshape({A, B}, {-1}), "[?]");
  EXPECT_EQ(reshape({kUnknownDim, 3}, {0, -1}), "[?,3]");
}

TEST(Reshape, EmptyTensors) {
  EXPECT_EQ(reshape({0, 3}, {0, -1}), "[0,3]");
  EXPECT_EQ(reshape({0, 3, 4}, {3, 4, 0}, 1), "[3,4,0]");
  EXPECT_EQ(reshape({0, 3}, {-1, 3}), "[0,3]");
}

TEST(Reshape, RefusesWhatDoesNotFit) {
  EXPECT_THAT(reshape({2, 3}, {4}), StartsWith("InvalidModel: Reshape: input [2,3] does not fit shape [4]"));
  EXPECT_THAT(reshape({2, 3}, {-1, 4}), StartsWith("InvalidModel"));
  EXPECT_THAT(reshape({6}, {-1, -1}), HasSubstr("one -1"));
  EXPECT_THAT(reshape({6}, {-2, 3}), HasSubstr("no other negative"));
  EXPECT_THAT(reshape({6}, {6, 0}), HasSubstr("copies axis 1"));
  EXPECT_THAT(reshape({0}, {0, -1}, 1), HasSubstr("allowzero"));
  EXPECT_THAT(reshape({1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}), StartsWith("Unsupported"));
}

TEST(Reshape, ShapeComputedWhileRunning) {
  OpRun op("Reshape");
  op.symbolic(DType::f32, Shape{2, 3}).symbolic(DType::i64, Shape{3});
  EXPECT_EQ(op.shape(), "[?,?,?]");
  EXPECT_THAT(op.shape(true),
              StartsWith("Unsupported: Reshape: the output's shape depends on the contents of input 1"));
}

TEST(Reshape, KeepsElementsInOrder) {
  EXPECT_EQ(OpRun("Reshape").input(counting({2, 3}, DType::u8)).constant(int64s({3, -1})).result(),
            "uint8[3,2]{0,1,2,3,4,5}");
}

TEST(Flatten, EveryAxis) {
  const auto flatten = [](const Shape& in, int64_t axis) {
    return OpRun("Flatten", {{"axis", axis}}).symbolic(DType::f32, in).shape();
  };
  EXPECT_EQ(flatten({2, 3, 4}, 0), "[1,24]");
  EXPECT_EQ(flatten({2, 3, 4}, 2), "[6,4]");
  EXPECT_EQ(flatten({2, 3, 4}, 3), "[24,1]");
  EXPECT_EQ(flatten({2, 3, 4}, -1), "[6,4]");
  EXPECT_EQ(flatten({}, 0), "[1,1]");
  EXPECT_EQ(flatten({A, 3, 4}, 1), "[A,12]");
  EXPECT_EQ(flatten({A, B, 4}, 2), "[?,4]");
  EXPECT_THAT(flatten({2, 3}, 3), StartsWith("InvalidModel"));
  EXPECT_EQ(OpRun("Flatten").symbolic(DType::f32, std::nullopt).shape(), "[?,?]");
}

TEST(Squeeze, WithAndWithoutAxes) {
  EXPECT_EQ(OpRun("Squeeze").symbolic(DType::f32, Shape{1, 3, 1}).shape(), "[3]");
  EXPECT_EQ(OpRun("Squeeze").symbolic(DType::f32, Shape{1, A, 1}).shape(), "rank ?");
  EXPECT_EQ(OpRun("Squeeze").symbolic(DType::f32, Shape{A, 1, 3}).constant(int64s({-2})).shape(), "[A,3]");
  EXPECT_EQ(OpRun("Squeeze").symbolic(DType::f32, Shape{A, 1, 3}).symbolic(DType::i64, Shape{1}).shape(), "[?,?]");
  EXPECT_THAT(OpRun("Squeeze").symbolic(DType::f32, Shape{2, 3}).constant(int64s({0})).shape(),
              HasSubstr("not of extent 1"));
  EXPECT_THAT(OpRun("Squeeze").symbolic(DType::f32, Shape{1, 1}).constant(int64s({0, -2})).shape(), HasSubstr("twice"));
}

TEST(Unsqueeze, AxesInAnyOrderAndAsScalar) {
  const auto unsqueeze = [](Tensor axes) {
    return OpRun("Unsqueeze").symbolic(DType::f32, Shape{A, 3}).constant(std::move(axes)).shape();
  };
  EXPECT_EQ(unsqueeze(int64s({3, 0})), "[1,A,3,1]");
  EXPECT_EQ(unsqueeze(int64s({-1, 1})), "[A,1,3,1]");
  EXPECT_EQ(unsqueeze(int64s({}, {1})), "[A,1,3]");
  EXPECT_THAT(unsqueeze(int64s({0, 0})), HasSubstr("twice"));
  EXPECT_THAT(unsqueeze(int64s({4})), StartsWith("InvalidModel"));
  EXPECT_EQ(OpRun("Unsqueeze").symbolic(DType::f32, Shape{2}).symbolic(DType::i64, Shape{2}).shape(), "[?,?,?]");
}

TEST(ShapeOp, StartAndEndClampLikeASlice) {
  const auto shape = [](int64_t start, int64_t end) {
    return OpRun("Shape", {{"start", start}, {"end", end}}).input(counting({2, 3, 4})).result();
  };
  EXPECT_EQ(OpRun("Shape").input(counting({2, 3, 4})).result(), "int64[3]{2,3,4}");
  EXPECT_EQ(shape(1, 2), "int64[1]{3}");
  EXPECT_EQ(shape(-1, 9), "int64[1]{4}");
  EXPECT_EQ(shape(-9, -1), "int64[2]{2,3}");
  EXPECT_EQ(shape(2, 1), "int64[0]{}");
  EXPECT_EQ(OpRun("Shape").input(floats({}, {5})).result(), "int64[0]{}");
}

TEST(SizeOp, CountsElements) {
  EXPECT_EQ(OpRun("Size").input(counting({2, 3, 4})).result(), "int64[]{24}");
  EXPECT_EQ(OpRun("Size").input(floats({2, 0}, {})).result(), "int64[]{0}");
}

}  // namespace
}  // namespace sinter::testing
