// SPDX-License-Identifier: Apache-2.0
// Against the standard library's std::to_chars, which prints the same but for the digits beyond a large integer's own.
#include "engine/base/shortest.h"

#include <gtest/gtest.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>

namespace sinter {
namespace {

template <class T>
std::string expected(T value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

template <class T>
std::string text(T value) {
  std::string out;
  append_shortest(out, value);
  return out;
}

template <class T>
void expect_same(T value) {
  const std::string mine = text(value), theirs = expected(value);
  if (mine != theirs && std::abs(value) >= T(1 << 24)) {
    // An integer printed in full: theirs has its exact digits, ours the shortest ones and zeros.
    T back = 0;
    std::from_chars(mine.data(), mine.data() + mine.size(), back);
    EXPECT_EQ(back, value) << mine << " for " << theirs;
    EXPECT_EQ(mine.size(), theirs.size());
    return;
  }
  EXPECT_EQ(mine, theirs);
}

TEST(Shortest, PrintsWhatPeopleWrite) {
  EXPECT_EQ(text(0.0), "0");
  EXPECT_EQ(text(-0.0f), "-0");
  EXPECT_EQ(text(1.0), "1");
  EXPECT_EQ(text(0.1f), "0.1");
  EXPECT_EQ(text(0.1), "0.1");
  EXPECT_EQ(text(1e-5f), "1e-05");
  EXPECT_EQ(text(-1234.5), "-1234.5");
  EXPECT_EQ(text(1e22), "1e+22");
  EXPECT_EQ(text(65504.0f), "65504");
  EXPECT_EQ(text(std::numeric_limits<float>::max()), "3.4028235e+38");
  EXPECT_EQ(text(std::numeric_limits<double>::max()), "1.7976931348623157e+308");
  EXPECT_EQ(text(std::numeric_limits<double>::denorm_min()), "5e-324");
  EXPECT_EQ(text(std::numeric_limits<float>::denorm_min()), "1e-45");
}

TEST(Shortest, AgreesWithTheStandardLibrary) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    if (const float value = std::bit_cast<float>(static_cast<uint32_t>(random())); std::isfinite(value))
      expect_same(value);
    if (const double value = std::bit_cast<double>(random()); std::isfinite(value)) expect_same(value);
    expect_same(static_cast<float>(static_cast<int64_t>(random() % 200001) - 100000) / 1000.0f);
    expect_same(std::ldexp(1.0, static_cast<int>(random() % 2098) - 1074));
    expect_same(static_cast<double>(random() % 1000000));
  }
  for (int exponent = -45; exponent <= 38; ++exponent) {
    const float power = std::pow(10.0f, static_cast<float>(exponent));
    for (const float value :
         {power, std::nextafter(power, 0.0f), std::nextafter(power, std::numeric_limits<float>::infinity())}) {
      if (std::isfinite(value) && value > 0) expect_same(value);
    }
  }
}

}  // namespace
}  // namespace sinter
