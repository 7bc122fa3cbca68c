// The built-in losses with one score per row, or one per class: value, negative derivative and curvature of a row.
//
// A loss is a small struct with three inline functions of a label and a score. They are branch-free, so that loops over
// rows can be vectorised. The CPU and GPUs compile the same functions.
#pragma once

#include "formulas/elementary.hpp"
#include "formulas/portable.hpp"

namespace agbm {

enum class Quantity { kValue, kNegativeGradient, kHessian };

// Lower bound of hessians, which keeps Newton steps r / hessian finite. It is as small as possible, because the labels
// of losses with a log link, and therefore their hessians, may have any unit.
constexpr double kLeastHessian = 0x1p-1022;

// A confidently misclassified row has a residual near 1 and almost no curvature, so its Newton step, residual /
// hessian, would be thousands of log-odds long. LogitBoost (Friedman, Hastie, Tibshirani 2000) clips the step. Here the
// hessian is at least |residual| / kLongestStep, which has the same effect for a single row and also bounds the values
// of leaves.
constexpr double kLongestStep = 6.0;
// Losses with a log link have the same problem if the prediction is far off: at a tenth of the label, a Newton step of
// the Poisson loss would multiply the prediction by e^9. With this bound, a step changes it by a factor of at most e^2.
constexpr double kLongestLogStep = 2.0;

AGBM_INLINE inline double for_steps(double hessian, double residual, double longest = kLongestStep) {
  return at_least(at_least(hessian, absolute(residual) * (1.0 / longest)), kLeastHessian);
}

// -1, 0 or 1, without a branch: the smallest positive number times 2^2000 is above 1. NaN stays NaN.
AGBM_INLINE inline double sign_of(double x) { return copy_sign(at_most(absolute(x) * 0x1p1000 * 0x1p1000, 1.0), x); }

struct HalfSquaredErrorLoss {
  AGBM_INLINE double value(double y, double f) const { return 0.5 * ((y - f) * (y - f)); }
  AGBM_INLINE double negative_gradient(double y, double f) const { return y - f; }
  AGBM_INLINE double hessian(double, double) const { return 1.0; }
};

// The hessian is the curvature 1 / (2 distance) of a parabola above the loss, with a lower bound for the distance. It
// does not depend on the quantile, so `parameter` is the lower bound when hessians are computed, and the quantile
// otherwise.
struct QuantileLoss {
  double parameter;

  AGBM_INLINE double value(double y, double f) const {
    const double above = parameter * (y - f);
    const double below = (parameter - 1.0) * (y - f);
    return above > below ? above : below;
  }
  // Zero at the kink, where the loss is smallest.
  AGBM_INLINE double negative_gradient(double y, double f) const {
    const double sign = sign_of(y - f);
    return (parameter - 0.5) * absolute(sign) + 0.5 * sign;
  }
  AGBM_INLINE double hessian(double y, double f) const { return 0.5 / at_least(absolute(y - f), parameter); }
};

// Twice the loss of the median.
struct AbsoluteErrorLoss {
  double least_distance;

  AGBM_INLINE double value(double y, double f) const { return absolute(y - f); }
  AGBM_INLINE double negative_gradient(double y, double f) const { return sign_of(y - f); }
  AGBM_INLINE double hessian(double y, double f) const { return 1.0 / at_least(absolute(y - f), least_distance); }
};

struct HuberLoss {
  double delta;

  AGBM_INLINE double value(double y, double f) const {
    const double distance = absolute(y - f);
    const double near = at_most(distance, delta);
    return near * (distance - 0.5 * near);
  }
  AGBM_INLINE double negative_gradient(double y, double f) const { return at_least(at_most(y - f, delta), -delta); }
  AGBM_INLINE double hessian(double y, double f) const { return delta / at_least(absolute(y - f), delta); }
};

// The squared error, in which rows below the score count (1 - tau) and rows above it tau, both times 2.
struct ExpectileLoss {
  double tau;

  AGBM_INLINE double value(double y, double f) const { return weight(y, f) * (0.5 * ((y - f) * (y - f))); }
  AGBM_INLINE double negative_gradient(double y, double f) const { return weight(y, f) * (y - f); }
  AGBM_INLINE double hessian(double y, double f) const { return weight(y, f); }

 private:
  AGBM_INLINE double weight(double y, double f) const { return 2.0 * (y < f ? 1.0 - tau : tau); }
};

// scale^2 log(cosh(d)) with d = (y - f) / scale. The hessian is the curvature tanh(d) / d of the parabola that touches
// the loss and lies above it: the second derivative vanishes far from the label, where Newton steps would explode.
struct LogCoshLoss {
  double scale;

  AGBM_INLINE double value(double y, double f) const {
    const double d = absolute(y - f) / scale, d2 = d * d;
    const double near = d2 * (0.5 - d2 * (1.0 / 12.0 - d2 * (1.0 / 45.0)));
    const double far = d + log_1_plus(bounded_exp(-2.0 * d)) - 0.6931471805599453;
    return scale * scale * (d < kNear ? near : far);
  }
  AGBM_INLINE double negative_gradient(double y, double f) const {
    const double d = absolute(y - f) / scale;
    return copy_sign(scale * (d < kNear ? d * near_quotient(d) : far_tanh(d)), y - f);
  }
  AGBM_INLINE double hessian(double y, double f) const {
    const double d = absolute(y - f) / scale;
    return d < kNear ? near_quotient(d) : far_tanh(d) / at_least(d, kNear);
  }

 private:
  // Nearer to the label, exponentials cancel, and series are exact.
  static constexpr double kNear = 0.01;

  AGBM_INLINE static double far_tanh(double d) {
    const double e = bounded_exp(-2.0 * d);
    return (1.0 - e) / (1.0 + e);
  }
  // tanh(d) / d.
  AGBM_INLINE static double near_quotient(double d) {
    const double d2 = d * d;
    return 1.0 - d2 * (1.0 / 3.0 - d2 * (2.0 / 15.0 - d2 * (17.0 / 315.0)));
  }
};

struct PoissonLoss {
  AGBM_INLINE double value(double y, double f) const { return bounded_exp(f) - y * f; }
  AGBM_INLINE double negative_gradient(double y, double f) const { return y - bounded_exp(f); }
  AGBM_INLINE double hessian(double y, double f) const {
    const double mean = bounded_exp(f);
    return for_steps(mean, y - mean, kLongestLogStep);
  }
};

struct GammaLoss {
  AGBM_INLINE double value(double y, double f) const { return f + y * bounded_exp(-f); }
  AGBM_INLINE double negative_gradient(double y, double f) const { return y * bounded_exp(-f) - 1.0; }
  AGBM_INLINE double hessian(double y, double f) const {
    const double ratio = y * bounded_exp(-f);
    return for_steps(ratio, ratio - 1.0, kLongestLogStep);
  }
};

struct TweedieLoss {
  double power;

  AGBM_INLINE double value(double y, double f) const {
    return mean_part(f) / (2.0 - power) - label_part(y, f) / (1.0 - power);
  }
  AGBM_INLINE double negative_gradient(double y, double f) const { return label_part(y, f) - mean_part(f); }
  AGBM_INLINE double hessian(double y, double f) const {
    const double mean = mean_part(f), label = label_part(y, f);
    return for_steps((2.0 - power) * mean - (1.0 - power) * label, label - mean, kLongestLogStep);
  }

 private:
  AGBM_INLINE double mean_part(double f) const { return bounded_exp((2.0 - power) * f); }
  AGBM_INLINE double label_part(double y, double f) const { return y * bounded_exp((1.0 - power) * f); }
};

struct LogisticLoss {
  AGBM_INLINE double value(double y, double f) const {
    return at_least(f, 0.0) - y * f + log_1_plus(bounded_exp(-absolute(f)));
  }
  AGBM_INLINE double negative_gradient(double y, double f) const { return y - 1.0 / (1.0 + bounded_exp(-f)); }
  // P (1 - P), written so that it does not cancel.
  AGBM_INLINE double hessian(double y, double f) const {
    const double e = bounded_exp(-absolute(f));
    const double nearer = 1.0 / (1.0 + e);  // the larger one of P and 1 - P
    return for_steps(e * nearer * nearer, y - (0.5 + copy_sign(nearer - 0.5, f)));
  }
};

struct ExponentialLoss {
  AGBM_INLINE double value(double y, double f) const {
    const double e = bounded_exp(f);
    return y / e + (1.0 - y) * e;
  }
  AGBM_INLINE double negative_gradient(double y, double f) const {
    const double e = bounded_exp(f);
    return y / e - (1.0 - y) * e;
  }
  AGBM_INLINE double hessian(double y, double f) const { return at_least(value(y, f), kLeastHessian); }
};

// All of them: a name, by which the CPU finds a loss and whose position is its number on a GPU, and the struct.
#define AGBM_LOSSES(LOSS)                            \
  LOSS(squared_error, HalfSquaredErrorLoss{})        \
  LOSS(absolute_error, AbsoluteErrorLoss{parameter}) \
  LOSS(quantile, QuantileLoss{parameter})            \
  LOSS(huber, HuberLoss{parameter})                  \
  LOSS(expectile, ExpectileLoss{parameter})          \
  LOSS(log_cosh, LogCoshLoss{parameter})             \
  LOSS(poisson, PoissonLoss{})                       \
  LOSS(gamma, GammaLoss{})                           \
  LOSS(tweedie, TweedieLoss{parameter})              \
  LOSS(logistic, LogisticLoss{})                     \
  LOSS(exponential, ExponentialLoss{})

#define AGBM_NUMBER(name, made) name,
enum class LossKind { AGBM_LOSSES(AGBM_NUMBER) };
#undef AGBM_NUMBER

// Calls use(loss) with the loss of a kind.
template <class Use>
AGBM_INLINE inline void with_loss(LossKind kind, double parameter, const Use& use) {
#define AGBM_CASE(name, made) \
  case LossKind::name: return use(made);
  switch (kind) { AGBM_LOSSES(AGBM_CASE) }
#undef AGBM_CASE
}

// The multinomial loss, log(sum over classes of exp(f_k)) - f_y, for class codes y. For shares y_k of the classes, which
// add up to 1, the loss is the mean over the classes, sum over classes of y_k (log(sum) - f_k). Shares of 0 and 1 give
// the bits of the codes. Scores are reduced by their largest one; e is the exponential of such a score, and sums of e
// are added in the order of the classes.
struct MultinomialLoss {
  double factor;

  // Friedman's factor K / (K - 1) of hessians: all scores change at once, and without it diagonal Newton steps are too
  // long.
  AGBM_INLINE static MultinomialLoss of_classes(double n) { return {n / (n - 1.0)}; }

  AGBM_INLINE static double exp_below(double score, double largest) { return bounded_exp(score - largest); }
  // `distance` is the mean over the classes of the distance from their scores to the largest one.
  AGBM_INLINE static double value(double distance, double sum) { return distance + positive_log(sum); }
  AGBM_INLINE static double negative_gradient(double share, double e, double minus_one_over_sum) {
    return e * minus_one_over_sum + share;
  }
  AGBM_INLINE double hessian(double share, double e, double one_over_sum) const {
    const double p = e * one_over_sum;
    return for_steps(factor * (p * (1.0 - p)), share - p);
  }
};

}  // namespace agbm
