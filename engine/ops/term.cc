// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/term.h"

namespace sinter::ops {

Term unary(ScalarOp op, Term a) { return {a.expr, a.expr->unary(op, a.at)}; }
Term binary(ScalarOp op, Term a, Term b) { return {a.expr, a.expr->binary(op, a.at, b.at)}; }
Term binary(ScalarOp op, Term a, double b) { return binary(op, a, Term{a.expr, a.expr->constant(b)}); }
Term binary(ScalarOp op, double a, Term b) { return binary(op, Term{b.expr, b.expr->constant(a)}, b); }
Term where(Term condition, Term yes, Term no) {
  return {condition.expr, condition.expr->select(condition.at, yes.at, no.at)};
}
Term where(Term condition, Term yes, double no) {
  return where(condition, yes, Term{condition.expr, condition.expr->constant(no)});
}

}  // namespace sinter::ops
