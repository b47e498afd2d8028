// SPDX-License-Identifier: Apache-2.0
// The matrix product behind convolutions, Gemm and MatMul: rows given by pointers, weights packed in panels.
//
// A row of the left operand is a list of `segments` pointers to `k` floats each: one segment for a matrix or a 1x1
// convolution, one per filter tap for other convolutions (so that nothing is copied into patches).
//
// Packed weights: the N columns are cut into panels of 1 to `max_vectors` vectors. The panel that starts at column n0
// begins at float K * n0 and holds K rows of its width, K = segments * k; missing columns are zero.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sinter::cpu {

/// What happens to a finished tile: y = clamp(acc + bias + add), NaN kept.
struct TileEpilogue {
  const float* add = nullptr;  // same shape as the output
  size_t add_stride = 0;
  float lo, hi;  // -inf and +inf where unbounded
};

/// One tile: `height` rows by one panel.
struct TileArgs {
  const float* const* rows;  // [segments][height]
  size_t segments, k;
  size_t row_offset;    // added to every row pointer: a group's first channel
  const float* packed;  // the panel
  const float* ahead;   // one cache line of it per step of k is fetched for later
  const float* bias;    // of the panel's width; null: none
  float* out;
  size_t out_stride;
  size_t columns;  // valid columns of the panel
  TileEpilogue epilogue;
};

using TileFn = void (*)(const TileArgs&);

/// The micro-kernels of one instruction set.
struct GemmKernels {
  static constexpr size_t kMaxHeight = 8, kMaxVectors = 3;
  size_t lanes = 0;
  size_t height = 0;                          // rows of a full tile
  size_t max_vectors = 0;                     // widest panel
  TileFn tile[kMaxHeight][kMaxVectors] = {};  // [height - 1][vectors - 1]

  /// Vectors of the panel that starts when `left` vectors of columns remain.
  size_t panel_vectors(size_t left) const {
    if (left <= max_vectors) return left;
    // Two middle panels rather than a wide and a narrow one: narrow panels are bound by loads.
    return left == max_vectors + 1 && max_vectors == 3 ? 2 : max_vectors;
  }
  size_t vectors(size_t columns) const { return (columns + lanes - 1) / lanes; }
  size_t padded(size_t columns) const { return vectors(columns) * lanes; }
};

const GemmKernels& gemm_kernels();

}  // namespace sinter::cpu
