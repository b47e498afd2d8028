// SPDX-License-Identifier: Apache-2.0
// A bounded, zero-copy reader of protobuf's wire format: one field at a time, no recursion, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/result.h"

namespace sinter::onnx {

enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
  uint32_t number = 0;
  WireType type = WireType::varint;
  uint64_t value = 0;                // varint, fixed64, fixed32
  std::span<const std::byte> bytes;  // bytes
};

/// Reads the fields of one message. `what` ("the graph", "a node") goes into the errors; it must outlive the reader.
class Wire {
 public:
  /// The outermost message: `bytes` is the whole file.
  Wire(std::span<const std::byte> bytes, std::string_view what) : file_(bytes), bytes_(bytes), what_(what) {}
  /// A message inside this one: the payload of one of its fields.
  Wire nested(std::span<const std::byte> payload, std::string_view what) const { return Wire(file_, payload, what); }

  bool done() const { return at_ == bytes_.size(); }
  Result<Field> next();

  // The field's value as what the schema says it is; a wire type that does not fit is an error.
  Result<int64_t> integer(const Field& field) const;
  Result<float> real(const Field& field) const;
  Result<std::string_view> text(const Field& field) const;
  Result<std::span<const std::byte>> payload(const Field& field) const;
  Result<Wire> message(const Field& field, std::string_view what) const;
  /// Repeated numbers: one, or a packed run of them.
  Result<> append(const Field& field, std::vector<int64_t>& out) const;
  Result<> append(const Field& field, std::vector<float>& out) const;

  /// An InvalidModel error that names this message and its place in the file.
  std::unexpected<Error> damaged(std::string_view problem) const;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  Wire(std::span<const std::byte> file, std::span<const std::byte> bytes, std::string_view what)
      : file_(file), bytes_(bytes), what_(what) {}
  uint64_t position() const { return static_cast<uint64_t>(bytes_.data() + at_ - file_.data()); }
  std::unexpected<Error> wrong_type(const Field& field) const;
  std::unexpected<Error> too_short(uint64_t needed) const;
  Result<uint64_t> varint();

  std::span<const std::byte> file_;
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  std::string_view what_;
};

/// Decodes the varint at `at` and moves past it; false where it does not end within `bytes` or within ten bytes.
bool read_varint(std::span<const std::byte> bytes, size_t& at, uint64_t& value);

}  // namespace sinter::onnx
