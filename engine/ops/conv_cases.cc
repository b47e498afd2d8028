// SPDX-License-Identifier: Apache-2.0
// Self-tests of Conv: every kernel with full and partial tiles, every attribute, both layouts.
#include "engine/base/str.h"
#include "engine/ops/cases.h"
#include "engine/ops/conv.h"

namespace sinter::ops {
namespace {

using Ints = std::vector<int64_t>;

struct ConvCase {
  std::string_view name;
  Shape x, w;  // x as [N, C, spatial...]
  Attrs attrs;
  bool bias = true;
};

OpCase make_case(const ConvCase& c, bool nhwc, DType dtype = DType::f32) {
  OpCase out;
  out.name = StrCat(c.name, nhwc ? " nhwc" : "", dtype == DType::f16 ? " f16" : "");
  out.attrs = c.attrs;
  if (nhwc) out.attrs.set("nhwc", int64_t{1});
  out.inputs = {{.dtype = dtype, .shape = nhwc ? channels_last(c.x) : c.x},
                {.dtype = dtype, .shape = c.w, .constant = true}};
  if (c.bias) out.inputs.push_back({.dtype = dtype, .shape = Shape{c.w[0]}, .constant = true});
  // A sum of many f16 products is rounded once at the end, on both sides.
  if (dtype == DType::f16) out.rtol = out.atol = 4e-3;
  return out;
}

void both_layouts(std::vector<OpCase>& cases, const ConvCase& c) {
  cases.push_back(make_case(c, false));
  cases.push_back(make_case(c, true));
}

void pointwise_cases(std::vector<OpCase>& cases) {
  both_layouts(cases, {"1x1", {2, 8, 5, 7}, {12, 8, 1, 1}, {}});
  both_layouts(cases, {"1x1 no bias", {1, 16, 3, 3}, {4, 16, 1, 1}, {}, false});
  both_layouts(cases, {"1x1 stride 2", {1, 8, 7, 6}, {8, 8, 1, 1}, attrs_of({{"strides", Ints{2, 2}}})});
  both_layouts(cases, {"1x1 deep", {1, 132, 7, 7}, {20, 132, 1, 1}, {}});
  both_layouts(cases, {"1x1 deep odd", {1, 67, 5, 5}, {9, 67, 1, 1}, {}});
  both_layouts(cases, {"1x1 wide", {1, 4, 40, 41}, {64, 4, 1, 1}, {}});
  both_layouts(cases, {"1x1 padded", {1, 4, 3, 3}, {4, 4, 1, 1}, attrs_of({{"pads", Ints{1, 0, 2, 1}}})});
  for (int64_t c : {1, 2, 3, 5, 7}) {
    both_layouts(cases, {StrCat("1x1 channels ", c), {1, c, 4, 5}, {c, c, 1, 1}, {}});
    both_layouts(cases, {StrCat("1x1 8 to ", c), {1, 8, 3, 3}, {c, 8, 1, 1}, {}});
    both_layouts(cases, {StrCat("1x1 ", c, " to 8"), {1, c, 3, 3}, {8, c, 1, 1}, {}});
  }
}

// Enough outputs for the tiled kernel: each of its blocks, with a partial one at every edge.
void tiled_cases(std::vector<OpCase>& cases) {
  cases.push_back(make_case({"1x1 tiled 128x128", {1, 16, 157, 157}, {68, 16, 1, 1}, {}}, true));
  cases.push_back(make_case({"1x1 tiled 64x128", {2, 32, 79, 79}, {68, 32, 1, 1}, {}, false}, true));
  cases.push_back(make_case({"1x1 tiled 128x64", {1, 16, 157, 157}, {36, 16, 1, 1}, {}}, true));
  cases.push_back(make_case({"1x1 tiled 64x64", {1, 48, 83, 83}, {132, 48, 1, 1}, {}}, true));
  cases.push_back(
      make_case({"3x3 tiled",
                 {1, 16, 166, 85},
                 {132, 16, 3, 3},
                 attrs_of({{"pads", Ints{2, 2, 1, 3}}, {"strides", Ints{2, 1}}, {"dilations", Ints{1, 2}}})},
                true));
  cases.push_back(make_case({"1x1 tiled f16", {1, 16, 84, 84}, {132, 16, 1, 1}, {}}, true, DType::f16));
}

void window_cases(std::vector<OpCase>& cases) {
  both_layouts(cases, {"3x3", {2, 4, 6, 5}, {8, 4, 3, 3}, attrs_of({{"pads", Ints{1, 1, 1, 1}}})});
  both_layouts(cases, {"3x3 first layer",
                       {1, 3, 17, 15},
                       {32, 3, 3, 3},
                       attrs_of({{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}})});
  both_layouts(cases, {"3x3 deep", {1, 72, 7, 7}, {12, 72, 3, 3}, attrs_of({{"pads", Ints{1, 1, 1, 1}}})});
  both_layouts(cases, {"3x3 deep odd", {1, 11, 5, 5}, {6, 11, 3, 3}, attrs_of({{"pads", Ints{1, 1, 1, 1}}})});
  both_layouts(cases, {"5x5 asymmetric pads", {1, 4, 7, 8}, {4, 4, 5, 5}, attrs_of({{"pads", Ints{0, 1, 2, 3}}})});
  both_layouts(
      cases,
      {"7x7 stride 2", {1, 3, 20, 20}, {8, 3, 7, 7}, attrs_of({{"pads", Ints{3, 3, 3, 3}}, {"strides", Ints{2, 2}}})});
  both_layouts(cases, {"3x2 dilated", {1, 4, 9, 9}, {4, 4, 3, 2}, attrs_of({{"dilations", Ints{2, 3}}})});
  both_layouts(cases, {"same_upper stride 2",
                       {1, 1, 4, 4},
                       {1, 1, 3, 3},
                       attrs_of({{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}})});
  both_layouts(cases, {"same_lower stride 2",
                       {1, 4, 4, 4},
                       {4, 4, 3, 3},
                       attrs_of({{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2, 2}}})});
  both_layouts(cases, {"valid", {1, 4, 5, 5}, {4, 4, 3, 3}, attrs_of({{"auto_pad", std::string("VALID")}})});
  both_layouts(cases, {"kernel larger than input", {1, 2, 2, 2}, {4, 2, 3, 3}, attrs_of({{"pads", Ints{1, 1, 1, 1}}})});
  both_layouts(cases, {"1-D", {2, 4, 9}, {8, 4, 3}, attrs_of({{"strides", Ints{2}}, {"pads", Ints{1, 1}}})});
  both_layouts(cases, {"3-D", {1, 3, 4, 5, 4}, {4, 3, 2, 3, 2}, attrs_of({{"pads", Ints{1, 0, 1, 0, 1, 0}}})});
  both_layouts(cases, {"3-D strided", {1, 4, 5, 5, 5}, {4, 4, 3, 3, 3}, attrs_of({{"strides", Ints{2, 1, 2}}})});
}

void group_cases(std::vector<OpCase>& cases) {
  const Attrs same = attrs_of({{"pads", Ints{1, 1, 1, 1}}});
  const auto grouped = [&](int64_t group, int64_t stride) {
    Attrs attrs = same;
    attrs.set("group", group);
    attrs.set("strides", Ints{stride, stride});
    return attrs;
  };
  both_layouts(cases, {"depthwise", {2, 8, 6, 7}, {8, 1, 3, 3}, grouped(8, 1)});
  both_layouts(cases, {"depthwise stride 2", {1, 12, 9, 8}, {12, 1, 3, 3}, grouped(12, 2)});
  both_layouts(cases, {"depthwise large", {1, 32, 130, 128}, {32, 1, 3, 3}, grouped(32, 1)});
  both_layouts(cases, {"depthwise no bias", {1, 4, 5, 5}, {4, 1, 3, 3}, grouped(4, 1), false});
  for (int64_t c : {1, 2, 3, 5, 7}) {
    both_layouts(cases, {StrCat("depthwise ", c), {1, c, 5, 4}, {c, 1, 3, 3}, grouped(c, 1)});
  }
  both_layouts(cases, {"depthwise 5x5 dilated",
                       {1, 8, 12, 12},
                       {8, 1, 5, 5},
                       attrs_of({{"group", int64_t{8}}, {"dilations", Ints{2, 2}}, {"pads", Ints{4, 4, 4, 4}}})});
  both_layouts(cases, {"depthwise multiplier 2", {1, 4, 5, 5}, {8, 1, 3, 3}, grouped(4, 1)});
  both_layouts(cases, {"8 filters per group", {1, 8, 9, 9}, {64, 1, 3, 3}, grouped(8, 2)});
  both_layouts(cases, {"group 2", {1, 8, 5, 5}, {12, 4, 3, 3}, grouped(2, 1)});
  both_layouts(cases, {"group 2 vectors", {1, 8, 5, 5}, {16, 4, 3, 3}, grouped(2, 1)});
  both_layouts(cases, {"group 2 odd channels", {1, 6, 5, 5}, {8, 3, 3, 3}, grouped(2, 1)});
  both_layouts(cases, {"group 3 odd", {1, 9, 4, 4}, {15, 3, 3, 3}, grouped(3, 1)});
}

/// clamp(x, 0, 6), x + residual, sigmoid(x) * residual.
void epilogue_cases(std::vector<OpCase>& cases) {
  const auto add = [&](std::string_view name, const ConvCase& c, bool nhwc, const Expr& expr) {
    OpCase out = make_case(c, nhwc);
    out.name += StrCat(" ", name);
    out.expr = expr;
    out.epilogue_first = 3;
    if (expr.input_count() > 1) {
      Shape y = c.x;
      y[1] = c.w[0];
      out.inputs.push_back({.shape = nhwc ? channels_last(y) : y});
    }
    cases.push_back(std::move(out));
  };
  Expr relu6;
  relu6.binary(ScalarOp::min, relu6.binary(ScalarOp::max, relu6.input(0), relu6.constant(0)), relu6.constant(6));
  Expr residual;
  residual.unary(ScalarOp::relu, residual.binary(ScalarOp::add, residual.input(0), residual.input(1)));
  Expr gate;
  gate.binary(ScalarOp::mul, gate.unary(ScalarOp::sigmoid, gate.input(0)), gate.input(1));
  const Attrs same = attrs_of({{"pads", Ints{1, 1, 1, 1}}});
  Attrs per_channel = same;
  per_channel.set("group", int64_t{8});
  for (const bool nhwc : {false, true}) {
    for (const auto& [name, expr] : {std::pair{"relu6", relu6}, {"residual relu", residual}, {"gate", gate}}) {
      add(name, {"1x1", {1, 8, 5, 5}, {8, 8, 1, 1}, {}}, nhwc, expr);
      add(name, {"1x1 deep", {1, 64, 5, 5}, {8, 64, 1, 1}, {}}, nhwc, expr);
      add(name, {"3x3 to 5", {1, 4, 5, 5}, {5, 4, 3, 3}, same}, nhwc, expr);
      add(name, {"depthwise", {1, 8, 5, 5}, {8, 1, 3, 3}, per_channel}, nhwc, expr);
    }
  }
}

}  // namespace

void conv_cases(std::vector<OpCase>& cases) {
  pointwise_cases(cases);
  tiled_cases(cases);
  window_cases(cases);
  group_cases(cases);
  epilogue_cases(cases);
  cases.push_back(make_case({"1x1", {1, 16, 5, 5}, {8, 16, 1, 1}, {}}, true, DType::f16));
  cases.push_back(
      make_case({"3x3", {1, 3, 8, 8}, {5, 3, 3, 3}, attrs_of({{"strides", Ints{2, 2}}})}, true, DType::f16));
  cases.push_back(make_case({"3x3", {1, 3, 8, 8}, {5, 3, 3, 3}, {}}, false, DType::f16));
  cases.push_back(make_case({"empty batch", {0, 4, 5, 5}, {4, 4, 3, 3}, {}}, false));
  cases.push_back(make_case({"empty batch", {0, 4, 5, 5}, {4, 4, 3, 3}, {}}, true));
  OpCase runtime_weight = make_case({"weight computed at run time", {1, 4, 5, 5}, {4, 4, 3, 3}, {}}, true);
  runtime_weight.inputs[1].constant = false;
  cases.push_back(std::move(runtime_weight));
}

}  // namespace sinter::ops
