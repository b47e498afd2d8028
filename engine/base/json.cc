// SPDX-License-Identifier: Apache-2.0
#include "engine/base/json.h"

#include <cmath>

namespace sinter {

void Json::separate() {
  if (comma_) text_ += ',';
  comma_ = true;
}

Json& Json::open(char bracket) {
  separate();
  text_ += bracket;
  comma_ = false;
  return *this;
}

Json& Json::close(char bracket) {
  text_ += bracket;
  comma_ = true;
  return *this;
}

Json& Json::key(std::string_view name) {
  value(name);
  text_ += ':';
  comma_ = false;
  return *this;
}

Json& Json::value(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  separate();
  text_ += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (byte < 0x20) {
      text_ += "\\u00";
      text_ += kHex[byte >> 4];
      text_ += kHex[byte & 15];
    } else {
      text_ += c;
    }
  }
  text_ += '"';
  return *this;
}

Json& Json::number(double number) {
  if (!std::isfinite(number)) return raw("null");
  if (number == std::trunc(number) && std::abs(number) < 9e15) return raw(StrCat(static_cast<int64_t>(number)));
  return raw(StrCat(number));
}

Json& Json::raw(std::string_view json) {
  separate();
  text_ += json;
  return *this;
}

}  // namespace sinter
