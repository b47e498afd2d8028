// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/where.h"

#include "engine/base/str.h"
#include "engine/ops/op_def.h"
#include "engine/ops/print.h"

namespace sinter {
namespace {

std::vector<std::string> operands(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> texts;
  for (ValueId id : ids) {
    if (id == kNone) {
      texts.emplace_back("absent");
      continue;
    }
    const Value& value = graph.values[id];
    texts.push_back(StrCat(value.name, " ", name_of(value.dtype),
                           value.shape ? to_string(*value.shape, graph.symbols) : std::string("[?]")));
  }
  return texts;
}

}  // namespace

Failure where(const Graph& graph, const Node& node) {
  Failure failure;
  failure.node = node.name;
  if (node.op) failure.op = node.op->name;
  failure.attributes = print(node.attrs);
#ifndef __wasm__  // costs download; the nodes that it stands for say the same
  if (!node.expr.empty()) failure.attributes += StrCat(failure.attributes.empty() ? "" : " ", "| ", print(node.expr));
#endif
  failure.nodes = node.origins;
  failure.inputs = operands(graph, node.inputs);
  failure.outputs = operands(graph, node.outputs);
  return failure;
}

}  // namespace sinter
