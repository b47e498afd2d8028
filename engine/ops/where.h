// SPDX-License-Identifier: Apache-2.0
// A node as the place of a failure.
#pragma once

#include "engine/base/failure.h"
#include "engine/ir/graph.h"

namespace sinter {

/// Name, operator, attributes, the nodes it stands for, and its operands with the dtypes and shapes that the graph knows.
Failure where(const Graph& graph, const Node& node);

}  // namespace sinter
