// SPDX-License-Identifier: Apache-2.0
#include "engine/base/shortest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace sinter {
namespace {

// Unsigned integer of up to 1280 bits: 2^1076 and 10^324 times a mantissa fit.
class Big {
 public:
  explicit Big(uint64_t value = 0) : words_{static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)} {}

  void multiply(uint32_t factor) {
    uint64_t carry = 0;
    for (uint32_t& word : words_) {
      carry += uint64_t{word} * factor;
      word = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
  }
  void shift_left(unsigned bits) {
    for (; bits >= 31; bits -= 31) multiply(1u << 31);
    multiply(1u << bits);
  }
  void power_of_ten(int exponent) {
    for (; exponent > 0; --exponent) multiply(10);
  }
  void subtract(const Big& other) {
    int64_t borrow = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      borrow += int64_t{words_[i]} - other.words_[i];
      words_[i] = static_cast<uint32_t>(borrow);
      borrow >>= 32;
    }
  }
  void add(const Big& other) {
    uint64_t carry = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      carry += uint64_t{words_[i]} + other.words_[i];
      words_[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
  }
  /// -1, 0 or 1.
  int compare(const Big& other) const {
    for (size_t i = words_.size(); i-- > 0;) {
      if (words_[i] != other.words_[i]) return words_[i] < other.words_[i] ? -1 : 1;
    }
    return 0;
  }

 private:
  std::array<uint32_t, 40> words_{};
};

struct Decimal {
  std::string digits;
  int point = 0;  // value = 0.DIGITS * 10^point
};

// Free-format printing after Burger and Dybvig: r/s is the value's rest, plus/s and minus/s the distances to the ends of
// the interval that rounds to it.
Decimal shortest_digits(uint64_t mantissa, int exponent, bool lowest_of_binade) {
  const bool even = mantissa % 2 == 0;  // the ends of the interval belong to it
  Big r(mantissa), s(1), plus(1), minus(1);
  const unsigned extra = lowest_of_binade ? 2 : 1;  // below the lowest mantissa the neighbour is half as far
  if (exponent >= 0) {
    r.shift_left(static_cast<unsigned>(exponent) + extra);
    s.shift_left(extra);
    plus.shift_left(static_cast<unsigned>(exponent) + extra - 1);
    minus.shift_left(static_cast<unsigned>(exponent));
  } else {
    r.shift_left(extra);
    s.shift_left(static_cast<unsigned>(-exponent) + extra);
    plus.shift_left(extra - 1);
  }
  const double log10 = (static_cast<int>(std::bit_width(mantissa)) - 1 + exponent) * 0.30102999566398120;
  Decimal out;
  out.point = static_cast<int>(std::ceil(log10 - 1e-9));
  if (out.point >= 0) {
    s.power_of_ten(out.point);
  } else {
    for (Big* big : {&r, &plus, &minus}) big->power_of_ten(-out.point);
  }
  auto beyond = [&] {
    Big high = r;
    high.add(plus);
    const int order = high.compare(s);
    return even ? order >= 0 : order > 0;
  };
  // The estimate is low by one at most.
  if (beyond()) {
    ++out.point;
  } else {
    for (Big* big : {&r, &plus, &minus}) big->multiply(10);
  }
  while (true) {
    char digit = '0';
    for (; r.compare(s) >= 0; ++digit) r.subtract(s);
    const int below = r.compare(minus);
    const bool low_end = even ? below <= 0 : below < 0;
    const bool high_end = beyond();
    if (low_end || high_end) {
      Big twice = r;
      twice.multiply(2);
      const int half = twice.compare(s);
      if (high_end && (!low_end || half > 0 || (half == 0 && digit % 2 != 0))) ++digit;
      out.digits += digit;
      return out;
    }
    out.digits += digit;
    for (Big* big : {&r, &plus, &minus}) big->multiply(10);
  }
}

void append_number(std::string& out, unsigned value) {
  if (value >= 10) append_number(out, value / 10);
  out += static_cast<char>('0' + value % 10);
}

void append_decimal(std::string& out, const Decimal& decimal) {
  const int digits = static_cast<int>(decimal.digits.size());
  const int point = decimal.point;
  const int exponent = point - 1;
  const int scientific = digits + (digits > 1) + (std::abs(exponent) >= 100 ? 5 : 4);
  const int fixed = point <= 0 ? 2 - point + digits : point < digits ? digits + 1 : point;
  if (fixed > scientific) {
    out += decimal.digits[0];
    if (digits > 1) out.append(".").append(decimal.digits, 1);
    out += exponent < 0 ? "e-" : "e+";
    if (std::abs(exponent) < 10) out += '0';
    append_number(out, static_cast<unsigned>(std::abs(exponent)));
  } else if (point <= 0) {
    out.append("0.").append(static_cast<size_t>(-point), '0').append(decimal.digits);
  } else {
    out.append(decimal.digits, 0, static_cast<size_t>(std::min(point, digits)));
    if (point < digits) out.append(".").append(decimal.digits, static_cast<size_t>(point));
    if (point > digits) out.append(static_cast<size_t>(point - digits), '0');
  }
}

void append_bits(std::string& out, uint64_t bits, int mantissa_bits, int exponent_bits) {
  if (bits >> (mantissa_bits + exponent_bits)) out += '-';
  const uint64_t fraction = bits & ((uint64_t{1} << mantissa_bits) - 1);
  const int biased = static_cast<int>((bits >> mantissa_bits) & ((uint64_t{1} << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1 + mantissa_bits;
  if (biased == 0 && fraction == 0) {
    out += '0';
    return;
  }
  const uint64_t mantissa = biased ? fraction | (uint64_t{1} << mantissa_bits) : fraction;
  append_decimal(out, shortest_digits(mantissa, std::max(biased, 1) - bias, biased > 1 && fraction == 0));
}

}  // namespace

void append_shortest(std::string& out, double value) { append_bits(out, std::bit_cast<uint64_t>(value), 52, 11); }
void append_shortest(std::string& out, float value) { append_bits(out, std::bit_cast<uint32_t>(value), 23, 8); }

}  // namespace sinter
