// SPDX-License-Identifier: Apache-2.0
// Tensor: dense row-major host data, shared by reference count. Copying a Tensor shares the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/base/result.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace sinter {

class Tensor {
 public:
  Tensor() = default;

  /// Zero-filled. Refuses (InvalidInput) shapes that are not static or whose byte size overflows; OutOfMemory
  /// otherwise.
  static Result<Tensor> alloc(DType dtype, const Shape& shape, std::string_view what = "a tensor");
  /// A view of bytes kept alive by `owner`. The bytes may be misaligned for the dtype: see `aligned`.
  static Tensor view(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                     std::shared_ptr<const void> owner);
  /// One dimension (or rank 0) of int64 values, for shapes and axes.
  static Result<Tensor> of_i64(std::span<const int64_t> values);
  static Result<Tensor> scalar_f32(float value);

  bool empty_handle() const { return dtype_ == DType::undefined; }
  explicit operator bool() const { return !empty_handle(); }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  size_t numel() const { return static_cast<size_t>(shape_.numel()); }
  size_t nbytes() const { return numel() * size_of(dtype_); }

  std::span<const std::byte> bytes() const { return {data_.get(), nbytes()}; }
  std::span<std::byte> mutable_bytes() { return {const_cast<std::byte*>(data_.get()), nbytes()}; }

  /// Elements as T; the size of T must be that of the dtype and the data aligned for it.
  template <class T>
  std::span<const T> data() const {
    return {reinterpret_cast<const T*>(data_.get()), numel()};
  }
  template <class T>
  std::span<T> mutable_data() {
    return {reinterpret_cast<T*>(const_cast<std::byte*>(data_.get())), numel()};
  }

  /// This tensor, or a copy where its bytes are misaligned for the dtype (model files place weights at any offset).
  Result<Tensor> aligned() const;
  /// The same bytes under another shape with as many elements.
  Tensor reshaped(const Shape& shape) const;

 private:
  DType dtype_ = DType::undefined;
  Shape shape_;
  std::shared_ptr<const std::byte> data_;
};

/// Element `i` as a number, whatever the dtype; bool reads as 0 or 1. For reference kernels and reports: one call an
/// element. Wide integers lose precision above 2^53: integer operators use the int64 pair below.
double get_f64(const Tensor& tensor, size_t i);
int64_t get_i64(const Tensor& tensor, size_t i);
/// Stores with the dtype's rounding (nearest even for floats); integers truncate toward zero and wrap.
void set_f64(Tensor& tensor, size_t i, double value);
void set_i64(Tensor& tensor, size_t i, int64_t value);

/// A copy converted to another dtype, as ONNX Cast does.
Result<Tensor> convert(const Tensor& tensor, DType to);

uint16_t f32_to_f16(float value);
float f16_to_f32(uint16_t bits);
uint16_t f32_to_bf16(float value);
float bf16_to_f32(uint16_t bits);

}  // namespace sinter
