// SPDX-License-Identifier: Apache-2.0
// ONNX activations, Clip, and Map: the node that fusion makes of several elementwise nodes. NaN stays NaN,
// except where ONNX defines the result by a comparison that NaN fails (ThresholdedRelu, Shrink).
#include <cmath>

#include "engine/ops/elementwise.h"
#include "engine/ops/util.h"

namespace sinter {

using namespace ops;

namespace {

Term exp(Term x) { return unary(ScalarOp::exp, x); }
Term tanh(Term x) { return unary(ScalarOp::tanh, x); }
Term erf(Term x) { return unary(ScalarOp::erf, x); }
Term abs(Term x) { return unary(ScalarOp::abs, x); }
Term sigmoid(Term x) { return unary(ScalarOp::sigmoid, x); }
Term softplus(Term x) { return unary(ScalarOp::softplus, x); }
Term unit(Term x) { return min(max(x, 0), 1); }

double attr(const Node& node, std::string_view name, float fallback) { return node.attrs.f(name, fallback); }

Term gelu(const Node& node, Term x) {
  if (node.attrs.s("approximate", "none") == "tanh") {
    return 0.5 * x * (1 + tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * (x * x * x))));
  }
  return 0.5 * x * (1 + erf(x * std::sqrt(0.5)));
}

// Bounds are operands; either may be absent. Where they cross, the upper one wins.
Result<Expr> clip_expr(const Node& node) {
  Expr expr;
  Term value = input(expr, 0);
  const auto given = [&](size_t i) { return i < node.inputs.size() && node.inputs[i] != kNone; };
  if (given(1)) value = max(value, input(expr, 1));
  if (given(2)) value = min(value, input(expr, 2));
  return expr;
}

Result<> infer_clip(InferContext& ctx) {
  for (size_t i : {1, 2}) {
    if (ctx.has(i) && ctx.inputs[i].shape && ctx.inputs[i].shape->is_static() && ctx.inputs[i].shape->numel() != 1) {
      return bad(ctx.node,
                 StrCat(i == 1 ? "min" : "max", " must be one number, its shape is ", to_string(*ctx.inputs[i].shape)));
    }
  }
  SINTER_CHECK_OK(infer_elementwise(ctx));
  ctx.outputs[0].shape = ctx.inputs[0].shape;
  return {};
}

Result<Expr> map_expr(const Node& node) { return node.expr; }

void clip_cases(std::vector<OpCase>& out) {
  const OpCase::Input x{.shape = {2, 3, 4}, .lo = -3, .hi = 3};
  const OpCase::Input lo{.shape = {}, .values = {-1}}, hi{.shape = {}, .values = {1.5}};
  const OpCase::Input constant{.shape = {}, .values = {6}, .constant = true};
  out.push_back({.name = "both", .inputs = {x, lo, hi}});
  out.push_back({.name = "no bounds", .inputs = {x}});
  out.push_back({.name = "lower only", .inputs = {x, lo}});
  out.push_back({.name = "upper only, constant", .inputs = {x, {.absent = true}, constant}});
  out.push_back({.name = "crossed bounds", .inputs = {x, hi, lo}});
  out.push_back({.name = "NaN", .inputs = {{.shape = {5}, .values = {NAN, -9, 9, INFINITY, -INFINITY}}, lo, hi}});
  out.push_back({.name = "i8",
                 .inputs = {{.dtype = DType::i8, .shape = {7}, .lo = -100, .hi = 100},
                            {.dtype = DType::i8, .shape = {}, .values = {-50}},
                            {.dtype = DType::i8, .shape = {}, .values = {60}}}});
}

void prelu_cases(std::vector<OpCase>& out) {
  out.push_back({.name = "per channel", .inputs = {{.shape = {2, 3, 5}}, {.shape = {3, 1}}}});
  out.push_back({.name = "one slope", .inputs = {{.shape = {2, 4}}, {.shape = {1}}}});
  out.push_back({.name = "same shape", .inputs = {{.shape = {4, 4}}, {.shape = {4, 4}}}});
}

void map_cases(std::vector<OpCase>& out) {
  OpCase c{.name = "x * sigmoid(x) + y, clamped",
           .inputs = {{.shape = {2, 3, 5}, .lo = -4, .hi = 4}, {.shape = {3, 1}}}};
  const Term x = input(c.expr, 0), y = input(c.expr, 1);
  unit(x * sigmoid(x) + y);
  out.push_back(c);
  OpCase truth{.name = "a comparison at the end", .inputs = {{.shape = {8}}, {.shape = {8}}}};
  const Term a = input(truth.expr, 0), b = input(truth.expr, 1);
  static_cast<void>(a * 2 < b + 0.1);
  out.push_back(truth);
  OpCase wide{.name = "20 operands"};  // more than any device binds at once
  Term value{};
  for (size_t i = 0; i < 20; ++i) {
    wide.inputs.push_back({.shape = {3, 4}});
    const Term next = input(wide.expr, i);
    value = i == 0 ? next : i % 2 ? value * 0.5 + next : tanh(value) - next;
  }
  out.push_back(wide);
}

}  // namespace

SINTER_UNARY(op_relu, "Relu", 6, number_unary_cases, unary(ScalarOp::relu, x))
SINTER_UNARY(op_sigmoid, "Sigmoid", 6, (float_unary_special<-9, 9>), sigmoid(x))
SINTER_UNARY(op_tanh, "Tanh", 6, (float_unary_special<-9, 9>), tanh(x))
SINTER_UNARY(op_softplus, "Softplus", 1, (float_unary_special<-9, 9>), softplus(x))
SINTER_UNARY(op_softsign, "Softsign", 1, (float_unary<-9, 9>), x / (1 + abs(x)))
SINTER_UNARY(op_leaky_relu, "LeakyRelu", 6, (float_unary<-3, 3>), prelu(x, attr(node, "alpha", 0.01f)))
SINTER_UNARY(op_thresholded_relu, "ThresholdedRelu", 10, (float_unary<-3, 3>), where(x > attr(node, "alpha", 1), x, 0))
SINTER_UNARY(op_elu, "Elu", 6, (float_unary_special<-3, 3>), where(x < 0, attr(node, "alpha", 1) * (exp(x) - 1), x))
SINTER_UNARY(op_celu, "Celu", 12, (float_unary<-3, 3>),
             max(x, 0) + min(attr(node, "alpha", 1) * (exp(x / attr(node, "alpha", 1)) - 1), 0))
SINTER_UNARY(op_selu, "Selu", 6, (float_unary_special<-3, 3>),
             attr(node, "gamma", 1.0507009873554804934193349852946f) *
                 where(x < 0, attr(node, "alpha", 1.6732632423543772848170429916717f) * (exp(x) - 1), x))
SINTER_UNARY(op_hard_sigmoid, "HardSigmoid", 6, (float_unary_special<-9, 9>),
             unit(attr(node, "alpha", 0.2f) * x + attr(node, "beta", 0.5f)))
SINTER_UNARY(op_hard_swish, "HardSwish", 14, (float_unary<-9, 9>), (x * unit(x / 6 + 0.5)))
SINTER_UNARY(op_gelu, "Gelu", 20, (float_unary<-3, 3>), gelu(node, x))
SINTER_UNARY(op_mish, "Mish", 18, (float_unary<-9, 9>), (x * tanh(softplus(x))))
SINTER_UNARY(op_swish, "Swish", 24, (float_unary<-9, 9>), (x * sigmoid(attr(node, "alpha", 1) * x)))
SINTER_UNARY(op_shrink, "Shrink", 9, (float_unary<-3, 3>),
             where(x < -attr(node, "lambd", 0.5f), x + attr(node, "bias", 0),
                   where(x > attr(node, "lambd", 0.5f), x - attr(node, "bias", 0), 0)))
SINTER_BINARY(op_prelu, "PRelu", 7, prelu_cases, prelu(x, y))

extern const OpDef op_clip{.name = "Clip",
                           .first_opset = 6,
                           .min_inputs = 1,
                           .max_inputs = 3,
                           .op_class = OpClass::elementwise,
                           .infer = infer_clip,
                           .reference = reference_elementwise,
                           .wgsl = wgsl_elementwise,
                           .scalar = clip_expr,
                           .cases = clip_cases};

extern const OpDef op_map{.name = "Map",
                          .domain = "sinter",
                          .min_inputs = 1,
                          .max_inputs = -1,
                          .op_class = OpClass::elementwise,
                          .notes = "made by fusion: several elementwise nodes as one expression",
                          .infer = infer_elementwise,
                          .reference = reference_elementwise,
                          .wgsl = wgsl_elementwise,
                          .scalar = map_expr,
                          .cases = map_cases};

}  // namespace sinter
