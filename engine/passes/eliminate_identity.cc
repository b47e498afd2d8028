// SPDX-License-Identifier: Apache-2.0
#include "engine/passes/util.h"

namespace sinter::passes {
namespace {

bool gives_its_input(const Graph& graph, const Node& node) {
  for (size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNone) return false;
  }
  if (is_op(node, "Identity") || is_op(node, "Dropout")) return true;
  const Value& input = graph.values[node.inputs[0]];
  const Value& output = graph.values[node.outputs[0]];
  if (is_op(node, "Cast")) return input.dtype == output.dtype;
  if (is_op(node, "Concat")) return node.inputs.size() == 1;
  if (is_op(node, "Transpose")) {
    const auto perm = node.attrs.ints("perm");
    for (size_t i = 0; i < perm.size(); ++i) {
      if (perm[i] != static_cast<int64_t>(i)) return false;
    }
    return !perm.empty();
  }
  return false;
}

}  // namespace

Result<> eliminate_identity(Rewriter& rewriter) {
  Graph& graph = rewriter.graph();
  for (NodeId id : SINTER_TRY(topological_order(graph))) {
    if (!rewriter.open()) return {};
    const Node& node = graph.nodes[id];
    if (!gives_its_input(graph, node)) continue;
    const ValueId input = node.inputs[0], output = node.outputs[0];
    // A graph output needs a node of its own where its bytes belong to an input, a constant or another output.
    const bool taken = is_graph_input(graph, input) || is_graph_output(graph, input) || graph.values[input].constant;
    if (is_graph_output(graph, output) && taken) continue;
    Patch patch(graph);
    patch.remove(id);
    patch.replace_uses(output, input);
    rewriter.apply(patch);
  }
  return {};
}

}  // namespace sinter::passes
