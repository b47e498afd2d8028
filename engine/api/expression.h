// SPDX-License-Identifier: Apache-2.0
// The expression behind a lazy Tensor, and how it becomes a Graph.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/api/state.h"
#include "engine/ir/attrs.h"
#include "engine/ir/graph.h"
#include "include/sinter/tensor.hpp"

namespace sinter::api::internal {

struct AttributeList {
  std::vector<std::pair<std::string, AttrValue>> items;
};

struct Expression {
  enum class Kind : uint8_t {
    op,
    input,     // given when a Function runs
    data,      // given now, may differ from run to run
    constant,  // given now, stays
    number,    // of the type of the operand that it meets
    failed,
  };
  Kind kind = Kind::op;
  uint64_t sequence = 0;  // order of creation, which is an execution order
  Source at;
  std::string op;
  std::shared_ptr<const AttributeList> attributes;  // null: none
  std::vector<Tensor> inputs;
  size_t outputs = 1;
  std::string name;  // of inputs and constants
  DType dtype = DType::undefined;
  Dims dims;
  HostTensor data;
  double number = 0;
  Error error;
  std::shared_ptr<EngineState> engine;  // of data

  ~Expression();
};

/// "model.cc:42".
std::string place(const Source& at);

/// The engine of the data that the tensors are made from; InvalidInput where there is none, or more than one.
Result<Engine> engine_of(const std::vector<Tensor>& tensors);

struct Built {
  Graph graph;
  std::vector<std::shared_ptr<const Expression>> inputs;  // behind graph.inputs, in their order
};

/// The graph that computes `outputs`. `inputs` come first among its inputs and must be all that are of Kind::input; data
/// follows. Errors name the expression and the place that wrote it.
Result<Built> build(const std::vector<Tensor>& inputs, const std::vector<Output>& outputs);

/// Text that is equal for expressions which build equal graphs; constants are named by their address.
std::string structure(const Built& built);

}  // namespace sinter::api::internal
