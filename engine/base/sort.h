// SPDX-License-Identifier: Apache-2.0
// heap_sort: std::sort's contract in a quarter of its code, which counts in the download; nothing here sorts much.
#pragma once

#include <algorithm>
#include <functional>

namespace sinter {

template <class Range, class Less = std::less<>>
void heap_sort(Range& range, Less less = {}) {
  std::make_heap(range.begin(), range.end(), less);
  std::sort_heap(range.begin(), range.end(), less);
}

}  // namespace sinter
