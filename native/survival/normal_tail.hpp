// Tails of distributions from the elementary functions of elementary.hpp, so that they have the same bits on every
// platform: the normal distribution, and logarithms of probabilities near 0 and 1.
#pragma once

#include <cmath>

#include "formulas/elementary.hpp"
#include "formulas/gamma_function.hpp"

namespace agbm {

constexpr double kSmallestPositive = 1e-300;  // logarithms of smaller numbers are not needed

// log(1 - p) for 0 <= p < 1, also if p is tiny (W. Kahan).
AGBM_INLINE inline double log_1_minus(double p) {
  const double rest = 1.0 - p;
  const double found = positive_log(at_least(rest, kSmallestPositive)) * p / (1.0 - rest == 0.0 ? 1.0 : 1.0 - rest);
  return rest == 1.0 ? -p : found;
}

// 1 - exp(-x) for x >= 0, also if x is tiny.
AGBM_INLINE inline double one_minus_exp(double x) {
  const double power = bounded_exp(-x);
  const double log_power = positive_log(power);
  const double found = (power - 1.0) * at_most(x, kLargestExponent) / (log_power == 0.0 ? 1.0 : log_power);
  return power == 1.0 ? x : found;
}

// exp(x) - 1 for x >= 0, also if x is tiny.
AGBM_INLINE inline double exp_minus_1(double x) { return bounded_exp(x) * one_minus_exp(x); }

// log(1 - exp(-x)) for x > 0.
AGBM_INLINE inline double log_1_minus_exp(double x) {
  return x > 0.7 ? log_1_minus(bounded_exp(-x)) : positive_log(at_least(one_minus_exp(x), kSmallestPositive));
}

// log(1 + exp(x)).
AGBM_INLINE inline double soft_plus(double x) { return at_least(x, 0.0) + log_1_plus(bounded_exp(-std::fabs(x))); }

// P(Z > x) exp(x^2 / 2) for a standard normal Z and x >= 0. Rational approximations in three ranges (Cody, "Rational
// Chebyshev approximation for the error function", 1969); about 1e-15.
AGBM_INLINE inline double scaled_normal_tail(double x) {
  constexpr double a[] = {2.2352520354606839287, 161.02823106855587881, 1067.6894854603709582, 18154.981253343561249,
                          .065682337918207449113};
  constexpr double b[] = {47.20258190468824187, 976.09855173777669322, 10260.932208618978205, 45507.789335026729956};
  constexpr double c[] = {.39894151208813466764, 8.8831497943883759412, 93.506656132177855979,
                          597.27027639480026226, 2494.5375852903726711, 6848.1904505362823326,
                          11602.651437647350124, 9842.7148383839780218, 1.0765576773720192317e-8};
  constexpr double d[] = {22.266688044328115691, 235.38790178262499861, 1519.377599407554805,  6485.558298266760755,
                          18615.571640885098091, 34900.952721145977266, 38912.003286093271411, 19685.429676859990727};
  constexpr double p[] = {.21589853405795699,     .1274011611602473639,  .022235277870649807,
                          .001421619193227893466, 2.9112874951168792e-5, .02307344176494017303};
  constexpr double q[] = {1.28426009614491121, .468238212480865118, .0659881378689285515, .00378239633202758244,
                          7.29751555083966205e-5};
  constexpr double one_over_sqrt_two_pi = 0.39894228040143268;
  if (x < 0.67448975) {
    const double x2 = x * x;
    double above = a[4] * x2, below = x2;
    for (int i = 0; i < 3; ++i) {
      above = (above + a[i]) * x2;
      below = (below + b[i]) * x2;
    }
    return (0.5 - x * (above + a[3]) / (below + b[3])) * bounded_exp(0.5 * x2);
  }
  if (x < 5.656854249492381) {
    double above = c[8] * x, below = x;
    for (int i = 0; i < 7; ++i) {
      above = (above + c[i]) * x;
      below = (below + d[i]) * x;
    }
    return (above + c[7]) / (below + d[7]);
  }
  const double w = 1.0 / (x * x);
  double above = p[5] * w, below = w;
  for (int i = 0; i < 4; ++i) {
    above = (above + p[i]) * w;
    below = (below + q[i]) * w;
  }
  return (one_over_sqrt_two_pi - w * (above + p[4]) / (below + q[4])) / x;
}

// log P(Z > x) for a standard normal Z and any x.
AGBM_INLINE inline double log_normal_tail(double x) {
  const double distance = std::fabs(x), tail = scaled_normal_tail(distance), exponent = 0.5 * (x * x);
  if (x >= 0.0) return positive_log(at_least(tail, kSmallestPositive)) - exponent;
  return log_1_minus(tail * bounded_exp(-exponent));
}

}  // namespace agbm
