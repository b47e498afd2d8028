// SPDX-License-Identifier: Apache-2.0
// The elementwise family: an operator is one row, a scalar expression; inference, reference and WGSL are shared.
#pragma once

#include "engine/ops/op_def.h"
#include "engine/ops/term.h"

namespace sinter::ops {

/// The node's expression: what fusion put there, else its row's.
Result<Expr> expr_of(const Node& node);

/// numpy broadcasting of all inputs; the dtype follows from the expression.
Result<> infer_elementwise(InferContext& ctx);
Result<> reference_elementwise(const RefContext& ctx);
Result<> wgsl_elementwise(WgslContext& ctx);

// Case families.
void float_unary_cases(std::vector<OpCase>& out, double lo, double hi);
template <int lo, int hi>
void float_unary(std::vector<OpCase>& out) {
  float_unary_cases(out, lo, hi);
}
void special_values_case(std::vector<OpCase>& out);
/// float_unary and a row of NaN, infinities and signed zeros.
template <int lo, int hi>
void float_unary_special(std::vector<OpCase>& out) {
  float_unary_cases(out, lo, hi);
  special_values_case(out);
}
void number_unary_cases(std::vector<OpCase>& out);  // floats and signed integers
void arithmetic_cases(std::vector<OpCase>& out);    // broadcast shapes, integers that wrap, NaN and infinities
void comparison_cases(std::vector<OpCase>& out);
void logical_cases(std::vector<OpCase>& out);
void bitwise_cases(std::vector<OpCase>& out);
void variadic_cases(std::vector<OpCase>& out);

}  // namespace sinter::ops

// One row. The expression is over the terms x, y, z (inputs 0, 1, 2) and the node's attributes.
#define SINTER_ELEMENTWISE_ROW(symbol, onnx_name, opset, least, most, case_list, ...) \
  extern const OpDef symbol{.name = onnx_name,                                        \
                            .first_opset = opset,                                     \
                            .min_inputs = least,                                      \
                            .max_inputs = most,                                       \
                            .op_class = OpClass::elementwise,                         \
                            .infer = ops::infer_elementwise,                          \
                            .reference = ops::reference_elementwise,                  \
                            .wgsl = ops::wgsl_elementwise,                            \
                            .scalar = __VA_ARGS__,                                    \
                            .cases = case_list};
#define SINTER_UNARY(symbol, onnx_name, opset, case_list, ...)                   \
  SINTER_ELEMENTWISE_ROW(symbol, onnx_name, opset, 1, 1, case_list,              \
                         [](const Node& node [[maybe_unused]]) -> Result<Expr> { \
                           Expr expr;                                            \
                           const ops::Term x = ops::input(expr, 0);              \
                           static_cast<void>(__VA_ARGS__);                       \
                           return expr;                                          \
                         })
#define SINTER_BINARY(symbol, onnx_name, opset, case_list, ...)                  \
  SINTER_ELEMENTWISE_ROW(symbol, onnx_name, opset, 2, 2, case_list,              \
                         [](const Node& node [[maybe_unused]]) -> Result<Expr> { \
                           Expr expr;                                            \
                           const ops::Term x = ops::input(expr, 0);              \
                           const ops::Term y = ops::input(expr, 1);              \
                           static_cast<void>(__VA_ARGS__);                       \
                           return expr;                                          \
                         })
