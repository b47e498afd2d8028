// SPDX-License-Identifier: Apache-2.0
#include "engine/ir/expr.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "engine/base/check.h"

namespace sinter {

namespace {

struct OpInfo {
  std::string_view name;
  int arity;
};

constexpr OpInfo kInfo[] = {
    {"input", 0},      {"const", 0},     {"neg", 1},           {"abs", 1},     {"sign", 1},       {"floor", 1},
    {"ceil", 1},       {"round", 1},     {"exp", 1},           {"log", 1},     {"sqrt", 1},       {"reciprocal", 1},
    {"relu", 1},       {"sigmoid", 1},   {"tanh", 1},          {"erf", 1},     {"softplus", 1},   {"sin", 1},
    {"cos", 1},        {"tan", 1},       {"asin", 1},          {"acos", 1},    {"atan", 1},       {"sinh", 1},
    {"cosh", 1},       {"asinh", 1},     {"acosh", 1},         {"atanh", 1},   {"not", 1},        {"bit_not", 1},
    {"is_nan", 1},     {"is_inf", 1},    {"add", 2},           {"sub", 2},     {"mul", 2},        {"div", 2},
    {"mod_floor", 2},  {"mod_trunc", 2}, {"pow", 2},           {"min", 2},     {"max", 2},        {"less", 2},
    {"less_equal", 2}, {"greater", 2},   {"greater_equal", 2}, {"equal", 2},   {"and", 2},        {"or", 2},
    {"xor", 2},        {"bit_and", 2},   {"bit_or", 2},        {"bit_xor", 2}, {"shift_left", 2}, {"shift_right", 2},
    {"prelu", 2},      {"select", 3},
};
static_assert(std::size(kInfo) == static_cast<size_t>(ScalarOp::select) + 1);

template <class T>
constexpr bool kFloat = std::is_floating_point_v<T>;

// Integer arithmetic wraps, so it is done unsigned.
template <class T>
T wrap(uint64_t value) {
  return static_cast<T>(value);
}

template <class T>
T integer_power(T base, T exponent) {
  if constexpr (std::is_signed_v<T>) {
    if (exponent < 0) {
      if (base == 1) return 1;
      if (base == -1) return exponent % 2 == 0 ? 1 : -1;
      return 0;
    }
  }
  uint64_t result = 1;
  for (uint64_t square = static_cast<uint64_t>(base), left = static_cast<uint64_t>(exponent); left != 0; left >>= 1) {
    if (left & 1) result *= square;
    square *= square;
  }
  return wrap<T>(result);
}

template <class T>
T unary(ScalarOp op, T x) {
  if constexpr (!kFloat<T>) {
    switch (op) {
      case ScalarOp::neg:
        return wrap<T>(-static_cast<uint64_t>(x));
      case ScalarOp::abs:
        return x < 0 ? wrap<T>(-static_cast<uint64_t>(x)) : x;
      case ScalarOp::sign:
        return static_cast<T>(x > 0) - static_cast<T>(x < 0);
      case ScalarOp::floor:
      case ScalarOp::ceil:
      case ScalarOp::round_even:
        return x;
      case ScalarOp::relu:
        return x < 0 ? 0 : x;
      case ScalarOp::logical_not:
        return x == 0;
      case ScalarOp::bit_not:
        return ~x;
      case ScalarOp::is_nan:
      case ScalarOp::is_inf:
        return 0;
      default: {
        // No ONNX operator takes integers here; saturate rather than convert out of range.
        const double y = unary(op, static_cast<double>(x));
        constexpr double kLimit = 9.2e18;
        return std::isnan(y) ? T{0} : static_cast<T>(std::clamp(y, std::is_signed_v<T> ? -kLimit : 0.0, kLimit));
      }
    }
  } else {
    switch (op) {
      case ScalarOp::neg:
        return -x;
      case ScalarOp::abs:
        return std::fabs(x);
      case ScalarOp::sign:
        return x > 0 ? 1 : x < 0 ? -1 : x;
      case ScalarOp::floor:
        return std::floor(x);
      case ScalarOp::ceil:
        return std::ceil(x);
      case ScalarOp::round_even:
        return std::nearbyint(x);
      case ScalarOp::exp:
        return std::exp(x);
      case ScalarOp::log:
        return std::log(x);
      case ScalarOp::sqrt:
        return std::sqrt(x);
      case ScalarOp::reciprocal:
        return 1 / x;
      case ScalarOp::relu:
        return x < 0 ? 0 : x;
      case ScalarOp::sigmoid:
        return 1 / (1 + std::exp(-x));
      case ScalarOp::tanh:
        return std::tanh(x);
      case ScalarOp::erf:
        return std::erf(x);
      case ScalarOp::softplus:
        return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x)));
      case ScalarOp::sin:
        return std::sin(x);
      case ScalarOp::cos:
        return std::cos(x);
      case ScalarOp::tan:
        return std::tan(x);
      case ScalarOp::asin:
        return std::asin(x);
      case ScalarOp::acos:
        return std::acos(x);
      case ScalarOp::atan:
        return std::atan(x);
      case ScalarOp::sinh:
        return std::sinh(x);
      case ScalarOp::cosh:
        return std::cosh(x);
      case ScalarOp::asinh:
        return std::asinh(x);
      case ScalarOp::acosh:
        return std::acosh(x);
      case ScalarOp::atanh:
        return std::atanh(x);
      case ScalarOp::logical_not:
        return x == 0;
      case ScalarOp::bit_not:
        return static_cast<double>(~static_cast<int64_t>(x));
      case ScalarOp::is_nan:
        return std::isnan(x);
      case ScalarOp::is_inf:
        return std::isinf(x);
      default:
        return x;
    }
  }
}

template <class T>
T divide(T a, T b) {
  if constexpr (kFloat<T>) {
    return a / b;
  } else {
    if (b == 0) return 0;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return wrap<T>(-static_cast<uint64_t>(a));
    return a / b;
  }
}

template <class T>
T remainder(T a, T b, bool floored) {
  if constexpr (kFloat<T>) {
    const T r = std::fmod(a, b);
    return floored && r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    if (b == 0 || (std::is_signed_v<T> && b == static_cast<T>(-1))) return 0;
    const T r = a % b;
    return floored && r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
}

template <class T>
T bits(ScalarOp op, T a, T b) {
  if constexpr (kFloat<T>) {
    return static_cast<T>(bits(op, static_cast<int64_t>(a), static_cast<int64_t>(b)));
  } else {
    const bool gone = b < 0 || b >= static_cast<T>(64);
    switch (op) {
      case ScalarOp::bit_and:
        return a & b;
      case ScalarOp::bit_or:
        return a | b;
      case ScalarOp::bit_xor:
        return a ^ b;
      case ScalarOp::shift_left:
        return gone ? 0 : wrap<T>(static_cast<uint64_t>(a) << b);
      default:
        return gone ? 0 : a >> b;
    }
  }
}

template <class T>
T binary(ScalarOp op, T a, T b) {
  switch (op) {
    case ScalarOp::add:
      if constexpr (kFloat<T>) return a + b;
      return wrap<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    case ScalarOp::sub:
      if constexpr (kFloat<T>) return a - b;
      return wrap<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    case ScalarOp::mul:
      if constexpr (kFloat<T>) return a * b;
      return wrap<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case ScalarOp::div:
      return divide(a, b);
    case ScalarOp::mod_floor:
      return remainder(a, b, true);
    case ScalarOp::mod_trunc:
      return remainder(a, b, false);
    case ScalarOp::pow:
      if constexpr (kFloat<T>) {
        return std::pow(a, b);
      } else {
        return integer_power(a, b);
      }
    case ScalarOp::min:
      return a != a ? a : b != b ? b : b < a ? b : a;
    case ScalarOp::max:
      return a != a ? a : b != b ? b : b > a ? b : a;
    case ScalarOp::less:
      return a < b;
    case ScalarOp::less_equal:
      return a <= b;
    case ScalarOp::greater:
      return a > b;
    case ScalarOp::greater_equal:
      return a >= b;
    case ScalarOp::equal:
      return a == b;
    case ScalarOp::logical_and:
      return a != 0 && b != 0;
    case ScalarOp::logical_or:
      return a != 0 || b != 0;
    case ScalarOp::logical_xor:
      return (a != 0) != (b != 0);
    case ScalarOp::prelu:
      if constexpr (kFloat<T>) return a < 0 ? a * b : a;
      return a < 0 ? wrap<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)) : a;
    default:
      return bits(op, a, b);
  }
}

template <class T>
T evaluate(std::span<const ExprNode> nodes, std::span<const T> inputs) {
  SINTER_CHECK(!nodes.empty());
  constexpr size_t kInPlace = 64;
  T in_place[kInPlace];
  std::vector<T> longer;
  T* values = in_place;
  if (nodes.size() > kInPlace) {
    longer.resize(nodes.size());
    values = longer.data();
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ExprNode& node = nodes[i];
    switch (arity(node.op)) {
      case 0:
        values[i] = node.op == ScalarOp::input ? inputs[node.a] : static_cast<T>(node.value);
        break;
      case 1:
        values[i] = unary(node.op, values[node.a]);
        break;
      case 2:
        values[i] = binary(node.op, values[node.a], values[node.b]);
        break;
      default:
        values[i] = values[node.a] != 0 ? values[node.b] : values[node.c];
        break;
    }
  }
  return values[nodes.size() - 1];
}

}  // namespace

std::string_view name_of(ScalarOp op) { return kInfo[static_cast<size_t>(op)].name; }
int arity(ScalarOp op) { return kInfo[static_cast<size_t>(op)].arity; }

uint16_t Expr::input_count() const {
  uint16_t count = 0;
  for (const ExprNode& node : nodes_) {
    if (node.op == ScalarOp::input) count = std::max<uint16_t>(count, node.a + 1);
  }
  return count;
}

bool Expr::reads(uint16_t index) const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [&](const ExprNode& node) { return node.op == ScalarOp::input && node.a == index; });
}

Expr Expr::then(const Expr& outer, uint16_t slot, std::span<const uint16_t> renumber) const {
  Expr joined = *this;
  if (joined.empty()) joined.input(0);
  const uint16_t own = static_cast<uint16_t>(joined.nodes_.size() - 1);
  std::vector<uint16_t> at(outer.nodes_.size());
  for (size_t i = 0; i < outer.nodes_.size(); ++i) {
    ExprNode node = outer.nodes_[i];
    if (node.op == ScalarOp::input) {
      at[i] = node.a == slot ? own : joined.input(renumber[node.a]);
      continue;
    }
    const int operands = arity(node.op);
    if (operands > 0) node.a = at[node.a];
    if (operands > 1) node.b = at[node.b];
    if (operands > 2) node.c = at[node.c];
    at[i] = joined.push(node);
  }
  // The result is the last node: what follows the mapped result is not part of it.
  if (!at.empty()) joined.nodes_.resize(at.back() + 1);
  return joined;
}

Expr Expr::with_constant(uint16_t slot, double value) const {
  Expr bound = *this;
  for (ExprNode& node : bound.nodes_) {
    if (node.op == ScalarOp::input && node.a == slot) node = {ScalarOp::constant, 0, 0, 0, value};
  }
  return bound;
}

double Expr::eval(std::span<const double> inputs) const { return evaluate<double>(nodes_, inputs); }
int64_t Expr::eval(std::span<const int64_t> inputs) const { return evaluate<int64_t>(nodes_, inputs); }
uint64_t Expr::eval(std::span<const uint64_t> inputs) const { return evaluate<uint64_t>(nodes_, inputs); }

std::vector<double> Expr::constants() const {
  std::vector<double> values;
  for (const ExprNode& node : nodes_) {
    if (node.op == ScalarOp::constant) values.push_back(node.value);
  }
  return values;
}

EpilogueForm recognise_epilogue(const Expr& expr) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  EpilogueForm form{EpilogueForm::Kind::clamp, false, -kInf, kInf};
  const auto nodes = expr.nodes();
  if (nodes.empty()) return form;

  // Peel clamps from the outside, then apply them to the bounds from the inside out.
  struct Bound {
    bool upper;
    float value;
  };
  std::vector<Bound> peeled;
  const ExprNode* node = &nodes.back();
  for (;;) {
    if (node->op == ScalarOp::relu) {
      peeled.push_back({false, 0});
      node = &nodes[node->a];
    } else if (node->op == ScalarOp::max || node->op == ScalarOp::min) {
      const ExprNode *inner = &nodes[node->a], *bound = &nodes[node->b];
      if (inner->op == ScalarOp::constant) std::swap(inner, bound);
      if (bound->op != ScalarOp::constant || std::isnan(bound->value)) return {};
      peeled.push_back({node->op == ScalarOp::min, static_cast<float>(bound->value)});
      node = inner;
    } else {
      break;
    }
  }
  for (size_t i = peeled.size(); i-- > 0;) {
    const auto apply = [&](float v) {
      return peeled[i].upper ? std::min(v, peeled[i].value) : std::max(v, peeled[i].value);
    };
    form.lo = apply(form.lo);
    form.hi = apply(form.hi);
  }
  const auto is_input = [](const ExprNode& n, uint16_t index) { return n.op == ScalarOp::input && n.a == index; };
  if (is_input(*node, 0)) return form;
  if (node->op == ScalarOp::add) {
    const ExprNode &a = nodes[node->a], &b = nodes[node->b];
    form.add_input = true;
    if ((is_input(a, 0) && is_input(b, 1)) || (is_input(a, 1) && is_input(b, 0))) return form;
  }
  return {};
}

}  // namespace sinter
