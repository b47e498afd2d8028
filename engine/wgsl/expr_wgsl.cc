// SPDX-License-Identifier: Apache-2.0
#include "engine/wgsl/expr_wgsl.h"

#include "engine/base/check.h"
#include "engine/base/str.h"

namespace sinter::wgsl {

namespace {

// The types around one operand type: $T itself, $U the unsigned one of the same width, $I the signed one, $B the boolean one, $S a suffix
// for names.
struct Types {
  std::string type, bits, integer, truth, suffix;
  char kind = 'f';  // f, i or u
  size_t width = 1;
};

Types types_of(std::string_view type) {
  Types types{std::string(type), "u32", "i32", "bool", "", 'f', 1};
  std::string_view element = type;
  if (type.starts_with("vec")) {
    types.width = static_cast<size_t>(type[3] - '0');
    element = type.substr(5, 3);
    types.bits = StrCat("vec", types.width, "<u32>");
    types.integer = StrCat("vec", types.width, "<i32>");
    types.truth = StrCat("vec", types.width, "<bool>");
  }
  types.kind = element[0];
  types.suffix = StrCat(types.kind, types.width);
  SINTER_CHECK(element == "f32" || element == "i32" || element == "u32");
  return types;
}

std::string fill_in(std::string_view text, const Types& types) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out += text[i];
      continue;
    }
    switch (text[++i]) {
      case 'T':
        out += types.type;
        break;
      case 'U':
        out += types.bits;
        break;
      case 'B':
        out += types.truth;
        break;
      case 'I':
        out += types.integer;
        break;
      default:
        out += types.suffix;
        break;
    }
  }
  return out;
}

// WGSL compilers may assume that no float is NaN, so NaN is found by its bits and put back by hand where a builtin may
// drop it. Bodies that are the same for one lane and several.
constexpr std::string_view kIsNan =
    "fn nan_$S(x: $T) -> $B { return (bitcast<$U>(x) & $U(0x7fffffffu)) > $U(0x7f800000u); }\n";
constexpr std::string_view kIsInf =
    "fn inf_$S(x: $T) -> $B { return (bitcast<$U>(x) & $U(0x7fffffffu)) == $U(0x7f800000u); }\n";
constexpr std::string_view kMin =
    "fn min_$S(a: $T, b: $T) -> $T { return select(select(min(a, b), b, nan_$S(b)), a, nan_$S(a)); }\n";
constexpr std::string_view kMax =
    "fn max_$S(a: $T, b: $T) -> $T { return select(select(max(a, b), b, nan_$S(b)), a, nan_$S(a)); }\n";
constexpr std::string_view kRelu = "fn relu_$S(x: $T) -> $T { return select(max(x, $T(0.0)), x, nan_$S(x)); }\n";
constexpr std::string_view kSigmoid =
    "fn sigmoid_$S(x: $T) -> $T { return select($T(1.0) / ($T(1.0) + exp(-x)), x, nan_$S(x)); }\n";
// Drivers' sin and cos are good to three digits only: reduction by pi/2 in three parts, then polynomials on [-pi/4, pi/4].
constexpr std::string_view kSinCos = R"(fn sin_$S(x: $T, quarter: i32) -> $T {
  let j = round(x * 0.63661977236758);
  let y = ((x - j * 1.5703125) - j * 4.837512969970703e-4) - j * 7.54978995489188e-8;
  let z = y * y;
  let s = ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) * z * y + y;
  let c = ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z - 0.5 * z + 1.0;
  let q = $I(j) + $I(quarter);
  let r = select(s, c, (q & $I(1)) != $I(0));
  return select(r, -r, (q & $I(2)) != $I(0));
}
)";
// Some drivers compute tanh from exp(2x), which overflows.
constexpr std::string_view kTanh =
    "fn tanh_$S(x: $T) -> $T { return select(tanh(clamp(x, $T(-15.0), $T(15.0))), x, nan_$S(x)); }\n";
// Some drivers' log takes the absolute value, and is finite at 0.
constexpr std::string_view kLog = R"(fn log_$S(x: $T) -> $T {
  var quiet = $U(0x7fc00000u);
  var lowest = $U(0xff800000u);
  let r = select(log(x), bitcast<$T>(lowest), x == $T(0.0));
  return select(r, bitcast<$T>(quiet), nan_$S(x) | (x < $T(0.0)));
}
)";
constexpr std::string_view kSoftplus =
    "fn softplus_$S(x: $T) -> $T { return relu_$S(x) + log($T(1.0) + exp(-abs(x))); }\n";
constexpr std::string_view kAsinh = R"(fn asinh_$S(x: $T) -> $T {
  let a = abs(x);
  let r = log(a + sqrt(a * a + 1.0));
  return select(select(r, -r, x < $T(0.0)), x, nan_$S(x));
}
)";
// Drivers' own are good to four digits only. sqrt gives NaN outside [-1, 1].
constexpr std::string_view kAcos = R"(fn acos_$S(x: $T) -> $T {
  let a = abs(x);
  var q = ((-0.0012624911 * a + 0.0066700901) * a - 0.0170881256) * a + 0.0308918810;
  q = (((q * a - 0.0501743046) * a + 0.0889789874) * a - 0.2145988016) * a + 1.5707963050;
  let r = sqrt(1.0 - a) * q;
  return select(r, 3.14159265359 - r, x < $T(0.0));
}
)";
// Two minimax polynomials that meet at 475/512; the error is below 2 ulp.
constexpr std::string_view kErf = R"(fn erf_$S(x: $T) -> $T {
  let t = min(abs(x), $T(10.0));
  let s = t * t;
  let r = (-1.72853470e-5 * t + 3.83197126e-4) * s + (-3.88396438e-3 * t + 2.42546219e-2);
  let e = 1.0 - exp(((r * t - 1.06777877e-1) * t - 6.34846687e-1) * t * t + (-1.28717512e-1 * t - t));
  var q = (-5.96761703e-4 * s + 4.99119423e-3) * s - 2.67681349e-2;
  q = ((q * s + 1.12819925e-1) * s - 3.76125336e-1) * s + 1.28379166e-1;
  return select(q * x + x, select(e, -e, x < $T(0.0)), abs(x) > $T(0.927734375));
}
)";
// Division may be off by an ulp, so the quotient is corrected by what the remainder says.
constexpr std::string_view kModTrunc = R"(fn mod_trunc_$S(x: $T, y: $T) -> $T {
  let step = select(abs(y), -abs(y), x < $T(0.0));
  var r = x - y * trunc(x / y);
  r = select(r, r - step, abs(r) >= abs(y));
  r = select(r, r + step, r * step < $T(0.0));
  return select(r, x, inf_$S(y) & (abs(x) < abs(y)));
}
)";
constexpr std::string_view kModFloor = R"(fn mod_floor_$S(x: $T, y: $T) -> $T {
  let r = mod_trunc_$S(x, y);
  return select(r, r + y, (r != $T(0)) & ((r < $T(0)) != (y < $T(0))));
}
)";
// WGSL's pow is undefined for negative bases, and inexact for the square that models use most.
constexpr std::string_view kPow = R"(fn pow_$S(x: $T, y: $T) -> $T {
  let m = pow(abs(x), y);
  let whole = trunc(y) == y;
  let odd = whole & (abs(y) < $T(16777216.0)) & (fract(y * 0.5) != $T(0.0));
  var quiet = $U(0x7fc00000u);
  var r = select(m, -m, odd & (bitcast<$U>(x) >= $U(0x80000000u)));
  r = select(r, bitcast<$T>(quiet), !whole & (x < $T(0.0)));
  r = select(r, x * x, y == $T(2.0));
  r = select(r, x, y == $T(1.0));
  r = select(r, $T(0.0) * r + x + y, nan_$S(x) | nan_$S(y));
  return select(r, $T(1.0), (y == $T(0.0)) | (x == $T(1.0)));
}
)";
constexpr std::string_view kIntegerPow = R"(fn ipow_$S(x: $T, y: $T) -> $T {
  var r = $T(1);
  var square = x;
  var left = bitcast<$U>(y);
  for (var step = 0u; step < 32u; step++) {
    r = select(r, r * square, (left & $U(1u)) != $U(0u));
    square = square * square;
    left = left >> $U(1u);
  }
  // Negative exponents: r is right for the bases 1 and -1, anything else truncates to 0.
  return select(r, $T(0), (y < $T(0)) & (x != $T(1)) & (~x != $T(0)));
}
)";

class Printer {
 public:
  Printer(Writer& writer, const Expr& expr, std::string_view type, std::string_view prefix)
      : writer_(writer), expr_(expr), types_(types_of(type)), prefix_(prefix) {}

  std::string declare(size_t inputs) {
    std::string text;
    for (const ExprNode& node : expr_.nodes()) {
      std::string value = print(node);
      if (arity(node.op) == 0) {
        names_.push_back(std::move(value));
        continue;
      }
      names_.push_back(StrCat("t", names_.size()));
      text += StrCat("  let ", names_.back(), " = ", value, ";\n");
    }
    const std::string name = StrCat(prefix_, "_expr");
    std::string head = StrCat("fn ", name, "(");
    for (size_t i = 0; i < inputs; ++i) head += StrCat(i ? ", x" : "x", i, ": ", types_.type);
    writer_.declare(StrCat(head, ") -> ", types_.type, " {\n", text, "  return ", names_.back(), ";\n}\n"));
    return name;
  }

  void need(std::string_view helper) { writer_.declare_once(fill_in(helper, types_)); }
  const Types& types() const { return types_; }
  bool is_float() const { return types_.kind == 'f'; }

 private:
  std::string call(std::string_view name, const std::string& a) const { return StrCat(name, "(", a, ")"); }
  std::string call(std::string_view name, const std::string& a, const std::string& b) const {
    return StrCat(name, "(", a, ", ", b, ")");
  }
  std::string helper(std::string_view name) const { return StrCat(name, "_", types_.suffix); }
  std::string number(std::string_view text) const { return call(types_.type, std::string(text)); }
  /// 1 where the condition holds, else 0.
  std::string truth(const std::string& condition) const {
    return StrCat("select(", number("0"), ", ", number("1"), ", ", condition, ")");
  }
  std::string holds(const std::string& a) const { return StrCat("(", a, " != ", number("0"), ")"); }

  std::string constant(double value) {
    const std::string name = StrCat(prefix_, constants_++);
    if (types_.kind == 'f') writer_.f32(name, static_cast<float>(value));
    if (types_.kind == 'i') writer_.i32(name, static_cast<int32_t>(value));
    if (types_.kind == 'u') writer_.u32(name, static_cast<uint32_t>(static_cast<int64_t>(value)));
    return number(StrCat("p.", name));
  }

  std::string print(const ExprNode& node) {
    switch (arity(node.op)) {
      case 0:
        return node.op == ScalarOp::input ? StrCat("x", node.a) : constant(node.value);
      case 1:
        return unary(node.op, names_[node.a]);
      case 2:
        return binary(node.op, names_[node.a], names_[node.b]);
      default:
        return StrCat("select(", names_[node.c], ", ", names_[node.b], ", ", holds(names_[node.a]), ")");
    }
  }

  std::string with_nan(std::string_view body, std::string_view name, const std::string& a) {
    need(kIsNan);
    need(body);
    return call(helper(name), a);
  }

  // Some drivers' exp, log and others turn NaN into a number.
  std::string builtin(ScalarOp op, const std::string& a) {
    need(kIsNan);
    const std::string_view name = name_of(op);
    need(StrCat("fn ", name, "_$S(x: $T) -> $T { return select(", name, "(x), x, nan_$S(x)); }\n"));
    return call(helper(name), a);
  }

  std::string unary(ScalarOp op, const std::string& a) {
    switch (op) {
      case ScalarOp::neg:
        return types_.kind == 'u' ? StrCat(number("0"), " - ", a) : StrCat("-", a);
      case ScalarOp::sign:
        if (is_float()) return builtin(op, a);
        return types_.kind == 'u' ? truth(holds(a)) : call("sign", a);
      case ScalarOp::abs:
      case ScalarOp::sqrt:
        return call(name_of(op), a);
      case ScalarOp::floor:
      case ScalarOp::ceil:
        return is_float() ? call(name_of(op), a) : a;
      case ScalarOp::round_even:
        return is_float() ? call("round", a) : a;
      case ScalarOp::reciprocal:
        return StrCat(number("1"), " / ", a);
      case ScalarOp::relu:
        return is_float() ? with_nan(kRelu, "relu", a) : call("max", a, number("0"));
      case ScalarOp::sigmoid:
        return with_nan(kSigmoid, "sigmoid", a);
      case ScalarOp::sin:
        need(kSinCos);
        return call(helper("sin"), a, "0");
      case ScalarOp::cos:
        need(kSinCos);
        return call(helper("sin"), a, "1");
      case ScalarOp::tan:
        need(kSinCos);
        return StrCat(call(helper("sin"), a, "0"), " / ", call(helper("sin"), a, "1"));
      case ScalarOp::tanh:
        return with_nan(kTanh, "tanh", a);
      case ScalarOp::erf:
        need(kErf);
        return call(helper("erf"), a);
      case ScalarOp::softplus:
        need(kIsNan);
        need(kRelu);
        return with_nan(kSoftplus, "softplus", a);
      case ScalarOp::log:
        return with_nan(kLog, "log", a);
      case ScalarOp::acos:
        need(kAcos);
        return call(helper("acos"), a);
      case ScalarOp::asin:
        need(kAcos);
        return StrCat(number("1.57079632679"), " - ", call(helper("acos"), a));
      case ScalarOp::asinh:
        return with_nan(kAsinh, "asinh", a);
      case ScalarOp::logical_not:
        return truth(StrCat(a, " == ", number("0")));
      case ScalarOp::bit_not:
        return StrCat("~", a);
      case ScalarOp::is_nan:
        if (!is_float()) return number("0");
        need(kIsNan);
        return truth(call(helper("nan"), a));
      case ScalarOp::is_inf:
        if (!is_float()) return number("0");
        need(kIsInf);
        return truth(call(helper("inf"), a));
      default:
        return builtin(op, a);  // the rest have WGSL's names
    }
  }

  std::string binary(ScalarOp op, const std::string& a, const std::string& b) {
    switch (op) {
      case ScalarOp::add:
        return StrCat(a, " + ", b);
      case ScalarOp::sub:
        return StrCat(a, " - ", b);
      case ScalarOp::mul:
        return StrCat(a, " * ", b);
      case ScalarOp::div:
        if (is_float()) return StrCat(a, " / ", b);
        return StrCat("select(", a, " / ", b, ", ", number("0"), ", ", b, " == ", number("0"), ")");
      case ScalarOp::mod_trunc:
        if (!is_float()) return StrCat(a, " % ", b);
        need(kIsInf);
        need(kModTrunc);
        return call(helper("mod_trunc"), a, b);
      case ScalarOp::mod_floor:
        if (types_.kind == 'u') return StrCat(a, " % ", b);
        if (is_float()) need(kIsInf);
        need(is_float() ? kModTrunc : "fn mod_trunc_$S(x: $T, y: $T) -> $T { return x % y; }\n");
        need(kModFloor);
        return call(helper("mod_floor"), a, b);
      case ScalarOp::pow:
        if (is_float()) need(kIsNan);
        need(is_float() ? kPow : kIntegerPow);
        return call(helper(is_float() ? "pow" : "ipow"), a, b);
      case ScalarOp::min:
        return call(declare_min(writer_, types_.type), a, b);
      case ScalarOp::max:
        return call(declare_max(writer_, types_.type), a, b);
      case ScalarOp::less:
        return truth(StrCat(a, " < ", b));
      case ScalarOp::less_equal:
        return truth(StrCat(a, " <= ", b));
      case ScalarOp::greater:
        return truth(StrCat(a, " > ", b));
      case ScalarOp::greater_equal:
        return truth(StrCat(a, " >= ", b));
      case ScalarOp::equal:
        return truth(StrCat(a, " == ", b));
      case ScalarOp::logical_and:
        return truth(StrCat(holds(a), " & ", holds(b)));
      case ScalarOp::logical_or:
        return truth(StrCat(holds(a), " | ", holds(b)));
      case ScalarOp::logical_xor:
        return truth(StrCat(holds(a), " != ", holds(b)));
      case ScalarOp::bit_and:
        return StrCat(a, " & ", b);
      case ScalarOp::bit_or:
        return StrCat(a, " | ", b);
      case ScalarOp::bit_xor:
        return StrCat(a, " ^ ", b);
      case ScalarOp::shift_left:
        return shift(a, "<<", b);
      case ScalarOp::shift_right:
        return shift(a, ">>", b);
      default:
        return StrCat("select(", a, ", ", a, " * ", b, ", ", a, " < ", number("0"), ")");  // prelu
    }
  }

  // WGSL takes shift distances modulo 32.
  std::string shift(const std::string& a, std::string_view op, const std::string& b) const {
    const std::string distance = call(types_.bits, b);
    return StrCat("select(", a, " ", op, " ", distance, ", ", number("0"), ", ", distance,
                  " >= ", call(types_.bits, "32"), ")");
  }

  Writer& writer_;
  const Expr& expr_;
  Types types_;
  std::string prefix_;
  size_t constants_ = 0;
  std::vector<std::string> names_;
};

std::string declare_nan_safe(Writer& writer, std::string_view type, std::string_view builtin, std::string_view body) {
  const Types types = types_of(type);
  if (types.kind != 'f') return std::string(builtin);
  writer.declare_once(fill_in(kIsNan, types));
  writer.declare_once(fill_in(body, types));
  return StrCat(builtin, "_", types.suffix);
}

}  // namespace

std::string declare_expr(Writer& writer, const Expr& expr, size_t inputs, std::string_view type,
                         std::string_view prefix) {
  SINTER_CHECK(!expr.empty());
  return Printer(writer, expr, type, prefix).declare(inputs);
}

std::string print_expr(Writer& writer, const Expr& expr, std::span<const std::string> inputs, std::string_view type,
                       std::string_view prefix) {
  if (expr.empty()) return inputs[0];
  return StrCat(declare_expr(writer, expr, inputs.size(), type, prefix), "(", StrJoin(inputs, ", "), ")");
}

std::string declare_is_nan(Writer& writer, std::string_view type) {
  const Types types = types_of(type);
  writer.declare_once(fill_in(kIsNan, types));
  return StrCat("nan_", types.suffix);
}

std::string declare_min(Writer& writer, std::string_view type) { return declare_nan_safe(writer, type, "min", kMin); }
std::string declare_max(Writer& writer, std::string_view type) { return declare_nan_safe(writer, type, "max", kMax); }

}  // namespace sinter::wgsl
