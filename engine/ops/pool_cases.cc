// SPDX-License-Identifier: Apache-2.0
// Self-tests of the pools.
#include <limits>

#include "engine/base/str.h"
#include "engine/ops/cases.h"
#include "engine/ops/pool.h"

namespace sinter::ops {
namespace {

using Ints = std::vector<int64_t>;

struct PoolCase {
  std::string_view name;
  Shape x;  // [N, C, spatial...]
  Attrs attrs;
};

OpCase make_case(const PoolCase& c, bool nhwc, DType dtype = DType::f32) {
  OpCase out;
  out.name = StrCat(c.name, nhwc ? " nhwc" : "", dtype == DType::f32 ? "" : StrCat(" ", name_of(dtype)));
  out.attrs = c.attrs;
  if (nhwc) out.attrs.set("nhwc", int64_t{1});
  out.inputs = {{.dtype = dtype, .shape = nhwc ? channels_last(c.x) : c.x}};
  if (dtype == DType::f16) out.rtol = out.atol = 2e-3;
  return out;
}

std::vector<PoolCase> geometries() {
  const auto k = [](Ints kernel, Ints strides, Ints pads = {}) {
    Attrs attrs = attrs_of({{"kernel_shape", std::move(kernel)}, {"strides", std::move(strides)}});
    if (!pads.empty()) attrs.set("pads", std::move(pads));
    return attrs;
  };
  const auto with = [](Attrs attrs, std::string_view name, AttrValue value) {
    attrs.set(name, std::move(value));
    return attrs;
  };
  return {
      {"k3 s2", {2, 4, 9, 8}, k({3, 3}, {2, 2})},
      {"k2 s2 one channel", {1, 1, 6, 6}, k({2, 2}, {2, 2})},
      {"k3 s2 asymmetric pads", {1, 8, 7, 6}, k({3, 3}, {2, 2}, {1, 0, 1, 2})},
      {"ceil", {1, 1, 5, 5}, with(k({2, 2}, {2, 2}), "ceil_mode", int64_t{1})},
      {"ceil pads", {1, 4, 6, 7}, with(k({3, 3}, {2, 3}, {1, 1, 1, 1}), "ceil_mode", int64_t{1})},
      {"ceil drops a window", {1, 4, 4, 4}, with(k({1, 1}, {3, 3}, {0, 0, 0, 0}), "ceil_mode", int64_t{1})},
      {"same_upper", {1, 3, 4, 4}, with(k({3, 3}, {2, 2}), "auto_pad", std::string("SAME_UPPER"))},
      {"same_lower", {1, 5, 4, 6}, with(k({3, 2}, {2, 1}), "auto_pad", std::string("SAME_LOWER"))},
      {"valid", {1, 7, 5, 5}, with(k({2, 3}, {2, 1}), "auto_pad", std::string("VALID"))},
      {"dilated", {1, 2, 9, 9}, with(k({2, 3}, {1, 2}, {1, 1, 1, 1}), "dilations", Ints{3, 2})},
      {"1-D", {1, 2, 9}, k({3}, {3})},
      {"3-D", {1, 4, 4, 5, 4}, k({2, 3, 2}, {1, 2, 1}, {1, 0, 0, 1, 1, 0})},
      {"whole image", {2, 12, 7, 7}, k({7, 7}, {1, 1})},
      {"empty batch", {0, 4, 4, 4}, k({2, 2}, {2, 2})},
  };
}

void common_cases(std::vector<OpCase>& cases) {
  for (const PoolCase& c : geometries()) {
    cases.push_back(make_case(c, false));
    cases.push_back(make_case(c, true));
  }
  const PoolCase half = {"half", {1, 8, 5, 5}, attrs_of({{"kernel_shape", Ints{3, 3}}})};
  cases.push_back(make_case(half, false, DType::f16));
  cases.push_back(make_case(half, true, DType::f16));
}

}  // namespace

void max_pool_cases(std::vector<OpCase>& cases) {
  common_cases(cases);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const size_t first = cases.size();
  for (const bool nhwc : {false, true}) {
    const PoolCase k2 = {"k2", {1, 4, 4, 5}, attrs_of({{"kernel_shape", Ints{2, 2}}, {"strides", Ints{1, 2}}})};
    OpCase with_nan = make_case(k2, nhwc);
    with_nan.name += " nan";
    with_nan.inputs[0].values = {1, nan, 3, 2, 5, nan, -infinity, 7, -infinity, -infinity, 0, -0.0, infinity};
    cases.push_back(std::move(with_nan));
    OpCase lowest = make_case(k2, nhwc);
    lowest.name += " minus infinity";
    lowest.inputs[0].values = {-infinity};
    cases.push_back(std::move(lowest));
    for (const DType dtype : {DType::i8, DType::u8}) {
      cases.push_back(make_case(k2, nhwc, dtype));
      cases.back().inputs[0].lo = dtype == DType::i8 ? -128 : 0;
      cases.back().inputs[0].hi = dtype == DType::i8 ? 127 : 255;
    }
  }
  const size_t last = cases.size();
  for (size_t i = 0; i < last; ++i) {
    // Every geometry with Indices too, in both storage orders.
    if (i < first && i % 3 != 0) continue;
    for (int64_t order : {0, 1}) {
      OpCase indexed = cases[i];
      indexed.name += StrCat(" indices order ", order);
      indexed.attrs.set("storage_order", order);
      indexed.outputs = 2;
      cases.push_back(std::move(indexed));
    }
  }
}

void average_pool_cases(std::vector<OpCase>& cases) {
  common_cases(cases);
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    OpCase included = cases[i];
    included.name += " count_include_pad";
    included.attrs.set("count_include_pad", int64_t{1});
    cases.push_back(std::move(included));
  }
  OpCase end = make_case(
      {"same_lower counts end padding",
       {1, 1, 6, 2},
       attrs_of(
           {{"kernel_shape", Ints{5, 1}}, {"auto_pad", std::string("SAME_LOWER")}, {"count_include_pad", int64_t{1}}})},
      false);
  end.inputs[0].values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  cases.push_back(std::move(end));
}

void lp_pool_cases(std::vector<OpCase>& cases) {
  for (int64_t p : {1, 2, 3}) {
    const size_t first = cases.size();
    common_cases(cases);
    for (size_t i = first; i < cases.size(); ++i) {
      cases[i].name += StrCat(" p", p);
      cases[i].attrs.set("p", p);
    }
  }
}

}  // namespace sinter::ops
