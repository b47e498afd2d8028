// SPDX-License-Identifier: Apache-2.0
#include "engine/codegen/literals.h"

#include <cmath>
#include <cstdio>

#include "engine/base/str.h"

namespace sinter::codegen {
namespace {

constexpr size_t kInlineElements = 8;
constexpr int64_t kLargestInline = int64_t{1} << 53;  // beyond, literals need care

std::string float_literal(float value) {
  if (std::isnan(value)) return "std::numeric_limits<float>::quiet_NaN()";
  if (std::isinf(value))
    return value < 0 ? "-std::numeric_limits<float>::infinity()" : "std::numeric_limits<float>::infinity()";
  std::string text = StrCat(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

std::string double_literal(double value) {
  if (std::isnan(value)) return "std::numeric_limits<double>::quiet_NaN()";
  if (std::isinf(value))
    return value < 0 ? "-std::numeric_limits<double>::infinity()" : "std::numeric_limits<double>::infinity()";
  char text[64];
  std::snprintf(text, sizeof text, "%.17g", value);
  std::string out = text;
  if (out.find_first_of(".e") == std::string::npos) out += ".0";
  return out;
}

std::string_view cpp_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::u8:
      return "uint8_t";
    case DType::i8:
      return "int8_t";
    case DType::u16:
      return "uint16_t";
    case DType::i16:
      return "int16_t";
    case DType::i32:
      return "int32_t";
    case DType::i64:
      return "int64_t";
    case DType::u32:
      return "uint32_t";
    case DType::u64:
      return "uint64_t";
    case DType::boolean:
      return "bool";
    default:
      return {};
  }
}

std::string element(const Tensor& tensor, size_t i) {
  switch (tensor.dtype()) {
    case DType::f32:
      return float_literal(tensor.data<float>()[i]);
    case DType::f64:
      return double_literal(tensor.data<double>()[i]);
    case DType::boolean:
      return get_i64(tensor, i) ? "true" : "false";
    default:
      return StrCat(get_i64(tensor, i));
  }
}

bool plain(const Tensor& tensor) {
  for (size_t i = 0; i < tensor.numel(); ++i) {
    if (is_float(tensor.dtype()) && !std::isfinite(get_f64(tensor, i))) return false;
    if (!is_float(tensor.dtype()) && std::abs(get_i64(tensor, i)) > kLargestInline) return false;
  }
  return true;
}

std::string elements(const Tensor& tensor) {
  std::string out;
  for (size_t i = 0; i < tensor.numel(); ++i) StrAppend(out, StrCat(i ? ", " : "", element(tensor, i)));
  return out;
}

std::string shape_literal(const Shape& shape) { return StrCat("{", StrJoin(shape.dims(), ", "), "}"); }

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (code < 0x20 || code == 0x7f || c == '?') {  // '?': no trigraphs
      out += '\\';
      for (const int shift : {6, 3, 0}) out += static_cast<char>('0' + ((code >> shift) & 7));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string one_line(std::string_view text) {
  std::string out;
  for (const char c : text) out += static_cast<unsigned char>(c) < 0x20 || c == '\\' ? ' ' : c;
  return out;
}

std::string dtype_literal(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "sinter::DType::f32";
    case DType::u8:
      return "sinter::DType::u8";
    case DType::i8:
      return "sinter::DType::i8";
    case DType::u16:
      return "sinter::DType::u16";
    case DType::i16:
      return "sinter::DType::i16";
    case DType::i32:
      return "sinter::DType::i32";
    case DType::i64:
      return "sinter::DType::i64";
    case DType::string:
      return "sinter::DType::string";
    case DType::boolean:
      return "sinter::DType::boolean";
    case DType::f16:
      return "sinter::DType::f16";
    case DType::f64:
      return "sinter::DType::f64";
    case DType::u32:
      return "sinter::DType::u32";
    case DType::u64:
      return "sinter::DType::u64";
    case DType::bf16:
      return "sinter::DType::bf16";
    case DType::undefined:
      break;
  }
  return "sinter::DType::undefined";
}

std::optional<std::string> inline_constant(const Tensor& given) {
  if (given.shape().rank() > 1 || given.numel() > kInlineElements) return std::nullopt;
  const auto tensor = given.aligned();
  if (!tensor || !plain(*tensor)) return std::nullopt;
  const DType dtype = tensor->dtype();
  if (is_float(dtype) && tensor->numel() > 1) return std::nullopt;  // trained numbers say nothing in code
  if (dtype == DType::i64 && tensor->shape().rank() == 1 && tensor->numel() > 0)
    return StrCat("{", elements(*tensor), "}");
  if (dtype != DType::f32 && dtype != DType::i32 && dtype != DType::i64 && dtype != DType::boolean) return std::nullopt;
  return StrCat("sinter::Tensor::constant<", cpp_type(dtype), ">(", shape_literal(tensor->shape()), ", {",
                elements(*tensor), "})");
}

std::string number_literal(const Tensor& tensor) { return float_literal(static_cast<float>(get_f64(tensor, 0))); }

std::optional<std::string> attribute_literal(const AttrValue& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return StrCat(*number);
  if (const auto* number = std::get_if<float>(&value)) return float_literal(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  std::string list;
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(&value)) {
    return numbers->empty() ? std::string("std::vector<int64_t>()") : StrCat("{", StrJoin(*numbers, ", "), "}");
  }
  if (const auto* numbers = std::get_if<std::vector<float>>(&value)) {
    for (const float number : *numbers) StrAppend(list, StrCat(list.empty() ? "" : ", ", float_literal(number)));
    return numbers->empty() ? std::string("std::vector<float>()") : StrCat("{", list, "}");
  }
  if (const auto* texts = std::get_if<std::vector<std::string>>(&value)) {
    for (const std::string& text : *texts) StrAppend(list, StrCat(list.empty() ? "" : ", ", quoted(text)));
    return texts->empty() ? std::string("std::vector<std::string>()") : StrCat("{", list, "}");
  }
  const auto tensor = std::get<Tensor>(value).aligned();
  if (!tensor || cpp_type(tensor->dtype()).empty()) return std::nullopt;
  return StrCat("sinter::host<", cpp_type(tensor->dtype()), ">(", shape_literal(tensor->shape()), ", {",
                elements(*tensor), "})");
}

std::string typed_attribute(const AttrValue& value) {
  const std::string literal = attribute_literal(value).value_or("");
  switch (value.index()) {
    case 0:
      return StrCat("int64_t{", literal, "}");
    case 3:
      return StrCat("sinter::List<int64_t>(", literal, ")");
    case 4:
      return StrCat("sinter::List<float>(", literal, ")");
    case 5:
      return StrCat("sinter::List<std::string>(", literal, ")");
    default:
      return literal;
  }
}

}  // namespace sinter::codegen
