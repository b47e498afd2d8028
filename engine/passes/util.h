// SPDX-License-Identifier: Apache-2.0
// What passes share: questions about a graph and the composition of scalar expressions.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/ir/patch.h"
#include "engine/ops/op_def.h"
#include "engine/passes/passes.h"

namespace sinter::passes {

bool is_op(const Node& node, std::string_view name, std::string_view domain = "");
bool is_graph_output(const Graph& graph, ValueId value);
bool is_graph_input(const Graph& graph, ValueId value);

/// The value of a one-element constant.
std::optional<double> scalar_constant(const Graph& graph, ValueId value);
/// The elements of a constant as doubles; nothing where it is not a constant.
Result<std::vector<double>> constant_values_of(const Graph& graph, ValueId value);

/// The only live node that reads `value`; kNone where there are none or several, or it is a graph output.
NodeId only_consumer(const Graph& graph, const std::vector<std::vector<NodeId>>& uses, ValueId value);

/// The elementwise expression of a node: its fused one, or its operator's row.
Result<Expr> scalar_expr(const Node& node);

/// What becomes of one input of an expression.
struct Substitute {
  enum class Kind : uint8_t { input, constant, expression };
  Kind kind = Kind::input;
  uint16_t input = 0;
  double constant = 0;
  const Expr* expression = nullptr;  // its inputs keep their numbers
};
Expr substitute(const Expr& expr, std::span<const Substitute> inputs);

/// Both lists, in order.
std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b);

}  // namespace sinter::passes
