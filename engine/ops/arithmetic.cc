// SPDX-License-Identifier: Apache-2.0
// ONNX arithmetic on numbers: Add, Sub, Mul, Div, Pow, Mod, Neg, Abs, Sign, the roundings, and the variadic Sum, Mean,
// Min, Max. Integers wrap as in C; integer division truncates. Min and Max give NaN where an operand is NaN.
#include "engine/ops/elementwise.h"

namespace sinter {

using namespace ops;

namespace {

Result<Expr> mod_expr(const Node& node) {
  Expr expr;
  const Term x = input(expr, 0), y = input(expr, 1);
  binary(node.attrs.i("fmod", 0) ? ScalarOp::mod_trunc : ScalarOp::mod_floor, x, y);
  return expr;
}

// x0 op x1 op x2 ...; the mean divides at the end.
template <ScalarOp op, bool mean = false>
Result<Expr> fold_expr(const Node& node) {
  Expr expr;
  Term value = input(expr, 0);
  for (size_t i = 1; i < node.inputs.size(); ++i) value = binary(op, value, input(expr, i));
  if (mean) value / static_cast<double>(node.inputs.size());
  return expr;
}

void mod_cases(std::vector<OpCase>& out) {
  for (const int64_t fmod : {0, 1}) {
    OpCase c{.name = fmod ? "i32 fmod" : "i32"};
    c.attrs.set("fmod", fmod);
    c.inputs = {{.dtype = DType::i32, .shape = {6}, .values = {-4, 7, 5, 4, -7, 8}},
                {.dtype = DType::i32, .shape = {6}, .values = {2, -3, 8, -2, 3, 5}}};
    out.push_back(c);
  }
  OpCase c{.name = "f32 fmod"};
  c.attrs.set("fmod", int64_t{1});
  c.inputs = {{.shape = {2, 3}, .values = {-4.3, 7.2, 5.0, 4.3, -7.2, 9.0}},
              {.shape = {3}, .values = {2.1, -3.4, 3.0}}};
  out.push_back(c);
}

void pow_cases(std::vector<OpCase>& out) {
  out.push_back({.name = "negative bases, whole exponents",
                 .inputs = {{.shape = {8}, .values = {-2, -2, -2, 3, 0, 0, 1, -1.5}},
                            {.shape = {8}, .values = {2, 3, -1, 2, 0, 2, 100, 0}}}});
  out.push_back({.name = "roots", .inputs = {{.shape = {2, 3}, .lo = 0.1, .hi = 9}, {.shape = {}, .values = {0.5}}}});
  out.push_back({.name = "int64 constant exponent",
                 .inputs = {{.shape = {5}, .lo = -3, .hi = 3},
                            {.dtype = DType::i64, .shape = {}, .values = {2}, .constant = true}}});
  out.push_back({.name = "i32",
                 .inputs = {{.dtype = DType::i32, .shape = {6}, .values = {2, -3, 0, -1, 1, 7}},
                            {.dtype = DType::i32, .shape = {6}, .values = {10, 3, 0, -3, -2, -1}}}});
}

}  // namespace

SINTER_BINARY(op_add, "Add", 7, arithmetic_cases, x + y)
SINTER_BINARY(op_sub, "Sub", 7, arithmetic_cases, x - y)
SINTER_BINARY(op_mul, "Mul", 7, arithmetic_cases, (x * y))
SINTER_BINARY(op_div, "Div", 7, arithmetic_cases, x / y)
SINTER_BINARY(op_pow, "Pow", 7, pow_cases, binary(ScalarOp::pow, x, y))
SINTER_ELEMENTWISE_ROW(op_mod, "Mod", 10, 2, 2, mod_cases, mod_expr)

SINTER_ELEMENTWISE_ROW(op_sum, "Sum", 6, 1, -1, variadic_cases, (fold_expr<ScalarOp::add>))
SINTER_ELEMENTWISE_ROW(op_mean, "Mean", 6, 1, -1, variadic_cases, (fold_expr<ScalarOp::add, true>))
SINTER_ELEMENTWISE_ROW(op_min, "Min", 6, 1, -1, variadic_cases, (fold_expr<ScalarOp::min>))
SINTER_ELEMENTWISE_ROW(op_max, "Max", 6, 1, -1, variadic_cases, (fold_expr<ScalarOp::max>))

SINTER_UNARY(op_abs, "Abs", 6, number_unary_cases, unary(ScalarOp::abs, x))
SINTER_UNARY(op_neg, "Neg", 6, number_unary_cases, unary(ScalarOp::neg, x))
SINTER_UNARY(op_sign, "Sign", 9, number_unary_cases, unary(ScalarOp::sign, x))
SINTER_UNARY(op_floor, "Floor", 6, (float_unary_special<-3, 3>), unary(ScalarOp::floor, x))
SINTER_UNARY(op_ceil, "Ceil", 6, (float_unary_special<-3, 3>), unary(ScalarOp::ceil, x))
SINTER_UNARY(op_round, "Round", 11, (float_unary_special<-3, 3>), unary(ScalarOp::round_even, x))
SINTER_UNARY(op_reciprocal, "Reciprocal", 6, (float_unary<1, 4>), 1 / x)

}  // namespace sinter
