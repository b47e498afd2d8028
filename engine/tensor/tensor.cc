// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/tensor.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "engine/base/memory.h"
#include "engine/base/str.h"

namespace sinter {

Result<Tensor> Tensor::alloc(DType dtype, const Shape& shape, std::string_view what) {
  const auto numel = checked_numel(shape);
  uint64_t bytes = 0;
  if (!numel || size_of(dtype) == 0 || __builtin_mul_overflow(static_cast<uint64_t>(*numel), size_of(dtype), &bytes)) {
    return fail(Code::InvalidInput,
                StrCat("cannot hold ", what, " of shape ", to_string(shape), " and dtype ", name_of(dtype)),
                "every dimension must be known and the size must fit the machine");
  }
  Tensor tensor;
  tensor.data_ = SINTER_TRY(allocate(bytes, what));
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::view(DType dtype, const Shape& shape, std::span<const std::byte> bytes,
                    std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  tensor.data_ = std::shared_ptr<const std::byte>(std::move(owner), bytes.data());
  return tensor;
}

Result<Tensor> Tensor::of_i64(std::span<const int64_t> values) {
  Tensor tensor = SINTER_TRY(alloc(DType::i64, {static_cast<int64_t>(values.size())}));
  if (!values.empty()) std::memcpy(tensor.mutable_bytes().data(), values.data(), values.size_bytes());
  return tensor;
}

Result<Tensor> Tensor::scalar_f32(float value) {
  Tensor tensor = SINTER_TRY(alloc(DType::f32, {}));
  tensor.mutable_data<float>()[0] = value;
  return tensor;
}

Result<Tensor> Tensor::aligned() const {
  if (reinterpret_cast<uintptr_t>(data_.get()) % size_of(dtype_) == 0) return *this;
  Tensor copy = SINTER_TRY(alloc(dtype_, shape_, "an aligned copy of a weight"));
  std::memcpy(copy.mutable_bytes().data(), data_.get(), nbytes());
  return copy;
}

Tensor Tensor::reshaped(const Shape& shape) const {
  Tensor tensor = *this;
  tensor.shape_ = shape;
  return tensor;
}

float f16_to_f32(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t f32_to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x47800000) return sign | 0x7c00;  // >= 65536, infinity included
  if (magnitude < 0x38800000) {
    // Subnormal: adding 0.5 aligns the mantissa so that the hardware's addition does the rounding.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  const uint32_t odd = (magnitude >> 13) & 1;
  return sign | static_cast<uint16_t>((magnitude - 0x38000000 + 0xfff + odd) >> 13);
}

float bf16_to_f32(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t f32_to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

double get_f64(const Tensor& tensor, size_t i) {
  switch (tensor.dtype()) {
    case DType::f32:
      return tensor.data<float>()[i];
    case DType::f64:
      return tensor.data<double>()[i];
    case DType::f16:
      return f16_to_f32(tensor.data<uint16_t>()[i]);
    case DType::bf16:
      return bf16_to_f32(tensor.data<uint16_t>()[i]);
    case DType::u64:
      return static_cast<double>(tensor.data<uint64_t>()[i]);
    default:
      return static_cast<double>(get_i64(tensor, i));
  }
}

int64_t get_i64(const Tensor& tensor, size_t i) {
  switch (tensor.dtype()) {
    case DType::u8:
      return tensor.data<uint8_t>()[i];
    case DType::i8:
      return tensor.data<int8_t>()[i];
    case DType::u16:
      return tensor.data<uint16_t>()[i];
    case DType::i16:
      return tensor.data<int16_t>()[i];
    case DType::i32:
      return tensor.data<int32_t>()[i];
    case DType::u32:
      return tensor.data<uint32_t>()[i];
    case DType::i64:
      return tensor.data<int64_t>()[i];
    case DType::u64:
      return static_cast<int64_t>(tensor.data<uint64_t>()[i]);
    case DType::boolean:
      return tensor.data<uint8_t>()[i] != 0;
    default: {
      // Out-of-range float to integer is undefined in C++; saturate instead.
      const double value = get_f64(tensor, i);
      if (std::isnan(value)) return 0;
      if (value >= 9223372036854775808.0) return INT64_MAX;
      if (value < -9223372036854775808.0) return INT64_MIN;
      return static_cast<int64_t>(value);
    }
  }
}

void set_f64(Tensor& tensor, size_t i, double value) {
  switch (tensor.dtype()) {
    case DType::f32:
      tensor.mutable_data<float>()[i] = static_cast<float>(value);
      return;
    case DType::f64:
      tensor.mutable_data<double>()[i] = value;
      return;
    case DType::f16:
      tensor.mutable_data<uint16_t>()[i] = f32_to_f16(static_cast<float>(value));
      return;
    case DType::bf16:
      tensor.mutable_data<uint16_t>()[i] = f32_to_bf16(static_cast<float>(value));
      return;
    case DType::boolean:
      tensor.mutable_data<uint8_t>()[i] = value != 0;
      return;
    case DType::u64:
      if (value >= 9223372036854775808.0) {
        tensor.mutable_data<uint64_t>()[i] =
            value >= 18446744073709551616.0 ? UINT64_MAX : static_cast<uint64_t>(value);
        return;
      }
      [[fallthrough]];
    default: {
      int64_t integer = 0;
      if (value >= 9223372036854775808.0) {
        integer = INT64_MAX;
      } else if (value < -9223372036854775808.0) {
        integer = INT64_MIN;
      } else if (!std::isnan(value)) {
        integer = static_cast<int64_t>(value);
      }
      set_i64(tensor, i, integer);
    }
  }
}

void set_i64(Tensor& tensor, size_t i, int64_t value) {
  switch (tensor.dtype()) {
    case DType::u8:
      tensor.mutable_data<uint8_t>()[i] = static_cast<uint8_t>(value);
      return;
    case DType::i8:
      tensor.mutable_data<int8_t>()[i] = static_cast<int8_t>(value);
      return;
    case DType::u16:
      tensor.mutable_data<uint16_t>()[i] = static_cast<uint16_t>(value);
      return;
    case DType::i16:
      tensor.mutable_data<int16_t>()[i] = static_cast<int16_t>(value);
      return;
    case DType::i32:
      tensor.mutable_data<int32_t>()[i] = static_cast<int32_t>(value);
      return;
    case DType::u32:
      tensor.mutable_data<uint32_t>()[i] = static_cast<uint32_t>(value);
      return;
    case DType::i64:
      tensor.mutable_data<int64_t>()[i] = value;
      return;
    case DType::u64:
      tensor.mutable_data<uint64_t>()[i] = static_cast<uint64_t>(value);
      return;
    case DType::boolean:
      tensor.mutable_data<uint8_t>()[i] = value != 0;
      return;
    default:
      set_f64(tensor, i, static_cast<double>(value));
      return;
  }
}

Result<Tensor> convert(const Tensor& tensor, DType to) {
  const Tensor from = SINTER_TRY(tensor.aligned());
  if (from.dtype() == to) return from;
  Tensor out = SINTER_TRY(Tensor::alloc(to, from.shape(), "a converted tensor"));
  const size_t n = from.numel();
  const bool through_double = is_float(from.dtype()) || (is_float(to) && from.dtype() == DType::u64);
  for (size_t i = 0; i < n; ++i) {
    if (through_double) {
      set_f64(out, i, get_f64(from, i));
    } else {
      set_i64(out, i, get_i64(from, i));
    }
  }
  return out;
}

}  // namespace sinter
