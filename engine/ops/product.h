// SPDX-License-Identifier: Apache-2.0
// Product: the matrix product that Gemm and MatMul share, as plain numbers.
//   y[z, m, n] = finish(alpha * sum over k of a[z, m, k] * b[z, k, n] + beta * c[m, n], ...)
#pragma once

#include "engine/ops/op_def.h"

namespace sinter::ops {

/// One matrix operand: which node input it is and its strides in elements.
struct Matrix {
  uint32_t operand = 0;
  int64_t row = 0, column = 0;  // a: m and k; b: k and n; c: m and n
  Shape batch;                  // strides per batch axis, 0 where broadcast
};

struct Product {
  int64_t m = 0, n = 0, k = 0;
  Shape batch;
  Matrix a, b, c;
  bool has_c = false;
  float alpha = 1, beta = 1;
};

/// Double accumulation for floats, 64-bit integers for integers; honours the node's epilogue.
Result<> reference_product(const RefContext& ctx, const Product& product);

enum class ProductMethod : uint8_t {
  automatic,
  plain,    // one thread per element: any strides, the truth of the device
  tiled,    // 4x4 elements a thread, operands staged in workgroup memory
  rows,     // few m, both operands contiguous along k: k split over the workgroup
  columns,  // few m, b contiguous along n: k split over part of the workgroup
};
Result<> wgsl_product(WgslContext& ctx, Product product, ProductMethod method = ProductMethod::automatic);

}  // namespace sinter::ops
