// SPDX-License-Identifier: Apache-2.0
#include "engine/diag/cost.h"

#include <gtest/gtest.h>

#include "engine/diag/ceilings.h"
#include "engine/diag/roofline.h"
#include "engine/ops/infer.h"

namespace sinter::diag {
namespace {

// One node over graph inputs of these shapes, planned for the reference rows or for the device.
std::shared_ptr<const plan::Plan> plan_of(std::string_view op, std::vector<Shape> inputs, Attrs attrs,
                                          plan::Backend backend, Expr expr = {}) {
  auto graph = std::make_shared<Graph>();
  Node node{.name = "n", .op = find_op("", op), .attrs = std::move(attrs), .expr = std::move(expr)};
  node.origins = {"n"};
  for (const Shape& shape : inputs) {
    graph->inputs.push_back(graph->add_value("x", DType::f32, shape));
    node.inputs.push_back(graph->inputs.back());
  }
  const ValueId output = graph->add_value("y", DType::f32, std::nullopt);
  graph->values[output].producer = 0;
  node.outputs = graph->outputs = {output};
  graph->nodes.push_back(std::move(node));
  EXPECT_TRUE(infer_shapes(*graph).has_value());
  plan::Target target;
  target.backend = backend;
  const auto plan = plan::build(graph, target, {inputs, {}});
  EXPECT_TRUE(plan.has_value()) << (plan ? "" : to_string(plan.error()));
  return plan ? *plan : nullptr;
}

StepCost cost(std::string_view op, std::vector<Shape> inputs, Attrs attrs = {}, Expr expr = {}) {
  const auto costs =
      costs_of(*plan_of(op, std::move(inputs), std::move(attrs), plan::Backend::reference, std::move(expr)));
  return costs.empty() ? StepCost() : costs[0];
}

TEST(Cost, OfConvolutions) {
  // 6 filters of 4x3x3 at 5x7 places; each product an addition and a multiplication.
  const StepCost conv = cost("Conv", {{1, 4, 7, 9}, {6, 4, 3, 3}});
  EXPECT_EQ(conv.flops, 2.0 * 6 * 4 * 9 * 5 * 7);
  EXPECT_EQ(conv.bytes, 4.0 * (4 * 7 * 9 + 6 * 4 * 9 + 6 * 5 * 7));
  Attrs depthwise;
  depthwise.set("group", int64_t{4});
  EXPECT_EQ(cost("Conv", {{1, 4, 7, 9}, {4, 1, 3, 3}}, depthwise).flops, 2.0 * 4 * 9 * 5 * 7);
  Expr relu;
  relu.unary(ScalarOp::relu, relu.input(0));
  EXPECT_EQ(cost("Conv", {{1, 4, 7, 9}, {4, 1, 3, 3}}, depthwise, relu).flops, (2.0 * 9 + 1) * 4 * 5 * 7);
  // Every input element meets all of its filter.
  EXPECT_EQ(cost("ConvTranspose", {{1, 4, 7, 9}, {4, 6, 3, 3}}).flops, 2.0 * 4 * 7 * 9 * 6 * 9);
}

TEST(Cost, OfProducts) {
  EXPECT_EQ(cost("MatMul", {{2, 3, 5}, {2, 5, 7}}).flops, 2.0 * 2 * 3 * 5 * 7);
  Attrs transposed;
  transposed.set("transA", int64_t{1});
  EXPECT_EQ(cost("Gemm", {{5, 3}, {5, 7}}, transposed).flops, 2.0 * 3 * 5 * 7);
}

TEST(Cost, OfTheRest) {
  EXPECT_EQ(cost("Add", {{3, 4}, {4}}).flops, 12);
  EXPECT_EQ(cost("Add", {{3, 4}, {4}}).bytes, 4.0 * (12 + 4 + 12));
  EXPECT_EQ(cost("Transpose", {{3, 4}}).flops, 0);
  EXPECT_EQ(cost("Softmax", {{3, 4}}).flops, 12);
  Attrs window;
  window.set("kernel_shape", std::vector<int64_t>{2, 2});
  EXPECT_EQ(cost("MaxPool", {{1, 1, 4, 4}}, window).flops, 9 * 4);
}

TEST(Cost, OnTheDeviceTheArithmeticIsCountedOnce) {
  double flops = 0;
  const auto plan = plan_of("MatMul", {{1, 4096}, {4096, 64}}, {}, plan::Backend::webgpu);
  ASSERT_TRUE(plan);
  for (const StepCost& step : costs_of(*plan)) flops += step.flops;
  EXPECT_EQ(flops, 2.0 * 4096 * 64);
}

TEST(Ceilings, TheSlowerOfArithmeticAndTrafficCounts) {
  const Ceilings ceilings{.of = "test", .gflop_per_s = 10, .bandwidth = {{1000, 4}, {1e6, 2}}};
  EXPECT_DOUBLE_EQ(ceilings.best_ms({.flops = 1e9, .bytes = 10}), 100);
  EXPECT_DOUBLE_EQ(ceilings.best_ms({.flops = 0, .bytes = 1000}), 1000 / 4e6);  // fits into the small set
  EXPECT_DOUBLE_EQ(ceilings.best_ms({.flops = 0, .bytes = 1001}), 1001 / 2e6);
  EXPECT_DOUBLE_EQ(ceilings.best_ms({.flops = 0, .bytes = 4e6}), 2);  // beyond all of them: the last
}

TEST(Roofline, HasADotForEachStepWithArithmetic) {
  const Ceilings ceilings{.of = "a <machine>", .gflop_per_s = 10, .bandwidth = {{1000, 4}}};
  const std::vector<RooflineStep> steps = {{.node = "a&b", .op = "Conv", .ms = 1, .cost = {1e6, 1e5}},
                                           {.node = "c", .op = "Transpose", .ms = 1, .cost = {0, 1e5}}};
  const std::string svg = roofline_svg(steps, ceilings, "m");
  EXPECT_NE(svg.find("a &lt;machine&gt;"), std::string::npos);
  EXPECT_NE(svg.find("a&amp;b (Conv, ): 1 ms, 1 GFLOP/s, 10 % of the ceiling"), std::string::npos) << svg;
  EXPECT_EQ(svg.find("c (Transpose"), std::string::npos);
}

}  // namespace
}  // namespace sinter::diag
