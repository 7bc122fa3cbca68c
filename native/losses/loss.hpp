// Loops over the rows of the built-in losses. The result of a row depends on that row only, so it is the same for any
// number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/exact_sum.hpp"
#include "base/parallel.hpp"
#include "base/simd.hpp"
#include "formulas/distribution_rows.hpp"
#include "formulas/elementary.hpp"
#include "formulas/loss_rows.hpp"

namespace agbm {

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

// Writes the negative gradient and the hessian of a loss with one score per row. What their formulas have in common is
// computed once.
template <class Loss>
void fill_both_derivatives(Loss loss, const double* y, const double* f, std::size_t n, double* negative_gradient,
                           double* hessian, int n_threads) {
  parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
    vectorised([&]() AGBM_INLINE {
      const Loss here = loss;
      double* __restrict first = negative_gradient;
      double* __restrict second = hessian;
      for (std::size_t i = begin; i < end; ++i) {
        const double label = y[i], score = f[i];
        first[i] = here.negative_gradient(label, score);
        second[i] = here.hessian(label, score);
      }
    });
  });
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

// Where to write quantities of the multinomial loss; null: not wanted.
struct ClassResults {
  double* value = nullptr;              // (row)
  double* negative_gradient = nullptr;  // (class, row)
  double* hessian = nullptr;            // (class, row)
};

// Writes quantities of the multinomial loss. Several take little longer than one, since the exponentials are computed
// once.
//
// Rows are processed in blocks. The exponentials of a block are in one buffer, which stays in the cache even if the
// scores of the classes are far apart in memory.
class MultinomialRows {
 public:
  MultinomialRows(const ClassScores& f, const ClassLabels& y, const ClassResults& out)
      : f_(f), y_(y), out_(out), block_(block_rows(f.n_classes)) {}

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
  // Exponentials that are computed at the same time. Each is a chain of dependent operations, so vectors of two numbers
  // would mostly wait: on 64-bit ARM, eight at a time take 30 % less. Elsewhere, vectors are wider.
#if defined(__aarch64__)
  static constexpr int kTogether = 8;
#else
  static constexpr int kTogether = 1;
#endif

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
    if (out_.value != nullptr && y_.shares) {
      double* __restrict to = out_.value + begin;
      std::fill(to, to + width, 0.0);
      for (std::size_t k = 0; k < f_.n_classes; ++k) {
        const double *score = exps + k * block_, *share = shares_of(k) + begin;
        for (std::size_t i = 0; i < width; ++i) to[i] += share[i] * (largest[i] - score[i]);
      }
    } else if (out_.value != nullptr) {
      for (std::size_t i = 0; i < width; ++i) out_.value[begin + i] = largest[i] - exps[code(y[i]) * block_ + i];
    }
    std::fill(sum, sum + width, 0.0);
    for (std::size_t k = 0; k < f_.n_classes; ++k) {
      double* __restrict e = exps + k * block_;
      for (std::size_t i = 0; i < width; i += kTogether) {  // may end after the last row, but within the buffer
        std::array<double, kTogether> found;
#pragma GCC unroll 8
        for (int j = 0; j < kTogether; ++j) found[j] = MultinomialLoss::exp_below(e[i + j], largest[i + j]);
#pragma GCC unroll 8
        for (int j = 0; j < kTogether; ++j) {
          e[i + j] = found[j];
          sum[i + j] += found[j];
        }
      }
    }
    if (out_.value != nullptr) {
      double* __restrict to = out_.value + begin;
      for (std::size_t i = 0; i < width; ++i) to[i] = MultinomialLoss::value(to[i], sum[i]);
    }
    for (std::size_t i = 0; i < width; ++i) sum[i] = 1.0 / sum[i];
    if (out_.negative_gradient != nullptr) {
      fill_derivatives(out_.negative_gradient, begin, width, exps,
                       [&](double share, double e, std::size_t i)
                           AGBM_INLINE { return MultinomialLoss::negative_gradient(share, e, -sum[i]); });
    }
    if (out_.hessian != nullptr) {
      const MultinomialLoss loss = MultinomialLoss::of_classes(n_classes);
      fill_derivatives(out_.hessian, begin, width, exps, [&](double share, double e, std::size_t i) AGBM_INLINE {
        return loss.hessian(share, e, sum[i]);
      });
    }
    return true;
  }

  // Writes each(share, exponential, row of the block) for all classes and rows from `begin` on. With codes, the share of
  // all classes is 0 at first.
  template <class Each>
  AGBM_INLINE void fill_derivatives(double* out, std::size_t begin, std::size_t width, const double* exps,
                                    const Each& each) {
    for (std::size_t k = 0; k < f_.n_classes; ++k) {
      const double* __restrict e = exps + k * block_;
      double* __restrict to = out + k * f_.n_rows + begin;
      if (y_.shares) {
        const double* share = shares_of(k) + begin;
        for (std::size_t i = 0; i < width; ++i) to[i] = each(share[i], e[i], i);
      } else {
        for (std::size_t i = 0; i < width; ++i) to[i] = each(0.0, e[i], i);
      }
    }
    for (std::size_t i = 0; !y_.shares && i < width; ++i) {
      const std::size_t k = code(y_.y[begin + i]);
      out[k * f_.n_rows + begin + i] = each(1.0, exps[k * block_ + i], i);
    }
  }

  AGBM_INLINE const double* shares_of(std::size_t k) const {
    return y_.y + static_cast<std::ptrdiff_t>(k) * y_.class_stride;
  }
  AGBM_INLINE static std::size_t code(double y) { return static_cast<std::size_t>(y); }

  const ClassScores f_;
  const ClassLabels y_;
  const ClassResults out_;
  const std::size_t block_;
};

// Writes one quantity of a distribution whose parameters are the scores of a row: values (row), derivatives (score, row).
// Scores are (score, row), score_stride numbers apart.
template <class Distribution>
void fill_scores(Distribution distribution, Quantity quantity, const double* y, const double* f,
                 std::ptrdiff_t score_stride, std::size_t n, double* out, int n_threads) {
  constexpr int kScores = Distribution::kScores;
  const auto scores_of = [=](std::size_t i) AGBM_INLINE {
    ScoresOf<kScores> scores;
    for (int k = 0; k < kScores; ++k) scores[k] = f[k * score_stride + static_cast<std::ptrdiff_t>(i)];
    return scores;
  };
  const auto fill = [&](const auto& row) {
    parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
      vectorised([&]() AGBM_INLINE {
        const Distribution here = distribution;
        for (std::size_t i = begin; i < end; ++i) row(here, i);
      });
    });
  };
  const auto store = [=](const ScoresOf<kScores>& found, std::size_t i) AGBM_INLINE {
    for (int k = 0; k < kScores; ++k) out[k * n + i] = found[k];
  };
  switch (quantity) {
    case Quantity::kValue:
      fill([&](const Distribution& d, std::size_t i) AGBM_INLINE { out[i] = d.value(y[i], scores_of(i)); });
      break;
    case Quantity::kNegativeGradient:
      fill([&](const Distribution& d, std::size_t i)
               AGBM_INLINE { store(d.negative_gradient(y[i], scores_of(i)), i); });
      break;
    case Quantity::kHessian:
      fill([&](const Distribution& d, std::size_t i) AGBM_INLINE { store(d.hessian(y[i], scores_of(i)), i); });
      break;
  }
}

}  // namespace agbm
