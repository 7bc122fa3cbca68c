// Accelerated failure time: the logarithm of a time is a location plus a scale times an error of known distribution. A
// time is known exactly, or only to be between two bounds (lower 0: none; upper infinite: none).
//
// The first score is the location. The second one, if there is one, is the logarithm of the scale.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "base/parallel.hpp"
#include "formulas/elementary.hpp"
#include "losses/distribution.hpp"
#include "losses/loss.hpp"
#include "survival/normal_tail.hpp"

namespace agbm {

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

}  // namespace agbm
