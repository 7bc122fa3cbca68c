// Exact sums of doubles, which do not depend on the order of the rows, nor on how they are distributed over threads.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/parallel.hpp"
#include "base/simd.hpp"
#include "formulas/exact_digits.hpp"

namespace agbm {

// A sum of doubles; exact_digits.hpp describes how it is stored and added up. Doubles are added in blocks.
class ExactSum {
 public:
  static constexpr std::size_t kBlock = 1024;

  // Adds n <= kBlock numbers. The array must have room for kBlock numbers and is overwritten.
  void add_block(double* values, std::size_t n) {
    const std::size_t padded = (n + kStep - 1) / kStep * kStep;
    std::fill(values + n, values + padded, 0.0);
    vectorised_by_register([&](auto vectors) AGBM_INLINE {
      bool left = true;
      while (left) {
        const int exponent = exponent_above<decltype(vectors)>(values, padded);
        if (exponent > ExactDigits::kMaxExponent) return add_one_by_one(values, n);
        left = cut<decltype(vectors)>(values, padded, std::max(exponent, ExactDigits::kMinExponent));
      }
    });
  }

  void add(const ExactSum& other) {
    for (int i = 0; i < kDigits; ++i) digits_[i] += other.digits_[i];
    not_finite_ += other.not_finite_;
    carry();
  }

  // The integer in two's complement. Only valid for a sum that add() has normalised.
  std::string little_endian() const {
    std::string bytes(kDigits * ExactDigits::kDigitBits / 8, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(digits_[i / 4] >> i % 4 * 8 & 0xff);
    return bytes;
  }

  // The double nearest to the sum, ties to even; infinite if the sum is too large. Only valid as above.
  double rounded() const { return divided_by(1); }

  // The double nearest to the sum divided by a number from 1 to 2^32 - 1; infinite if the sum itself is too large.
  double divided_by(std::uint64_t number) const {
    if (not_finite_ != 0.0) return not_finite_ / static_cast<double>(number);
    const bool negative = digits_[kDigits - 1] < 0;
    std::array<std::uint64_t, kDigits + kMore> digits = {};  // of the absolute value, after some zeros
    std::uint64_t carried = negative ? 1 : 0;
    for (int i = 0; i < kDigits; ++i) {
      carried += (negative ? ~digits_[i] : digits_[i]) & ExactDigits::kDigitMask;
      digits[i + kMore] = carried & ExactDigits::kDigitMask;
      carried >>= ExactDigits::kDigitBits;
    }
    std::uint64_t rest = 0;
    int top = kDigits + kMore - 1;
    while (top >= kMore && digits[top] == 0) --top;
    if (top < kMore) return 0.0;
    if (top > kTopOfDoubles || digits[kTopOfDoubles] >> kTopBits != 0) {
      return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    }
    for (int i = top; number > 1 && i >= 0; --i) {
      rest = rest << ExactDigits::kDigitBits | digits[i];
      digits[i] = rest / number;
      rest %= number;
    }
    const double magnitude = nearest(digits.data(), digits[top] > 0 ? top : top - 1, rest != 0);
    return negative ? -magnitude : magnitude;
  }

  // The sum of all infinite numbers and NaNs, which does not depend on their order either; 0 if there are none.
  double not_finite() const { return not_finite_; }

 private:
  static constexpr int kDigits = ExactDigits::kDigits;

  // Digits after those of a sum: a quotient has enough of them for the 64 highest bits, and a remainder after these.
  static constexpr int kMore = 3;
  // The digit of 2^1024, which no double reaches, and the bits below it in this digit.
  static constexpr int kTopOfDoubles = (1024 - ExactDigits::kUnitExponent) / ExactDigits::kDigitBits + kMore;
  static constexpr int kTopBits = (1024 - ExactDigits::kUnitExponent) % ExactDigits::kDigitBits;

  // The double nearest to digits, kMore of which are below 2^-1074, and to something below these if there is `more`.
  // top: the highest digit that is not zero, at least 2.
  static double nearest(const std::uint64_t* digits, int top, bool more) {
    const std::uint64_t high = digits[top] << 32 | digits[top - 1], next = digits[top - 2];
    const int shift = std::countl_zero(high);  // below 32
    const std::uint64_t bits = high << shift | next << shift >> 32;
    more = more || (next << shift & ExactDigits::kDigitMask) != 0;
    for (int i = 0; i < top - 2; ++i) more = more || digits[i] != 0;
    // The lowest of the 64 bits is that of 2^lowest; a double has 53 bits, and none below 2^-1074.
    const int lowest = 32 * (top - 1 - kMore) - shift + ExactDigits::kUnitExponent;
    const int n_cut = std::max(11, ExactDigits::kUnitExponent - lowest);
    if (n_cut > 64) return 0.0;  // below half of the smallest double
    const std::uint64_t half = std::uint64_t{1} << (n_cut - 1);
    const std::uint64_t rest = n_cut == 64 ? bits : bits & (2 * half - 1);
    std::uint64_t kept = n_cut == 64 ? 0 : bits >> n_cut;
    if (rest > half || (rest == half && (more || kept % 2 == 1))) ++kept;
    return std::ldexp(static_cast<double>(kept), lowest + n_cut);
  }

  // Number of sums that are computed side by side, so that an addition need not wait for the previous one.
  static constexpr std::size_t kStep = 16;

  static_assert(kBlock / kStep <= ExactDigits::kMostAdditions);

  // The smallest e with 2^e above all absolute values; 1025 if one is not finite. Absolute values are compared by their
  // upper halves as 32-bit integers, since not all machines can compare vectors of 64-bit ones. (The lower halves are
  // compared as well, but not used.)
  template <class Vectors>
  AGBM_INLINE static int exponent_above(const double* values, std::size_t n) {
    using Halves = typename Vectors::Halves;
    constexpr int lanes = Vectors::kLanes, kSums = kStep / lanes;
    Halves largest[kSums] = {};
    for (std::size_t i = 0; i < n; i += kStep) {
      for (int k = 0; k < kSums; ++k) {
        Halves magnitude;
        std::memcpy(&magnitude, values + i + k * lanes, sizeof magnitude);
        magnitude &= 0x7fffffff;
        largest[k] = magnitude > largest[k] ? magnitude : largest[k];
      }
    }
    std::int32_t upper = 0;
    for (const Halves& found : largest) {
      for (int lane = std::endian::native == std::endian::little ? 1 : 0; lane < 2 * lanes; lane += 2) {
        upper = std::max(upper, found[lane]);
      }
    }
    return ExactDigits::exponent_above(upper);
  }

  // Splits the values, all below 2^exponent, by two quanta, adds both parts and replaces each value by its remainder.
  // Returns whether any remainder is not zero.
  template <class Vectors>
  AGBM_INLINE bool cut(double* values, std::size_t n, int exponent) {
    using Numbers = typename Vectors::Numbers;
    using Words = typename Vectors::Words;
    constexpr int lanes = Vectors::kLanes, kSums = kStep / lanes;
    const int high_quantum = exponent - ExactDigits::kHighBits, low_quantum = high_quantum - ExactDigits::kLowBits;
    const double high_start = ExactDigits::start(high_quantum), low_start = ExactDigits::start(low_quantum);
    Numbers high[kSums], low[kSums];
    for (int k = 0; k < kSums; ++k) {
      high[k] = Numbers{} + high_start;
      low[k] = Numbers{} + low_start;
    }
    Words left = {};
    for (std::size_t i = 0; i < n; i += kStep) {
      for (int k = 0; k < kSums; ++k) {
        Numbers v;
        std::memcpy(&v, values + i + k * lanes, sizeof v);
        ExactDigits::cut_from(v, high[k]);
        ExactDigits::cut_from(v, low[k]);
        std::memcpy(values + i + k * lanes, &v, sizeof v);
        left |= std::bit_cast<Words>(v);
      }
    }
    add_lanes<lanes>(high, high_start, high_quantum);
    add_lanes<lanes>(low, low_start, low_quantum);
    std::int64_t any = 0;
    for (int lane = 0; lane < lanes; ++lane) any |= left[lane];
    return any << 1 != 0;  // ignores the sign of -0
  }

  template <int lanes, class Sums>
  AGBM_INLINE void add_lanes(const Sums& sums, double start, int quantum) {
    std::int64_t count = 0;
    for (const auto& sum : sums) {
      for (int lane = 0; lane < lanes; ++lane) {
        count += ExactDigits::quanta(sum[lane], start);
      }
    }
    add_quanta(count, quantum);
  }

  // For numbers that are too large to be split, or not finite. This is slow, but such a run has diverged.
  void add_one_by_one(const double* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      if (is_finite(values[i])) {
        ExactDigits::add_number(values[i], [this](int digit, Int64 number) { digits_[digit] += number; });
      } else {
        not_finite_ += values[i];
      }
    }
  }

  void add_quanta(Int64 count, int quantum) {
    ExactDigits::add_quanta(count, quantum, [this](int digit, Int64 number) { digits_[digit] += number; });
  }

  // Normalises all digits except the last to the range from 0 to 2^32 - 1.
  void carry() {
    for (int i = 0; i + 1 < kDigits; ++i) {
      digits_[i + 1] += digits_[i] >> ExactDigits::kDigitBits;
      digits_[i] &= ExactDigits::kDigitMask;
    }
  }

  std::array<std::int64_t, kDigits> digits_ = {};
  double not_finite_ = 0.0;
};

// Replaces x by x times weight, rounded, and writes the rounding errors to cut_off.
AGBM_INLINE inline void multiply_exactly(double* __restrict x, const double* __restrict weight,
                                         double* __restrict cut_off, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const ExactProduct product = exact_product(x[i], weight[i]);
    x[i] = product.rounded;
    cut_off[i] = product.rest;
  }
}

// K weighted sums over all rows (weight null: 1). fill(first, n, values) writes the numbers of the n rows from `first`
// on to values[0], ..., values[K - 1].
template <std::size_t K, class Fill>
std::array<ExactSum, K> sum_exactly(const double* weight, std::size_t n_rows, int n_threads, const Fill& fill) {
  std::vector<std::array<ExactSum, K>> partial(tasks_for_rows(n_rows));
  parallel_rows(n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    vectorised([&]() AGBM_INLINE {
      alignas(64) double values[K][ExactSum::kBlock];
      alignas(64) double cut_off[ExactSum::kBlock];
      for (std::size_t first = begin; first < end; first += ExactSum::kBlock) {
        const std::size_t n = std::min(ExactSum::kBlock, end - first);
        fill(first, n, values);
        for (std::size_t k = 0; k < K; ++k) {
          ExactSum& sum = partial[begin / kRowsPerTask][k];
          if (weight != nullptr) {
            multiply_exactly(values[k], weight + first, cut_off, n);
            sum.add_block(cut_off, n);
          }
          sum.add_block(values[k], n);
        }
      }
    });
  });
  std::array<ExactSum, K> total;
  for (const std::array<ExactSum, K>& sums : partial) {
    for (std::size_t k = 0; k < K; ++k) total[k].add(sums[k]);
  }
  return total;
}

}  // namespace agbm
