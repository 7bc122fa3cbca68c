// The built-in losses: value, negative derivative and curvature of each row.
//
// A loss is a small struct with three inline functions of a label and a score. They are branch-free, so that the loop
// over rows can be vectorised. The result of a row depends on that row only, so it is the same for any number of
// threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "elementary.hpp"
#include "exact_sum.hpp"
#include "layout.hpp"
#include "parallel.hpp"

namespace agbm {

enum class Quantity { kValue, kNegativeGradient, kHessian };

// Lower bound of hessians, which keeps Newton steps r / hessian finite. It is as small as possible, because the labels
// of losses with a log link, and therefore their hessians, may have any unit.
constexpr double kLeastHessian = std::numeric_limits<double>::min();

// A confidently misclassified row has a residual near 1 and almost no curvature, so its Newton step, residual /
// hessian, would be thousands of log-odds long. LogitBoost (Friedman, Hastie, Tibshirani 2000) clips the step. Here the
// hessian is at least |residual| / kLongestStep, which has the same effect for a single row and also bounds the values
// of leaves.
constexpr double kLongestStep = 6.0;
// Losses with a log link have the same problem if the prediction is far off: at a tenth of the label, a Newton step of
// the Poisson loss would multiply the prediction by e^9. With this bound, a step changes it by a factor of at most e^2.
constexpr double kLongestLogStep = 2.0;

AGBM_INLINE inline double for_steps(double hessian, double residual, double longest = kLongestStep) {
  return at_least(at_least(hessian, std::fabs(residual) * (1.0 / longest)), kLeastHessian);
}

// -1, 0 or 1, without a branch: the smallest positive number times 2^2000 is above 1. NaN stays NaN.
AGBM_INLINE inline double sign_of(double x) {
  return std::copysign(at_most(std::fabs(x) * 0x1p1000 * 0x1p1000, 1.0), x);
}

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
    return (parameter - 0.5) * std::fabs(sign) + 0.5 * sign;
  }
  AGBM_INLINE double hessian(double y, double f) const { return 0.5 / at_least(std::fabs(y - f), parameter); }
};

// Twice the loss of the median.
struct AbsoluteErrorLoss {
  double least_distance;

  AGBM_INLINE double value(double y, double f) const { return std::fabs(y - f); }
  AGBM_INLINE double negative_gradient(double y, double f) const { return sign_of(y - f); }
  AGBM_INLINE double hessian(double y, double f) const { return 1.0 / at_least(std::fabs(y - f), least_distance); }
};

struct HuberLoss {
  double delta;

  AGBM_INLINE double value(double y, double f) const {
    const double distance = std::fabs(y - f);
    const double near = at_most(distance, delta);
    return near * (distance - 0.5 * near);
  }
  AGBM_INLINE double negative_gradient(double y, double f) const { return at_least(at_most(y - f, delta), -delta); }
  AGBM_INLINE double hessian(double y, double f) const { return delta / at_least(std::fabs(y - f), delta); }
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
    return at_least(f, 0.0) - y * f + log_1_plus(bounded_exp(-std::fabs(f)));
  }
  AGBM_INLINE double negative_gradient(double y, double f) const { return y - 1.0 / (1.0 + bounded_exp(-f)); }
  // P (1 - P), written so that it does not cancel.
  AGBM_INLINE double hessian(double y, double f) const {
    const double e = bounded_exp(-std::fabs(f));
    const double nearer = 1.0 / (1.0 + e);  // the larger one of P and 1 - P
    return for_steps(e * nearer * nearer, y - (0.5 + std::copysign(nearer - 0.5, f)));
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

// Writes one quantity of a loss with one score per row.
template <class Loss>
void fill_rows(Loss loss, Quantity quantity, const double* y, const double* f, std::size_t n, double* out,
               int n_threads) {
  const auto fill = [&](const auto& row) {
    parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
      vectorised([&]() AGBM_INLINE {
        const Loss here = loss;
        double* __restrict to = out;
        for (std::size_t i = begin; i < end; ++i) to[i] = row(here, y[i], f[i]);
      });
    });
  };
  switch (quantity) {
    case Quantity::kValue:
      fill([](const Loss& l, double label, double score) AGBM_INLINE { return l.value(label, score); });
      break;
    case Quantity::kNegativeGradient:
      fill([](const Loss& l, double label, double score) AGBM_INLINE { return l.negative_gradient(label, score); });
      break;
    case Quantity::kHessian:
      fill([](const Loss& l, double label, double score) AGBM_INLINE { return l.hessian(label, score); });
      break;
  }
}

// The sum of the losses of all rows, times weights (null: 1).
template <class Loss>
ExactSum sum_rows(Loss loss, const double* y, const double* f, const double* weight, std::size_t n, int n_threads) {
  return sum_exactly<1>(weight, n, n_threads, [=](std::size_t first, std::size_t width, auto& values) AGBM_INLINE {
    const Loss here = loss;
    double* __restrict to = values[0];
    for (std::size_t i = 0; i < width; ++i) to[i] = here.value(y[first + i], f[first + i]);
  })[0];
}

// Scores (class, row); class_stride is the distance between the scores of consecutive classes.
struct ClassScores {
  const double* scores;
  std::ptrdiff_t class_stride;
  std::size_t n_classes;
  std::size_t n_rows;
};

// The labels of rows with several classes: the code of a class, or a share of each class.
struct ClassLabels {
  const double* y;  // (row), or (class, row)
  bool shares;
  std::ptrdiff_t class_stride;  // of shares
};

// The multinomial loss, log(sum over classes of exp(f_k)) - f_y, for class codes y. Values are (row), derivatives are
// (class, row). For shares y_k of the classes, which add up to 1, the loss is the mean over the classes,
// sum over classes of y_k (log(sum) - f_k). Shares of 0 and 1 give the bits of the codes.
//
// Rows are processed in blocks. The exponentials of a block are in one buffer, which stays in the cache even if the
// scores of the classes are far apart in memory.
class MultinomialLoss {
 public:
  MultinomialLoss(const ClassScores& f, const ClassLabels& y, Quantity quantity, double* out)
      : f_(f), y_(y), quantity_(quantity), out_(out), block_(block_rows(f.n_classes)) {}

  // Returns whether every y is a class code; if not, the output is incomplete.
  bool fill(int n_threads) {
    // Each thread processes a few long pieces of rows, each with its own buffer.
    const std::size_t n_blocks = (f_.n_rows + block_ - 1) / block_;
    const std::size_t n_pieces = std::min<std::size_t>(n_blocks, n_threads <= 1 ? 1 : 4 * n_threads);
    const std::size_t buffer_size = (f_.n_classes + 2) * block_;
    std::vector<double> buffers(n_pieces * buffer_size);
    std::atomic<bool> all_codes{true};
    parallel_for(n_pieces, n_threads, [&](std::size_t piece) {
      const std::size_t first = piece * n_blocks / n_pieces, last = (piece + 1) * n_blocks / n_pieces;
      for (std::size_t b = first; b < last; ++b) {
        const std::size_t begin = b * block_;
        const std::size_t width = std::min(block_, f_.n_rows - begin);
        bool filled = false;
        vectorised([&]() AGBM_INLINE { filled = fill_block(begin, width, buffers.data() + piece * buffer_size); });
        if (!filled) {
          all_codes.store(false, std::memory_order_relaxed);
          return;
        }
      }
    });
    return all_codes.load();
  }

 private:
  // 16 K numbers per buffer, half of a small L2 cache. A multiple of 8 rows, so that a class fills whole cache lines.
  static std::size_t block_rows(std::size_t n_classes) {
    return std::clamp<std::size_t>(16384 / n_classes / 8 * 8, 16, 256);
  }

  AGBM_INLINE bool fill_block(std::size_t begin, std::size_t width, double* __restrict buffer) {
    double* __restrict largest = buffer;
    double* __restrict sum = buffer + block_;
    double* __restrict exps = buffer + 2 * block_;  // (class, row of the block)
    const double* __restrict y = y_.y + begin;
    const double n_classes = static_cast<double>(f_.n_classes);
    for (std::size_t i = 0; !y_.shares && i < width; ++i) {
      if (!(y[i] >= 0.0 && y[i] < n_classes && y[i] == std::floor(y[i]))) return false;
    }
    for (std::size_t k = 0; k < f_.n_classes; ++k) {
      const double* __restrict scores = f_.scores + static_cast<std::ptrdiff_t>(k) * f_.class_stride + begin;
      double* __restrict copy = exps + k * block_;
      for (std::size_t i = 0; i < width; ++i) {
        copy[i] = scores[i];
        largest[i] = k == 0 ? scores[i] : at_least(largest[i], scores[i]);
      }
    }
    if (quantity_ == Quantity::kValue && y_.shares) {
      double* __restrict to = out_ + begin;
      std::fill(to, to + width, 0.0);
      for_shares(begin, exps, [&](const double* score, const double* share, double*) AGBM_INLINE {
        for (std::size_t i = 0; i < width; ++i) to[i] += share[i] * (largest[i] - score[i]);
      });
    } else if (quantity_ == Quantity::kValue) {
      for (std::size_t i = 0; i < width; ++i) out_[begin + i] = largest[i] - exps[code(y[i]) * block_ + i];
    }
    std::fill(sum, sum + width, 0.0);
    for (std::size_t k = 0; k < f_.n_classes; ++k) {
      double* __restrict e = exps + k * block_;
      for (std::size_t i = 0; i < width; ++i) {
        e[i] = bounded_exp(e[i] - largest[i]);
        sum[i] += e[i];
      }
    }
    switch (quantity_) {
      case Quantity::kValue:
        for (std::size_t i = 0; i < width; ++i) out_[begin + i] += positive_log(sum[i]);
        break;
      case Quantity::kNegativeGradient:
        for (std::size_t i = 0; i < width; ++i) sum[i] = -1.0 / sum[i];
        if (y_.shares) {
          for_shares(begin, exps, [&](const double* e, const double* share, double* __restrict to) AGBM_INLINE {
            for (std::size_t i = 0; i < width; ++i) to[i] = e[i] * sum[i] + share[i];
          });
          break;
        }
        for_each_class(begin, width, exps, [&](double e, std::size_t i) AGBM_INLINE { return e * sum[i]; });
        for (std::size_t i = 0; i < width; ++i) out_[code(y[i]) * f_.n_rows + begin + i] += 1.0;
        break;
      case Quantity::kHessian:
        // Friedman's factor K / (K - 1): all scores change at once, and without it diagonal Newton steps are too long.
        const double factor = n_classes / (n_classes - 1.0);
        for (std::size_t i = 0; i < width; ++i) sum[i] = 1.0 / sum[i];
        if (y_.shares) {
          for_shares(begin, exps, [&](const double* e, const double* share, double* __restrict to) AGBM_INLINE {
            for (std::size_t i = 0; i < width; ++i) {
              const double p = e[i] * sum[i];
              to[i] = for_steps(factor * (p * (1.0 - p)), share[i] - p);
            }
          });
          break;
        }
        for_each_class(begin, width, exps, [&](double e, std::size_t i) AGBM_INLINE {
          const double p = e * sum[i];
          return for_steps(factor * (p * (1.0 - p)), p);
        });
        for (std::size_t i = 0; i < width; ++i) {
          const double p = exps[code(y[i]) * block_ + i] * sum[i];
          out_[code(y[i]) * f_.n_rows + begin + i] = for_steps(factor * (p * (1.0 - p)), 1.0 - p);
        }
        break;
    }
    return true;
  }

  template <class Each>
  AGBM_INLINE void for_each_class(std::size_t begin, std::size_t width, const double* exps, const Each& each) {
    for (std::size_t k = 0; k < f_.n_classes; ++k) {
      const double* __restrict e = exps + k * block_;
      double* __restrict to = out_ + k * f_.n_rows + begin;
      for (std::size_t i = 0; i < width; ++i) to[i] = each(e[i], i);
    }
  }

  // Calls each(numbers of a class in the buffer, its shares, its results) for all classes, for rows from `begin` on.
  template <class Each>
  AGBM_INLINE void for_shares(std::size_t begin, const double* buffer, const Each& each) {
    for (std::size_t k = 0; k < f_.n_classes; ++k) {
      each(buffer + k * block_, y_.y + static_cast<std::ptrdiff_t>(k) * y_.class_stride + begin,
           out_ + k * f_.n_rows + begin);
    }
  }

  AGBM_INLINE static std::size_t code(double y) { return static_cast<std::size_t>(y); }

  const ClassScores f_;
  const ClassLabels y_;
  const Quantity quantity_;
  double* out_;
  const std::size_t block_;
};

}  // namespace agbm
