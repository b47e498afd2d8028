// SPDX-License-Identifier: Apache-2.0
// HostTensor: a dense row-major array in host memory. Copies share the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "engine/base/result.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace sinter::api {

/// The element type that C++'s T has in tensors.
template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, bool>) return DType::boolean;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
  if constexpr (std::is_same_v<T, int8_t>) return DType::i8;
  if constexpr (std::is_same_v<T, uint16_t>) return DType::u16;
  if constexpr (std::is_same_v<T, int16_t>) return DType::i16;
  if constexpr (std::is_same_v<T, uint32_t>) return DType::u32;
  if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, uint64_t>) return DType::u64;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  return DType::undefined;
}

class HostTensor {
 public:
  HostTensor() = default;

  /// Zero-filled. InvalidInput where the shape is not made of numbers, OutOfMemory where there is none.
  static Result<HostTensor> zeros(DType dtype, const Shape& shape);
  /// A copy of the values, as many as the shape has elements.
  template <class T>
  static Result<HostTensor> of(const Shape& shape, std::span<const T> values) {
    static_assert(dtype_of<T>() != DType::undefined, "no tensor has elements of this type");
    return copy(dtype_of<T>(), shape, std::as_bytes(values));
  }
  /// A copy of bytes, for element types that C++ has none for (f16, bf16).
  static Result<HostTensor> copy(DType dtype, const Shape& shape, std::span<const std::byte> bytes);
  /// The bytes themselves, kept alive by `owner`. InvalidInput where they are not as many as the shape needs.
  static Result<HostTensor> view(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                                 std::shared_ptr<const void> owner);

  explicit operator bool() const { return dtype_ != DType::undefined; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  size_t numel() const { return static_cast<size_t>(shape_.numel()); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::span<std::byte> mutable_bytes() { return {const_cast<std::byte*>(bytes_.data()), bytes_.size()}; }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  /// The elements; empty where T is not the element type.
  template <class T>
  std::span<const T> data() const {
    if (dtype_of<T>() != dtype_) return {};
    return {reinterpret_cast<const T*>(bytes_.data()), numel()};
  }
  template <class T>
  std::span<T> mutable_data() {
    if (dtype_of<T>() != dtype_) return {};
    return {reinterpret_cast<T*>(const_cast<std::byte*>(bytes_.data())), numel()};
  }

 private:
  DType dtype_ = DType::undefined;
  Shape shape_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
};

struct NamedTensor {
  std::string name;
  HostTensor tensor;
};

}  // namespace sinter::api
