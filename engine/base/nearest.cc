// SPDX-License-Identifier: Apache-2.0
#include "engine/base/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sinter {
namespace {

constexpr size_t kLongest = 64;  // longer names are compared by this many first characters

char fold(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

size_t edits(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (fold(a[i - 1]) != fold(b[j - 1]));
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view wanted, std::span<const std::string_view> candidates) {
  wanted = wanted.substr(0, kLongest);
  std::string_view best;
  size_t fewest = std::max<size_t>(2, wanted.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const size_t n = edits(wanted, candidate.substr(0, kLongest));
    if (n < fewest && n < wanted.size()) {
      fewest = n;
      best = candidate;
    }
  }
  return best;
}

}  // namespace sinter
