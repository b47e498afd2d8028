// SPDX-License-Identifier: Apache-2.0
// Terms: expressions written as arithmetic. `where(x < 0, alpha * (exp(x) - 1), x)` appends its nodes to one Expr.
#pragma once

#include "engine/ir/expr.h"

namespace sinter::ops {

struct Term {
  Expr* expr;
  uint16_t at;
};

inline Term input(Expr& expr, size_t index) { return {&expr, expr.input(static_cast<uint16_t>(index))}; }

Term unary(ScalarOp op, Term a);
Term binary(ScalarOp op, Term a, Term b);
Term binary(ScalarOp op, Term a, double b);
Term binary(ScalarOp op, double a, Term b);
Term where(Term condition, Term yes, Term no);
Term where(Term condition, Term yes, double no);

#define SINTER_TERM_BINARY(name, op)                                        \
  inline Term name(Term a, Term b) { return binary(ScalarOp::op, a, b); }   \
  inline Term name(Term a, double b) { return binary(ScalarOp::op, a, b); } \
  inline Term name(double a, Term b) { return binary(ScalarOp::op, a, b); }
SINTER_TERM_BINARY(operator+, add)
SINTER_TERM_BINARY(operator-, sub)
SINTER_TERM_BINARY(operator*, mul)
SINTER_TERM_BINARY(operator/, div)
SINTER_TERM_BINARY(operator<, less)
SINTER_TERM_BINARY(operator<=, less_equal)
SINTER_TERM_BINARY(operator>, greater)
SINTER_TERM_BINARY(min, min)
SINTER_TERM_BINARY(max, max)
SINTER_TERM_BINARY(prelu, prelu)
#undef SINTER_TERM_BINARY

}  // namespace sinter::ops
