// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/shape.h"

#include <algorithm>

#include "engine/base/str.h"

namespace sinter {

std::optional<int64_t> checked_numel(const Shape& shape) {
  int64_t n = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (!is_known(dim)) return std::nullopt;
    empty |= dim == 0;
  }
  if (empty) return 0;
  for (int64_t dim : shape) {
    if (__builtin_mul_overflow(n, dim, &n)) return std::nullopt;
  }
  return n;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides = Shape::filled(shape.rank(), 1);
  for (size_t i = shape.rank(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

std::string to_string(const Shape& shape, std::span<const std::string> symbols) {
  std::string text = "[";
  for (size_t i = 0; i < shape.rank(); ++i) {
    if (i) text += ',';
    const int64_t dim = shape[i];
    if (is_known(dim)) {
      StrAppend(text, dim);
    } else if (is_symbol(dim) && symbol_of(dim) < symbols.size()) {
      text += symbols[symbol_of(dim)];
    } else {
      text += '?';
    }
  }
  return text + "]";
}

std::optional<int64_t> broadcast_dim(int64_t a, int64_t b) {
  if (a == b) return a;
  if (a == 1) return b;
  if (b == 1) return a;
  if (is_known(a) && is_known(b)) return std::nullopt;
  if (is_known(a)) return a;
  if (is_known(b)) return b;
  return kUnknownDim;
}

std::optional<Shape> broadcast(const Shape& a, const Shape& b) {
  const size_t rank = std::max(a.rank(), b.rank());
  Shape out = Shape::filled(rank, 1);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t da = i + a.rank() >= rank ? a[i + a.rank() - rank] : 1;
    const int64_t db = i + b.rank() >= rank ? b[i + b.rank() - rank] : 1;
    const auto dim = broadcast_dim(da, db);
    if (!dim) return std::nullopt;
    out[i] = *dim;
  }
  return out;
}

std::optional<size_t> fold_axis(int64_t axis, size_t rank) {
  const int64_t r = static_cast<int64_t>(rank);
  if (axis < -r || axis >= r) return std::nullopt;
  return static_cast<size_t>(axis < 0 ? axis + r : axis);
}

}  // namespace sinter
