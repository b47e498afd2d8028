// SPDX-License-Identifier: Apache-2.0
// Binding: a graph with concrete dimensions. Shapes become static, shape arithmetic is folded, and what is computed
// from initialisers alone is set apart as weights.
#pragma once

#include <vector>

#include "engine/plan/plan.h"

namespace sinter::plan {

struct Bound {
  std::vector<PlannedValue> values;  // indexed by ValueId
  std::vector<NodeId> order;         // nodes left to run, in execution order
  std::vector<ValueId> needed;  // graph inputs whose contents must be given first; when not empty, the rest is partial
};

/// Nodes that the engine cannot plan are collected in `refusals`, each with its reason; what depends on them is
/// skipped.
Result<Bound> bind(const Graph& graph, const Bindings& bindings, std::vector<Refusal>& refusals);

/// The operands of a node as inference and kernels see them.
std::vector<TensorInfo> operand_infos(const std::vector<PlannedValue>& values, const std::vector<ValueId>& ids);

}  // namespace sinter::plan
