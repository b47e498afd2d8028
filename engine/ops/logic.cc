// SPDX-License-Identifier: Apache-2.0
// ONNX comparisons, logic on bool, bit operations, IsNaN, IsInf and Where.
#include <cmath>

#include "engine/base/str.h"
#include "engine/ops/elementwise.h"

namespace sinter {

using namespace ops;

namespace {

Result<Expr> shift_expr(const Node& node) {
  Expr expr;
  const Term x = input(expr, 0), y = input(expr, 1);
  binary(node.attrs.s("direction", "") == "LEFT" ? ScalarOp::shift_left : ScalarOp::shift_right, x, y);
  return expr;
}

Result<Expr> is_inf_expr(const Node& node) {
  Expr expr;
  const Term x = input(expr, 0);
  const Term infinite = unary(ScalarOp::is_inf, x);
  const bool negative = node.attrs.i("detect_negative", 1), positive = node.attrs.i("detect_positive", 1);
  if (negative && positive) return expr;
  const Term side = negative ? x < 0 : positive ? x > 0 : unary(ScalarOp::is_nan, x);  // neither: never true
  binary(ScalarOp::logical_and, infinite, side);
  return expr;
}

Result<Expr> where_expr(const Node&) {
  Expr expr;
  const Term condition = input(expr, 0), yes = input(expr, 1), no = input(expr, 2);
  where(condition, yes, no);
  return expr;
}

void nan_cases(std::vector<OpCase>& out) {
  const std::vector<double> values{NAN, -INFINITY, INFINITY, 0, -1, 3e38, -NAN};
  out.push_back({.name = "tail", .inputs = {{.shape = {7}, .values = values}}});
  out.push_back({.name = "vectors", .inputs = {{.shape = {2, 4}, .values = values}}});
  out.push_back({.name = "f16", .inputs = {{.dtype = DType::f16, .shape = {7}, .values = values}}});
}

void inf_cases(std::vector<OpCase>& out) {
  nan_cases(out);
  for (const bool negative : {false, true}) {
    OpCase c = out[out.size() - 3];
    c.name = negative ? "negative only" : "positive only";
    c.attrs.set(negative ? "detect_positive" : "detect_negative", int64_t{0});
    out.push_back(c);
  }
}

void not_cases(std::vector<OpCase>& out) {
  for (const int64_t n : {0, 3, 8}) {
    out.push_back(
        {.name = StrCat("[", n, "]"), .inputs = {{.dtype = DType::boolean, .shape = {n}, .values = {1, 0, 0}}}});
  }
}

void bitwise_not_cases(std::vector<OpCase>& out) {
  for (const DType dtype : {DType::u8, DType::i16, DType::i32}) {
    out.push_back({.name = std::string(name_of(dtype)),
                   .inputs = {{.dtype = dtype, .shape = {5}, .values = {0, 1, 7, 100, 127}}}});
  }
}

void shift_cases(std::vector<OpCase>& out) {
  for (const DType dtype : {DType::u8, DType::u32}) {
    for (const char* direction : {"LEFT", "RIGHT"}) {
      OpCase c{.name = StrCat(name_of(dtype), " ", direction)};
      c.attrs.set("direction", std::string(direction));
      c.inputs = {{.dtype = dtype, .shape = {6}, .values = {16, 200, 1, 255, 3, 255}},
                  {.dtype = dtype, .shape = {6}, .values = {1, 2, 7, 8, 0, 40}}};
      out.push_back(c);
    }
  }
}

void where_cases(std::vector<OpCase>& out) {
  const auto condition = [](Shape shape) {
    return OpCase::Input{.dtype = DType::boolean, .shape = shape, .values = {1, 0, 0, 1, 1}};
  };
  out.push_back({.name = "same shape", .inputs = {condition({2, 3}), {.shape = {2, 3}}, {.shape = {2, 3}}}});
  out.push_back({.name = "broadcast", .inputs = {condition({3, 1}), {.shape = {1, 4}}, {.shape = {2, 1, 1}}}});
  out.push_back({.name = "NaN not taken",
                 .inputs = {condition({5}), {.shape = {5}, .values = {1, NAN, NAN, 2, 3}}, {.shape = {5}}}});
  out.push_back({.name = "i32",
                 .inputs = {condition({8}),
                            {.dtype = DType::i32, .shape = {8}, .lo = -9, .hi = 9},
                            {.dtype = DType::i32, .shape = {}, .values = {7}}}});
  out.push_back({.name = "bool", .inputs = {condition({4}), condition({4}), condition({1})}});
}

}  // namespace

SINTER_BINARY(op_equal, "Equal", 7, comparison_cases, binary(ScalarOp::equal, x, y))
SINTER_BINARY(op_less, "Less", 7, comparison_cases, x < y)
SINTER_BINARY(op_less_or_equal, "LessOrEqual", 12, comparison_cases, x <= y)
SINTER_BINARY(op_greater, "Greater", 7, comparison_cases, x > y)
SINTER_BINARY(op_greater_or_equal, "GreaterOrEqual", 12, comparison_cases, binary(ScalarOp::greater_equal, x, y))

SINTER_UNARY(op_not, "Not", 1, not_cases, unary(ScalarOp::logical_not, x))
SINTER_BINARY(op_and, "And", 7, logical_cases, binary(ScalarOp::logical_and, x, y))
SINTER_BINARY(op_or, "Or", 7, logical_cases, binary(ScalarOp::logical_or, x, y))
SINTER_BINARY(op_xor, "Xor", 7, logical_cases, binary(ScalarOp::logical_xor, x, y))

SINTER_UNARY(op_bitwise_not, "BitwiseNot", 18, bitwise_not_cases, unary(ScalarOp::bit_not, x))
SINTER_BINARY(op_bitwise_and, "BitwiseAnd", 18, bitwise_cases, binary(ScalarOp::bit_and, x, y))
SINTER_BINARY(op_bitwise_or, "BitwiseOr", 18, bitwise_cases, binary(ScalarOp::bit_or, x, y))
SINTER_BINARY(op_bitwise_xor, "BitwiseXor", 18, bitwise_cases, binary(ScalarOp::bit_xor, x, y))
SINTER_ELEMENTWISE_ROW(op_bit_shift, "BitShift", 11, 2, 2, shift_cases, shift_expr)

SINTER_UNARY(op_is_nan, "IsNaN", 9, nan_cases, unary(ScalarOp::is_nan, x))
SINTER_ELEMENTWISE_ROW(op_is_inf, "IsInf", 10, 1, 1, inf_cases, is_inf_expr)
SINTER_ELEMENTWISE_ROW(op_where, "Where", 9, 3, 3, where_cases, where_expr)

}  // namespace sinter
