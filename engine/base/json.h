// SPDX-License-Identifier: Apache-2.0
// Writes JSON text, for what crosses the C ABI and for reports. There is no reader: options come in as KEY=VALUE lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "engine/base/str.h"

namespace sinter {

/// Commas are placed by themselves: `json.open('{').key("a").value(1).close('}')`.
class Json {
 public:
  Json& open(char bracket);   // '{' or '['
  Json& close(char bracket);  // '}' or ']'
  Json& key(std::string_view name);
  Json& value(std::string_view text);
  Json& number(double number);  // NaN and infinity become null
  Json& raw(std::string_view json);

  /// A key with its value.
  template <class T>
  Json& field(std::string_view name, const T& x) {
    key(name);
    if constexpr (std::is_same_v<T, bool>) {
      return raw(x ? "true" : "false");
    } else if constexpr (std::is_arithmetic_v<T>) {
      return number(static_cast<double>(x));
    } else {
      return value(std::string_view(x));
    }
  }

  const std::string& text() const { return text_; }

 private:
  void separate();
  std::string text_;
  bool comma_ = false;
};

}  // namespace sinter
