// exp, log and log1p from IEEE additions, multiplications, divisions and bit operations only.
//
// The standard libraries of different platforms, and scalar and vector versions of the same library, differ in the last
// bits of these functions. With them, trees would depend on the machine, or on whether a row is in the vectorised part
// of a loop. The functions here have no branches and no conversions that SSE2 lacks, so that compilers can vectorise
// them with any width and get the same bits. NaN stays NaN.
#pragma once

#include "formulas/portable.hpp"

namespace agbm {

// exp() of a larger score would overflow; training has diverged by then, which its loss shows. The lower limit avoids
// results that are zero or subnormal, which are slow.
constexpr double kLargestExponent = 700.0;

// ln 2 in two parts. The first one ends with eleven zero bits, so that its product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42fefa3800p-1;
constexpr double kLn2Low = 5.497923018708371e-14;

// Adding 1.5 * 2^52 rounds to an integer, which is then in the low bits.
constexpr double kRoundingMagic = 6755399441055744.0;

constexpr UInt64 kOneBits = bit_cast<UInt64>(1.0);

// Comparisons with NaN are false, so NaN is returned unchanged.
AGBM_INLINE inline double at_most(double x, double bound) { return x > bound ? bound : x; }
AGBM_INLINE inline double at_least(double x, double bound) { return x < bound ? bound : x; }

// exp(x) for |x| <= 700: 2^n exp(r), |r| <= ln(2) / 2. About 1 ulp.
AGBM_INLINE inline double exp_in_range(double x) {
  const double shifted = x * 1.4426950408889634 + kRoundingMagic;
  const double n = shifted - kRoundingMagic;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  // exp(r) = 1 + r + r^2 q(r), where q has degree 9 and minimises the relative error of exp(r), 2^-57.9. The polynomial
  // is evaluated as several short sums, because in one long chain every step would have to wait for the previous one.
  const double r2 = r * r;
  const double r4 = r2 * r2;
  const double q0 =
      0.5000000000000011 + r * 0.1666666666666641 + r2 * (0.041666666666529725 + r * 0.008333333333494976);
  const double q4 =
      0.0013888888943759965 + r * 0.00019841269505773776 + r2 * (2.480149294963387e-05 + r * 2.7557586803895326e-06);
  const double q8 = 2.76303062502936e-07 + r * 2.5000018833187374e-08;
  const double mantissa = 1.0 + (r + r2 * (q0 + r4 * (q4 + r4 * q8)));
  // A multiplication, because adding to the exponent bits would turn some NaNs into numbers.
  return mantissa * bit_cast<double>((bit_cast<UInt64>(shifted) << 52) + kOneBits);
}

// exp(x) with x clipped to [-700, 700]. The sign is restored last; with two-sided clipping, compilers would add a
// branch for the constant results at the limits.
AGBM_INLINE inline double bounded_exp(double x) {
  return exp_in_range(copy_sign(at_most(absolute(x), kLargestExponent), x));
}

AGBM_INLINE inline double sigmoid(double x) { return 1.0 / (1.0 + bounded_exp(-x)); }

// log((1 + s) / (1 - s)) = 2 s + s^3 R(s^2) for |s| <= 3 - sqrt(8), which covers numbers between sqrt(1/2) and sqrt(2).
AGBM_INLINE inline double log_of_ratio(double s) {
  const double z = s * s;
  const double z2 = z * z;
  // R has degree 6 and minimises the relative error of the logarithm, 2^-59.5.
  const double low = 0.6666666666666735 + z * 0.3999999999941109 + z2 * (0.28571428743262955 + z * 0.22222198475963328);
  const double high = 0.18183569740789435 + z * 0.15313903225620146 + z2 * 0.14797507887340616;
  return 2.0 * s + s * z * (low + z2 * z2 * high);
}

// log(x) for a positive x that is neither subnormal nor infinite: n ln 2 + log(m), sqrt(1/2) <= m < sqrt(2).
AGBM_INLINE inline double positive_log(double x) {
  constexpr double exponent_magic = 4503599627370496.0;  // 2^52: numbers below it fit its low bits
  const UInt64 bits = bit_cast<UInt64>(x);
  const UInt64 above = bits - bit_cast<UInt64>(0.70710678118654752);
  const UInt64 n_bits = (above + kOneBits) >> 52;  // n + 1023
  const double m = bit_cast<double>(bits - (n_bits << 52) + kOneBits);
  const double n = bit_cast<double>(n_bits | bit_cast<UInt64>(exponent_magic)) - (exponent_magic + 1023.0);
  const double log_m = log_of_ratio((m - 1.0) / (m + 1.0));
  const double poison = 0.0 * x;  // NaN if x is; the operations on bits would lose it
  return n * kLn2High + (log_m + (n * kLn2Low + poison));
}

// log(1 + e) for 0 <= e <= 1, to about 2 ulp even if 1 + e rounds to 1. Above sqrt(2) it is ln 2 + log((1 + e) / 2).
AGBM_INLINE inline double log_1_plus(double e) {
  // 1 or 0 from the sign of a difference of bits, because compilers turn a comparison into a branch here.
  const UInt64 beyond = (bit_cast<UInt64>(0.41421356237309503) - bit_cast<UInt64>(e)) >> 63;
  const double halvings = bit_cast<double>((0 - beyond) & kOneBits);
  return halvings * 0.69314718055994531 + log_of_ratio((e - halvings) / (e + (2.0 + halvings)));
}

}  // namespace agbm
