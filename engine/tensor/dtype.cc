// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/dtype.h"

namespace sinter {
namespace {
struct Row {
  DType dtype;
  uint8_t size;
  const char* name;
};
constexpr Row kRows[] = {
    {DType::f32, 4, "float32"},  {DType::u8, 1, "uint8"},      {DType::i8, 1, "int8"},     {DType::u16, 2, "uint16"},
    {DType::i16, 2, "int16"},    {DType::i32, 4, "int32"},     {DType::i64, 8, "int64"},   {DType::string, 0, "string"},
    {DType::boolean, 1, "bool"}, {DType::f16, 2, "float16"},   {DType::f64, 8, "float64"}, {DType::u32, 4, "uint32"},
    {DType::u64, 8, "uint64"},   {DType::bf16, 2, "bfloat16"},
};
}  // namespace

size_t size_of(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row.size;
  }
  return 0;
}

std::string_view name_of(DType dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row.name;
  }
  return "undefined";
}

DType dtype_from_name(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.dtype;
  }
  return DType::undefined;
}

}  // namespace sinter
