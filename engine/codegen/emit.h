// SPDX-License-Identifier: Apache-2.0
// A graph as C++: readable classes on the tensor API, weights beside them, locked together.
#pragma once

#include <string>
#include <vector>

#include "engine/ir/graph.h"

namespace sinter::codegen {

struct EmitOptions {
  std::string name;   // namespace and file name; an identifier
  std::string model;  // file name of the model, for comments
  bool embed = false;
};

struct Emitted {
  struct File {
    std::string name, text;
  };
  struct Field {
    std::string name, field;  // ONNX name and member of Inputs or Outputs
  };
  std::vector<File> files;
  std::vector<std::string> classes;
  std::vector<Field> inputs, outputs;
  uint64_t parameters = 0;
  std::string engine;
  uint32_t format = 0;
  uint64_t operators = 0, weights = 0;
};

/// `graph` is as import leaves it. All that cannot be expressed is in the one Unsupported error.
Result<Emitted> emit(const Graph& graph, const EmitOptions& options);

}  // namespace sinter::codegen
