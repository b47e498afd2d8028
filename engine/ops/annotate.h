// SPDX-License-Identifier: Apache-2.0
// Shapes of a graph under construction: node by node, with what shape arithmetic computes along the way.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/ops/op_def.h"

namespace sinter {

/// Infers the outputs of nodes as they are added, each after those that it reads. Shape arithmetic on known dimensions is
/// computed here, so that what follows it (Reshape, Slice, ...) is inferred too. The graph keeps the nodes: removing them is
/// a pass's business.
class Annotator {
 public:
  explicit Annotator(Graph& graph) : graph_(graph) {}
  /// Writes dtype and shape of the node's outputs into the graph.
  Result<> infer(NodeId id);

 private:
  const Tensor* known(ValueId id);
  void fold(const Node& node, std::span<const TensorInfo> inputs, std::span<const TensorInfo> outputs);

  Graph& graph_;
  std::vector<Tensor> known_;                   // by value: small constants, aligned, computed ones included
  std::vector<std::optional<DimValues>> dims_;  // by value: small integer tensors computed from symbolic shapes
};

}  // namespace sinter
