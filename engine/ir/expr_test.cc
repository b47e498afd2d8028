// SPDX-License-Identifier: Apache-2.0
#include "engine/ir/expr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace sinter {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class T>
T unary(ScalarOp op, T x) {
  Expr e;
  e.unary(op, e.input(0));
  return e.eval(std::span<const T>(&x, 1));
}

template <class T>
T binary(ScalarOp op, T a, T b) {
  Expr e;
  const uint16_t x = e.input(0), y = e.input(1);
  e.binary(op, x, y);
  const T inputs[] = {a, b};
  return e.eval(std::span<const T>(inputs));
}

TEST(Expr, NanStaysInMinMaxReluAndSign) {
  for (const ScalarOp op : {ScalarOp::min, ScalarOp::max}) {
    EXPECT_TRUE(std::isnan(binary<double>(op, kNan, 1)));
    EXPECT_TRUE(std::isnan(binary<double>(op, 1, kNan)));
  }
  EXPECT_TRUE(std::isnan(unary<double>(ScalarOp::relu, kNan)));
  EXPECT_TRUE(std::isnan(unary<double>(ScalarOp::sign, kNan)));
  EXPECT_TRUE(std::isnan(binary<double>(ScalarOp::prelu, kNan, 2)));
}

TEST(Expr, IntegerDivisionTruncatesAndNeverTraps) {
  EXPECT_EQ(binary<int64_t>(ScalarOp::div, -7, 2), -3);
  EXPECT_EQ(binary<int64_t>(ScalarOp::div, 7, 0), 0);
  EXPECT_EQ(binary<int64_t>(ScalarOp::div, INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(binary<int64_t>(ScalarOp::mod_floor, INT64_MIN, -1), 0);
  EXPECT_EQ(binary<int64_t>(ScalarOp::mod_trunc, 5, 0), 0);
}

TEST(Expr, RemaindersTakeTheSignOfDivisorOrDividend) {
  EXPECT_EQ(binary<int64_t>(ScalarOp::mod_floor, -4, 3), 2);
  EXPECT_EQ(binary<int64_t>(ScalarOp::mod_trunc, -4, 3), -1);
  EXPECT_EQ(binary<double>(ScalarOp::mod_floor, 4.5, -2), -1.5);
  EXPECT_EQ(binary<double>(ScalarOp::mod_trunc, -4.5, 2), -0.5);
}

TEST(Expr, UnsignedValuesKeepTheirTopBit) {
  EXPECT_EQ(binary<uint64_t>(ScalarOp::greater, UINT64_MAX, 1), 1u);
  EXPECT_EQ(binary<uint64_t>(ScalarOp::shift_right, UINT64_MAX, 63), 1u);
  EXPECT_EQ(binary<uint64_t>(ScalarOp::div, UINT64_MAX, 2), UINT64_MAX / 2);
}

TEST(Expr, ShiftsBeyondTheWidthGiveZero) {
  EXPECT_EQ(binary<uint64_t>(ScalarOp::shift_left, 1, 64), 0u);
  EXPECT_EQ(binary<int64_t>(ScalarOp::shift_right, 1, 64), 0);
}

TEST(Expr, IntegerPowers) {
  EXPECT_EQ(binary<int64_t>(ScalarOp::pow, -3, 3), -27);
  EXPECT_EQ(binary<int64_t>(ScalarOp::pow, 2, 62), int64_t{1} << 62);
  EXPECT_EQ(binary<int64_t>(ScalarOp::pow, 0, 0), 1);
  EXPECT_EQ(binary<int64_t>(ScalarOp::pow, -1, -3), -1);
  EXPECT_EQ(binary<int64_t>(ScalarOp::pow, 2, -1), 0);
}

TEST(Expr, RoundsHalvesToEven) {
  EXPECT_EQ(unary<double>(ScalarOp::round_even, 2.5), 2);
  EXPECT_EQ(unary<double>(ScalarOp::round_even, -1.5), -2);
}

TEST(Expr, ThenPutsOneExpressionIntoAnother) {
  Expr inner;  // relu(x0 + x1)
  inner.unary(ScalarOp::relu, inner.binary(ScalarOp::add, inner.input(0), inner.input(1)));
  Expr outer;  // x0 * 2 - x1, where x1 is the inner result
  outer.binary(ScalarOp::sub, outer.binary(ScalarOp::mul, outer.input(0), outer.constant(2)), outer.input(1));
  const uint16_t renumber[] = {2, 0};
  const Expr joined = inner.then(outer, 1, renumber);
  EXPECT_EQ(joined.input_count(), 3);
  const double inputs[] = {1, -4, 10};
  EXPECT_EQ(joined.eval(inputs), 20);
  const double positive[] = {1, 4, 10};
  EXPECT_EQ(joined.eval(positive), 15);
}

TEST(Expr, ThenOfAnIdentityKeepsTheResultLast) {
  Expr inner, outer;
  inner.unary(ScalarOp::neg, inner.input(0));
  outer.input(0);
  const double five[] = {5};
  EXPECT_EQ(inner.then(outer, 0, {}).eval(five), -5);
  EXPECT_EQ(Expr().then(inner, 0, {}).eval(five), -5);
}

TEST(Expr, ConstantsReplaceInputs) {
  Expr e;
  e.binary(ScalarOp::sub, e.input(0), e.input(1));
  const Expr bound = e.with_constant(0, 8);
  EXPECT_FALSE(bound.reads(0));
  EXPECT_TRUE(bound.reads(1));
  const double inputs[] = {0, 3};
  EXPECT_EQ(bound.eval(inputs), 5);
  EXPECT_EQ(bound.constants(), std::vector<double>{8});
}

TEST(Expr, LongExpressionsEvaluate) {
  Expr e;
  uint16_t value = e.input(0);
  for (int i = 0; i < 200; ++i) value = e.binary(ScalarOp::add, value, e.constant(1));
  const double zero[] = {0};
  EXPECT_EQ(e.eval(zero), 200);
}

TEST(Epilogue, RecognisesClamps) {
  Expr relu6;
  relu6.binary(ScalarOp::min, relu6.unary(ScalarOp::relu, relu6.input(0)), relu6.constant(6));
  EpilogueForm form = recognise_epilogue(relu6);
  EXPECT_EQ(form.kind, EpilogueForm::Kind::clamp);
  EXPECT_EQ(form.lo, 0);
  EXPECT_EQ(form.hi, 6);
  EXPECT_FALSE(form.add_input);

  Expr crossed;  // max(min(x, -1), 2): always 2
  crossed.binary(ScalarOp::max, crossed.constant(2),
                 crossed.binary(ScalarOp::min, crossed.input(0), crossed.constant(-1)));
  form = recognise_epilogue(crossed);
  EXPECT_EQ(form.lo, 2);
  EXPECT_EQ(form.hi, 2);
}

TEST(Epilogue, RecognisesAResidualAdd) {
  Expr e;
  const uint16_t x = e.input(0), y = e.input(1);
  e.unary(ScalarOp::relu, e.binary(ScalarOp::add, y, x));
  const EpilogueForm form = recognise_epilogue(e);
  EXPECT_EQ(form.kind, EpilogueForm::Kind::clamp);
  EXPECT_TRUE(form.add_input);
  EXPECT_EQ(form.lo, 0);
  EXPECT_TRUE(std::isinf(form.hi));
}

TEST(Epilogue, EverythingElseIsGeneral) {
  Expr sigmoid, doubled, nan_bound;
  sigmoid.unary(ScalarOp::sigmoid, sigmoid.input(0));
  const uint16_t x = doubled.input(0);
  doubled.binary(ScalarOp::add, x, x);
  nan_bound.binary(ScalarOp::max, nan_bound.input(0), nan_bound.constant(kNan));
  EXPECT_EQ(recognise_epilogue(sigmoid).kind, EpilogueForm::Kind::general);
  EXPECT_EQ(recognise_epilogue(doubled).kind, EpilogueForm::Kind::general);
  EXPECT_EQ(recognise_epilogue(nan_bound).kind, EpilogueForm::Kind::general);
}

}  // namespace
}  // namespace sinter
