// SPDX-License-Identifier: Apache-2.0
#include "engine/onnx/wire.h"

#include <bit>
#include <cstring>

#include "engine/base/str.h"

namespace sinter::onnx {

bool read_varint(std::span<const std::byte> bytes, size_t& at, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 70; shift += 7) {
    if (at >= bytes.size()) return false;
    const auto byte = static_cast<uint64_t>(bytes[at++]);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

std::unexpected<Error> Wire::damaged(std::string_view problem) const {
  return fail(Code::InvalidModel, StrCat("the model is damaged at byte ", position(), ", in ", what_, ": ", problem),
              "this is not an ONNX file, or it was changed on its way: fetch it again and compare its checksum");
}

std::unexpected<Error> Wire::wrong_type(const Field& field) const {
  return damaged(StrCat("field ", field.number, " has wire type ", static_cast<unsigned>(field.type),
                        ", which is not the type ONNX gives it"));
}

std::unexpected<Error> Wire::too_short(uint64_t needed) const {
  // Only at the end of the file is it the file that ends too early; elsewhere a length is wrong.
  if (bytes_.data() + bytes_.size() != file_.data() + file_.size()) {
    return damaged(StrCat("a field needs ", needed, " bytes, but only ", bytes_.size() - at_, " are left in it"));
  }
  uint64_t total = 0;
  if (__builtin_add_overflow(position(), needed, &total)) return damaged(StrCat("a field of ", needed, " bytes"));
  return fail(Code::InvalidModel,
              StrCat("the model is truncated at byte ", file_.size(), " of ", total, " or more, while reading ", what_),
              "the download or copy stopped early: fetch the file again and compare its size");
}

Result<uint64_t> Wire::varint() {
  uint64_t value = 0;
  size_t end = at_;
  if (!read_varint(bytes_, end, value)) {
    if (end - at_ >= 10) return damaged("a number of more than ten bytes");
    return too_short(end - at_ + 1);
  }
  at_ = end;
  return value;
}

Result<Field> Wire::next() {
  const uint64_t tag = SINTER_TRY(varint());
  Field field;
  if (tag >> 32 || tag >> 3 == 0) return damaged(StrCat("field tag ", tag, " does not exist"));
  field.number = static_cast<uint32_t>(tag >> 3);
  field.type = static_cast<WireType>(tag & 7);
  uint64_t size = 0;
  switch (field.type) {
    case WireType::varint:
      field.value = SINTER_TRY(varint());
      return field;
    case WireType::fixed64:
      size = 8;
      break;
    case WireType::fixed32:
      size = 4;
      break;
    case WireType::bytes:
      size = SINTER_TRY(varint());
      break;
    default:
      return damaged(StrCat("wire type ", tag & 7, ", which ONNX never uses"));
  }
  if (size > bytes_.size() - at_) return too_short(size);
  field.bytes = bytes_.subspan(at_, static_cast<size_t>(size));
  at_ += static_cast<size_t>(size);
  if (field.type != WireType::bytes) std::memcpy(&field.value, field.bytes.data(), field.bytes.size());
  return field;
}

Result<int64_t> Wire::integer(const Field& field) const {
  if (field.type != WireType::varint) return wrong_type(field);
  return static_cast<int64_t>(field.value);
}

Result<float> Wire::real(const Field& field) const {
  if (field.type != WireType::fixed32) return wrong_type(field);
  return std::bit_cast<float>(static_cast<uint32_t>(field.value));
}

Result<std::span<const std::byte>> Wire::payload(const Field& field) const {
  if (field.type != WireType::bytes) return wrong_type(field);
  return field.bytes;
}

Result<std::string_view> Wire::text(const Field& field) const {
  if (field.type != WireType::bytes) return wrong_type(field);
  return std::string_view(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
}

Result<Wire> Wire::message(const Field& field, std::string_view what) const {
  if (field.type != WireType::bytes) return wrong_type(field);
  return nested(field.bytes, what);
}

Result<> Wire::append(const Field& field, std::vector<int64_t>& out) const {
  if (field.type == WireType::varint) {
    out.push_back(static_cast<int64_t>(field.value));
    return {};
  }
  if (field.type != WireType::bytes) return wrong_type(field);
  for (size_t at = 0; at < field.bytes.size();) {
    uint64_t value = 0;
    if (!read_varint(field.bytes, at, value))
      return damaged(StrCat("the last number of field ", field.number, " is cut"));
    out.push_back(static_cast<int64_t>(value));
  }
  return {};
}

Result<> Wire::append(const Field& field, std::vector<float>& out) const {
  if (field.type == WireType::fixed32) {
    out.push_back(std::bit_cast<float>(static_cast<uint32_t>(field.value)));
    return {};
  }
  if (field.type != WireType::bytes) return wrong_type(field);
  if (field.bytes.size() % 4) return damaged(StrCat("field ", field.number, " does not hold whole floats"));
  const size_t first = out.size();
  out.resize(first + field.bytes.size() / 4);
  if (!field.bytes.empty()) std::memcpy(out.data() + first, field.bytes.data(), field.bytes.size());
  return {};
}

}  // namespace sinter::onnx
