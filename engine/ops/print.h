// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "engine/ops/op_def.h"

namespace sinter {

/// One live node a line, in execution order, for tests and reports:
/// `%y:float32[1,8] = Conv(%x, %w, _) {group=1} | max(x0, 0)`.
std::string print(const Graph& graph);
std::string print(const Graph& graph, const Node& node);
/// "group=1 kernel_shape=[3,3]".
std::string print(const Attrs& attrs);
/// "max(add(x0, x1), 0)".
std::string print(const Expr& expr);

}  // namespace sinter
