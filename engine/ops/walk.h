// SPDX-License-Identifier: Apache-2.0
// Walk: visits the elements of a StridedLoop in row-major order, keeping every operand's offset. For reference rows.
#pragma once

#include <vector>

#include "engine/tensor/strides.h"

namespace sinter::ops {

class Walk {
 public:
  explicit Walk(const StridedLoop& loop) : loop_(loop), at_(loop.dims.rank(), 0), offsets_(loop.strides.size(), 0) {}

  int64_t offset(size_t operand) const { return offsets_[operand]; }

  void next() {
    for (size_t axis = at_.size(); axis-- > 0;) {
      const bool carry = ++at_[axis] == loop_.dims[axis];
      const int64_t steps = carry ? 1 - loop_.dims[axis] : 1;
      for (size_t k = 0; k < offsets_.size(); ++k) offsets_[k] += steps * loop_.strides[k][axis];
      if (!carry) return;
      at_[axis] = 0;
    }
  }
  /// Back to the first element, with other base offsets.
  void restart(std::initializer_list<int64_t> bases) {
    at_.assign(at_.size(), 0);
    offsets_.assign(bases);
  }

 private:
  const StridedLoop& loop_;
  std::vector<int64_t> at_, offsets_;
};

}  // namespace sinter::ops
