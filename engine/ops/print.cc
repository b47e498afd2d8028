// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/print.h"

#include "engine/base/str.h"

namespace sinter {
namespace {

std::string print_attr(const AttrValue& value) {
  struct Printer {
    std::string operator()(int64_t v) const { return StrCat(v); }
    std::string operator()(float v) const { return StrCat(v); }
    std::string operator()(const std::string& v) const { return StrCat("'", v, "'"); }
    std::string operator()(const std::vector<int64_t>& v) const { return StrCat("[", StrJoin(v, ","), "]"); }
    std::string operator()(const std::vector<float>& v) const { return StrCat("[", StrJoin(v, ","), "]"); }
    std::string operator()(const std::vector<std::string>& v) const { return StrCat("[", StrJoin(v, ","), "]"); }
    std::string operator()(const Tensor& v) const { return StrCat(name_of(v.dtype()), to_string(v.shape())); }
  };
  return std::visit(Printer{}, value);
}

std::string print_value(const Graph& graph, ValueId id) {
  return id == kNone ? std::string("_") : StrCat("%", graph.values[id].name);
}

}  // namespace

std::string print(const Attrs& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs) text += StrCat(text.empty() ? "" : " ", name, "=", print_attr(value));
  return text;
}

std::string print(const Expr& expr) {
  std::vector<std::string> texts;
  for (const ExprNode& node : expr.nodes()) {
    switch (arity(node.op)) {
      case 0:
        texts.push_back(node.op == ScalarOp::input ? StrCat("x", node.a) : StrCat(node.value));
        break;
      case 1:
        texts.push_back(StrCat(name_of(node.op), "(", texts[node.a], ")"));
        break;
      case 2:
        texts.push_back(StrCat(name_of(node.op), "(", texts[node.a], ", ", texts[node.b], ")"));
        break;
      default:
        texts.push_back(StrCat(name_of(node.op), "(", texts[node.a], ", ", texts[node.b], ", ", texts[node.c], ")"));
    }
  }
  return texts.empty() ? std::string() : texts.back();
}

std::string print(const Graph& graph, const Node& node) {
  std::string text;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (i) text += ", ";
    text += print_value(graph, node.outputs[i]);
    if (node.outputs[i] == kNone) continue;
    const Value& value = graph.values[node.outputs[i]];
    text +=
        StrCat(":", name_of(value.dtype), value.shape ? to_string(*value.shape, graph.symbols) : std::string("[?]"));
  }
  text += StrCat(" = ", node.op->name, "(");
  for (size_t i = 0; i < node.inputs.size(); ++i) text += StrCat(i ? ", " : "", print_value(graph, node.inputs[i]));
  text += ")";
  if (node.attrs.size()) text += StrCat(" {", print(node.attrs), "}");
  if (!node.expr.empty()) text += StrCat(" | ", print(node.expr));
  return text;
}

std::string print(const Graph& graph) {
  std::string text;
  const auto order = topological_order(graph);
  if (!order) return to_string(order.error());
  for (NodeId id : *order) text += print(graph, graph.nodes[id]) + "\n";
  return text;
}

}  // namespace sinter
