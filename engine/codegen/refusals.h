// SPDX-License-Identifier: Apache-2.0
// What keeps a graph from becoming C++, found before anything is written.
#pragma once

#include "engine/codegen/modules.h"
#include "engine/ir/graph.h"

namespace sinter::codegen {

/// One Unsupported error for all nodes that cannot be expressed, and all that the planner would refuse when the code runs,
/// as far as that shows without inputs: symbolic dimensions count as 1, what waits for the contents of inputs is left out.
Result<> check_expressible(const Graph& graph, const Module& root);

}  // namespace sinter::codegen
