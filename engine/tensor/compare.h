// SPDX-License-Identifier: Apache-2.0
// How far two tensors are apart. NaN equals NaN, an infinity equals itself only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/result.h"
#include "engine/tensor/tensor.h"

namespace sinter {

/// An element differs where |actual - expected| > atol + rtol * |expected|. Integers and bool obey atol alone: a relative
/// tolerance would accept a wrong index.
struct Tolerance {
  double rtol = 1e-3;
  double atol = 1e-5;
};

struct Comparison {
  static constexpr size_t kNowhere = ~size_t{0};

  double max_abs = 0;               // infinite where NaN or infinity meets something else
  double max_rel = 0;               // |difference| / max(|actual|, |expected|)
  double cosine = 1;                // over the elements that are finite in both; NaN where max_abs is infinite
  size_t differing = 0;             // elements outside the tolerance
  size_t first = kNowhere;          // flat index of the first of them
  double actual = 0, expected = 0;  // its values

  bool equal() const { return differing == 0; }
};

/// InvalidInput where dtype or shape differ, with both in the message.
Result<Comparison> compare(const Tensor& actual, const Tensor& expected, Tolerance tolerance);

/// "3 of 1000 elements differ, first at [0,7]: 1.5, expected 1.25; largest difference 0.25".
std::string to_string(const Comparison& comparison, const Shape& shape);

/// "[0,7]": a flat index as one per axis.
std::string index_text(size_t flat, const Shape& shape);

}  // namespace sinter
