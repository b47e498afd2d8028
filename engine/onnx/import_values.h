// SPDX-License-Identifier: Apache-2.0
// First half of the import: every value of the model gets its place in the graph, and every name its value.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/onnx/import.h"

namespace sinter::onnx {

/// What the parts of the import share.
struct Importing {
  const Model& model;
  const ImportOptions& options;
  Graph graph;
  std::map<std::string_view, ValueId> ids;  // the model's names
  std::vector<uint32_t> producers;          // by value: index of the model's node, kNone for others
  std::vector<bool> read;                   // by value: some node or the graph's output list reads it
  std::vector<RefusedNode> refused;

  /// "node 'conv1' (Conv)" in errors: the node's name, or its first output's where it has none.
  std::string node_name(size_t index) const;
};

/// Adds initialisers, graph inputs, Constant nodes and node outputs; finds the graph's outputs. Errors name duplicate,
/// missing and malformed values.
Result<> import_values(Importing& state);

}  // namespace sinter::onnx
