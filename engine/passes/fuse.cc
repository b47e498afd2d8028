// SPDX-License-Identifier: Apache-2.0
// Fusion of elementwise operators: into the Conv, Gemm or MatMul before them as its epilogue, and with each other.
#include <algorithm>

#include "engine/passes/util.h"

namespace sinter::passes {
namespace {

// Tensors beyond a kernel's own that one fused node may read; keeps every kernel within 8 storage buffers.
constexpr size_t kMaxEpilogueInputs = 2;
constexpr size_t kMaxMapInputs = 6;

bool same_shape(const Graph& graph, ValueId a, ValueId b) {
  const Value &x = graph.values[a], &y = graph.values[b];
  if (!x.shape || !y.shape || x.dtype != y.dtype || x.shape->rank() != y.shape->rank()) return false;
  for (size_t i = 0; i < x.shape->rank(); ++i) {
    if ((*x.shape)[i] != (*y.shape)[i] || (*x.shape)[i] == kUnknownDim) return false;
  }
  return true;
}

bool is_fusable(const Graph& graph, const Node& node) {
  if (node.dead || node.op->op_class != OpClass::elementwise || !(node.op->scalar || !node.expr.empty())) return false;
  const DType dtype = graph.values[node.outputs[0]].dtype;
  if (dtype != DType::f32 && dtype != DType::f16) return false;
  return std::all_of(node.inputs.begin(), node.inputs.end(),
                     [&](ValueId input) { return input == kNone || graph.values[input].dtype == dtype; });
}

// Conv has a bias operand of its own: an Add of one value per output channel becomes that bias.
bool is_channel_bias(const Graph& graph, const Node& producer, const Node& add, ValueId other) {
  if (!is_op(producer, "Conv") || !is_op(add, "Add") || !producer.expr.empty()) return false;
  if (producer.inputs.size() > 2 && producer.inputs[2] != kNone) return false;
  const Tensor& constant = graph.values[other].constant;
  const auto& weight = graph.values[producer.inputs[1]].shape;
  if (!constant || !weight || static_cast<int64_t>(constant.numel()) != (*weight)[0]) return false;
  const size_t rank = constant.shape().rank();
  const size_t from_end = producer.attrs.i("nhwc", 0) ? 1 : weight->rank() - 1;
  return rank >= from_end && constant.shape()[rank - from_end] == (*weight)[0];
}

// The node with `next` applied to its result; nothing where that cannot be expressed.
Result<std::optional<Node>> with_epilogue(Patch& patch, const Graph& graph, const Node& node, const Node& next) {
  const ValueId result = node.outputs[0];
  if (!same_shape(graph, result, next.outputs[0])) return std::nullopt;
  Node fused = node;
  if (fused.expr.empty()) {
    // Behind every operand of the operator's own: an absent bias keeps its place.
    const auto own = static_cast<size_t>(std::max(node.op->max_inputs, 0));
    fused.inputs.resize(std::max(fused.inputs.size(), own), kNone);
    fused.epilogue_first = static_cast<uint32_t>(fused.inputs.size());
  }
  if (next.inputs.size() == 2) {
    const ValueId other = next.inputs[next.inputs[0] == result ? 1 : 0];
    if (other != kNone && is_channel_bias(graph, node, next, other)) {
      const Tensor flat = graph.values[other].constant.reshaped({(*graph.values[node.inputs[1]].shape)[0]});
      fused.inputs.resize(3, kNone);
      fused.inputs[2] = patch.constant(graph.values[other].name + "_bias", flat);
      return fused;
    }
  }
  const Expr outer = SINTER_TRY(scalar_expr(next));
  Expr inner = fused.expr;
  if (inner.empty()) inner.input(0);
  std::vector<Substitute> inputs(next.inputs.size());
  for (size_t i = 0; i < next.inputs.size(); ++i) {
    const ValueId input = next.inputs[i];
    if (input == kNone) continue;
    if (input == result) {
      inputs[i] = {Substitute::Kind::expression, 0, 0, &inner};
    } else if (const auto constant = scalar_constant(graph, input)) {
      inputs[i] = {Substitute::Kind::constant, 0, *constant, nullptr};
    } else if (same_shape(graph, input, result)) {
      if (fused.inputs.size() - fused.epilogue_first >= kMaxEpilogueInputs) return std::nullopt;
      fused.inputs.push_back(input);
      const size_t number = fused.inputs.size() - fused.epilogue_first;
      inputs[i] = {Substitute::Kind::input, static_cast<uint16_t>(number), 0, nullptr};
    } else {
      return std::nullopt;
    }
  }
  fused.expr = substitute(outer, inputs);
  return fused;
}

// One elementwise node for two; nothing where the result would read too many tensors.
Result<std::optional<Node>> merged(const Graph& graph, const Node& first, const Node& next) {
  const ValueId result = first.outputs[0];
  if (!same_shape(graph, result, next.outputs[0])) return std::nullopt;
  const Expr inner_raw = SINTER_TRY(scalar_expr(first));
  const Expr outer = SINTER_TRY(scalar_expr(next));
  Node map;
  const auto number = [&](ValueId value) {
    const auto at = std::find(map.inputs.begin(), map.inputs.end(), value);
    if (at == map.inputs.end()) map.inputs.push_back(value);
    return static_cast<uint16_t>(std::find(map.inputs.begin(), map.inputs.end(), value) - map.inputs.begin());
  };
  const auto operand = [&](ValueId value) -> Substitute {
    if (value == kNone) return {};
    if (const auto constant = scalar_constant(graph, value)) return {Substitute::Kind::constant, 0, *constant, nullptr};
    return {Substitute::Kind::input, number(value), 0, nullptr};
  };
  std::vector<Substitute> inner_inputs, outer_inputs;
  for (ValueId input : first.inputs) inner_inputs.push_back(operand(input));
  const Expr inner = substitute(inner_raw, inner_inputs);
  for (ValueId input : next.inputs) {
    outer_inputs.push_back(input == result ? Substitute{Substitute::Kind::expression, 0, 0, &inner} : operand(input));
  }
  if (map.inputs.size() > kMaxMapInputs) return std::nullopt;
  map.name = next.name;
  map.op = find_op("sinter", "Map");
  map.expr = substitute(outer, outer_inputs);
  map.outputs = next.outputs;
  map.origins = joined(first.origins, next.origins);
  return map;
}

}  // namespace

Result<> fuse_epilogue(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId id : SINTER_TRY(topological_order(graph))) {
    while (rewriter.open()) {
      const Node& node = graph.nodes[id];
      if (node.dead || !node.op->accepts_epilogue || node.outputs[0] == kNone) break;
      const DType dtype = graph.values[node.outputs[0]].dtype;
      const auto uses = consumers(graph);
      const NodeId next = only_consumer(graph, uses, node.outputs[0]);
      if ((dtype != DType::f32 && dtype != DType::f16) || next == kNone || !is_fusable(graph, graph.nodes[next])) break;
      Patch patch(graph);
      std::optional<Node> fused = SINTER_TRY(with_epilogue(patch, graph, node, graph.nodes[next]));
      if (!fused) break;
      fused->outputs = graph.nodes[next].outputs;
      fused->origins = joined(fused->origins, graph.nodes[next].origins);
      patch.remove(next);
      patch.replace(id, std::move(*fused));
      rewriter.apply(patch);
    }
  }
  return {};
}

Result<> fuse_elementwise(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId id : SINTER_TRY(topological_order(graph))) {
    if (graph.nodes[id].dead || !is_fusable(graph, graph.nodes[id])) continue;
    while (rewriter.open()) {
      const auto uses = consumers(graph);
      const NodeId next = only_consumer(graph, uses, graph.nodes[id].outputs[0]);
      if (next == kNone || !is_fusable(graph, graph.nodes[next])) break;
      std::optional<Node> map = SINTER_TRY(merged(graph, graph.nodes[id], graph.nodes[next]));
      if (!map) break;
      Patch patch(graph);
      patch.remove(next);
      patch.replace(id, std::move(*map));
      rewriter.apply(patch);
    }
  }
  return {};
}

}  // namespace sinter::passes
