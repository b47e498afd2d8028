// SPDX-License-Identifier: Apache-2.0
// Shape: up to 8 dimensions, each an integer, a named symbol or unknown. Trivially copyable, no allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>

namespace sinter {

constexpr size_t kMaxRank = 8;

/// A dimension is >= 0 where known; kUnknownDim where nothing is known; other negative values are symbols of the graph.
constexpr int64_t kUnknownDim = std::numeric_limits<int64_t>::min();
constexpr int64_t symbol_dim(uint32_t symbol) { return -1 - static_cast<int64_t>(symbol); }
constexpr bool is_known(int64_t dim) { return dim >= 0; }
constexpr bool is_symbol(int64_t dim) { return dim < 0 && dim != kUnknownDim; }
constexpr uint32_t symbol_of(int64_t dim) { return static_cast<uint32_t>(-1 - dim); }

class Shape {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<int64_t> dims) {
    for (int64_t dim : dims) push_back(dim);
  }
  explicit constexpr Shape(std::span<const int64_t> dims) {
    for (int64_t dim : dims) push_back(dim);
  }
  /// `rank` dimensions of value `fill`.
  static constexpr Shape filled(size_t rank, int64_t fill) {
    Shape shape;
    for (size_t i = 0; i < rank; ++i) shape.push_back(fill);
    return shape;
  }

  constexpr size_t rank() const { return rank_; }
  constexpr int64_t operator[](size_t i) const { return dims_[i]; }
  constexpr int64_t& operator[](size_t i) { return dims_[i]; }
  constexpr const int64_t* begin() const { return dims_.data(); }
  constexpr const int64_t* end() const { return dims_.data() + rank_; }
  constexpr std::span<const int64_t> dims() const { return {dims_.data(), rank_}; }
  /// The rank must stay <= kMaxRank; callers that read models check before.
  constexpr void push_back(int64_t dim) {
    if (rank_ < kMaxRank) dims_[rank_++] = dim;
  }
  constexpr void insert(size_t at, int64_t dim) {
    push_back(0);
    for (size_t i = rank_ - 1; i > at; --i) dims_[i] = dims_[i - 1];
    dims_[at] = dim;
  }
  constexpr void erase(size_t at) {
    for (size_t i = at; i + 1 < rank_; ++i) dims_[i] = dims_[i + 1];
    --rank_;
  }

  constexpr bool is_static() const {
    for (int64_t dim : *this) {
      if (!is_known(dim)) return false;
    }
    return true;
  }
  /// Number of elements of a static shape (1 for rank 0).
  constexpr int64_t numel() const {
    int64_t n = 1;
    for (int64_t dim : *this) n *= dim;
    return n;
  }
  /// Product of the dimensions [from, to) of a static shape.
  constexpr int64_t product(size_t from, size_t to) const {
    int64_t n = 1;
    for (size_t i = from; i < to; ++i) n *= dims_[i];
    return n;
  }

  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (size_t i = 0; i < a.rank_; ++i) {
      if (a.dims_[i] != b.dims_[i]) return false;
    }
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  uint8_t rank_ = 0;
};

/// Elements of a static shape, or nothing where the product overflows int64 or a dimension is not known.
std::optional<int64_t> checked_numel(const Shape& shape);

/// Row-major strides in elements.
Shape row_major_strides(const Shape& shape);

/// "[1,3,224,224]"; symbols print by name where `symbols` has one, unknown as "?".
std::string to_string(const Shape& shape, std::span<const std::string> symbols = {});

/// numpy broadcasting of two dimensions or shapes; nothing where they cannot broadcast. Unknown and symbolic dimensions
/// broadcast with 1 to themselves, with a known dimension > 1 to that dimension, with each other to unknown.
std::optional<int64_t> broadcast_dim(int64_t a, int64_t b);
std::optional<Shape> broadcast(const Shape& a, const Shape& b);

/// Axis in [-rank, rank) folded to [0, rank); nothing where it is outside.
std::optional<size_t> fold_axis(int64_t axis, size_t rank);

}  // namespace sinter
