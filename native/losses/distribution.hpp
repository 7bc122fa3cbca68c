// Loops over the rows of distributions whose parameters are the scores of a row.
#pragma once

#include <cstddef>

#include "base/parallel.hpp"
#include "formulas/distribution_rows.hpp"
#include "losses/loss.hpp"

namespace agbm {

// Writes one quantity of a distribution: values (row), derivatives (score, row). Scores are (score, row), score_stride
// numbers apart.
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
