// SPDX-License-Identifier: Apache-2.0
// Operators that pick, scatter and generate by index: folding of negatives, errors that name the index, values as numpy
// and the ONNX node tests give them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/op_run.h"

namespace sinter::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t A = symbol_dim(0), B = symbol_dim(1);

TEST(Gather, PicksSlicesOfAnyAxis) {
  EXPECT_EQ(OpRun("Gather", {{"axis", int64_t{1}}})
                .input(counting({2, 3, 4}, DType::i32))
                .input(int64s({1, 2}, {2, 0}))
                .result(),
            "int32[2,1,2,4]{8,9,10,11,0,1,2,3,20,21,22,23,12,13,14,15}");
  EXPECT_EQ(OpRun("Gather").input(counting({3})).input(tensor_of(DType::i32, {}, {-1})).result(), "float32[]{2}");
  EXPECT_EQ(OpRun("Gather", {{"axis", int64_t{-1}}})
                .symbolic(DType::f32, Shape{A, 5})
                .symbolic(DType::i64, Shape{B, 2})
                .shape(),
            "[A,B,2]");
}

TEST(Gather, OutOfRangeNamesTheIndex) {
  const std::string message = "InvalidInput: Gather: index -4 (element 1 of indices) is outside axis 0 with 3 elements";
  EXPECT_EQ(OpRun("Gather").input(counting({3})).input(int64s({0, -4})).result(), message);
  EXPECT_EQ(OpRun("Gather").symbolic(DType::f32, Shape{3}).constant(int64s({0, -4})).shape(), message);
  EXPECT_EQ(OpRun("Gather").symbolic(DType::f32, Shape{A}).constant(int64s({0, -4})).shape(), "[2]");
}

TEST(GatherElements, OneIndexPerElement) {
  EXPECT_EQ(OpRun("GatherElements", {{"axis", int64_t{1}}})
                .input(counting({2, 3}))
                .input(int64s({2, 2}, {0, 2, 2, -2}))
                .result(),
            "float32[2,2]{0,2,5,4}");
  EXPECT_THAT(OpRun("GatherElements").input(counting({2, 3})).input(int64s({1, 1}, {2})).result(),
              HasSubstr("index 2 (element 0"));
  EXPECT_THAT(OpRun("GatherElements").symbolic(DType::f32, Shape{2, 3}).symbolic(DType::i64, Shape{2, 4}).shape(),
              HasSubstr("do not fit data"));
}

TEST(GatherND, TuplesAndBatches) {
  EXPECT_EQ(OpRun("GatherND").input(counting({2, 2})).input(int64s({2, 2}, {0, 0, -1, 1})).result(), "float32[2]{0,3}");
  EXPECT_EQ(
      OpRun("GatherND", {{"batch_dims", int64_t{1}}}).input(counting({2, 2, 2})).input(int64s({2, 1}, {1, 0})).result(),
      "float32[2,2]{2,3,4,5}");
  EXPECT_EQ(OpRun("GatherND").symbolic(DType::f32, Shape{A, 3, 4}).symbolic(DType::i64, Shape{B, 1}).shape(),
            "[B,3,4]");
  EXPECT_THAT(OpRun("GatherND").input(counting({2, 2})).input(int64s({1, 2}, {0, 2})).result(),
              HasSubstr("axis 1 with 2 elements"));
  EXPECT_THAT(OpRun("GatherND").symbolic(DType::f32, Shape{2}).symbolic(DType::i64, Shape{1, 2}).shape(),
              StartsWith("InvalidModel"));
}

OpRun scatter(std::string_view op, std::string_view reduction, Tensor data, Tensor indices, Tensor updates) {
  OpRun run(op, {{"reduction", std::string(reduction)}});
  run.input(std::move(data)).input(std::move(indices)).input(std::move(updates));
  return run;
}

TEST(ScatterElements, WritesAndReduces) {
  const auto run = [](std::string_view reduction) {
    return scatter("ScatterElements", reduction, floats({1, 4}, {1, 2, 3, 4}), int64s({1, 3}, {1, 1, 3}),
                   floats({1, 3}, {9, -5, 2}));
  };
  // The default axis is 0: rows.
  EXPECT_EQ(
      scatter("ScatterElements", "none", floats({2, 2}, {1, 2, 3, 4}), int64s({1, 2}, {1, -2}), floats({1, 2}, {9, 8}))
          .result(),
      "float32[2,2]{1,8,9,4}");
  EXPECT_THAT(run("none").result(), HasSubstr("index 1 (element 0"));
  EXPECT_THAT(run("sum").result(), HasSubstr("unknown reduction 'sum'"));
  const auto column = [](std::string_view reduction) {
    return scatter("ScatterElements", reduction, floats({4}, {1, 2, 3, 4}), int64s({3}, {1, 1, 3}),
                   floats({3}, {9, -5, 2}))
        .result();
  };
  EXPECT_EQ(column("add"), "float32[4]{1,6,3,6}");
  EXPECT_EQ(column("mul"), "float32[4]{1,-90,3,8}");
  EXPECT_EQ(column("min"), "float32[4]{1,-5,3,2}");
  EXPECT_EQ(column("max"), "float32[4]{1,9,3,4}");
}

TEST(ScatterND, WritesSlices) {
  EXPECT_EQ(
      scatter("ScatterND", "none", counting({3, 2}), int64s({2, 1}, {2, -3}), floats({2, 2}, {9, 8, 7, 6})).result(),
      "float32[3,2]{7,6,2,3,9,8}");
  EXPECT_EQ(
      scatter("ScatterND", "add", counting({3}, DType::i64), int64s({2, 1}, {1, 1}), int64s({2}, {5, 7})).result(),
      "int64[3]{0,13,2}");
  EXPECT_THAT(scatter("ScatterND", "none", counting({3}), int64s({1, 1}, {3}), floats({1}, {0})).result(),
              StartsWith("InvalidInput"));
  EXPECT_THAT(scatter("ScatterND", "none", counting({3}), int64s({1, 1}, {0}), floats({2}, {0, 0})).result(),
              HasSubstr("must have shape [1]"));
}

TEST(OneHot, NegativeAndForeignIndices) {
  const auto hot = [](int64_t axis, Tensor indices) {
    return OpRun("OneHot", {{"axis", axis}})
        .input(std::move(indices))
        .constant(int64s({3}))
        .input(floats({2}, {0, 5}))
        .result();
  };
  EXPECT_EQ(hot(-1, int64s({3}, {1, -1, 3})), "float32[3,3]{0,5,0,0,0,5,0,0,0}");
  EXPECT_EQ(hot(0, int64s({2}, {0, 2})), "float32[3,2]{5,0,0,0,0,5}");
  EXPECT_EQ(hot(-1, floats({1}, {2})), "float32[1,3]{0,0,5}");
  EXPECT_EQ(OpRun("OneHot")
                .symbolic(DType::i64, Shape{A})
                .symbolic(DType::i64, Shape{})
                .symbolic(DType::f32, Shape{2})
                .shape(),
            "[A,?]");
}

TEST(Range, CountsUpAndDown) {
  const auto range = [](DType dtype, double start, double limit, double delta) {
    OpRun op("Range");
    for (double value : {start, limit, delta}) op.constant(tensor_of(dtype, {}, {value}));
    return op.result();
  };
  EXPECT_EQ(range(DType::i64, 10, 6, -3), "int64[2]{10,7}");
  EXPECT_EQ(range(DType::f32, 1, 2.5, 0.5), "float32[3]{1,1.5,2}");
  EXPECT_EQ(range(DType::i32, 3, 3, 1), "int32[0]{}");
  EXPECT_EQ(range(DType::i64, 3, 0, 1), "int64[0]{}");
  EXPECT_THAT(range(DType::i64, 0, 3, 0), HasSubstr("delta is 0"));
  EXPECT_THAT(range(DType::f32, 0, 3, 0), HasSubstr("delta is 0"));
}

TEST(ConstantOfShape, FillsWithItsValue) {
  EXPECT_EQ(OpRun("ConstantOfShape").constant(int64s({2})).result(), "float32[2]{0,0}");
  EXPECT_EQ(OpRun("ConstantOfShape", {{"value", int64s({7})}}).constant(int64s({1, 2})).result(), "int64[1,2]{7,7}");
  EXPECT_EQ(OpRun("ConstantOfShape").symbolic(DType::i64, Shape{3}).shape(), "[?,?,?]");
  EXPECT_THAT(OpRun("ConstantOfShape").constant(int64s({-1})).shape(), HasSubstr("negative"));
}

TEST(EyeLike, DiagonalAndDtype) {
  EXPECT_EQ(OpRun("EyeLike", {{"k", int64_t{1}}, {"dtype", int64_t{7}}}).input(counting({2, 3})).result(),
            "int64[2,3]{0,1,0,0,0,1}");
  EXPECT_EQ(OpRun("EyeLike").input(counting({2, 2})).result(), "float32[2,2]{1,0,0,1}");
}

TEST(Trilu, UpperAndLower) {
  const Tensor data = floats({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  EXPECT_EQ(OpRun("Trilu").input(data).constant(int64s({}, {1})).result(), "float32[3,4]{0,2,3,4,0,0,7,8,0,0,0,12}");
  EXPECT_EQ(OpRun("Trilu", {{"upper", int64_t{0}}}).input(data).constant(int64s({}, {-1})).result(),
            "float32[3,4]{0,0,0,0,5,0,0,0,9,10,0,0}");
}

TEST(TopK, OrderTiesAndNaN) {
  const auto top = [](int64_t largest, Tensor data) {
    OpRun op("TopK", {{"largest", largest}});
    const auto outputs = op.input(std::move(data)).constant(int64s({3})).outputs(2).run();
    return outputs ? to_text((*outputs)[0]) + " " + to_text((*outputs)[1]) : to_string(outputs.error());
  };
  EXPECT_EQ(top(1, floats({5}, {1, 3, 2, 3, 0})), "float32[3]{3,3,2} int64[3]{1,3,2}");
  EXPECT_EQ(top(0, floats({5}, {1, 3, 1, 3, 2})), "float32[3]{1,1,2} int64[3]{0,2,4}");
  EXPECT_EQ(top(1, floats({4}, {1, std::numeric_limits<double>::quiet_NaN(), 2, -1})),
            "float32[3]{nan,2,1} int64[3]{1,2,0}");
  EXPECT_THAT(top(1, counting({2})), HasSubstr("k is 3"));
}

TEST(ReverseSequence, LengthsPerBatch) {
  EXPECT_EQ(OpRun("ReverseSequence", {{"time_axis", int64_t{1}}, {"batch_axis", int64_t{0}}})
                .input(counting({2, 4}))
                .input(int64s({2}, {3, 2}))
                .result(),
            "float32[2,4]{2,1,0,3,5,4,6,7}");
  EXPECT_THAT(OpRun("ReverseSequence").input(counting({2, 1})).input(int64s({1}, {3})).result(),
              HasSubstr("sequence_lens[0] is 3"));
}

TEST(DataDependent, KnownDataAreServed) {
  EXPECT_EQ(OpRun("NonZero").constant(floats({2, 2}, {1, 0, 1, 1})).result(), "int64[2,3]{0,1,1,0,0,1}");
  EXPECT_EQ(OpRun("Compress", {{"axis", int64_t{1}}})
                .input(counting({2, 3}))
                .constant(tensor_of(DType::boolean, {2}, {0, 1}))
                .result(),
            "float32[2,1]{1,4}");
  EXPECT_EQ(OpRun("Compress").input(counting({2, 2})).constant(tensor_of(DType::boolean, {4}, {1, 0, 0, 1})).result(),
            "float32[2]{0,3}");
  const auto unique = OpRun("Unique").constant(floats({6}, {2, 1, 1, 3, 4, 3})).outputs(4).run();
  ASSERT_TRUE(unique);
  EXPECT_EQ(to_text((*unique)[0]), "float32[4]{1,2,3,4}");
  EXPECT_EQ(to_text((*unique)[1]), "int64[4]{1,0,3,4}");
  EXPECT_EQ(to_text((*unique)[2]), "int64[6]{1,0,0,2,3,2}");
  EXPECT_EQ(to_text((*unique)[3]), "int64[4]{2,1,2,1}");
}

TEST(DataDependent, UnknownDataAreRefusedAtPlanTimeOnly) {
  OpRun op("NonZero");
  op.symbolic(DType::f32, Shape{2, 2});
  EXPECT_EQ(op.shape(), "[2,?]");
  EXPECT_THAT(op.shape(true),
              StartsWith("Unsupported: NonZero: the output's shape depends on the contents of input 0"));
}

}  // namespace
}  // namespace sinter::testing
