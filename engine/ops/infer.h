// SPDX-License-Identifier: Apache-2.0
// Running the operator rows' inference and reference execution over a graph.
#pragma once

#include <span>
#include <vector>

#include "engine/ops/op_def.h"

namespace sinter {

/// Constants up to this size are shown to inference rows by value.
constexpr size_t kMaxInferredConstantBytes = 64 << 10;

/// Whether any machine could hold such a tensor: planning adds sizes up, and no sum of theirs may overflow.
bool addressable(const Shape& shape);

/// One node's outputs from its inputs. Checks arity and that every wanted output got a dtype (and, where `concrete`, a
/// static shape); errors carry the node's name, operator and input shapes.
Result<std::vector<TensorInfo>> infer_node(const Node& node, std::span<const TensorInfo> inputs, bool concrete);

/// Fills dtype and shape of every value that a node produces, in topological order, keeping what the model declares
/// where inference knows less. A declared dtype or known dimension that inference contradicts is InvalidModel.
Result<> infer_shapes(Graph& graph);

/// Runs one node's reference row on aligned inputs (null where absent).
Result<std::vector<Tensor>> run_reference(const Node& node, std::span<const Tensor* const> inputs,
                                          std::span<const TensorInfo> outputs);

/// "node 'conv1' (Conv)".
std::string describe(const Node& node);

}  // namespace sinter
