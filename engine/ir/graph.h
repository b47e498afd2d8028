// SPDX-License-Identifier: Apache-2.0
// Graph: single-assignment values and nodes. Nodes refer to operators by OpDef; edits go through Patch (patch.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ir/attrs.h"
#include "engine/ir/expr.h"
#include "engine/tensor/tensor.h"

namespace sinter {

struct OpDef;  // engine/ops/op_def.h

using ValueId = uint32_t;
using NodeId = uint32_t;
constexpr uint32_t kNone = ~0u;  // an absent optional input, a value without producer

struct Value {
  std::string name;  // ONNX name, unique; generated for values made by passes
  DType dtype = DType::undefined;
  std::optional<Shape> shape;  // nothing where even the rank is unknown
  Tensor constant;             // set for initialisers; its bytes may be misaligned (Tensor::aligned)
  NodeId producer = kNone;     // kNone for graph inputs and initialisers
  std::string stands_for;      // set by the layout pass: the [N, C, H, W] value that this [N, H, W, C] one replaces
};

struct Node {
  std::string name;  // ONNX name, or the first output's name
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<ValueId> inputs;   // kNone for absent optional inputs
  std::vector<ValueId> outputs;  // kNone for outputs nobody asked for
  // For an elementwise node made by fusion: the whole expression over `inputs`. For other operators: the epilogue,
  // where expression input 0 is the operator's own result and input i >= 1 is inputs[epilogue_first + i - 1], each of
  // the output's shape. epilogue_first is at least the operator's max_inputs: absent operands before it are kNone.
  Expr expr;
  uint32_t epilogue_first = 0;
  std::vector<std::string> origins;  // names of the ONNX nodes this node stands for, in execution order
  bool dead = false;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;  // dead ones included; use topological_order
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  size_t captured = 0;               // how many of the last outputs are not the model's own but kept for diagnosis
  std::vector<std::string> symbols;  // names of symbolic dimensions: symbol_dim(i) <-> symbols[i]

  ValueId add_value(std::string value_name, DType dtype, std::optional<Shape> shape);
  /// A name not used yet, from `base`.
  std::string fresh_name(std::string_view base) const;
  ValueId find_value(std::string_view value_name) const;  // kNone where absent
  /// The symbol's dimension, added where new.
  int64_t symbol(std::string_view symbol_name);
};

/// Live nodes, each after the producers of its inputs; stable. InvalidModel (naming a node) where there is a cycle.
Result<std::vector<NodeId>> topological_order(const Graph& graph);

/// For each value the live nodes that read it (once per use).
std::vector<std::vector<NodeId>> consumers(const Graph& graph);

/// True for values computed from initialisers alone.
std::vector<bool> constant_values(const Graph& graph);

/// The invariants: unique names, producers agree, single assignment, inputs in range, acyclic, arity within the
/// OpDef's.
Result<> verify(const Graph& graph);

}  // namespace sinter
