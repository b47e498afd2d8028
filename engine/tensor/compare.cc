// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/str.h"

namespace sinter {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Pair {
  double actual, expected;
  double difference;
};

/// Integers differ by an exact amount, which double arithmetic on large ones would lose.
Pair load(const Tensor& actual, const Tensor& expected, size_t i) {
  if (is_float(actual.dtype())) {
    const double a = get_f64(actual, i), b = get_f64(expected, i);
    if (std::isnan(a) && std::isnan(b)) return {a, b, 0};
    if (a == b) return {a, b, 0};
    const double difference = std::fabs(a - b);
    return {a, b, std::isfinite(difference) ? difference : kInfinity};
  }
  const double a = get_f64(actual, i), b = get_f64(expected, i);
  const int64_t x = get_i64(actual, i), y = get_i64(expected, i);
  if (x == y) return {a, b, 0};
  const bool less = actual.dtype() == DType::u64 ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
  const uint64_t gap =
      less ? static_cast<uint64_t>(y) - static_cast<uint64_t>(x) : static_cast<uint64_t>(x) - static_cast<uint64_t>(y);
  return {a, b, static_cast<double>(gap)};
}

}  // namespace

Result<Comparison> compare(const Tensor& actual, const Tensor& expected, Tolerance tolerance) {
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape()) {
    return fail(Code::InvalidInput, StrCat("got ", name_of(actual.dtype()), to_string(actual.shape()), ", expected ",
                                           name_of(expected.dtype()), to_string(expected.shape())));
  }
  const Tensor a = SINTER_TRY(actual.aligned()), b = SINTER_TRY(expected.aligned());
  const double rtol = is_float(a.dtype()) ? tolerance.rtol : 0;
  Comparison result;
  double dot = 0, norm_a = 0, norm_b = 0;
  for (size_t i = 0; i < a.numel(); ++i) {
    const Pair pair = load(a, b, i);
    result.max_abs = std::max(result.max_abs, pair.difference);
    if (pair.difference > 0) {
      const double size = std::max(std::fabs(pair.actual), std::fabs(pair.expected));
      result.max_rel = std::max(result.max_rel, std::isfinite(size) ? pair.difference / size : kInfinity);
    }
    if (std::isfinite(pair.actual) && std::isfinite(pair.expected)) {
      dot += pair.actual * pair.expected;
      norm_a += pair.actual * pair.actual;
      norm_b += pair.expected * pair.expected;
    }
    const double allowed = std::isfinite(pair.expected) ? tolerance.atol + rtol * std::fabs(pair.expected) : 0;
    if (pair.difference <= allowed) continue;
    if (result.differing++ == 0) {
      result.first = i;
      result.actual = pair.actual;
      result.expected = pair.expected;
    }
  }
  if (std::isinf(result.max_abs)) {
    result.cosine = std::numeric_limits<double>::quiet_NaN();
  } else if (norm_a > 0 && norm_b > 0) {
    result.cosine = std::clamp(dot / (std::sqrt(norm_a) * std::sqrt(norm_b)), -1.0, 1.0);
  } else if (norm_a != norm_b) {
    result.cosine = 0;
  }
  return result;
}

std::string index_text(size_t flat, const Shape& shape) {
  Shape index = shape;
  for (size_t axis = shape.rank(); axis-- > 0;) {
    const auto extent = static_cast<size_t>(std::max<int64_t>(shape[axis], 1));
    index[axis] = static_cast<int64_t>(flat % extent);
    flat /= extent;
  }
  return to_string(index);
}

std::string to_string(const Comparison& comparison, const Shape& shape) {
  if (comparison.equal()) return StrCat("equal; largest difference ", comparison.max_abs);
  return StrCat(comparison.differing, " of ", shape.numel(), " elements differ, first at ",
                index_text(comparison.first, shape), ": ", comparison.actual, ", expected ", comparison.expected,
                "; largest difference ", comparison.max_abs);
}

}  // namespace sinter
