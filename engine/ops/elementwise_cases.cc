// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "engine/base/str.h"
#include "engine/ops/elementwise.h"

namespace sinter::ops {

namespace {

OpCase::Input of(DType dtype, Shape shape, std::vector<double> values) {
  return {.dtype = dtype, .shape = shape, .values = std::move(values)};
}

const std::vector<double>& special_values() {
  static const std::vector<double> values{NAN, 1, -INFINITY, INFINITY, -0.0, 0.0, -2.5, 0.5, 1.5, -1.5, 2};
  return values;
}

}  // namespace

void special_values_case(std::vector<OpCase>& out) {
  out.push_back({.name = "NaN, infinities, halves", .inputs = {of(DType::f32, {11}, special_values())}});
  out.push_back(
      {.name = "NaN and zeros in vectors", .inputs = {of(DType::f32, {8}, {2, NAN, -2, NAN, 0.0, -0.0, 1, INFINITY})}});
}

void float_unary_cases(std::vector<OpCase>& out, double lo, double hi) {
  if (lo == hi) {  // the open interval around a point
    lo -= 0.9;
    hi += 0.9;
  }
  for (const Shape& shape :
       {Shape{7}, Shape{2, 3, 5}, Shape{4, 8}, Shape{}, Shape{2, 0, 3}, Shape{1, 2, 1, 2, 1, 3, 1, 2}}) {
    out.push_back({.name = to_string(shape), .inputs = {{.shape = shape, .lo = lo, .hi = hi}}});
  }
  for (const int64_t n : {5, 8}) {
    out.push_back({.name = StrCat("f16 [", n, "]"),
                   .inputs = {{.dtype = DType::f16, .shape = {n}, .lo = lo, .hi = hi}},
                   .rtol = 2e-3,
                   .atol = 1e-3});
  }
}

void number_unary_cases(std::vector<OpCase>& out) {
  float_unary_cases(out, -3, 3);
  special_values_case(out);
  out.push_back({.name = "i32", .inputs = {of(DType::i32, {5}, {-7, 0, 3, -2147483648.0, 2147483647})}});
  out.push_back({.name = "i8", .inputs = {of(DType::i8, {8}, {-7, 0, 3, -128, 127})}});
}

void arithmetic_cases(std::vector<OpCase>& out) {
  const struct {
    Shape a, b;
  } shapes[] = {{{7}, {7}},
                {{2, 4}, {2, 4}},
                {{2, 3, 4}, {}},
                {{}, {3, 1}},
                {{2, 3, 5, 8}, {8}},        // the innermost axis in vectors
                {{2, 3, 2, 4}, {3, 1, 1}},  // per channel
                {{3, 1}, {1, 5}},
                {{2, 1, 3}, {4, 1}},
                {{2, 0}, {2, 1}},
                {{0}, {1}},
                {{2, 1, 3, 1, 2, 1, 3, 1}, {1, 2, 1, 2, 1, 2, 1, 4}}};
  for (const auto& [a, b] : shapes) {
    out.push_back({.name = StrCat(to_string(a), " ", to_string(b)),
                   .inputs = {{.shape = a, .lo = -2, .hi = 2}, {.shape = b, .lo = 0.5, .hi = 2}}});
  }
  out.push_back(
      {.name = "constant operand", .inputs = {{.shape = {3}}, {.shape = {1}, .values = {3}, .constant = true}}});
  out.push_back({.name = "NaN and infinities",
                 .inputs = {of(DType::f32, {6}, {NAN, 1, INFINITY, -INFINITY, 2, NAN}),
                            of(DType::f32, {6}, {1, NAN, 2, 2, 4, NAN})}});
  out.push_back(
      {.name = "f16",
       .inputs = {{.dtype = DType::f16, .shape = {2, 4}}, {.dtype = DType::f16, .shape = {4}, .lo = 0.5, .hi = 2}},
       .rtol = 2e-3,
       .atol = 1e-3});
  out.push_back(
      {.name = "i32",
       .inputs = {of(DType::i32, {5}, {7, -7, 2147483647, -2147483648.0, 5}), of(DType::i32, {5}, {2, 2, 3, -1, 0})}});
  out.push_back({.name = "u8 wraps",
                 .inputs = {of(DType::u8, {5}, {200, 3, 255, 0, 77}), of(DType::u8, {5}, {100, 7, 255, 1, 0})}});
  out.push_back({.name = "i8 wraps",
                 .inputs = {of(DType::i8, {4}, {100, -100, -128, 11}), of(DType::i8, {4}, {100, 100, -1, 3})}});
  out.push_back(
      {.name = "i16 wraps", .inputs = {of(DType::i16, {4}, {30000, -30000, -32768, 11}), of(DType::i16, {1}, {3000})}});
}

void comparison_cases(std::vector<OpCase>& out) {
  for (const int64_t n : {1, 2, 3, 4, 5}) {
    out.push_back({.name = StrCat("i32 [", n, "]"),
                   .inputs = {of(DType::i32, {n}, {1, 2, 3, 2, 1}), of(DType::i32, {n}, {1, 3, 2, 2, 0})}});
  }
  out.push_back({.name = "NaN and infinities",
                 .inputs = {of(DType::f32, {8}, {1, 2, INFINITY, -INFINITY, -0.0, 3, 5, 4}),
                            of(DType::f32, {8}, {1, 3, INFINITY, INFINITY, 0.0, 2, -INFINITY, 4})}});
  out.push_back(
      {.name = "broadcast", .inputs = {of(DType::f32, {2, 1, 3}, {1, 2, 3}), of(DType::f32, {4, 1}, {3, 2, 1, 0})}});
  out.push_back({.name = "u32 above the signed range",
                 .inputs = {of(DType::u32, {3}, {4294967295.0, 0, 3000000000.0}),
                            of(DType::u32, {3}, {1, 4294967295.0, 3000000000.0})}});
}

void logical_cases(std::vector<OpCase>& out) {
  for (const int64_t n : {0, 1, 4, 7}) {
    out.push_back({.name = StrCat("[", n, "]"),
                   .inputs = {of(DType::boolean, {n}, {1, 0, 1, 0, 0}), of(DType::boolean, {n}, {1, 1, 0, 0})}});
  }
  out.push_back(
      {.name = "broadcast", .inputs = {of(DType::boolean, {2, 3}, {1, 0, 0, 1}), of(DType::boolean, {3}, {1, 1, 0})}});
}

void bitwise_cases(std::vector<OpCase>& out) {
  for (const DType dtype : {DType::u8, DType::i16, DType::i32, DType::u32}) {
    out.push_back({.name = std::string(name_of(dtype)),
                   .inputs = {of(dtype, {2, 3}, {0, 1, 7, 100, 85, 127}), of(dtype, {3}, {3, 42, 127})}});
  }
}

void variadic_cases(std::vector<OpCase>& out) {
  for (const size_t count : {1, 2, 3, 7, 12, 25}) {
    OpCase c{.name = StrCat(count, " inputs")};
    for (size_t i = 0; i < count; ++i) c.inputs.push_back({.shape = {2, 3}});
    out.push_back(c);
  }
  OpCase broadcast{.name = "12 inputs of several shapes"};
  for (size_t i = 0; i < 12; ++i) {
    broadcast.inputs.push_back({.shape = i % 3 == 0 ? Shape{4} : i % 3 == 1 ? Shape{3, 1} : Shape{2, 1, 1}});
  }
  out.push_back(broadcast);
  out.push_back({.name = "NaN in either place",
                 .inputs = {of(DType::f32, {4}, {NAN, 1, NAN, 2}), of(DType::f32, {4}, {1, NAN, NAN, 3})}});
  out.push_back({.name = "f16",
                 .inputs = {{.dtype = DType::f16, .shape = {5}},
                            {.dtype = DType::f16, .shape = {5}},
                            {.dtype = DType::f16, .shape = {1}}},
                 .rtol = 2e-3,
                 .atol = 1e-3});
}

}  // namespace sinter::ops
