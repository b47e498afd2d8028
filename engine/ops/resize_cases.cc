// SPDX-License-Identifier: Apache-2.0
// Self-tests of Resize.
#include "engine/base/str.h"
#include "engine/ops/cases.h"
#include "engine/ops/resize.h"

namespace sinter::ops {
namespace {

using Ints = std::vector<int64_t>;
using Values = std::vector<double>;

OpCase::Input constant(DType dtype, const Values& values) {
  return {.dtype = dtype, .shape = {static_cast<int64_t>(values.size())}, .values = values, .constant = true};
}

OpCase scaled(std::string_view name, const Shape& x, const Values& scales, const Attrs& attrs,
              DType dtype = DType::f32) {
  OpCase c;
  c.name = name;
  c.attrs = attrs;
  c.inputs = {{
                  .dtype = dtype,
                  .shape = x,
              },
              {.shape = {}, .absent = true},
              constant(DType::f32, scales)};
  return c;
}

OpCase sized(std::string_view name, const Shape& x, const Values& sizes, const Attrs& attrs) {
  OpCase c = scaled(name, x, {}, attrs);
  c.inputs[2] = {.shape = {}, .absent = true};
  c.inputs.push_back(constant(DType::i64, sizes));
  return c;
}

Attrs mode(std::string_view mode, std::string_view coordinates = "half_pixel",
           std::string_view nearest = "round_prefer_floor") {
  return attrs_of({{"mode", std::string(mode)},
                   {"coordinate_transformation_mode", std::string(coordinates)},
                   {"nearest_mode", std::string(nearest)}});
}

void both_layouts(std::vector<OpCase>& cases, OpCase c) {
  cases.push_back(c);
  c.name += " nhwc";
  c.attrs.set("nhwc", int64_t{1});
  c.inputs[0].shape = channels_last(c.inputs[0].shape);
  cases.push_back(std::move(c));
}

}  // namespace

void resize_cases(std::vector<OpCase>& cases) {
  constexpr std::string_view kCoordinates[] = {"half_pixel",    "half_pixel_symmetric", "pytorch_half_pixel",
                                               "align_corners", "asymmetric",           "tf_half_pixel_for_nn"};
  for (std::string_view coordinates : kCoordinates) {
    for (std::string_view interpolation : {"linear", "cubic"}) {
      const std::string name = StrCat(interpolation, " ", coordinates);
      both_layouts(cases, scaled(StrCat(name, " up"), {1, 4, 5, 6}, {1, 1, 2, 1.5}, mode(interpolation, coordinates)));
      both_layouts(cases,
                   scaled(StrCat(name, " down"), {2, 3, 8, 7}, {1, 1, 0.6, 0.5}, mode(interpolation, coordinates)));
    }
    for (std::string_view nearest : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
      const std::string name = StrCat("nearest ", coordinates, " ", nearest);
      both_layouts(cases,
                   scaled(StrCat(name, " up"), {1, 4, 3, 5}, {1, 1, 2, 3}, mode("nearest", coordinates, nearest)));
      both_layouts(cases,
                   sized(StrCat(name, " down"), {1, 3, 10, 9}, {1, 3, 6, 4}, mode("nearest", coordinates, nearest)));
    }
  }
  both_layouts(cases, scaled("nearest doubles", {1, 8, 13, 13}, {1, 1, 2, 2}, mode("nearest", "asymmetric", "floor")));
  both_layouts(cases, sized("linear to one", {1, 4, 5, 3}, {1, 4, 1, 1}, mode("linear", "pytorch_half_pixel")));
  both_layouts(cases, sized("linear large", {1, 1, 40, 30}, {1, 1, 97, 64}, mode("linear", "align_corners")));
  Attrs outside = mode("cubic");
  outside.set("exclude_outside", int64_t{1});
  outside.set("cubic_coeff_a", -0.5f);
  both_layouts(cases, scaled("cubic excludes outside", {1, 4, 4, 5}, {1, 1, 2, 0.7}, outside));
  Attrs larger = mode("linear");
  larger.set("keep_aspect_ratio_policy", std::string("not_larger"));
  larger.set("axes", Ints{3, 2});
  both_layouts(cases, sized("not larger over axes 3, 2", {1, 4, 4, 6}, {9, 7}, larger));
  cases.push_back(scaled("all axes", {2, 3, 4}, {2, 1.5, 2}, mode("linear")));
  cases.push_back(scaled("rank 3", {1, 15, 20}, {1, 2, 2}, mode("linear", "align_corners")));
  cases.push_back(scaled("no change", {1, 3, 4, 5}, {1, 1, 1, 1}, mode("cubic")));
  cases.push_back(scaled("half", {1, 2, 4, 4}, {1, 1, 2, 2}, mode("linear"), DType::f16));
  cases.back().rtol = cases.back().atol = 2e-3;
  for (const DType dtype : {DType::i32, DType::u8, DType::i64, DType::f16}) {
    cases.push_back(scaled(StrCat("nearest ", name_of(dtype)), {1, 2, 3, 3}, {1, 1, 2, 2}, mode("nearest"), dtype));
    cases.back().inputs[0].lo = 0;
    cases.back().inputs[0].hi = 100;
  }
  Attrs crop = mode("linear", "tf_crop_and_resize");
  crop.set("extrapolation_value", 10.0f);
  for (std::string_view interpolation : {"linear", "nearest"}) {
    crop.set("mode", std::string(interpolation));
    OpCase c = sized(StrCat("crop ", interpolation), {1, 4, 4, 4}, {1, 4, 3, 5}, crop);
    c.inputs[1] = constant(DType::f32, {0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7});
    both_layouts(cases, std::move(c));
  }
  Attrs antialias = mode("linear");
  antialias.set("antialias", int64_t{1});
  both_layouts(cases, scaled("antialias", {1, 2, 9, 8}, {1, 1, 0.4, 0.5}, antialias));
  cases.push_back(scaled("empty batch", {0, 3, 4, 5}, {1, 1, 2, 2}, mode("linear")));
}

}  // namespace sinter::ops
