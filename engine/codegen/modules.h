// SPDX-License-Identifier: Apache-2.0
// The structure of generated code: a graph's operators in execution order, grouped into nested modules.
#pragma once

#include <string>
#include <vector>

#include "engine/ir/graph.h"

namespace sinter::codegen {

struct Module {
  struct Part {
    NodeId node = kNone;  // an operator, or
    size_t child = 0;     // a module inside this one
    bool is_child() const { return node == kNone; }
  };
  std::string name;         // "features.1"; empty for the whole
  std::string class_name;   // "Features1"
  std::string member_name;  // "features_1", within its parent
  std::vector<Part> parts;  // in execution order
  std::vector<Module> children;
  std::vector<ValueId> inputs, outputs;  // what crosses its border, constants aside
  size_t operators = 0;
};

/// Modules follow the scopes in the nodes' names ("/features/features.1/Conv"), else those in the names of their weights
/// ("features.1.weight"), else the places where a single value holds all that is known so far. Each is a run of consecutive
/// operators, so that calling them in order is the execution order of the graph. Operators that no output needs are left out.
Result<Module> find_modules(const Graph& graph);

}  // namespace sinter::codegen
