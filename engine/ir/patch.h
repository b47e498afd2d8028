// SPDX-License-Identifier: Apache-2.0
// Patch: the only way to edit a graph. A pass collects one rewrite, then applies it as a whole; the driver counts and
// may stop after patch N, which is what bisection searches over.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/ir/graph.h"

namespace sinter {

class Patch {
 public:
  explicit Patch(Graph& graph) : graph_(graph) {}

  /// A new value; it exists in the graph at once, but nothing refers to it until `apply`.
  ValueId value(std::string_view base_name, DType dtype, std::optional<Shape> shape);
  ValueId constant(std::string_view base_name, Tensor tensor);

  /// Adds a node. `origins` should list the ONNX nodes that it stands for.
  void add(Node node);
  void remove(NodeId node);
  /// Every use of `from`, graph outputs included, becomes `to`. A graph output keeps its name: `to` takes it over.
  void replace_uses(ValueId from, ValueId to);
  /// Replaces a node's fields as a whole (same outputs).
  void replace(NodeId node, Node by);

  bool empty() const { return added_.empty() && removed_.empty() && uses_.empty() && replaced_.empty(); }
  void apply();

 private:
  Graph& graph_;
  std::vector<Node> added_;
  std::vector<NodeId> removed_;
  std::vector<std::pair<ValueId, ValueId>> uses_;
  std::vector<std::pair<NodeId, Node>> replaced_;
};

}  // namespace sinter
