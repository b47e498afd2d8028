// SPDX-License-Identifier: Apache-2.0
// Before and after, as text; and the reference backend agrees on both.
#include "engine/passes/passes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "engine/ops/infer.h"
#include "engine/ops/print.h"
#include "engine/plan/plan.h"

namespace sinter::passes {
namespace {

class Builder {
 public:
  ValueId input(std::string name, Shape shape, DType dtype = DType::f32) {
    const ValueId id = graph.add_value(std::move(name), dtype, shape);
    graph.inputs.push_back(id);
    return id;
  }
  ValueId weight(std::string name, Shape shape, double lo = -1, double hi = 1) {
    const ValueId id = graph.add_value(std::move(name), DType::f32, shape);
    Tensor tensor = *Tensor::alloc(DType::f32, shape);
    std::uniform_real_distribution<float> uniform(static_cast<float>(lo), static_cast<float>(hi));
    for (float& value : tensor.mutable_data<float>()) value = uniform(random_);
    graph.values[id].constant = std::move(tensor);
    return id;
  }
  ValueId scalar(std::string name, float value) {
    const ValueId id = graph.add_value(std::move(name), DType::f32, Shape{});
    graph.values[id].constant = *Tensor::scalar_f32(value);
    return id;
  }
  ValueId op(std::string_view op_name, std::vector<ValueId> inputs, std::string name, Attrs attrs = {}) {
    const ValueId id = graph.add_value(name, DType::undefined, std::nullopt);
    Node node;
    node.name = name;
    node.op = find_op("", op_name);
    EXPECT_NE(node.op, nullptr) << op_name;
    node.attrs = std::move(attrs);
    node.inputs = std::move(inputs);
    node.outputs = {id};
    node.origins = {name};
    graph.values[id].producer = static_cast<NodeId>(graph.nodes.size());
    graph.nodes.push_back(std::move(node));
    return id;
  }
  Graph& finish(ValueId output) {
    graph.outputs = {output};
    const auto done = infer_shapes(graph);
    EXPECT_TRUE(done.has_value()) << to_string(done.error());
    return graph;
  }
  Graph graph;

 private:
  std::mt19937 random_{3};
};

Attrs conv_attrs(std::vector<int64_t> pads = {0, 0, 0, 0}, int64_t group = 1) {
  Attrs attrs;
  attrs.set("pads", std::move(pads));
  attrs.set("group", group);
  return attrs;
}

// Every value of the graph by the reference rows; the last output is returned.
Tensor evaluate(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> values(graph.values.size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = graph.values[i].constant;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]] = inputs[i];
  const auto order = topological_order(graph);
  for (NodeId id : *order) {
    const Node& node = graph.nodes[id];
    std::vector<const Tensor*> tensors;
    std::vector<TensorInfo> infos;
    for (ValueId input : node.inputs) {
      tensors.push_back(input == kNone ? nullptr : &values[input]);
      TensorInfo info;
      info.present = input != kNone;
      if (info.present) info = {values[input].dtype(), values[input].shape(), &values[input], true, true};
      infos.push_back(info);
    }
    const auto outputs = infer_node(node, infos, true);
    EXPECT_TRUE(outputs.has_value()) << to_string(outputs.error());
    auto results = run_reference(node, tensors, *outputs);
    EXPECT_TRUE(results.has_value()) << to_string(results.error());
    for (size_t i = 0; i < results->size(); ++i) {
      if (node.outputs[i] != kNone) values[node.outputs[i]] = (*results)[i];
    }
  }
  return values[graph.outputs[0]];
}

Tensor random_tensor(Shape shape) {
  std::mt19937 random(11);
  std::uniform_real_distribution<float> uniform(-2, 2);
  Tensor tensor = *Tensor::alloc(DType::f32, shape);
  for (float& value : tensor.mutable_data<float>()) value = uniform(random);
  return tensor;
}

void expect_same_answer(const Graph& before, const Graph& after, const std::vector<Tensor>& inputs) {
  const Tensor a = evaluate(before, inputs), b = evaluate(after, inputs);
  ASSERT_EQ(a.shape(), b.shape());
  for (size_t i = 0; i < a.numel(); ++i) {
    ASSERT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-4 * std::max(1.0f, std::abs(a.data<float>()[i]))) << i;
  }
}

size_t count(const Graph& graph, std::string_view op) {
  size_t n = 0;
  for (const Node& node : graph.nodes) n += !node.dead && node.op->name == op;
  return n;
}

Graph optimised(const Graph& graph, Options options = {}) {
  Graph copy = graph;
  const auto report = run(copy, options);
  EXPECT_TRUE(report.has_value()) << to_string(report.error());
  for (const Report::Row& row : report->rows) EXPECT_EQ(row.failure, "") << row.pass;
  return copy;
}

// conv -> clip -> depthwise -> clip -> conv -> add residual
Graph inverted_residual() {
  Builder b;
  const ValueId x = b.input("x", {2, 5, 6, 6});
  const ValueId lo = b.scalar("lo", 0), hi = b.scalar("hi", 6);
  ValueId y = b.op("Conv", {x, b.weight("w1", {7, 5, 1, 1}), b.weight("b1", {7})}, "expand", conv_attrs());
  y = b.op("Clip", {y, lo, hi}, "clip1");
  y = b.op("Conv", {y, b.weight("w2", {7, 1, 3, 3}), b.weight("b2", {7})}, "depthwise", conv_attrs({1, 1, 1, 1}, 7));
  y = b.op("Clip", {y, lo, hi}, "clip2");
  y = b.op("Conv", {y, b.weight("w3", {5, 7, 1, 1}), b.weight("b3", {5})}, "project", conv_attrs());
  return b.finish(b.op("Add", {x, y}, "sum"));
}

TEST(Passes, AnInvertedResidualBecomesThreeConvolutions) {
  const Graph before = inverted_residual();
  const Graph after = optimised(before);
  EXPECT_EQ(count(after, "Conv"), 3u) << print(after);
  EXPECT_EQ(count(after, "Clip") + count(after, "Add"), 0u) << print(after);
  EXPECT_EQ(count(after, "Transpose"), 2u) << print(after);
  expect_same_answer(before, after, {random_tensor({2, 5, 6, 6})});
}

TEST(Passes, FusionOffKeepsEveryOperator) {
  const Graph before = inverted_residual();
  Options options;
  options.fusion = false;
  const Graph after = optimised(before, options);
  EXPECT_EQ(count(after, "Clip"), 2u);
  EXPECT_EQ(count(after, "Add"), 1u);
  expect_same_answer(before, after, {random_tensor({2, 5, 6, 6})});
}

TEST(Passes, EveryPrefixOfThePatchesGivesTheSameAnswer) {
  const Graph before = inverted_residual();
  for (int64_t limit = 0; limit < 14; ++limit) {
    Options options;
    options.stop_after_patch = limit;
    expect_same_answer(before, optimised(before, options), {random_tensor({2, 5, 6, 6})});
  }
}

TEST(Passes, EachPassOffAloneGivesTheSameAnswer) {
  const Graph before = inverted_residual();
  for (const Pass& pass : all_passes()) {
    Options options;
    options.off = {std::string(pass.name)};
    expect_same_answer(before, optimised(before, options), {random_tensor({2, 5, 6, 6})});
  }
}

TEST(Passes, BatchNormalizationFoldsIntoTheConvolution) {
  Builder b;
  const ValueId x = b.input("x", {1, 3, 5, 5});
  ValueId y = b.op("Conv", {x, b.weight("w", {4, 3, 3, 3})}, "conv", conv_attrs({1, 1, 1, 1}));
  y = b.op("BatchNormalization",
           {y, b.weight("scale", {4}), b.weight("bias", {4}), b.weight("mean", {4}), b.weight("var", {4}, 0.1, 2)},
           "norm");
  const Graph before = b.finish(b.op("Relu", {y}, "relu"));
  const Graph after = optimised(before);
  EXPECT_EQ(count(after, "BatchNormalization") + count(after, "Relu"), 0u) << print(after);
  expect_same_answer(before, after, {random_tensor({1, 3, 5, 5})});
}

TEST(Passes, ALoneBatchNormalizationBecomesArithmetic) {
  Builder b;
  const ValueId x = b.input("x", {2, 4, 3, 3});
  const ValueId y = b.op(
      "BatchNormalization",
      {x, b.weight("scale", {4}), b.weight("bias", {4}), b.weight("mean", {4}), b.weight("var", {4}, 0.1, 2)}, "norm");
  const Graph before = b.finish(b.op("Relu", {y}, "relu"));
  const Graph after = optimised(before);
  EXPECT_EQ(count(after, "Map"), 1u) << print(after);
  EXPECT_EQ(count(after, "Relu"), 0u) << print(after);
  expect_same_answer(before, after, {random_tensor({2, 4, 3, 3})});
}

TEST(Passes, ChannelConcatenationStaysChannelsLast) {
  Builder b;
  const ValueId x = b.input("x", {1, 6, 4, 4});
  const ValueId left = b.op("Relu", {b.op("Conv", {x, b.weight("w1", {3, 6, 1, 1})}, "conv1", conv_attrs())}, "relu1");
  const ValueId right =
      b.op("Relu", {b.op("Conv", {x, b.weight("w2", {5, 6, 3, 3})}, "conv2", conv_attrs({1, 1, 1, 1}))}, "relu2");
  Attrs axis;
  axis.set("axis", int64_t{1});
  const Graph before = b.finish(b.op("GlobalAveragePool", {b.op("Concat", {left, right}, "concat", axis)}, "pool"));
  const Graph after = optimised(before);
  EXPECT_EQ(count(after, "Transpose"), 1u) << print(after);
  expect_same_answer(before, after, {random_tensor({1, 6, 4, 4})});
}

TEST(Passes, AValueReadTwiceIsNotFusedAway) {
  Builder b;
  const ValueId x = b.input("x", {1, 4, 3, 3});
  const ValueId y = b.op("Conv", {x, b.weight("w", {4, 4, 1, 1})}, "conv", conv_attrs());
  const Graph before = b.finish(b.op("Add", {b.op("Relu", {y}, "relu"), y}, "sum"));
  expect_same_answer(before, optimised(before), {random_tensor({1, 4, 3, 3})});
}

TEST(Passes, ElementwiseChainsMerge) {
  Builder b;
  const ValueId x = b.input("x", {3, 4}), z = b.input("z", {4});
  const ValueId y = b.op("Mul", {b.op("Add", {x, z}, "sum"), b.scalar("two", 2)}, "scaled");
  const Graph before = b.finish(b.op("Relu", {y}, "relu"));
  const Graph after = optimised(before);
  EXPECT_EQ(count(after, "Map"), 1u) << print(after);
  Tensor bias = random_tensor({4});
  expect_same_answer(before, after, {random_tensor({3, 4}), bias});
}

TEST(Passes, AnUnknownNameListsTheKnownOnes) {
  Graph graph = inverted_residual();
  Options options;
  options.off = {"fuse_everything"};
  const auto report = run(graph, options);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Code::InvalidInput);
  EXPECT_NE(report.error().hint.find("fuse_epilogue"), std::string::npos);
}

TEST(Passes, OutputsKeepTheirNames) {
  Builder b;
  const ValueId x = b.input("x", {2, 2});
  const ValueId y = b.op("Relu", {x}, "relu");
  const Graph after = optimised(b.finish(b.op("Identity", {y}, "answer")));
  EXPECT_EQ(after.values[after.outputs[0]].name, "answer");
  EXPECT_EQ(count(after, "Identity"), 0u);
}

}  // namespace
}  // namespace sinter::passes
