// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/npy.h"

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/str.h"

namespace sinter {
namespace {

struct TypeCode {
  DType dtype;
  std::string_view code;
};
constexpr TypeCode kCodes[] = {
    {DType::f32, "<f4"}, {DType::f64, "<f8"}, {DType::f16, "<f2"},     {DType::bf16, "<V2"}, {DType::u8, "|u1"},
    {DType::i8, "|i1"},  {DType::u16, "<u2"}, {DType::i16, "<i2"},     {DType::u32, "<u4"},  {DType::i32, "<i4"},
    {DType::u64, "<u8"}, {DType::i64, "<i8"}, {DType::boolean, "|b1"},
};

std::unexpected<Error> bad(std::string message, std::string_view hint = "write it with numpy.save") {
  return fail(Code::InvalidInput, StrCat("not a usable .npy file: ", message), std::string(hint));
}

/// The text after `'key':` in the header's dictionary.
std::optional<std::string_view> entry(std::string_view header, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = StrCat(quote, key, quote);
    const size_t at = header.find(quoted);
    if (at == std::string_view::npos) continue;
    const size_t colon = header.find_first_not_of(" ", at + quoted.size());
    if (colon == std::string_view::npos || header[colon] != ':') return std::nullopt;
    const size_t value = header.find_first_not_of(" ", colon + 1);
    if (value == std::string_view::npos) return std::nullopt;
    return header.substr(value);
  }
  return std::nullopt;
}

Result<DType> parse_type(std::string_view text) {
  const size_t end = text.size() > 1 ? text.find(text[0], 1) : std::string_view::npos;
  if ((text[0] != '\'' && text[0] != '"') || end == std::string_view::npos)
    return bad("its element type is not a simple one");
  const std::string_view code = text.substr(1, end - 1);
  for (const TypeCode& row : kCodes) {
    // numpy writes '<' or '=' for what one-byte types write as '|'.
    if (code.size() == 3 && code.substr(1) == row.code.substr(1) &&
        (code[0] == '<' || code[0] == '=' || code[0] == row.code[0])) {
      return row.dtype;
    }
  }
  return bad(StrCat("element type '", code, "'"), "convert the array first, for example with .astype('<f4')");
}

Result<Shape> parse_shape(std::string_view text) {
  Shape shape;
  if (text[0] != '(') return bad("its shape is not a tuple");
  size_t at = 1;
  while (true) {
    at = text.find_first_not_of(" ,", at);
    if (at == std::string_view::npos) return bad("its shape does not end");
    if (text[at] == ')') return shape;
    int64_t dim = 0;
    const size_t first = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      if (__builtin_mul_overflow(dim, 10, &dim) || __builtin_add_overflow(dim, text[at] - '0', &dim)) {
        return bad("a dimension is too large");
      }
    }
    if (at == first) return bad("its shape holds something that is not a number");
    if (shape.rank() == kMaxRank) return bad(StrCat("more than ", kMaxRank, " dimensions"), "reshape it first");
    shape.push_back(dim);
  }
}

}  // namespace

Result<Tensor> read_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (bytes.empty()) return bad("it is empty");
  if (!text.starts_with("\x93NUMPY")) return bad("it does not begin with numpy's mark");
  const auto byte = [&](size_t i) { return static_cast<size_t>(bytes[i]); };
  if (bytes.size() < 12) return bad("it ends inside its header");
  const size_t major = byte(6);
  if (major < 1 || major > 3) return bad(StrCat("format version ", major));
  const size_t prefix = major == 1 ? 10 : 12;
  const size_t length = byte(8) | byte(9) << 8 | (major == 1 ? 0 : byte(10) << 16 | byte(11) << 24);
  if (length > bytes.size() - prefix) return bad("it ends inside its header");
  const std::string_view header = text.substr(prefix, length);

  const auto type = entry(header, "descr"), order = entry(header, "fortran_order"), dims = entry(header, "shape");
  if (!type || !order || !dims) return bad("its header lacks the type, the order or the shape");
  const DType dtype = SINTER_TRY(parse_type(*type));
  const Shape shape = SINTER_TRY(parse_shape(*dims));
  size_t wide = 0;
  for (const int64_t dim : shape) wide += dim != 1;
  if (!order->starts_with("False") && wide > 1) {
    return bad("it is in Fortran order", "save numpy.ascontiguousarray(array)");
  }
  const auto numel = checked_numel(shape);
  const size_t available = bytes.size() - prefix - length;
  uint64_t needed = 0;
  if (!numel || __builtin_mul_overflow(static_cast<uint64_t>(*numel), size_of(dtype), &needed))
    return bad("its shape is too large");
  if (needed != available) {
    return bad(StrCat("shape ", to_string(shape), " of ", name_of(dtype), " needs ", needed,
                      " bytes of data, the file has ", available),
               needed > available ? "the file is truncated: copy it again" : "write it with numpy.save");
  }
  return Tensor::view(dtype, shape, bytes.subspan(prefix + length), std::move(owner)).aligned();
}

std::vector<std::byte> npy_header(DType dtype, const Shape& shape) {
  std::string_view code;
  for (const TypeCode& row : kCodes) {
    if (row.dtype == dtype) code = row.code;
  }
  std::string text = StrCat("\x93NUMPY", '\1', '\0', "..{'descr': '", code, "', 'fortran_order': False, 'shape': (");
  for (const int64_t dim : shape) StrAppend(text, StrCat(dim, ","));
  text += "), }";
  while (text.size() % 64 != 63) text += ' ';
  text += '\n';
  const size_t length = text.size() - 10;
  text[8] = static_cast<char>(length & 0xff);
  text[9] = static_cast<char>(length >> 8);
  std::vector<std::byte> header(text.size());
  std::memcpy(header.data(), text.data(), text.size());
  return header;
}

}  // namespace sinter
