// SPDX-License-Identifier: Apache-2.0
#include "engine/tensor/compare.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace sinter {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor floats(std::vector<float> values) {
  auto tensor = Tensor::alloc(DType::f32, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor->mutable_data<float>().begin());
  return *tensor;
}

Comparison diff(std::vector<float> actual, std::vector<float> expected, Tolerance tolerance = {1e-3, 1e-5}) {
  return *compare(floats(std::move(actual)), floats(std::move(expected)), tolerance);
}

TEST(Compare, Tolerances) {
  EXPECT_TRUE(diff({1, 2}, {1, 2}).equal());
  EXPECT_TRUE(diff({100.05f}, {100}).equal());
  EXPECT_FALSE(diff({100.2f}, {100}).equal());
  EXPECT_TRUE(diff({9e-6f}, {0}).equal());
  EXPECT_FALSE(diff({2e-5f}, {0}).equal());
}

TEST(Compare, FirstDifferenceAndSizes) {
  const Comparison c = diff({1, 3, 4}, {1, 2, 8});
  EXPECT_EQ(c.differing, 2u);
  EXPECT_EQ(c.first, 1u);
  EXPECT_EQ(c.actual, 3);
  EXPECT_EQ(c.expected, 2);
  EXPECT_EQ(c.max_abs, 4);
  EXPECT_EQ(c.max_rel, 0.5);
}

TEST(Compare, NanAndInfinity) {
  EXPECT_TRUE(diff({kNan, kInf, -kInf}, {kNan, kInf, -kInf}).equal());
  EXPECT_EQ(diff({kNan, kInf}, {kNan, kInf}).max_abs, 0);
  for (const auto& [a, b] :
       {std::pair{kNan, 1.f}, {1.f, kNan}, {kInf, 1.f}, {1.f, kInf}, {kInf, -kInf}, {kNan, kInf}, {kInf, kNan}}) {
    const Comparison c = diff({a}, {b}, {1e9, 1e9});
    EXPECT_FALSE(c.equal()) << a << " " << b;
    EXPECT_TRUE(std::isinf(c.max_abs)) << a << " " << b;
  }
}

TEST(Compare, Cosine) {
  EXPECT_NEAR(diff({1, 0}, {0, 1}).cosine, 0, 1e-12);
  EXPECT_NEAR(diff({1, 2}, {2, 4}).cosine, 1, 1e-12);
  EXPECT_NEAR(diff({1, 2}, {-1, -2}).cosine, -1, 1e-12);
  EXPECT_EQ(diff({0, 0}, {0, 0}).cosine, 1);
  EXPECT_EQ(diff({0, 0}, {1, 0}).cosine, 0);
  EXPECT_NEAR(diff({kNan, 1}, {kNan, 1}).cosine, 1, 1e-12);
  EXPECT_TRUE(std::isnan(diff({kNan, 1}, {1, 1}).cosine));
}

TEST(Compare, IntegersAreExact) {
  const int64_t a[] = {1'000'000, (1ll << 53) + 1}, b[] = {1'000'001, 1ll << 53};
  const Comparison c = *compare(*Tensor::of_i64(a), *Tensor::of_i64(b), {1e-3, 1e-5});
  EXPECT_EQ(c.differing, 2u);
  EXPECT_EQ(c.max_abs, 1);
  EXPECT_TRUE(compare(*Tensor::of_i64(a), *Tensor::of_i64(b), {0, 1})->equal());
}

TEST(Compare, DifferentShapesAndTypesAreNamed) {
  const auto result = compare(floats({1, 2}), *Tensor::of_i64(std::vector<int64_t>{1}), {});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "got float32[2], expected int64[1]");
}

TEST(Compare, Texts) {
  const Comparison c = diff({1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 7, 6});
  EXPECT_EQ(to_string(c, {2, 3}), "1 of 6 elements differ, first at [1,1]: 5, expected 7; largest difference 2");
}

}  // namespace
}  // namespace sinter
