// SPDX-License-Identifier: Apache-2.0
// StrCat: text from pieces (std::format, fmt and std::to_chars for floats each cost tens of kilobytes of download).
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace sinter {

namespace str_internal {
void append(std::string& out, std::string_view piece);
void append(std::string& out, uint64_t value);
void append(std::string& out, int64_t value);
void append(std::string& out, double value);  // shortest text that reads back as the same float
}  // namespace str_internal

template <class T>
void StrAppend(std::string& out, const T& piece) {
  if constexpr (std::is_same_v<T, bool>) {
    str_internal::append(out, std::string_view(piece ? "true" : "false"));
  } else if constexpr (std::is_same_v<T, char>) {
    out += piece;
  } else if constexpr (std::unsigned_integral<T>) {
    str_internal::append(out, static_cast<uint64_t>(piece));
  } else if constexpr (std::signed_integral<T>) {
    str_internal::append(out, static_cast<int64_t>(piece));
  } else if constexpr (std::floating_point<T>) {
    str_internal::append(out, static_cast<double>(piece));
  } else {
    str_internal::append(out, std::string_view(piece));
  }
}

template <class... Pieces>
std::string StrCat(const Pieces&... pieces) {
  std::string out;
  (StrAppend(out, pieces), ...);
  return out;
}

/// Joins printable items with a separator.
template <class Range>
std::string StrJoin(const Range& items, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    first = false;
    StrAppend(out, item);
  }
  return out;
}

}  // namespace sinter
