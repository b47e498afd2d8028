// SPDX-License-Identifier: Apache-2.0
#include "engine/base/str.h"

#include <charconv>
#include <cmath>

#include "engine/base/shortest.h"

namespace sinter::str_internal {
namespace {
template <class T>
void append_chars(std::string& out, T value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}
}  // namespace

void append(std::string& out, std::string_view piece) { out += piece; }
void append(std::string& out, uint64_t value) { append_chars(out, value); }
void append(std::string& out, int64_t value) { append_chars(out, value); }

void append(std::string& out, double value) {
  if (std::isnan(value)) {
    out += "nan";
  } else if (std::isinf(value)) {
    out += value < 0 ? "-inf" : "inf";
  } else if (const float narrow = static_cast<float>(value); static_cast<double>(narrow) == value) {
    append_shortest(out, narrow);
  } else {
    append_shortest(out, value);
  }
}

}  // namespace sinter::str_internal
