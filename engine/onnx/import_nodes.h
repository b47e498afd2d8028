// SPDX-License-Identifier: Apache-2.0
// Second half of the import: the nodes, in execution order.
#pragma once

#include "engine/onnx/import_values.h"

namespace sinter::onnx {

/// Adds every node after those it reads from, in its newest form and with inferred outputs. Nodes that are not supported are
/// collected in `refused`; other errors end the import.
Result<> import_nodes(Importing& state);

}  // namespace sinter::onnx
