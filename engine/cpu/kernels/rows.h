// SPDX-License-Identifier: Apache-2.0
// Vectorised loops over rows of floats: one operation of a Program, and softmax.
#pragma once

#include <cstddef>

#include "engine/ir/expr.h"

namespace sinter::cpu {

struct RowOp {
  ScalarOp op;
  const float* in[3];
  size_t step[3];  // 1, or 0 for an operand whose first kSplat floats are all the same value
  float* out;      // may be one of the operands
  size_t count;
};

struct RowKernels {
  static constexpr size_t kSplat = 16;
  size_t lanes;
  /// False where the operation has no vector form.
  bool (*run)(const RowOp&);
  /// One row; `log` gives log-softmax.
  void (*softmax)(const float* in, float* out, size_t count, bool log);
  /// out[i] = in[i] * scale[i] + shift[i], or scale[0] and shift[0] for all where not `each`.
  void (*affine)(const float* in, const float* scale, const float* shift, bool each, float* out, size_t count);
};

const RowKernels& row_kernels();

}  // namespace sinter::cpu
