// SPDX-License-Identifier: Apache-2.0
#include "engine/passes/util.h"

#include <algorithm>

namespace sinter::passes {

bool is_op(const Node& node, std::string_view name, std::string_view domain) {
  return node.op->name == name && node.op->domain == domain;
}

bool is_graph_output(const Graph& graph, ValueId value) {
  return std::find(graph.outputs.begin(), graph.outputs.end(), value) != graph.outputs.end();
}

bool is_graph_input(const Graph& graph, ValueId value) {
  return std::find(graph.inputs.begin(), graph.inputs.end(), value) != graph.inputs.end();
}

std::optional<double> scalar_constant(const Graph& graph, ValueId value) {
  if (value == kNone) return std::nullopt;
  const Tensor& constant = graph.values[value].constant;
  if (!constant || constant.numel() != 1) return std::nullopt;
  const auto aligned = constant.aligned();
  if (!aligned) return std::nullopt;
  return get_f64(*aligned, 0);
}

Result<std::vector<double>> constant_values_of(const Graph& graph, ValueId value) {
  const Tensor aligned = SINTER_TRY(graph.values[value].constant.aligned());
  std::vector<double> values(aligned.numel());
  for (size_t i = 0; i < values.size(); ++i) values[i] = get_f64(aligned, i);
  return values;
}

NodeId only_consumer(const Graph& graph, const std::vector<std::vector<NodeId>>& uses, ValueId value) {
  if (value >= uses.size() || uses[value].size() != 1 || is_graph_output(graph, value)) return kNone;
  return uses[value][0];
}

Result<Expr> scalar_expr(const Node& node) {
  if (!node.expr.empty()) return node.expr;
  return node.op->scalar(node);
}

Expr substitute(const Expr& expr, std::span<const Substitute> inputs) {
  Expr out;
  std::vector<uint16_t> at;  // index in `out` of each node of `expr`
  const auto copy = [&out](const Expr& from) {
    std::vector<uint16_t> moved;
    for (const ExprNode& node : from.nodes()) {
      switch (arity(node.op)) {
        case 0:
          moved.push_back(node.op == ScalarOp::input ? out.input(node.a) : out.constant(node.value));
          break;
        case 1:
          moved.push_back(out.unary(node.op, moved[node.a]));
          break;
        case 2:
          moved.push_back(out.binary(node.op, moved[node.a], moved[node.b]));
          break;
        default:
          moved.push_back(out.select(moved[node.a], moved[node.b], moved[node.c]));
          break;
      }
    }
    return moved.back();
  };
  for (const ExprNode& node : expr.nodes()) {
    if (node.op == ScalarOp::input) {
      const Substitute& by = inputs[node.a];
      switch (by.kind) {
        case Substitute::Kind::input:
          at.push_back(out.input(by.input));
          break;
        case Substitute::Kind::constant:
          at.push_back(out.constant(by.constant));
          break;
        case Substitute::Kind::expression:
          at.push_back(copy(*by.expression));
          break;
      }
      continue;
    }
    switch (arity(node.op)) {
      case 0:
        at.push_back(out.constant(node.value));
        break;
      case 1:
        at.push_back(out.unary(node.op, at[node.a]));
        break;
      case 2:
        at.push_back(out.binary(node.op, at[node.a], at[node.b]));
        break;
      default:
        at.push_back(out.select(at[node.a], at[node.b], at[node.c]));
        break;
    }
  }
  return out;
}

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace sinter::passes
