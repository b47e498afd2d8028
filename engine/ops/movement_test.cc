// SPDX-License-Identifier: Apache-2.0
// Operators that cut, join, pad, repeat and permute: shapes with symbols, and values as numpy gives them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/op_run.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t A = symbol_dim(0), B = symbol_dim(1);

AttrValue perm(std::initializer_list<int64_t> axes) { return std::vector<int64_t>(axes); }

TEST(Transpose, PermutesValuesAndSymbols) {
  EXPECT_EQ(OpRun("Transpose", {{"perm", perm({2, 0, 1})}}).input(counting({2, 3, 4}, DType::i32)).result(),
            "int32[4,2,3]{0,4,8,12,16,20,1,5,9,13,17,21,2,6,10,14,18,22,3,7,11,15,19,23}");
  EXPECT_EQ(OpRun("Transpose").symbolic(DType::f32, Shape{A, 3, B}).shape(), "[B,3,A]");
  EXPECT_EQ(OpRun("Transpose", {{"perm", perm({0})}}).input(counting({3})).result(), "float32[3]{0,1,2}");
  EXPECT_THAT(OpRun("Transpose", {{"perm", perm({0, 0})}}).symbolic(DType::f32, Shape{2, 3}).shape(),
              HasSubstr("twice"));
  EXPECT_THAT(OpRun("Transpose", {{"perm", perm({1, 0})}}).symbolic(DType::f32, Shape{2}).shape(),
              StartsWith("InvalidModel"));
}

OpRun slice(Tensor data, std::initializer_list<int64_t> starts, std::initializer_list<int64_t> ends,
            std::initializer_list<int64_t> axes, std::initializer_list<int64_t> steps) {
  OpRun op("Slice");
  op.input(std::move(data))
      .constant(int64s(starts))
      .constant(int64s(ends))
      .constant(int64s(axes))
      .constant(int64s(steps));
  return op;
}

TEST(Slice, StepsBackward) {
  EXPECT_EQ(slice(counting({6}), {5}, {-7}, {0}, {-2}).result(), "float32[3]{5,3,1}");
  EXPECT_EQ(slice(counting({4}), {-1}, {INT64_MIN}, {0}, {-1}).result(), "float32[4]{3,2,1,0}");
  EXPECT_EQ(slice(counting({4}), {INT64_MAX}, {INT64_MIN}, {0}, {INT64_MIN}).result(), "float32[1]{3}");
  EXPECT_EQ(slice(counting({2, 3, 4}, DType::i64), {-1, 1}, {-9, 3}, {1, 2}, {-2, 1}).result(),
            "int64[2,2,2]{9,10,1,2,21,22,13,14}");
}

TEST(Slice, BoundsClamp) {
  EXPECT_EQ(slice(counting({4}), {1}, {INT64_MAX}, {0}, {2}).result(), "float32[2]{1,3}");
  EXPECT_EQ(slice(counting({4}), {-9}, {2}, {0}, {1}).result(), "float32[2]{0,1}");
  EXPECT_EQ(slice(counting({4}), {3}, {1}, {0}, {1}).result(), "float32[0]{}");
  EXPECT_EQ(slice(floats({0}, {}), {0}, {5}, {0}, {-1}).result(), "float32[0]{}");
  EXPECT_THAT(slice(counting({4}), {0}, {4}, {0}, {0}).result(), HasSubstr("step is 0"));
  EXPECT_THAT(slice(counting({4, 4}), {0, 0}, {4, 4}, {0, -2}, {1, 1}).result(), HasSubstr("twice"));
}

TEST(Slice, SymbolsSurviveWhereTheAxisIsWhole) {
  const auto sliced = [](int64_t start, int64_t end, int64_t step) {
    OpRun op("Slice");
    op.symbolic(DType::f32, Shape{A, 8}).constant(int64s({start, 2})).constant(int64s({end, 5})).absent();
    return op.constant(int64s({step, 1})).shape();
  };
  EXPECT_EQ(sliced(0, INT64_MAX, 1), "[A,3]");
  EXPECT_EQ(sliced(0, INT32_MAX, 1), "[A,3]");
  EXPECT_EQ(sliced(-1, INT64_MIN, -1), "[A,3]");
  EXPECT_EQ(sliced(0, 2, 1), "[?,3]");
}

TEST(Slice, BoundsComputedWhileRunning) {
  OpRun with_axes("Slice");
  with_axes.symbolic(DType::f32, Shape{A, 8, 3}).symbolic(DType::i64, Shape{1}).symbolic(DType::i64, Shape{1});
  EXPECT_EQ(OpRun(with_axes).constant(int64s({1})).shape(), "[A,?,3]");
  EXPECT_EQ(with_axes.shape(), "[?,8,3]");
  EXPECT_THAT(with_axes.shape(true), StartsWith("Unsupported"));
}

TEST(Concat, JoinsAndKeepsSymbols) {
  EXPECT_EQ(OpRun("Concat", {{"axis", int64_t{1}}})
                .input(counting({2, 2}))
                .input(floats({2, 0}, {}))
                .input(counting({2, 1}))
                .result(),
            "float32[2,3]{0,1,0,2,3,1}");
  const auto joined = [](const Shape& a, const Shape& b, int64_t axis) {
    return OpRun("Concat", {{"axis", axis}}).symbolic(DType::f32, a).symbolic(DType::f32, b).shape();
  };
  EXPECT_EQ(joined({A, 2}, {A, 3}, 1), "[A,5]");
  EXPECT_EQ(joined({A, 2}, {4, 3}, -1), "[4,5]");
  EXPECT_EQ(joined({A, 2}, {1, 2}, 0), "[?,2]");
  EXPECT_EQ(joined({A, 2}, {0, 2}, 0), "[A,2]");
  EXPECT_THAT(joined({2, 3}, {3, 3}, 1), HasSubstr("[3,3] does not fit"));
  EXPECT_THAT(joined({2, 3}, {3}, 0), StartsWith("InvalidModel"));
  EXPECT_EQ(OpRun("Concat", {{"axis", int64_t{1}}})
                .symbolic(DType::f32, Shape{A, 2})
                .symbolic(DType::f32, std::nullopt)
                .shape(),
            "[A,?]");
}

TEST(Split, EqualUnevenAndEmptyParts) {
  const auto parts = [](OpRun op, size_t n) {
    std::string text;
    const auto outputs = op.outputs(n).run();
    if (!outputs) return to_string(outputs.error());
    for (const Tensor& output : *outputs) text += to_text(output) + " ";
    return text;
  };
  EXPECT_EQ(parts(OpRun("Split").input(counting({7})), 4),
            "float32[2]{0,1} float32[2]{2,3} float32[2]{4,5} float32[1]{6} ");
  EXPECT_EQ(parts(OpRun("Split").input(counting({3})).constant(int64s({1, 0, 2})), 3),
            "float32[1]{0} float32[0]{} float32[2]{1,2} ");
  EXPECT_EQ(parts(OpRun("Split", {{"axis", int64_t{-1}}}).input(counting({2, 4})), 2),
            "float32[2,2]{0,1,4,5} float32[2,2]{2,3,6,7} ");
  EXPECT_THAT(parts(OpRun("Split").input(counting({3})).constant(int64s({1, 1})), 2),
              HasSubstr("does not cut 3 elements"));
  EXPECT_THAT(parts(OpRun("Split").input(counting({5})), 4), HasSubstr("cannot be cut"));
  EXPECT_EQ(OpRun("Split").symbolic(DType::f32, Shape{A, 3}).constant(int64s({2, 4})).outputs(2).shape(), "[2,3]");
}

TEST(Expand, BroadcastsBothWays) {
  EXPECT_EQ(OpRun("Expand").input(counting({2, 1, 1, 2, 1})).constant(int64s({1, 1, 2, 1, 2})).result(),
            "float32[2,1,2,2,2]{0,0,1,1,0,0,1,1,2,2,3,3,2,2,3,3}");
  EXPECT_EQ(OpRun("Expand").symbolic(DType::f32, Shape{A, 1}).constant(int64s({3, 1, 4})).shape(), "[3,A,4]");
  EXPECT_EQ(OpRun("Expand").symbolic(DType::f32, Shape{A, 1}).symbolic(DType::i64, Shape{3}).shape(), "[?,?,?]");
  EXPECT_THAT(OpRun("Expand").symbolic(DType::f32, Shape{2}).constant(int64s({3})).shape(),
              HasSubstr("cannot be broadcast"));
  EXPECT_THAT(OpRun("Expand").symbolic(DType::f32, Shape{2}).constant(int64s({-1})).shape(), HasSubstr("negative"));
}

TEST(Tile, RepeatsEveryAxis) {
  EXPECT_EQ(OpRun("Tile").input(counting({2, 2})).constant(int64s({2, 3})).result(),
            "float32[4,6]{0,1,0,1,0,1,2,3,2,3,2,3,0,1,0,1,0,1,2,3,2,3,2,3}");
  EXPECT_EQ(OpRun("Tile").input(counting({2, 1, 1, 2, 1, 1})).constant(int64s({1, 2, 1, 1, 1, 2})).result(),
            "float32[2,2,1,2,1,2]{0,0,1,1,0,0,1,1,2,2,3,3,2,2,3,3}");
  EXPECT_EQ(OpRun("Tile").symbolic(DType::f32, Shape{A, B, 2}).constant(int64s({1, 2, 3})).shape(), "[A,?,6]");
  EXPECT_EQ(OpRun("Tile").symbolic(DType::f32, Shape{A}).constant(int64s({0})).shape(), "[0]");
  EXPECT_THAT(OpRun("Tile").symbolic(DType::f32, Shape{2}).constant(int64s({1, 1})).shape(), HasSubstr("2 entries"));
}

std::string pad(std::string_view mode, Tensor data, std::initializer_list<int64_t> pads) {
  return OpRun("Pad", {{"mode", std::string(mode)}}).input(std::move(data)).constant(int64s(pads)).result();
}

TEST(Pad, EveryModeBeyondTheAxis) {
  EXPECT_EQ(pad("reflect", counting({3}), {7, 8}), "float32[18]{1,2,1,0,1,2,1,0,1,2,1,0,1,2,1,0,1,2}");
  EXPECT_EQ(pad("wrap", counting({3}), {7, 8}), "float32[18]{2,0,1,2,0,1,2,0,1,2,0,1,2,0,1,2,0,1}");
  EXPECT_EQ(pad("edge", counting({3}), {2, 3}), "float32[8]{0,0,0,1,2,2,2,2}");
  EXPECT_EQ(pad("reflect", counting({1}), {1, 2}), "float32[4]{0,0,0,0}");
}

TEST(Pad, NegativePadsCut) {
  EXPECT_EQ(pad("constant", counting({5}), {-1, 1}), "float32[5]{1,2,3,4,0}");
  EXPECT_EQ(pad("reflect", counting({5}), {-1, 2}), "float32[6]{1,2,3,4,3,2}");
  EXPECT_EQ(pad("wrap", counting({5}), {2, -2}), "float32[5]{1,2,0,1,2}");
  EXPECT_THAT(pad("constant", counting({2}), {-3, 0}), HasSubstr("do not fit axis 0"));
  EXPECT_THAT(pad("edge", floats({0}, {}), {1, 0}), HasSubstr("has no elements"));
}

TEST(Pad, ValueAndAxes) {
  EXPECT_EQ(OpRun("Pad").input(counting({2, 3})).constant(int64s({1, 0, 0, 2})).constant(floats({}, {9})).result(),
            "float32[3,5]{9,9,9,9,9,0,1,2,9,9,3,4,5,9,9}");
  EXPECT_EQ(OpRun("Pad").input(counting({1, 2})).constant(int64s({1, 0})).absent().constant(int64s({-1})).result(),
            "float32[1,3]{0,0,1}");
  EXPECT_EQ(OpRun("Pad").symbolic(DType::f32, Shape{A, 3}).constant(int64s({0, 1, 0, 1})).shape(), "[A,5]");
  EXPECT_EQ(OpRun("Pad").symbolic(DType::f32, Shape{A, 3}).constant(int64s({1, 0, 0, 0})).shape(), "[?,3]");
  EXPECT_THAT(OpRun("Pad").symbolic(DType::f32, Shape{2}).constant(int64s({1})).shape(), HasSubstr("1 axes need 2"));
  EXPECT_THAT(pad("mirror", counting({2}), {1, 1}), HasSubstr("unknown mode 'mirror'"));
}

TEST(CenterCropPad, TheOddElementGoesToTheEnd) {
  EXPECT_EQ(OpRun("CenterCropPad").input(counting({5})).constant(int64s({2})).result(), "float32[2]{1,2}");
  EXPECT_EQ(OpRun("CenterCropPad").input(counting({2})).constant(int64s({5})).result(), "float32[5]{0,0,1,0,0}");
  EXPECT_EQ(OpRun("CenterCropPad").symbolic(DType::f32, Shape{A, 3}).constant(int64s({4, 4})).shape(), "[4,4]");
}

TEST(Movement, BitsSurvive) {
  Tensor signalling = floats({2, 1}, {0, 0});
  const uint32_t bits[] = {0x7fa00001, 0x00000001};
  std::memcpy(signalling.mutable_bytes().data(), bits, sizeof bits);
  const auto moved = OpRun("Transpose").input(signalling).run();
  ASSERT_TRUE(moved);
  EXPECT_EQ(std::memcmp((*moved)[0].bytes().data(), bits, sizeof bits), 0);
}

}  // namespace
}  // namespace sinter::testing
