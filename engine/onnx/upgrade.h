// SPDX-License-Identifier: Apache-2.0
// Opset differences, normalised here and nowhere else: a node of any supported opset becomes one or more nodes in the newest
// form of their operators.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/ir/graph.h"

namespace sinter::onnx {

/// A node on its way into the graph. Its values are there already; its own inputs have their inferred dtype and shape.
struct Draft {
  std::string name;
  std::string op;
  std::string domain;
  Attrs attrs;
  std::vector<ValueId> inputs, outputs;
};

/// Appends the node, in its newest form, to `out`: in execution order where it takes several. `opset` is the version that the
/// model imports for the node's domain. Attributes that became inputs are added to the graph as constants.
Result<> upgrade(Graph& graph, Draft draft, int64_t opset, std::vector<Draft>& out);

}  // namespace sinter::onnx
