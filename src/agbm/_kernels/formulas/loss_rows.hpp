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

// The losses by number.
enum class LossKind {
  kSquaredError,
  kAbsoluteError,
  kQuantile,
  kHuber,
  kPoisson,
  kGamma,
  kTweedie,
  kLogistic,
  kExponential,
};

// Calls use(loss) with the loss of a kind.
template <class Use>
AGBM_INLINE inline void with_loss(LossKind kind, double parameter, const Use& use) {
  switch (kind) {
    case LossKind::kSquaredError: return use(HalfSquaredErrorLoss{});
    case LossKind::kAbsoluteError: return use(AbsoluteErrorLoss{parameter});
    case LossKind::kQuantile: return use(QuantileLoss{parameter});
    case LossKind::kHuber: return use(HuberLoss{parameter});
    case LossKind::kPoisson: return use(PoissonLoss{});
    case LossKind::kGamma: return use(GammaLoss{});
    case LossKind::kTweedie: return use(TweedieLoss{parameter});
    case LossKind::kLogistic: return use(LogisticLoss{});
    case LossKind::kExponential: return use(ExponentialLoss{});
  }
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
