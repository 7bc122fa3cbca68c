// Exact sums of doubles, which do not depend on the order of the rows, nor on how they are distributed over threads.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "layout.hpp"
#include "parallel.hpp"
#include "simd.hpp"

namespace agbm {

// A sum, stored as an integer multiple of 2^-1074: every finite double is one. The integer has digits of 32 bits, each
// in a 64-bit integer that has room for carries.
//
// Doubles are added in blocks. Each one is split into a multiple of a quantum q, which is added to a first
// floating-point sum, and a remainder, which is split again with a smaller quantum and added to a second sum. Both sums
// start at 1.5 * 2^52 q and stay in the range where neighbouring doubles are q apart. The addition that splits a number
// therefore rounds it to a multiple of q, and all other operations are exact (Demmel and Nguyen, "Parallel reproducible
// summation", 2015). The quanta are chosen by the largest number of the block, so there is rarely a second remainder;
// if there is one, it is added as another block.
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
        if (exponent > kMaxExponent) return add_one_by_one(values, n);
        left = cut<decltype(vectors)>(values, padded, std::max(exponent, kMinExponent));
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
    std::string bytes(kDigits * kDigitBits / 8, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(digits_[i / 4] >> i % 4 * 8 & 0xff);
    return bytes;
  }

  // The sum of all infinite numbers and NaNs, which does not depend on their order either; 0 if there are none.
  double not_finite() const { return not_finite_; }

 private:
  static constexpr int kDigitBits = 32;
  static constexpr std::int64_t kDigitMask = (std::int64_t{1} << kDigitBits) - 1;
  static constexpr int kUnitExponent = -1074;
  static constexpr int kDigits = 68;  // 2^77 times the largest double

  // Number of sums that are computed side by side, so that an addition need not wait for the previous one.
  static constexpr std::size_t kStep = 16;

  // A lane adds kBlock / kStep = 2^6 multiples of q, whose sum must be below 2^51 q, so each may be up to 2^44 q. The
  // remainder is at most q / 2 and may be up to 2^44 times the second quantum.
  static constexpr int kHighBits = 44;
  static constexpr int kLowBits = 45;
  static constexpr int kMaxExponent = 1023 - (52 - kHighBits);               // 1.5 * 2^52 q must not overflow
  static constexpr int kMinExponent = kUnitExponent + kHighBits + kLowBits;  // no quantum below the smallest double

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
    return (upper >> 20) - 1022;
  }

  // Splits the values, all below 2^exponent, by two quanta, adds both parts and replaces each value by its remainder.
  // Returns whether any remainder is not zero.
  template <class Vectors>
  AGBM_INLINE bool cut(double* values, std::size_t n, int exponent) {
    using Numbers = typename Vectors::Numbers;
    using Words = typename Vectors::Words;
    constexpr int lanes = Vectors::kLanes, kSums = kStep / lanes;
    const int high_quantum = exponent - kHighBits, low_quantum = high_quantum - kLowBits;
    const double high_start = power_of_two(high_quantum + 52) * 1.5, low_start = power_of_two(low_quantum + 52) * 1.5;
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
        cut_from(v, high[k]);
        cut_from(v, low[k]);
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

  template <class Numbers>
  AGBM_INLINE static void cut_from(Numbers& v, Numbers& sum) {
    const Numbers before = sum;
    sum += v;
    v -= sum - before;
  }

  // Neighbouring doubles are one quantum apart here, so the difference of their bits is a number of quanta.
  template <int lanes, class Sums>
  AGBM_INLINE void add_lanes(const Sums& sums, double start, int quantum) {
    std::int64_t count = 0;
    for (const auto& sum : sums) {
      for (int lane = 0; lane < lanes; ++lane) {
        count += std::bit_cast<std::int64_t>(sum[lane]) - std::bit_cast<std::int64_t>(start);
      }
    }
    add_quanta(count, quantum);
  }

  static double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::int64_t>(exponent + 1023) << 52);
  }

  // For numbers that are too large to be split, or not finite. This is slow, but such a run has diverged.
  void add_one_by_one(const double* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::int64_t bits = std::bit_cast<std::int64_t>(values[i]);
      const int biased = static_cast<int>(bits >> 52 & 0x7ff);
      const std::int64_t fraction = bits & ((std::int64_t{1} << 52) - 1);
      const std::int64_t mantissa = biased == 0 ? fraction : fraction | std::int64_t{1} << 52;
      if (biased == 0x7ff) {
        not_finite_ += values[i];
      } else {
        add_quanta(bits < 0 ? -mantissa : mantissa, std::max(biased, 1) - 1 + kUnitExponent);
      }
    }
  }

  // Adds count * 2^quantum to the digits.
  void add_quanta(std::int64_t count, int quantum) {
    const int place = quantum - kUnitExponent;
    std::int64_t* digit = digits_.data() + place / kDigitBits;
    const int shift = place % kDigitBits;
    const std::int64_t lower = (count & kDigitMask) << shift, upper = (count >> kDigitBits) << shift;
    digit[0] += lower & kDigitMask;
    digit[1] += (lower >> kDigitBits) + (upper & kDigitMask);
    digit[2] += upper >> kDigitBits;
  }

  // Normalises all digits except the last to the range from 0 to 2^32 - 1.
  void carry() {
    for (int i = 0; i + 1 < kDigits; ++i) {
      digits_[i + 1] += digits_[i] >> kDigitBits;
      digits_[i] &= kDigitMask;
    }
  }

  std::array<std::int64_t, kDigits> digits_ = {};
  double not_finite_ = 0.0;
};

// The nearest number with 26 bits. The rest of x has at most 26 bits as well, so products of such halves are exact.
AGBM_INLINE inline double upper_half(double x) {
  constexpr std::uint64_t unit = std::uint64_t{1} << 27;
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(x) + unit / 2) & ~(unit - 1));
}

// Replaces x by x times weight, rounded, and writes the rounding errors to cut_off (Dekker, "A floating-point technique
// for extending the available precision", 1971). Their sum is the exact product, unless it underflows, so a row with an
// integer weight adds exactly as much as that many rows.
AGBM_INLINE inline void multiply_exactly(double* __restrict x, const double* __restrict weight,
                                         double* __restrict cut_off, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const double w = weight[i], product = x[i] * w;
    const double x_high = upper_half(x[i]), x_low = x[i] - x_high;
    const double w_high = upper_half(w), w_low = w - w_high;
    const double rest = ((x_high * w_high - product) + x_high * w_low + x_low * w_high) + x_low * w_low;
    x[i] = product;
    cut_off[i] = rest - rest == 0.0 ? rest : 0.0;  // 0 if it is not finite
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
