// Distributions of the label whose parameters are the scores of a row: negative log-likelihood, its negative derivatives
// and the Fisher information of each score.
//
// The Fisher information, the expected second derivative, is the hessian of Newton steps: it is positive, and the step
// that it gives is the natural gradient (Duan et al., "NGBoost", 2020). Scores are chosen such that the information of
// two scores together is zero or small, so that each score can make its step alone. Steps of scores of which the
// information says little about a single row, such as the logarithm of a spread, are bounded as in loss_rows.hpp.
#pragma once

#include "formulas/elementary.hpp"
#include "formulas/gamma_function.hpp"
#include "formulas/loss_rows.hpp"
#include "formulas/portable.hpp"

namespace agbm {

// One number per score.
template <int N>
struct ScoresOf {
  double numbers[N];

  AGBM_INLINE double& operator[](int k) { return numbers[k]; }
  AGBM_INLINE double operator[](int k) const { return numbers[k]; }
};

constexpr double kHalfLogTwoPi = 0.91893853320467274;

// The longest step of the logarithm of a spread or shape: a factor of e. An observation far away would otherwise ask for
// a spread that is thousands of times as large.
constexpr double kLongestSpreadStep = 1.0;
// Logarithms of shapes are clipped to this distance from 0: beyond it, the likelihood hardly depends on them, and its
// large terms cancel.
constexpr double kLargestLogShape = 15.0;

AGBM_INLINE inline double shape_of(double score) {
  return exp_in_range(at_least(at_most(score, kLargestLogShape), -kLargestLogShape));
}

// The scores are the mean and the logarithm of the standard deviation.
struct NormalDistribution {
  static constexpr int kScores = 2;

  AGBM_INLINE double value(double y, const ScoresOf<2>& f) const {
    const double z = (y - f[0]) * bounded_exp(-f[1]);
    return f[1] + 0.5 * (z * z) + kHalfLogTwoPi;
  }
  AGBM_INLINE ScoresOf<2> negative_gradient(double y, const ScoresOf<2>& f) const {
    const double precision = bounded_exp(-f[1]), z = (y - f[0]) * precision;
    return {z * precision, z * z - 1.0};
  }
  AGBM_INLINE ScoresOf<2> hessian(double y, const ScoresOf<2>& f) const {
    const double precision = bounded_exp(-f[1]), z = (y - f[0]) * precision;
    return {at_least(precision * precision, kLeastHessian), for_steps(2.0, z * z - 1.0, kLongestSpreadStep)};
  }
};

// The logarithm of the label has a normal distribution.
struct LogNormalDistribution {
  static constexpr int kScores = 2;

  AGBM_INLINE double value(double y, const ScoresOf<2>& f) const {
    const double log_y = positive_log(y);
    return NormalDistribution{}.value(log_y, f) + log_y;
  }
  AGBM_INLINE ScoresOf<2> negative_gradient(double y, const ScoresOf<2>& f) const {
    return NormalDistribution{}.negative_gradient(positive_log(y), f);
  }
  AGBM_INLINE ScoresOf<2> hessian(double y, const ScoresOf<2>& f) const {
    return NormalDistribution{}.hessian(positive_log(y), f);
  }
};

// Student's distribution with given degrees of freedom. The scores are the location and the logarithm of the scale.
struct StudentTDistribution {
  static constexpr int kScores = 2;
  double df;

  AGBM_INLINE double value(double y, const ScoresOf<2>& f) const {
    const double z = (y - f[0]) * bounded_exp(-f[1]);
    return f[1] + 0.5 * (df + 1.0) * positive_log(1.0 + z * z / df) + constant();
  }
  AGBM_INLINE ScoresOf<2> negative_gradient(double y, const ScoresOf<2>& f) const {
    const double precision = bounded_exp(-f[1]), z = (y - f[0]) * precision;
    const double weight = (df + 1.0) / (df + z * z);  // of a row, compared with a normal distribution
    return {weight * z * precision, weight * z * z - 1.0};
  }
  AGBM_INLINE ScoresOf<2> hessian(double y, const ScoresOf<2>& f) const {
    const double precision = bounded_exp(-f[1]), z = (y - f[0]) * precision;
    const double residual = (df + 1.0) / (df + z * z) * z * z - 1.0;
    return {at_least((df + 1.0) / (df + 3.0) * (precision * precision), kLeastHessian),
            for_steps(2.0 * df / (df + 3.0), residual, kLongestSpreadStep)};
  }

 private:
  AGBM_INLINE double constant() const {
    return log_gamma(0.5 * df) - log_gamma(0.5 * (df + 1.0)) + 0.5 * positive_log(df * 3.14159265358979324);
  }
};

// The scores are the logarithms of the mean and of the shape k; the variance is mean^2 / k.
struct GammaDistribution {
  static constexpr int kScores = 2;

  AGBM_INLINE double value(double y, const ScoresOf<2>& f) const {
    const double k = shape_of(f[1]), ratio = y * bounded_exp(-f[0]);
    const double log_y = positive_log(y);
    return log_gamma(k) - k * positive_log(k) + k * (f[0] - log_y + ratio) + log_y;
  }
  AGBM_INLINE ScoresOf<2> negative_gradient(double y, const ScoresOf<2>& f) const {
    const double k = shape_of(f[1]), ratio = y * bounded_exp(-f[0]);
    return {k * (ratio - 1.0), k * (positive_log(y) - f[0] - ratio + 1.0 + positive_log(k) - digamma(k))};
  }
  AGBM_INLINE ScoresOf<2> hessian(double y, const ScoresOf<2>& f) const {
    const double k = shape_of(f[1]);
    const ScoresOf<2> residual = negative_gradient(y, f);
    return {for_steps(k, residual[0], kLongestLogStep),
            for_steps(k * (k * trigamma(k) - 1.0), residual[1], kLongestSpreadStep)};
  }
};

// The scores are the logarithms of the mean m and of the size r; the variance is m + m^2 / r.
struct NegativeBinomialDistribution {
  static constexpr int kScores = 2;

  AGBM_INLINE double value(double y, const ScoresOf<2>& f) const {
    const double m = bounded_exp(f[0]), r = shape_of(f[1]);
    return log_gamma(r) + log_gamma(y + 1.0) - log_gamma(y + r) + r * log_1_plus_any(m / r) +
           y * (positive_log(r + m) - f[0]);
  }
  AGBM_INLINE ScoresOf<2> negative_gradient(double y, const ScoresOf<2>& f) const {
    const double m = bounded_exp(f[0]), r = shape_of(f[1]);
    const double of_size = digamma(y + r) - digamma(r) - log_1_plus_any(m / r) + (m - y) / (r + m);
    return {r * (y - m) / (r + m), r * of_size};
  }
  // The information of the size has no closed form. With the mean in place of the label, which is the first term of its
  // expansion, it is a little too large.
  AGBM_INLINE ScoresOf<2> hessian(double y, const ScoresOf<2>& f) const {
    const double m = bounded_exp(f[0]), r = shape_of(f[1]);
    const ScoresOf<2> residual = negative_gradient(y, f);
    const double of_size = trigamma(r) - trigamma(r + m) - m / (r * (r + m));
    return {for_steps(r * m / (r + m), residual[0], kLongestLogStep),
            for_steps(r * r * of_size, residual[1], kLongestSpreadStep)};
  }
};

// A zero with probability p, and a Poisson count otherwise. The scores are the log-odds of p and the logarithm of the
// mean of the count.
struct ZeroInflatedPoissonDistribution {
  static constexpr int kScores = 2;

  AGBM_INLINE double value(double y, const ScoresOf<2>& f) const {
    const double m = bounded_exp(f[1]);
    const double zero = -log_sum_of_exps(f[0], -m), positive = m - y * f[1] + log_gamma(y + 1.0);
    return log_sum_of_exps(0.0, f[0]) + (y > 0.0 ? positive : zero);
  }
  AGBM_INLINE ScoresOf<2> negative_gradient(double y, const ScoresOf<2>& f) const {
    const double m = bounded_exp(f[1]), p = 1.0 / (1.0 + bounded_exp(-f[0]));
    // The probability that a zero is not a count.
    const double excess = y > 0.0 ? 0.0 : 1.0 / (1.0 + bounded_exp(-(f[0] + m)));
    return {excess - p, (1.0 - excess) * (y - m)};
  }
  AGBM_INLINE ScoresOf<2> hessian(double y, const ScoresOf<2>& f) const {
    const double m = bounded_exp(f[1]), p = 1.0 / (1.0 + bounded_exp(-f[0]));
    const ScoresOf<2> residual = negative_gradient(y, f);
    return {for_steps(p * (1.0 - p), residual[0]), for_steps((1.0 - p) * m, residual[1], kLongestLogStep)};
  }
};

// A zero with probability p, and a gamma distribution otherwise. The scores are the log-odds of p and the scores of the
// gamma distribution, of which a zero says nothing.
struct ZeroInflatedGammaDistribution {
  static constexpr int kScores = 3;

  AGBM_INLINE double value(double y, const ScoresOf<3>& f) const {
    const double of_amount = GammaDistribution{}.value(amount(y), {f[1], f[2]});
    return log_sum_of_exps(0.0, f[0]) + (y > 0.0 ? of_amount : -f[0]);
  }
  AGBM_INLINE ScoresOf<3> negative_gradient(double y, const ScoresOf<3>& f) const {
    const double p = 1.0 / (1.0 + bounded_exp(-f[0]));
    const ScoresOf<2> of_amount = GammaDistribution{}.negative_gradient(amount(y), {f[1], f[2]});
    return {(y > 0.0 ? 0.0 : 1.0) - p, y > 0.0 ? of_amount[0] : 0.0, y > 0.0 ? of_amount[1] : 0.0};
  }
  AGBM_INLINE ScoresOf<3> hessian(double y, const ScoresOf<3>& f) const {
    const double p = 1.0 / (1.0 + bounded_exp(-f[0]));
    const ScoresOf<2> of_amount = GammaDistribution{}.hessian(amount(y), {f[1], f[2]});
    return {for_steps(p * (1.0 - p), (y > 0.0 ? 0.0 : 1.0) - p), y > 0.0 ? of_amount[0] : kLeastHessian,
            y > 0.0 ? of_amount[1] : kLeastHessian};
  }

 private:
  AGBM_INLINE static double amount(double y) { return y > 0.0 ? y : 1.0; }  // any positive number: it is not used
};

// All of them, as in AGBM_LOSSES.
#define AGBM_DISTRIBUTIONS(DISTRIBUTION)                                 \
  DISTRIBUTION(normal, NormalDistribution{})                             \
  DISTRIBUTION(log_normal, LogNormalDistribution{})                      \
  DISTRIBUTION(student_t, StudentTDistribution{parameter})               \
  DISTRIBUTION(gamma_distribution, GammaDistribution{})                  \
  DISTRIBUTION(negative_binomial, NegativeBinomialDistribution{})        \
  DISTRIBUTION(zero_inflated_poisson, ZeroInflatedPoissonDistribution{}) \
  DISTRIBUTION(zero_inflated_gamma, ZeroInflatedGammaDistribution{})

#define AGBM_NUMBER(name, made) name,
enum class DistributionKind { AGBM_DISTRIBUTIONS(AGBM_NUMBER) };
#undef AGBM_NUMBER

// The number of scores of a distribution, from the type of a reference to it.
template <class Distribution>
constexpr int kScoresOf = 0;
template <class Distribution>
constexpr int kScoresOf<const Distribution&> = Distribution::kScores;

// Calls use(distribution) with the distribution of a kind.
template <class Use>
AGBM_INLINE inline void with_distribution(DistributionKind kind, double parameter, const Use& use) {
#define AGBM_CASE(name, made) \
  case DistributionKind::name: return use(made);
  switch (kind) { AGBM_DISTRIBUTIONS(AGBM_CASE) }
#undef AGBM_CASE
}

}  // namespace agbm
