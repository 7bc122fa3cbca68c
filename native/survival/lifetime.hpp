// Losses of times that are known exactly or only between two bounds, row by row: accelerated failure time, and
// piecewise exponential times.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/parallel.hpp"
#include "formulas/distribution_rows.hpp"
#include "formulas/elementary.hpp"
#include "formulas/loss_rows.hpp"

namespace agbm {

// Tails of distributions from the elementary functions of elementary.hpp, so that they have the same bits on every
// platform: the normal distribution, and logarithms of probabilities near 0 and 1.

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

// Accelerated failure time: the logarithm of a time is a location plus a scale times an error of known distribution. A
// time is known exactly, or only to be between two bounds (lower 0: none; upper infinite: none).
//
// The first score is the location. The second one, if there is one, is the logarithm of the scale.

// exp() of errors: squares of the results do not overflow.
AGBM_INLINE inline double capped_exp(double z) { return bounded_exp(at_most(z, 300.0)); }

// Steps of the location of a row whose time is not known are bounded by this number of scales.
constexpr double kLongestLocationStep = 3.0;

// Bounds that are closer, in scales, have the derivatives of an error in the middle: the difference of the densities at
// the bounds, divided by the small probability between them, would be mostly rounding errors.
constexpr double kNarrow = 1e-5;

// Distributions of errors. slope(z) is the negative derivative of the logarithm of the density, and rise(z) the
// derivative of the slope. kLocation and kSpread are the Fisher information of a location, and of the logarithm of a
// scale, in an error that is known.

struct NormalErrors {
  static constexpr double kLocation = 1.0, kSpread = 2.0;

  static double log_density(double z) { return -0.5 * (z * z) - kHalfLogTwoPi; }
  static double log_survival(double z) { return log_normal_tail(z); }
  static double log_below(double z) { return log_normal_tail(-z); }
  static double slope(double z) { return z; }
  static double rise(double) { return 1.0; }
  // log P(a < Z < b).
  static double log_between(double a, double b) {
    const double width = b - a, middle = 0.5 * (a + b);
    if (width * (1.0 + std::fabs(middle)) < 1e-3) {  // differences of tails would cancel
      return positive_log(at_least(width, kSmallestPositive)) + log_density(middle) +
             width * width * (middle * middle - 1.0) * (1.0 / 24.0);
    }
    if (b <= 0.0) return log_between_upper(-b, -a);
    if (a >= 0.0) return log_between_upper(a, b);
    const double outside =
        scaled_normal_tail(-a) * bounded_exp(-0.5 * (a * a)) + scaled_normal_tail(b) * bounded_exp(-0.5 * (b * b));
    return log_1_minus(outside);
  }

 private:
  static double log_between_upper(double a, double b) {  // 0 <= a < b
    const double inside = scaled_normal_tail(a) - scaled_normal_tail(b) * bounded_exp(-0.5 * (b - a) * (b + a));
    return positive_log(at_least(inside, kSmallestPositive)) - 0.5 * (a * a);
  }
};

struct LogisticErrors {
  static constexpr double kLocation = 1.0 / 3.0, kSpread = 1.4299560445654842;

  static double log_density(double z) { return -std::fabs(z) - 2.0 * log_1_plus(bounded_exp(-std::fabs(z))); }
  static double log_survival(double z) { return -soft_plus(z); }
  static double log_below(double z) { return -soft_plus(-z); }
  static double slope(double z) {
    const double power = bounded_exp(-std::fabs(z));
    return std::copysign((1.0 - power) / (1.0 + power), z);
  }
  static double rise(double z) {
    const double power = bounded_exp(-std::fabs(z));
    return 2.0 * power / ((1.0 + power) * (1.0 + power));
  }
  static double log_between(double a, double b) {
    return log_1_minus_exp(at_least(b - a, kSmallestPositive)) - soft_plus(-b) - soft_plus(a);
  }
};

// The logarithm of an exponential time, so that times have Weibull distributions.
struct ExtremeErrors {
  static constexpr double kLocation = 1.0, kSpread = 1.8236806608528794;

  static double log_density(double z) { return z - capped_exp(z); }
  static double log_survival(double z) { return -capped_exp(z); }
  static double log_below(double z) { return log_1_minus_exp(capped_exp(z)); }
  static double slope(double z) { return capped_exp(z) - 1.0; }
  static double rise(double z) { return capped_exp(z); }
  static double log_between(double a, double b) {
    const double width = at_least(b - a, kSmallestPositive),
                 hazard = capped_exp(a) * exp_minus_1(at_most(width, 300.0));
    return log_1_minus_exp(at_least(hazard, kSmallestPositive)) - capped_exp(a);
  }
};

// Loss, negative derivatives by the scores, and their curvatures.
struct LifetimeTerms {
  double value, location, spread, location_curvature, spread_curvature;
};

template <class Errors>
LifetimeTerms terms_of_error(double value, double z, double precision) {
  const double slope = Errors::slope(z), spread = slope * z - 1.0;
  const double information = at_least(Errors::rise(z), Errors::kLocation);
  return {value, slope * precision, spread, at_least(information * precision * precision, kLeastHessian),
          for_steps(Errors::kSpread, spread, kLongestSpreadStep)};
}

template <class Errors>
LifetimeTerms terms_of_time(double time, double location, double log_scale) {
  const double precision = bounded_exp(-log_scale), log_time = positive_log(time);
  const double z = (log_time - location) * precision;
  return terms_of_error<Errors>(log_scale + log_time - Errors::log_density(z), z, precision);
}

// The mass between two bounds is log-concave in the location, so that its curvature is positive. It is not in the
// logarithm of the scale, where the bound of a step takes the place of a curvature.
template <class Errors>
LifetimeTerms terms_of_bounds(double lower, double upper, double location, double log_scale) {
  const bool above = lower > 0.0, below = upper < std::numeric_limits<double>::infinity();
  const double precision = bounded_exp(-log_scale);
  const double a = above ? (positive_log(lower) - location) * precision : 0.0;
  const double b = below ? (positive_log(upper) - location) * precision : 0.0;
  const double log_mass = above && below ? Errors::log_between(a, b)
                          : above        ? Errors::log_survival(a)
                          : below        ? Errors::log_below(b)
                                         : 0.0;
  const double middle = 0.5 * (a + b);
  if (above && below && (b - a) * (1.0 + std::fabs(Errors::slope(middle))) < kNarrow) {
    return terms_of_error<Errors>(-log_mass, middle, precision);
  }
  const double at_a = above ? capped_exp(Errors::log_density(a) - log_mass) : 0.0;
  const double at_b = below ? capped_exp(Errors::log_density(b) - log_mass) : 0.0;
  const double residual = at_a - at_b, spread = a * at_a - b * at_b;
  const double curvature =
      (below ? Errors::slope(b) * at_b : 0.0) - (above ? Errors::slope(a) * at_a : 0.0) + residual * residual;
  return {-log_mass, residual * precision, spread,
          at_least(for_steps(curvature, residual, kLongestLocationStep) * precision * precision, kLeastHessian),
          for_steps(0.0, spread, kLongestSpreadStep)};
}

// Writes one quantity of each row: values (row), derivatives (score, row). Scores are (score, row), score_stride numbers
// apart; with one score, log_scale is the same for all rows.
template <class Errors>
void fill_lifetimes(Quantity quantity, const double* lower, const double* upper, const double* f,
                    std::ptrdiff_t score_stride, std::size_t n_scores, double log_scale, std::size_t n, double* out,
                    int n_threads) {
  parallel_rows(n, n_threads, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const double scale = n_scores == 2 ? f[score_stride + static_cast<std::ptrdiff_t>(i)] : log_scale;
      const LifetimeTerms found = lower[i] == upper[i] ? terms_of_time<Errors>(lower[i], f[i], scale)
                                                       : terms_of_bounds<Errors>(lower[i], upper[i], f[i], scale);
      switch (quantity) {
        case Quantity::kValue: out[i] = found.value; break;
        case Quantity::kNegativeGradient:
          out[i] = found.location;
          if (n_scores == 2) out[n + i] = found.spread;
          break;
        case Quantity::kHessian:
          out[i] = found.location_curvature;
          if (n_scores == 2) out[n + i] = found.spread_curvature;
          break;
      }
    }
  });
}

// Piecewise exponential times: the hazard is constant in each interval between two edges, and the last interval has no
// end. The logarithm of a hazard is the sum of the first score, which all intervals share, and of the score of its
// interval: (1 + interval, row).

// The loss of a row is the cumulative hazard up to its time, minus the logarithm of the hazard at an event. Writes one
// quantity of each row: values (row), derivatives (score, row). Interval k begins after edges[k]; edges[0] is 0.
inline void fill_hazards(Quantity quantity, const double* lower, const double* upper, const double* f,
                         std::ptrdiff_t score_stride, const double* edges, std::size_t n_edges, std::size_t n,
                         double* out, int n_threads) {
  parallel_rows(n, n_threads, [=](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const double time = lower[i], common = f[i];
      double total = 0.0, log_hazard = 0.0;
      for (std::size_t k = 0; k < n_edges; ++k) {
        const bool last = k + 1 == n_edges || time <= edges[k + 1];
        const double exposure = k > 0 && time <= edges[k] ? 0.0 : (last ? time : edges[k + 1]) - edges[k];
        const bool has_event = lower[i] == upper[i] && last && (k == 0 || time > edges[k]);
        const double own = f[static_cast<std::ptrdiff_t>(k + 1) * score_stride + static_cast<std::ptrdiff_t>(i)];
        const double score = common + own;
        const double hazard = exposure * bounded_exp(score), residual = (has_event ? 1.0 : 0.0) - hazard;
        total += hazard;
        log_hazard += has_event ? score : 0.0;
        if (quantity == Quantity::kNegativeGradient) out[(k + 1) * n + i] = residual;
        if (quantity == Quantity::kHessian) out[(k + 1) * n + i] = for_steps(hazard, residual, kLongestLogStep);
      }
      const double residual = (lower[i] == upper[i] ? 1.0 : 0.0) - total;
      switch (quantity) {
        case Quantity::kValue: out[i] = total - log_hazard; break;
        case Quantity::kNegativeGradient: out[i] = residual; break;
        case Quantity::kHessian: out[i] = for_steps(total, residual, kLongestLogStep); break;
      }
    }
  });
}

}  // namespace agbm
