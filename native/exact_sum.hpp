// Sums of doubles that are exact, so that they depend neither on the order of the rows nor on who adds up which of them.
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

// A sum as a whole number of 2^-1074, the smallest double: every double is a multiple of it. Its digits are of 32 bits, in
// integers of 64 that leave room for carries.
//
// Doubles are added in blocks. Of each, what is a multiple of a quantum q goes to one floating-point sum, and what is left
// to a second one with a smaller quantum. Both sums start at 1.5 * 2^52 q and stay near, where neighbouring doubles are q
// apart: all additions are exact but the one that cuts, whose error is what is left (Demmel and Nguyen, "Parallel
// reproducible summation", 2015). The quanta follow from the block's largest number, so there is hardly ever something
// left after both; if so, it is the next block.
class ExactSum {
 public:
  static constexpr std::size_t kBlock = 1024;

  // Adds n <= kBlock numbers. There is room for kBlock of them; none is left as it was.
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

  // The whole number, in two's complement. Carried: only a sum that `add` has made.
  std::string little_endian() const {
    std::string bytes(kDigits * kDigitBits / 8, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(digits_[i / 4] >> i % 4 * 8 & 0xff);
    return bytes;
  }

  // The sum of all that is not finite, in which no order can be seen either; 0 where everything is.
  double not_finite() const { return not_finite_; }

 private:
  static constexpr int kDigitBits = 32;
  static constexpr std::int64_t kDigitMask = (std::int64_t{1} << kDigitBits) - 1;
  static constexpr int kUnitExponent = -1074;
  static constexpr int kDigits = 68;  // 2^77 times the largest double

  // Several sums side by side: an addition need not wait for the one before.
  static constexpr std::size_t kStep = 16;

  // A lane of a sum takes kBlock / kStep = 2^6 multiples of q, together below 2^51: each may be 2^44. What is left is at
  // most q / 2, and may be 2^44 of the second quantum.
  static constexpr int kHighBits = 44;
  static constexpr int kLowBits = 45;
  static constexpr int kMaxExponent = 1023 - (52 - kHighBits);               // 1.5 * 2^52 q must be a number,
  static constexpr int kMinExponent = kUnitExponent + kHighBits + kLowBits;  // and no quantum smaller than the unit

  // The least exponent e with 2^e above all magnitudes; 1025 where one is not finite. Magnitudes are in the order of their
  // upper halves, as integers; 32 bits since more machines compare those than 64. (The lower halves are compared in vain.)
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

  // Adds what two quanta take of each value, all below 2^exponent, and leaves the rest; whether there is any.
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
    return any << 1 != 0;  // -0 is nothing
  }

  template <class Numbers>
  AGBM_INLINE static void cut_from(Numbers& v, Numbers& sum) {
    const Numbers before = sum;
    sum += v;
    v -= sum - before;
  }

  // Where neighbouring doubles are a quantum apart, the difference of their bits counts quanta.
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

  // Numbers that are too large for the cut, or no numbers. They are the end of a run, if they come at all.
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

  // Adds count * 2^quantum, cut at the digits.
  void add_quanta(std::int64_t count, int quantum) {
    const int place = quantum - kUnitExponent;
    std::int64_t* digit = digits_.data() + place / kDigitBits;
    const int shift = place % kDigitBits;
    const std::int64_t lower = (count & kDigitMask) << shift, upper = (count >> kDigitBits) << shift;
    digit[0] += lower & kDigitMask;
    digit[1] += (lower >> kDigitBits) + (upper & kDigitMask);
    digit[2] += upper >> kDigitBits;
  }

  // All digits but the last from 0 to 2^32 - 1.
  void carry() {
    for (int i = 0; i + 1 < kDigits; ++i) {
      digits_[i + 1] += digits_[i] >> kDigitBits;
      digits_[i] &= kDigitMask;
    }
  }

  std::array<std::int64_t, kDigits> digits_ = {};
  double not_finite_ = 0.0;
};

// The nearest number with 26 bits: what is left of x has no more, and products of such halves are exact.
AGBM_INLINE inline double upper_half(double x) {
  constexpr std::uint64_t unit = std::uint64_t{1} << 27;
  return std::bit_cast<double>((std::bit_cast<std::uint64_t>(x) + unit / 2) & ~(unit - 1));
}

// x becomes x times weight, rounded, and cut_off what the rounding takes away (Dekker, "A floating-point technique for
// extending the available precision", 1971): both together are the product, unless it underflows. So a row with a whole
// weight adds exactly what as many rows would add.
AGBM_INLINE inline void multiply_exactly(double* __restrict x, const double* __restrict weight,
                                         double* __restrict cut_off, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const double w = weight[i], product = x[i] * w;
    const double x_high = upper_half(x[i]), x_low = x[i] - x_high;
    const double w_high = upper_half(w), w_low = w - w_high;
    const double rest = ((x_high * w_high - product) + x_high * w_low + x_low * w_high) + x_low * w_low;
    x[i] = product;
    cut_off[i] = rest - rest == 0.0 ? rest : 0.0;  // of what is not finite, nothing is left
  }
}

// Sums of K numbers of each row, times its weight (null: 1): fill(first, n, values) writes those of n rows, from the first
// on, to values[0], ..., values[K - 1].
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
