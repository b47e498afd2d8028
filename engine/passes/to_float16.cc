// SPDX-License-Identifier: Apache-2.0
// Lowering to half precision. Kernels still accumulate in float32; what is stored between them is float16.
#include <algorithm>

#include "engine/ops/infer.h"
#include "engine/passes/util.h"

namespace sinter::passes {
namespace {

class Lowering {
 public:
  explicit Lowering(Graph& graph) : graph_(graph), half_(graph.values.size(), kNone) {}

  Result<> run() {
    const std::vector<NodeId> order = SINTER_TRY(topological_order(graph_));
    constant_ = constant_values(graph_);
    for (NodeId id : order) SINTER_CHECK_OK(lower(id));
    return verify(graph_);
  }

 private:
  bool is_wide(ValueId value) const { return value != kNone && graph_.values[value].dtype == DType::f32; }

  void add_cast(ValueId from, ValueId to, std::vector<std::string> origins) {
    Node cast;
    cast.name = graph_.values[to].name;
    cast.op = find_op("", "Cast");
    cast.attrs.set("to", static_cast<int64_t>(graph_.values[to].dtype));
    cast.inputs = {from};
    cast.outputs = {to};
    cast.origins = std::move(origins);
    graph_.values[to].producer = static_cast<NodeId>(graph_.nodes.size());
    graph_.nodes.push_back(std::move(cast));
  }

  ValueId add_half(ValueId wide) {
    const Value& value = graph_.values[wide];
    return graph_.add_value(graph_.fresh_name(value.name + "_f16"), DType::f16, value.shape);
  }

  // The half-precision twin of a float32 value, made where it is not there yet.
  Result<ValueId> half_of(ValueId value) {
    if (value < half_.size() && half_[value] != kNone) return half_[value];
    const ValueId twin = add_half(value);
    // Weights are converted on the spot: passes want to see them as constants.
    if (const Tensor& constant = graph_.values[value].constant) {
      graph_.values[twin].constant = SINTER_TRY(convert(SINTER_TRY(constant.aligned()), DType::f16));
    } else {
      add_cast(value, twin, {});
    }
    remember(value, twin);
    return twin;
  }

  void remember(ValueId value, ValueId twin) {
    if (half_.size() < graph_.values.size()) half_.resize(graph_.values.size(), kNone);
    half_[value] = twin;
  }

  TensorInfo info_of(ValueId id) const {
    TensorInfo info;
    info.present = id != kNone;
    if (!info.present) return info;
    const Value& value = graph_.values[id];
    info.dtype = value.dtype;
    info.shape = value.shape;
    if (value.constant && value.constant.nbytes() <= kMaxInferredConstantBytes) info.constant = &value.constant;
    return info;
  }

  // Operands that are float32 by the operator's definition, whatever its data is.
  static bool stays_wide(const Node& node, size_t operand) {
    if (is_op(node, "Resize")) return operand > 0;
    return node.op->name == "QuantizeLinear" || node.op->name == "DequantizeLinear";
  }

  Result<> lower(NodeId id) {
    if (computes_constant(id)) return {};
    Node by = graph_.nodes[id];
    bool any = false;
    for (size_t i = 0; i < by.inputs.size(); ++i) {
      if (!is_wide(by.inputs[i]) || stays_wide(by, i)) continue;
      by.inputs[i] = SINTER_TRY(half_of(by.inputs[i]));
      any = true;
    }
    if (is_op(by, "Cast") && by.attrs.i("to", 0) == static_cast<int64_t>(DType::f32)) {
      by.attrs.set("to", static_cast<int64_t>(DType::f16));
      any = true;
    }
    if (!any) return {};
    std::vector<TensorInfo> inputs;
    for (ValueId input : by.inputs) inputs.push_back(info_of(input));
    const auto outputs = infer_node(by, inputs, false);
    if (!outputs) return {};  // it does not take float16: it goes on in float32
    for (size_t i = 0; i < by.outputs.size(); ++i) {
      if (by.outputs[i] == kNone) continue;
      const DType dtype = (*outputs)[i].dtype;
      if (dtype != graph_.values[by.outputs[i]].dtype && !(dtype == DType::f16 && is_wide(by.outputs[i]))) return {};
    }
    std::vector<std::pair<ValueId, ValueId>> lowered;
    for (size_t i = 0; i < by.outputs.size(); ++i) {
      const ValueId wide = by.outputs[i];
      if (wide == kNone || (*outputs)[i].dtype != DType::f16 || !is_wide(wide)) continue;
      by.outputs[i] = add_half(wide);
      graph_.values[by.outputs[i]].producer = id;
      lowered.push_back({wide, by.outputs[i]});
    }
    graph_.nodes[id] = std::move(by);
    for (const auto& [wide, twin] : lowered) {
      // The float32 value stays for the model's outputs and for nodes that stay wide. Its name goes to the one that is
      // computed, unless it is part of the model's interface.
      if (!is_graph_output(graph_, wide)) std::swap(graph_.values[wide].name, graph_.values[twin].name);
      add_cast(twin, wide, graph_.nodes[id].origins);
      remember(wide, twin);
    }
    return {};
  }

  // Weights stay as they are; the twin of the result is what is converted.
  bool computes_constant(NodeId id) const {
    const auto& outputs = graph_.nodes[id].outputs;
    return std::all_of(outputs.begin(), outputs.end(),
                       [&](ValueId output) { return output == kNone || constant_[output]; });
  }

  Graph& graph_;
  std::vector<ValueId> half_;  // by value: its float16 twin
  std::vector<bool> constant_;
};

// Casts back to float32 that nobody reads.
void drop_unread_casts(Graph& graph) {
  const auto uses = consumers(graph);
  for (Node& node : graph.nodes) {
    if (node.dead || !is_op(node, "Cast") || !uses[node.outputs[0]].empty()) continue;
    if (is_graph_output(graph, node.outputs[0])) continue;
    node.dead = true;
    graph.values[node.outputs[0]].producer = kNone;
  }
}

}  // namespace

Result<> to_float16(Graph& graph) {
  SINTER_CHECK_OK(Lowering(graph).run());
  drop_unread_casts(graph);
  return verify(graph);
}

}  // namespace sinter::passes
