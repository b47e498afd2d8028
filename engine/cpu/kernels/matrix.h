// SPDX-License-Identifier: Apache-2.0
// Driver of the packed matrix product: cuts rows and panels into work, calls the micro-kernels, applies the epilogue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/cpu/kernels/epilogue.h"
#include "engine/cpu/kernels/gemm.h"
#include "engine/plan/target.h"

namespace sinter::cpu {

/// Fills `table[s * height + i]` with the pointer to segment s of row first + i, for i < height. `patches` has
/// patch_floats per row for rows that have to be copied.
using RowsFn = void (*)(const void* context, size_t first, size_t height, const float** table, float* patches);

/// out[r, g * columns + c] = epilogue(sum over segments and k of row(r)[g * k + ...] * packed(g)[..., c] + bias)
struct MatrixJob {
  size_t rows = 0, columns = 0;  // columns of one group
  size_t groups = 1;
  size_t segments = 1, k = 0;
  size_t row_floats = 0;  // of the left operand that a row adds to the rows before it; for blocking
  size_t patch_floats = 0;
  RowsFn rows_fn = nullptr;
  const void* rows_context = nullptr;
  const float* packed = nullptr;  // groups one after another, packed_floats(columns, segments * k) each
  const float* bias = nullptr;    // groups * columns, or null
  float* out = nullptr;
  size_t out_stride = 0;
  const Epilogue* epilogue = nullptr;
};

/// Rows of a plain matrix.
struct MatrixRows {
  const float* data;
  size_t stride;
};
void matrix_rows(const void* context, size_t first, size_t height, const float** table, float* patches);

/// Floats of one group's packed weights.
size_t packed_floats(size_t columns, size_t depth);
/// A right operand as it lies: element (segment s, row k, column c) is source[s * segment_stride + k * k_stride + c *
/// column_stride].
struct PackSource {
  const float* data;
  size_t segments, k, columns;
  size_t segment_stride, k_stride, column_stride;
};
void pack_matrix(const PackSource& source, float scale, float* packed);

/// Bytes that run_matrix needs (pointers and shapes of the job may still be missing, counts not).
uint64_t matrix_scratch(const MatrixJob& job, unsigned threads);
void run_matrix(const MatrixJob& job, std::span<std::byte> scratch, plan::ThreadPool& pool);

}  // namespace sinter::cpu
