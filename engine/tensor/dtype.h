// SPDX-License-Identifier: Apache-2.0
// Element types; the numbers are those of ONNX TensorProto.DataType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sinter {

enum class DType : uint8_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16,
};

/// Bytes per element in host memory (boolean is one byte); 0 for undefined and string.
size_t size_of(DType dtype);
/// "float32", "int64", "bool": numpy's names, as in .npy files and the JavaScript API.
std::string_view name_of(DType dtype);
/// The reverse of name_of; undefined where unknown.
DType dtype_from_name(std::string_view name);

constexpr bool is_float(DType t) { return t == DType::f32 || t == DType::f16 || t == DType::f64 || t == DType::bf16; }
constexpr bool is_signed_int(DType t) {
  return t == DType::i8 || t == DType::i16 || t == DType::i32 || t == DType::i64;
}
constexpr bool is_unsigned_int(DType t) {
  return t == DType::u8 || t == DType::u16 || t == DType::u32 || t == DType::u64;
}
constexpr bool is_integer(DType t) { return is_signed_int(t) || is_unsigned_int(t); }

}  // namespace sinter
