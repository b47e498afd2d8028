// SPDX-License-Identifier: Apache-2.0
// BatchNormalization in inference form is y = x * factor + shift per channel, with factor = scale / sqrt(var + epsilon)
// and shift = bias - mean * factor.
#include <cmath>

#include "engine/passes/util.h"

namespace sinter::passes {
namespace {

struct Affine {
  std::vector<double> factor, shift;
};

// Nothing where a parameter is computed at run time.
Result<std::optional<Affine>> affine_of(const Graph& graph, const Node& node) {
  for (size_t i = 1; i <= 4; ++i) {
    if (!graph.values[node.inputs[i]].constant) return std::nullopt;
  }
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNone) return std::nullopt;
  }
  if (node.attrs.i("training_mode", 0) != 0) return std::nullopt;
  const auto scale = SINTER_TRY(constant_values_of(graph, node.inputs[1]));
  const auto bias = SINTER_TRY(constant_values_of(graph, node.inputs[2]));
  const auto mean = SINTER_TRY(constant_values_of(graph, node.inputs[3]));
  const auto var = SINTER_TRY(constant_values_of(graph, node.inputs[4]));
  const double epsilon = node.attrs.f("epsilon", 1e-5f);
  Affine affine;
  for (size_t c = 0; c < scale.size(); ++c) {
    affine.factor.push_back(scale[c] / std::sqrt(var[c] + epsilon));
    affine.shift.push_back(bias[c] - mean[c] * affine.factor[c]);
  }
  return affine;
}

Result<Tensor> to_tensor(const std::vector<double>& values, DType dtype, Shape shape) {
  Tensor tensor = SINTER_TRY(Tensor::alloc(dtype, shape, "a folded BatchNormalization"));
  for (size_t i = 0; i < values.size(); ++i) set_f64(tensor, i, values[i]);
  return tensor;
}

Result<bool> fold_into_conv(Rewriter& rewriter, NodeId conv_id, NodeId norm_id) {
  Graph& graph = rewriter.graph();
  const Node& conv = graph.nodes[conv_id];
  const Node& norm = graph.nodes[norm_id];
  const Value& weight = graph.values[conv.inputs[1]];
  const bool has_bias = conv.inputs.size() > 2 && conv.inputs[2] != kNone;
  if (!weight.constant || (has_bias && !graph.values[conv.inputs[2]].constant)) return false;
  std::optional<Affine> affine = SINTER_TRY(affine_of(graph, norm));
  const int64_t channels = weight.constant.shape()[0];
  if (!affine || static_cast<int64_t>(affine->factor.size()) != channels) return false;
  if (has_bias) {
    const auto bias = SINTER_TRY(constant_values_of(graph, conv.inputs[2]));
    for (size_t c = 0; c < bias.size(); ++c) affine->shift[c] += bias[c] * affine->factor[c];
  }
  Shape per_filter = Shape::filled(weight.constant.shape().rank(), 1);
  per_filter[0] = channels;
  // The scaled weight stays an expression, evaluated one tensor at a time when it is uploaded or packed: a model's
  // weights are never held twice.
  Patch patch(graph);
  const DType dtype = weight.dtype;
  const Shape weight_shape = weight.constant.shape();
  const std::string base = weight.name;
  const ValueId factor = patch.constant(base + "_bn_factor", SINTER_TRY(to_tensor(affine->factor, dtype, per_filter)));
  const ValueId shift = patch.constant(base + "_bn_shift", SINTER_TRY(to_tensor(affine->shift, dtype, {channels})));
  const ValueId scaled = patch.value(base + "_bn", dtype, weight_shape);
  Node multiply;
  multiply.name = graph.values[scaled].name;
  multiply.op = find_op("", "Mul");
  multiply.inputs = {graph.nodes[conv_id].inputs[1], factor};
  multiply.outputs = {scaled};
  multiply.origins = {graph.nodes[norm_id].name};
  Node by = graph.nodes[conv_id];
  by.inputs.resize(3);
  by.inputs[1] = scaled;
  by.inputs[2] = shift;
  by.origins = joined(by.origins, graph.nodes[norm_id].origins);
  const ValueId normed = graph.nodes[norm_id].outputs[0];
  patch.remove(norm_id);
  patch.add(std::move(multiply));
  by.outputs = {normed};
  patch.replace(conv_id, std::move(by));
  rewriter.apply(patch);
  return true;
}

}  // namespace

Result<> fold_batchnorm(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  const auto uses = consumers(graph);
  for (NodeId id : SINTER_TRY(topological_order(graph))) {
    if (!rewriter.open()) return {};
    const Node& node = graph.nodes[id];
    if (!is_op(node, "Conv") || !node.expr.empty()) continue;
    const NodeId next = only_consumer(graph, uses, node.outputs[0]);
    if (next == kNone || graph.nodes[next].dead || !is_op(graph.nodes[next], "BatchNormalization")) continue;
    if (graph.nodes[next].inputs[0] != node.outputs[0]) continue;
    SINTER_CHECK_OK(fold_into_conv(rewriter, id, next));
  }
  return {};
}

Result<> lower_batchnorm(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId id : SINTER_TRY(topological_order(graph))) {
    if (!rewriter.open()) return {};
    if (!is_op(graph.nodes[id], "BatchNormalization")) continue;
    const ValueId input = graph.nodes[id].inputs[0];
    if (!graph.values[input].shape || graph.values[input].shape->rank() < 2) continue;
    const std::optional<Affine> affine = SINTER_TRY(affine_of(graph, graph.nodes[id]));
    if (!affine) continue;
    const DType dtype = graph.values[input].dtype;
    Shape per_channel = Shape::filled(graph.values[input].shape->rank() - 1, 1);
    per_channel[0] = static_cast<int64_t>(affine->factor.size());
    Patch patch(graph);
    const std::string base = graph.nodes[id].name;
    Node map;
    map.name = base;
    map.op = find_op("sinter", "Map");
    map.inputs = {input, patch.constant(base + "_factor", SINTER_TRY(to_tensor(affine->factor, dtype, per_channel))),
                  patch.constant(base + "_shift", SINTER_TRY(to_tensor(affine->shift, dtype, per_channel)))};
    map.outputs = {graph.nodes[id].outputs[0]};
    map.origins = graph.nodes[id].origins;
    const uint16_t x = map.expr.input(0), factor = map.expr.input(1), shift = map.expr.input(2);
    map.expr.binary(ScalarOp::add, map.expr.binary(ScalarOp::mul, x, factor), shift);
    patch.replace(id, std::move(map));
    rewriter.apply(patch);
  }
  return {};
}

}  // namespace sinter::passes
