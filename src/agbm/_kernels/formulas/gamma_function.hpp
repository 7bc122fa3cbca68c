// The logarithm of the gamma function and its first two derivatives, from the elementary functions of elementary.hpp,
// so that they have the same bits on every platform.
//
// Stirling's series at x + 8, where its terms fall fast, and the recurrence back to x. No branches.
#pragma once

#include "formulas/elementary.hpp"
#include "formulas/portable.hpp"

namespace agbm {

constexpr int kStirlingShift = 8;

// log(1 + e) for any e >= 0. For large e, log(e) + log(1 + 1 / e).
AGBM_INLINE inline double log_1_plus_any(double e) {
  const bool large = e > 1.0;
  const double small_part = log_1_plus(large ? 1.0 / e : e);
  return small_part + (large ? positive_log(large ? e : 1.0) : 0.0);
}

// log(exp(a) + exp(b)).
AGBM_INLINE inline double log_sum_of_exps(double a, double b) {
  return at_least(a, b) + log_1_plus(bounded_exp(-absolute(a - b)));
}

// The logarithm of the gamma function for 1e-30 < x < 1e30.
AGBM_LONG inline double log_gamma(double x) {
  double product = x;
  for (int j = 1; j < kStirlingShift; ++j) product *= x + j;
  const double z = x + kStirlingShift, w = 1.0 / z, w2 = w * w;
  const double series =
      w * (8.3333333333333333e-2 +
           w2 * (-2.7777777777777778e-3 +
                 w2 * (7.9365079365079365e-4 +
                       w2 * (-5.9523809523809524e-4 + w2 * (8.4175084175084175e-4 + w2 * -1.9175269175269175e-3)))));
  return (z - 0.5) * positive_log(z) - z + 0.91893853320467274 + series - positive_log(product);
}

// Its derivative.
AGBM_LONG inline double digamma(double x) {
  double steps = 0.0;
  for (int j = 0; j < kStirlingShift; ++j) steps += 1.0 / (x + j);
  const double z = x + kStirlingShift, w2 = 1.0 / (z * z);
  const double series =
      w2 * (8.3333333333333333e-2 +
            w2 * (-8.3333333333333333e-3 +
                  w2 * (3.9682539682539683e-3 +
                        w2 * (-4.1666666666666667e-3 + w2 * (7.5757575757575758e-3 + w2 * -2.1092796092796093e-2)))));
  return positive_log(z) - 0.5 / z - series - steps;
}

// Its second derivative.
AGBM_LONG inline double trigamma(double x) {
  double steps = 0.0;
  for (int j = 0; j < kStirlingShift; ++j) steps += 1.0 / ((x + j) * (x + j));
  const double z = x + kStirlingShift, w = 1.0 / z, w2 = w * w;
  const double series =
      w2 * (1.6666666666666667e-1 +
            w2 * (-3.3333333333333333e-2 +
                  w2 * (2.3809523809523810e-2 +
                        w2 * (-3.3333333333333333e-2 + w2 * (7.5757575757575758e-2 + w2 * -2.5311355311355311e-1)))));
  return w * (1.0 + 0.5 * w + series) + steps;
}

}  // namespace agbm
