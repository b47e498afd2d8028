// SPDX-License-Identifier: Apache-2.0
// Writes protobuf's wire format, field by field.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sinter::diag {

class Proto {
 public:
  Proto& integer(uint32_t field, int64_t value) {
    number(uint64_t{field} << 3);
    number(static_cast<uint64_t>(value));
    return *this;
  }
  Proto& bytes(uint32_t field, std::string_view value) {
    number(uint64_t{field} << 3 | 2);
    number(value.size());
    text_ += value;
    return *this;
  }
  Proto& message(uint32_t field, const Proto& value) { return bytes(field, value.text_); }
  Proto& fixed32(uint32_t field, uint32_t value) {
    number(uint64_t{field} << 3 | 5);
    for (int i = 0; i < 4; ++i) text_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  Proto& fixed64(uint32_t field, uint64_t value) {
    number(uint64_t{field} << 3 | 1);
    for (int i = 0; i < 8; ++i) text_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }
  std::string text_;
};

}  // namespace sinter::diag
