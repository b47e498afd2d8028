// SPDX-License-Identifier: Apache-2.0
#include "engine/ir/patch.h"

#include <algorithm>

namespace sinter {

ValueId Patch::value(std::string_view base_name, DType dtype, std::optional<Shape> shape) {
  return graph_.add_value(graph_.fresh_name(base_name), dtype, shape);
}

ValueId Patch::constant(std::string_view base_name, Tensor tensor) {
  const ValueId id = value(base_name, tensor.dtype(), tensor.shape());
  graph_.values[id].constant = std::move(tensor);
  return id;
}

void Patch::add(Node node) { added_.push_back(std::move(node)); }
void Patch::remove(NodeId node) { removed_.push_back(node); }
void Patch::replace_uses(ValueId from, ValueId to) { uses_.push_back({from, to}); }
void Patch::replace(NodeId node, Node by) { replaced_.push_back({node, std::move(by)}); }

void Patch::apply() {
  for (NodeId id : removed_) {
    Node& node = graph_.nodes[id];
    node.dead = true;
    for (ValueId output : node.outputs) {
      if (output != kNone) graph_.values[output].producer = kNone;
    }
  }
  for (auto& [id, by] : replaced_) {
    for (ValueId output : graph_.nodes[id].outputs) {
      if (output != kNone) graph_.values[output].producer = kNone;
    }
    graph_.nodes[id] = std::move(by);
    for (ValueId output : graph_.nodes[id].outputs) {
      if (output != kNone) graph_.values[output].producer = id;
    }
  }
  for (Node& node : added_) {
    const NodeId id = static_cast<NodeId>(graph_.nodes.size());
    for (ValueId output : node.outputs) {
      if (output != kNone) graph_.values[output].producer = id;
    }
    graph_.nodes.push_back(std::move(node));
  }
  for (const auto& [from, to] : uses_) {
    for (Node& node : graph_.nodes) {
      if (!node.dead) std::replace(node.inputs.begin(), node.inputs.end(), from, to);
    }
    for (ValueId& output : graph_.outputs) {
      if (output != from) continue;
      // The model's interface keeps its names: the replacement takes the output's name over.
      std::swap(graph_.values[from].name, graph_.values[to].name);
      output = to;
    }
  }
  added_.clear();
  removed_.clear();
  uses_.clear();
  replaced_.clear();
}

}  // namespace sinter
