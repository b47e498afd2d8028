// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/fault.h"

#include <algorithm>

#include "engine/base/nearest.h"
#include "engine/base/str.h"
#include "engine/ops/op_def.h"

namespace sinter {

Result<Fault> parse_fault(std::string_view text) {
  const size_t at = text.rfind('=');
  Fault fault;
  if (at != std::string_view::npos) fault = {std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
  const bool known = fault.kind == "wrong" || fault.kind == "nan" || fault.kind == "error" || fault.kind == "hang";
  if (fault.node.empty() || !known) {
    return fail(Code::InvalidInput, StrCat("'", text, "' is not a fault"),
                "write NODE=KIND with KIND one of wrong, nan, error, hang");
  }
  return fault;
}

Result<DeviceFault> parse_device_fault(std::string_view text) {
  if (text == "no-adapter") return DeviceFault{DeviceFault::Kind::no_adapter, {}};
  const size_t split = text.find('@');
  const std::string_view kind = text.substr(0, split);
  const bool known = kind == "lost" || kind == "oom";
  if (!known || split == text.npos || split + 1 == text.size()) {
    return fail(Code::InvalidInput, StrCat("'", text, "' is not a fault of the device"),
                "write lost@STEP, oom@STEP or no-adapter, with STEP the index of a step or the name of a node");
  }
  return DeviceFault{kind == "lost" ? DeviceFault::Kind::lost : DeviceFault::Kind::oom,
                     std::string(text.substr(split + 1))};
}

NodeId find_node(const Graph& graph, std::string_view name) {
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    if (!graph.nodes[id].dead && graph.nodes[id].name == name) return static_cast<NodeId>(id);
  }
  const ValueId value = graph.find_value(name);
  return value == kNone ? kNone : graph.values[value].producer;
}

namespace {

// `graph` is sorted: a node comes after those that it reads.
bool reaches_an_output(const Graph& graph, NodeId from) {
  std::vector<bool> wanted(graph.values.size());
  for (ValueId output : graph.outputs) wanted[output] = true;
  for (size_t id = graph.nodes.size(); id-- > from;) {
    bool needed = false;
    for (ValueId output : graph.nodes[id].outputs) needed |= output != kNone && wanted[output];
    if (id == from) return needed;
    if (!needed) continue;
    for (ValueId input : graph.nodes[id].inputs) {
      if (input != kNone) wanted[input] = true;
    }
  }
  return false;
}

}  // namespace

Result<std::string> inject(Graph& graph, const Fault& fault) {
  const NodeId id = find_node(graph, fault.node);
  if (id == kNone && graph.find_value(fault.node) != kNone) {
    return StrCat("'", fault.node, "' is a constant or an input");
  }
  if (id == kNone) {
    std::vector<std::string_view> names;
    for (const Node& node : graph.nodes) {
      if (!node.dead) names.push_back(node.name);
    }
    const auto near = nearest(fault.node, names);
    return fail(Code::InvalidInput, StrCat("the model has no node named '", fault.node, "'"),
                near.empty() ? std::string() : StrCat("did you mean '", near, "'?"));
  }
  const bool inert = !reaches_an_output(graph, id);
  // The barrier's output keeps the value's name and readers; the node itself writes a value of its own.
  const ValueId output = graph.nodes[id].outputs[0];
  const ValueId raw = graph.add_value(graph.fresh_name(graph.values[output].name + "_before_fault"),
                                      graph.values[output].dtype, graph.values[output].shape);
  graph.nodes[id].outputs[0] = raw;
  graph.values[raw].producer = id;
  Node barrier;
  barrier.name = graph.nodes[id].name;
  barrier.op = find_op("sinter", "Inject");
  barrier.attrs.set("kind", fault.kind);
  barrier.inputs = {raw};
  barrier.outputs = {output};
  barrier.origins = {graph.nodes[id].name};
  graph.values[output].producer = static_cast<NodeId>(graph.nodes.size());
  graph.nodes.push_back(std::move(barrier));
  SINTER_CHECK_OK(verify(graph));
  return inert ? StrCat("no output of the model depends on node '", fault.node, "'") : std::string();
}

bool is_hang(const Node& node) {
  return node.op->name == "Inject" && node.op->domain == "sinter" && node.attrs.s("kind", "") == "hang";
}

}  // namespace sinter
