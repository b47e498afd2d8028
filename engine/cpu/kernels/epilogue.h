// SPDX-License-Identifier: Apache-2.0
// The epilogue of a node (node.expr over the operator's own result) as fast kernels apply it.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>

#include "engine/cpu/kernels/program.h"
#include "engine/ops/op_def.h"
#include "engine/plan/target.h"

namespace sinter::cpu {

struct Epilogue {
  const float* add = nullptr;  // added before the clamp; laid out as the output
  float lo = -std::numeric_limits<float>::infinity(), hi = std::numeric_limits<float>::infinity();
  std::optional<Program> general;  // instead of the above
  std::array<const float*, Program::kMaxInputs> operands{};

  /// For the part of the output that starts at element `first`.
  void advance(size_t first) {
    if (add) add += first;
    for (const float*& operand : operands) {
      if (operand) operand += first;
    }
  }
  /// The general expression, in place, on elements [first, first + count) of the output.
  void apply(float* out, size_t first, size_t count) const;
};

/// The node's inputs that are the operator's own: the operands of the epilogue follow.
size_t own_inputs(const Node& node);
/// True where the node has no epilogue or one that `make_epilogue` can serve.
bool epilogue_accepted(const Node& node, std::span<const TensorInfo> inputs, const TensorInfo& output);
/// `as_program`: in general form whatever it is, for `apply`.
Epilogue make_epilogue(const plan::HostArgs& args, bool as_program = false);

}  // namespace sinter::cpu
