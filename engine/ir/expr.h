// SPDX-License-Identifier: Apache-2.0
// Expr: a scalar expression over one element of each input. The one description of every elementwise operator and of
// every fused epilogue: it evaluates in C++ and prints as WGSL.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sinter {

enum class ScalarOp : uint8_t {
  input,     // a = input index
  constant,  // value; becomes a uniform, not shader text
  // unary (a)
  neg,
  abs,
  sign,
  floor,
  ceil,
  round_even,
  exp,
  log,
  sqrt,
  reciprocal,
  relu,
  sigmoid,
  tanh,
  erf,
  softplus,
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  asinh,
  acosh,
  atanh,
  logical_not,
  bit_not,
  is_nan,
  is_inf,
  // binary (a, b)
  add,
  sub,
  mul,
  div,
  mod_floor,
  mod_trunc,
  pow,
  min,
  max,
  less,
  less_equal,
  greater,
  greater_equal,
  equal,
  logical_and,
  logical_or,
  logical_xor,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  prelu,
  // ternary
  select,  // a != 0 ? b : c
};

std::string_view name_of(ScalarOp op);
int arity(ScalarOp op);

/// Indices refer to earlier nodes of the same expression (for `input`: to the input).
struct ExprNode {
  ScalarOp op = ScalarOp::input;
  uint16_t a = 0, b = 0, c = 0;
  double value = 0;
  friend bool operator==(const ExprNode&, const ExprNode&) = default;
};

class Expr {
 public:
  bool empty() const { return nodes_.empty(); }
  std::span<const ExprNode> nodes() const { return nodes_; }
  friend bool operator==(const Expr&, const Expr&) = default;

  // Building: each call appends and returns the new node's index; the last one appended is the result.
  uint16_t input(uint16_t index) { return push({ScalarOp::input, index, 0, 0, 0}); }
  uint16_t constant(double value) { return push({ScalarOp::constant, 0, 0, 0, value}); }
  uint16_t unary(ScalarOp op, uint16_t a) { return push({op, a, 0, 0, 0}); }
  uint16_t binary(ScalarOp op, uint16_t a, uint16_t b) { return push({op, a, b, 0, 0}); }
  uint16_t select(uint16_t condition, uint16_t yes, uint16_t no) {
    return push({ScalarOp::select, condition, yes, no, 0});
  }

  /// Appends a node as it is; its operands must be earlier nodes.
  uint16_t push(ExprNode node) {
    nodes_.push_back(node);
    return static_cast<uint16_t>(nodes_.size() - 1);
  }

  /// Number of distinct inputs addressed: 1 + the largest input index, 0 for none.
  uint16_t input_count() const;
  bool reads(uint16_t index) const;

  /// `outer` with its input `slot` replaced by this expression. Inputs of this expression keep their index; those of
  /// `outer` other than `slot` are renumbered by `renumber[index]`.
  Expr then(const Expr& outer, uint16_t slot, std::span<const uint16_t> renumber) const;
  /// This expression with input `slot` replaced by a constant; the other inputs keep their index.
  Expr with_constant(uint16_t slot, double value) const;

  /// Evaluates in double (floats), int64 (signed integers) or uint64 (unsigned integers and bool); comparisons give 0
  /// or 1. NaN rules: min, max and relu return NaN where an operand is NaN. Integers wrap; their division truncates,
  /// and by zero gives 0.
  double eval(std::span<const double> inputs) const;
  int64_t eval(std::span<const int64_t> inputs) const;
  uint64_t eval(std::span<const uint64_t> inputs) const;

  /// The values of the `constant` nodes in order: the uniform block that `to_wgsl` refers to.
  std::vector<double> constants() const;

 private:
  std::vector<ExprNode> nodes_;
};

/// y = clamp(x, lo, hi), relu and identity are what fast kernels special-case: this recognises them, as well as
/// `x + input 1` followed by one of them. Anything else is `general`.
struct EpilogueForm {
  enum class Kind : uint8_t { general, clamp };
  Kind kind = Kind::general;
  bool add_input = false;  // input 1 is added before the clamp
  float lo = 0, hi = 0;    // -inf and +inf where unbounded
};
EpilogueForm recognise_epilogue(const Expr& expr);

}  // namespace sinter
