// SPDX-License-Identifier: Apache-2.0
// Gemm and MatMul: shapes, refusals, numpy's values.
#include "engine/ops/product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/op_run.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t A = symbol_dim(0);

TEST(Gemm, Shapes) {
  const auto gemm = [](Shape a, Shape b, std::optional<Shape> c) {
    OpRun op("Gemm", {{"transB", int64_t{1}}});
    op.symbolic(DType::f32, a).symbolic(DType::f32, b);
    if (c) op.symbolic(DType::f32, *c);
    return op.shape();
  };
  EXPECT_EQ(gemm({A, 4}, {3, 4}, Shape{3}), "[A,3]");
  EXPECT_THAT(gemm({2, 4}, {3, 5}, std::nullopt), HasSubstr("inner dimensions differ: A [2,4] and B [3,5] transposed"));
  EXPECT_THAT(gemm({2, 4, 1}, {3, 4}, std::nullopt), HasSubstr("must be matrices"));
  EXPECT_THAT(gemm({5, 4}, {1, 4}, Shape{1, 4}), StartsWith("InvalidModel: Gemm: C [1,4] does not broadcast to"));
}

TEST(Gemm, Values) {
  OpRun op("Gemm", {{"alpha", 2.0f}, {"beta", 0.5f}, {"transA", int64_t{1}}});
  EXPECT_EQ(op.input(floats({2, 1}, {1, 2})).input(floats({2, 2}, {1, 2, 3, 4})).input(floats({2}, {10, 20})).result(),
            "float32[1,2]{19,30}");
}

TEST(MatMul, Shapes) {
  const auto matmul = [](Shape a, Shape b) {
    return OpRun("MatMul").symbolic(DType::f32, a).symbolic(DType::f32, b).shape();
  };
  EXPECT_EQ(matmul({A, 512, 384}, {384, 384}), "[A,512,384]");
  EXPECT_EQ(matmul({2, 1, 3, 4}, {5, 4, 6}), "[2,5,3,6]");
  EXPECT_EQ(matmul({4}, {4}), "[]");
  EXPECT_EQ(matmul({4}, {2, 4, 3}), "[2,3]");
  EXPECT_EQ(matmul({2, 3, 4}, {4}), "[2,3]");
  EXPECT_THAT(matmul({2, 3}, {4, 5}), HasSubstr("inner dimensions differ: [2,3] and [4,5]"));
  EXPECT_THAT(matmul({2, 3, 4}, {3, 4, 5}), HasSubstr("cannot be broadcast together"));
  EXPECT_THAT(matmul({}, {4}), HasSubstr("must not be scalars"));
}

TEST(MatMul, Values) {
  EXPECT_EQ(OpRun("MatMul").input(floats({1, 2}, {1, 2})).input(floats({2, 2}, {1, 2, 3, 4})).result(),
            "float32[1,2]{7,10}");
  EXPECT_EQ(OpRun("MatMul").input(int64s({9007199254740993, 1})).input(int64s({1, 0})).result(),
            "int64[]{9007199254740993}");
  EXPECT_EQ(OpRun("MatMul").input(floats({2, 0}, {})).input(floats({0, 1}, {})).result(), "float32[2,1]{0,0}");
}

TEST(MatMul, IntegersWrap) {
  EXPECT_EQ(OpRun("MatMul")
                .input(tensor_of(DType::i32, {1, 2}, {2147483647, 1}))
                .input(tensor_of(DType::i32, {2, 1}, {1, 1}))
                .result(),
            "int32[1,1]{-2147483648}");
}

}  // namespace
}  // namespace sinter::testing
