// The runs of a query, and how much their pairs count.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/simd.hpp"
#include "ranking/sorted_query.hpp"

namespace agbm {

// The runs of a query in their order. The weight of a pair, the documents of which are in the runs i and j > i, is
// |gain_i - gain_j| |upper_i (at_i - below_j)|: the change of the metric if the two were exchanged.
class Runs {
 public:
  std::vector<double> score, gain, upper, at, below, count;
  std::vector<double> lambda, hessian;  // sums over the pairs of a document of each run
  std::size_t n = 0, n_top = 0;         // pairs need one of the first n_top runs: upper is zero after them

  void set(const SortedQuery& sorted, const QueryLabels& labels, std::size_t q) {
    const RankingRules& rules = labels.rules;
    n = sorted.n_runs();
    // Sums of pairs read up to a vector beyond the last run.
    for (auto* column : {&score, &gain, &upper, &at, &below, &count, &lambda, &hessian}) column->resize(n + kLanes);
    for (std::size_t r = 0; r < n; ++r) {
      score[r] = sorted.score(sorted.begin[r]);
      gain[r] = sorted.relevance(sorted.begin[r]);
      count[r] = static_cast<double>(sorted.begin[r + 1] - sorted.begin[r]);
      upper[r] = at[r] = below[r] = lambda[r] = hessian[r] = 0.0;
    }
    switch (rules.kind) {
      case RankingKind::kNdcg: weigh_by_ndcg(sorted, labels, labels.norm[q]); break;
      case RankingKind::kMap: weigh_by_precision(sorted); break;
      case RankingKind::kMrr: weigh_by_reciprocal(sorted); break;
      default: weigh_all(labels.norm[q]);
    }
    if (rules.kind != RankingKind::kPairwise) truncate(sorted, rules.truncation);
    n_top = n;
    while (n_top > 0 && upper[n_top - 1] == 0.0) --n_top;
  }

 private:
  void truncate(const SortedQuery& sorted, std::size_t truncation) {
    for (std::size_t r = 0; r < n; ++r) {
      const std::size_t begin = sorted.begin[r], end = sorted.begin[r + 1];
      if (end <= truncation) continue;
      const std::size_t within = std::max(begin, truncation) - begin;
      upper[r] *= static_cast<double>(within) / static_cast<double>(end - begin);
    }
  }

  void weigh_by_ndcg(const SortedQuery& sorted, const QueryLabels& labels, double ideal) {
    for (std::size_t r = 0; ideal > 0.0 && r < n; ++r) {
      double sum = 0.0;
      for (std::size_t i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i) sum += labels.discount[i];
      at[r] = below[r] = sum / count[r];
      gain[r] = labels.gain[sorted.row(sorted.begin[r])] / ideal;
      upper[r] = 1.0;
    }
  }

  // If the documents at the positions a < b are exchanged, the average precision changes by |at_a - below_b|.
  void weigh_by_precision(const SortedQuery& sorted) {
    double n_relevant = 0.0, sum = 0.0, seen = 0.0;
    for (std::size_t r = 0; r < n; ++r) n_relevant += gain[r] * count[r];
    for (std::size_t r = 0; n_relevant > 0.0 && r < n; ++r) {
      const bool relevant = gain[r] > 0.0;
      double sum_at = 0.0, sum_below = 0.0;
      for (std::size_t i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i) {
        const double position = static_cast<double>(i) + 1.0;
        if (relevant) {
          seen += 1.0;
          sum += 1.0 / position;
        }
        sum_at += (seen + (relevant ? 0.0 : 1.0)) / position - sum;
        sum_below += (seen + (relevant ? 1.0 : 0.0)) / position - sum;
      }
      at[r] = sum_at / count[r];
      below[r] = sum_below / count[r];
      upper[r] = 1.0 / n_relevant;
    }
  }

  // The reciprocal rank changes if an irrelevant document above the first relevant one is exchanged with a relevant one,
  // or the first relevant one with an irrelevant one below; the second relevant document may then become the first.
  void weigh_by_reciprocal(const SortedQuery& sorted) {
    std::size_t leading = 0;  // the run of the first relevant document
    while (leading < n && gain[leading] == 0.0) ++leading;
    if (leading == n) return;
    const double place = static_cast<double>(sorted.begin[leading]) + 1.0;
    double second = sorted.begin[leading + 1] - sorted.begin[leading] > 1 ? place + 1.0 : 0.0;
    for (std::size_t r = 0; r < n; ++r) {
      const bool relevant = gain[r] > 0.0;
      double sum = 0.0;
      for (std::size_t i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i) sum += 1.0 / (static_cast<double>(i) + 1.0);
      const double mean = sum / count[r];
      if (r > leading && relevant && second == 0.0) second = static_cast<double>(sorted.begin[r]) + 1.0;
      below[r] = relevant ? 1.0 / place : (second > 0.0 ? 1.0 / second : mean);
      if (r < leading) {
        at[r] = mean;
        upper[r] = 1.0;
      } else if (r == leading) {
        at[r] = 1.0 / place;
        upper[r] = 1.0 / count[r];
      }
    }
  }

  // All pairs of different relevance count the same.
  void weigh_all(double pairs) {
    for (std::size_t r = 0; r < n; ++r) {
      upper[r] = pairs > 0.0 ? 1.0 / pairs : 0.0;
      at[r] = 1.0;
    }
  }
};

}  // namespace agbm
