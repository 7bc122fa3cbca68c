// Piecewise exponential times: the hazard is constant in each interval between two edges, and the last interval has no
// end. The logarithm of a hazard is the sum of the first score, which all intervals share, and of the score of its
// interval: (1 + interval, row).
#pragma once

#include <algorithm>
#include <cstddef>

#include "base/parallel.hpp"
#include "formulas/elementary.hpp"
#include "losses/loss.hpp"

namespace agbm {

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
