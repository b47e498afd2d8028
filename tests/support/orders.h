// SPDX-License-Identifier: Apache-2.0
// Every order in which something can happen, one after the other.
#pragma once

#include <cstddef>
#include <vector>

namespace sinter {

/// Visits every sequence of choices: `visit(choose)` is called once per sequence and reports how many there were to
/// choose from at each step by calling `choose(step, n)`.
template <class Visit>
size_t for_every_order(Visit visit) {
  std::vector<size_t> picked, width;
  size_t visited = 0;
  do {
    width.clear();
    visit([&](size_t step, size_t n) {
      if (picked.size() <= step) picked.push_back(0);
      width.push_back(n);
      return picked[step];
    });
    ++visited;
    picked.resize(width.size());
    while (!picked.empty() && picked.back() + 1 >= width[picked.size() - 1]) picked.pop_back();
    if (!picked.empty()) ++picked.back();
  } while (!picked.empty());
  return visited;
}

}  // namespace sinter
