// SPDX-License-Identifier: Apache-2.0
#include "engine/ir/graph.h"

#include <map>

#include "engine/base/str.h"

namespace sinter {

ValueId Graph::add_value(std::string value_name, DType dtype, std::optional<Shape> shape) {
  values.push_back({std::move(value_name), dtype, shape, {}, kNone, {}});
  return static_cast<ValueId>(values.size() - 1);
}

std::string Graph::fresh_name(std::string_view base) const {
  if (find_value(base) == kNone) return std::string(base);
  for (size_t i = values.size();; ++i) {
    std::string candidate = StrCat(base, "_", i);
    if (find_value(candidate) == kNone) return candidate;
  }
}

ValueId Graph::find_value(std::string_view value_name) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].name == value_name) return static_cast<ValueId>(i);
  }
  return kNone;
}

int64_t Graph::symbol(std::string_view symbol_name) {
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (symbols[i] == symbol_name) return symbol_dim(static_cast<uint32_t>(i));
  }
  symbols.emplace_back(symbol_name);
  return symbol_dim(static_cast<uint32_t>(symbols.size() - 1));
}

Result<std::vector<NodeId>> topological_order(const Graph& graph) {
  enum class Mark : uint8_t { none, open, done };
  std::vector<Mark> marks(graph.nodes.size(), Mark::none);
  std::vector<NodeId> order;
  std::vector<std::pair<NodeId, size_t>> stack;  // node and the next input to follow; explicit, for deep graphs
  for (size_t root = 0; root < graph.nodes.size(); ++root) {
    if (graph.nodes[root].dead || marks[root] != Mark::none) continue;
    stack.push_back({static_cast<NodeId>(root), 0});
    marks[root] = Mark::open;
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      const Node& node = graph.nodes[id];
      if (next == node.inputs.size()) {
        marks[id] = Mark::done;
        order.push_back(id);
        stack.pop_back();
        continue;
      }
      const ValueId input = node.inputs[next++];
      if (input == kNone) continue;
      const NodeId producer = graph.values[input].producer;
      if (producer == kNone || marks[producer] == Mark::done) continue;
      if (marks[producer] == Mark::open) {
        return fail(Code::InvalidModel,
                    StrCat("the graph has a cycle through node '", graph.nodes[producer].name, "'"));
      }
      marks[producer] = Mark::open;
      stack.push_back({producer, 0});
    }
  }
  return order;
}

std::vector<std::vector<NodeId>> consumers(const Graph& graph) {
  std::vector<std::vector<NodeId>> uses(graph.values.size());
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    if (graph.nodes[id].dead) continue;
    for (ValueId input : graph.nodes[id].inputs) {
      if (input != kNone) uses[input].push_back(static_cast<NodeId>(id));
    }
  }
  return uses;
}

std::vector<bool> constant_values(const Graph& graph) {
  std::vector<bool> constant(graph.values.size());
  for (size_t i = 0; i < graph.values.size(); ++i) constant[i] = static_cast<bool>(graph.values[i].constant);
  const auto order = topological_order(graph);
  if (!order) return constant;
  for (NodeId id : *order) {
    const Node& node = graph.nodes[id];
    bool all = true;
    for (ValueId input : node.inputs) all &= input == kNone || constant[input];
    for (ValueId output : node.outputs) {
      if (output != kNone) constant[output] = all;
    }
  }
  return constant;
}

Result<> verify(const Graph& graph) {
  const auto broken = [](std::string text) { return fail(Code::Internal, StrCat("graph invariant broken: ", text)); };
  std::map<std::string_view, uint32_t> names;
  for (const Value& value : graph.values) {
    if (!names.try_emplace(value.name, 0).second) return broken(StrCat("two values are named '", value.name, "'"));
  }
  std::vector<NodeId> producers(graph.values.size(), kNone);
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    const Node& node = graph.nodes[id];
    if (node.dead) continue;
    for (ValueId input : node.inputs) {
      if (input != kNone && input >= graph.values.size())
        return broken(StrCat("node '", node.name, "' reads no value"));
    }
    for (ValueId output : node.outputs) {
      if (output == kNone) continue;
      if (output >= graph.values.size()) return broken(StrCat("node '", node.name, "' writes no value"));
      if (producers[output] != kNone || graph.values[output].constant) {
        return broken(StrCat("value '", graph.values[output].name, "' is written twice"));
      }
      producers[output] = static_cast<NodeId>(id);
    }
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    if (producers[i] != graph.values[i].producer) {
      return broken(StrCat("value '", graph.values[i].name, "' has a wrong producer"));
    }
  }
  std::vector<bool> given(graph.values.size());
  for (ValueId input : graph.inputs) given[input] = true;
  const auto defined = [&](ValueId id) { return producers[id] != kNone || graph.values[id].constant || given[id]; };
  for (const Node& node : graph.nodes) {
    if (node.dead) continue;
    for (ValueId input : node.inputs) {
      if (input != kNone && !defined(input)) {
        return broken(StrCat("node '", node.name, "' reads '", graph.values[input].name, "', which nothing defines"));
      }
    }
  }
  for (ValueId output : graph.outputs) {
    if (!defined(output)) return broken(StrCat("graph output '", graph.values[output].name, "' is not defined"));
  }
  SINTER_CHECK_OK(topological_order(graph));
  return {};
}

}  // namespace sinter
