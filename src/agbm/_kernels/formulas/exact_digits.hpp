// Exact sums of doubles: their digits, and products that are not rounded. The CPU and GPUs compile the same functions.
#pragma once

#include "formulas/portable.hpp"

namespace agbm {

// A sum is stored as an integer multiple of 2^-1074: every finite double is one. The integer has digits of 32 bits, each
// in a 64-bit integer that has room for carries.
//
// Doubles are added in groups. Each one is split into a multiple of a quantum q, which is added to a first floating-point
// sum, and a remainder, which is split again with a smaller quantum and added to a second sum. Both sums start at 1.5 *
// 2^52 q and stay in the range where neighbouring doubles are q apart. The addition that splits a number therefore rounds
// it to a multiple of q, and all other operations are exact (Demmel and Nguyen, "Parallel reproducible summation", 2015).
// The quanta are chosen by the largest number of the group, so there is rarely a second remainder; if there is one, it is
// added as another group.
struct ExactDigits {
  static constexpr int kDigitBits = 32;
  static constexpr Int64 kDigitMask = (Int64{1} << kDigitBits) - 1;
  static constexpr int kUnitExponent = -1074;
  static constexpr int kDigits = 68;  // 2^77 times the largest double

  // A floating-point sum adds up to 2^6 multiples of q, whose sum must be below 2^51 q, so each may be up to 2^44 q. The
  // remainder is at most q / 2 and may be up to 2^44 times the second quantum.
  static constexpr int kMostAdditions = 64;
  static constexpr int kHighBits = 44;
  static constexpr int kLowBits = 45;
  static constexpr int kMaxExponent = 1023 - (52 - kHighBits);               // 1.5 * 2^52 q must not overflow
  static constexpr int kMinExponent = kUnitExponent + kHighBits + kLowBits;  // no quantum below the smallest double

  // The smallest e with 2^e above a number, from the upper half of the bits of its absolute value; 1025 if it is not
  // finite.
  AGBM_INLINE static int exponent_above(Int32 upper) { return (upper >> 20) - 1022; }

  AGBM_INLINE static double power_of_two(int exponent) {
    return bit_cast<double>(static_cast<Int64>(exponent + 1023) << 52);
  }
  // What a floating-point sum of multiples of 2^quantum starts with.
  AGBM_INLINE static double start(int quantum) { return power_of_two(quantum + 52) * 1.5; }
  // Neighbouring doubles are one quantum apart here, so the difference of their bits is a number of quanta.
  AGBM_INLINE static Int64 quanta(double sum, double start) { return bit_cast<Int64>(sum) - bit_cast<Int64>(start); }

  // Splits v: its multiple of the quantum is added to the sum, and the remainder stays.
  template <class Numbers>
  AGBM_INLINE static void cut_from(Numbers& v, Numbers& sum) {
    const Numbers before = sum;
    sum += v;
    v -= sum - before;
  }

  // Calls add(digit, number) for the digits of count * 2^quantum.
  template <class Add>
  AGBM_INLINE static void add_quanta(Int64 count, int quantum, const Add& add) {
    const int place = quantum - kUnitExponent, digit = place / kDigitBits, shift = place % kDigitBits;
    const Int64 lower = (count & kDigitMask) << shift, upper = (count >> kDigitBits) << shift;
    add(digit, lower & kDigitMask);
    add(digit + 1, (lower >> kDigitBits) + (upper & kDigitMask));
    add(digit + 2, upper >> kDigitBits);
  }

  // The same for a finite number of any size.
  template <class Add>
  AGBM_INLINE static void add_number(double x, const Add& add) {
    const Int64 bits = bit_cast<Int64>(x), fraction = bits & ((Int64{1} << 52) - 1);
    const int biased = static_cast<int>(bits >> 52 & 0x7ff);
    const Int64 mantissa = biased == 0 ? fraction : fraction | Int64{1} << 52;
    add_quanta(bits < 0 ? -mantissa : mantissa, larger(biased, 1) - 1 + kUnitExponent, add);
  }
};

AGBM_INLINE inline bool is_finite(double x) { return (bit_cast<Int64>(x) >> 52 & 0x7ff) != 0x7ff; }

// The nearest number with 26 bits. The rest of x has at most 26 bits as well, so products of such halves are exact.
AGBM_INLINE inline double upper_half(double x) {
  constexpr UInt64 unit = UInt64{1} << 27;
  return bit_cast<double>((bit_cast<UInt64>(x) + unit / 2) & ~(unit - 1));
}

struct ExactProduct {
  double rounded, rest;
};

// x times weight, rounded, and the rounding error (Dekker, "A floating-point technique for extending the available
// precision", 1971). Their sum is the exact product, unless it underflows, so a row with an integer weight adds exactly
// as much as that many rows. An error that is not finite becomes 0.
AGBM_INLINE inline ExactProduct exact_product(double x, double weight) {
  const double product = x * weight;
  const double x_high = upper_half(x), x_low = x - x_high;
  const double w_high = upper_half(weight), w_low = weight - w_high;
  const double rest = ((x_high * w_high - product) + x_high * w_low + x_low * w_high) + x_low * w_low;
  return {product, rest - rest == 0.0 ? rest : 0.0};
}

}  // namespace agbm
