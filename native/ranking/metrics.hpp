// The metrics of rankings, with ties averaged over their orders, and the listwise cross entropy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/simd.hpp"
#include "formulas/elementary.hpp"
#include "formulas/loss_rows.hpp"
#include "ranking/queries.hpp"

namespace agbm {

class RankingValues {
 public:
  RankingValues(QueryLabels& labels, const double* score) : labels_(labels), queries_(labels.queries), score_(score) {}

  // Writes 1 - the metric of each query, or its cross entropy, to its first row, and zero to the others. Queries without
  // relevant documents have no metric: zero.
  void fill_values(double* out, int n_threads) {
    std::fill(out, out + queries_.n_rows(), 0.0);
    queries_.for_each<Scratch>(n_threads,
                               [&](std::size_t q, Scratch& scratch) { out[queries_.first(q)] = value(q, scratch); });
  }

  // Writes the negative gradient and the hessian of the cross entropy of each row.
  void fill_listwise(double* residual, double* hessian, int n_threads) {
    queries_.for_each<Scratch>(n_threads, [&](std::size_t q, Scratch& scratch) {
      const std::size_t n = queries_.size(q);
      const bool finite = scratch.sorted.sort(labels_, q, score_);
      const double total = finite ? shares(q, scratch) : std::numeric_limits<double>::quiet_NaN();
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t row = queries_.documents(q)[i];
        if (total == 0.0) {
          residual[row] = 0.0;
          hessian[row] = kLeastHessian;
          continue;
        }
        const double share = finite ? scratch.exps[i] : total;
        residual[row] = finite ? scratch.gains[i] - share : total;
        hessian[row] = for_steps(share * (1.0 - share), residual[row]);
      }
    });
  }

 private:
  struct Scratch {
    SortedQuery sorted;
    std::vector<double> gains, exps;
  };

  double value(std::size_t q, Scratch& scratch) const {
    SortedQuery& sorted = scratch.sorted;
    if (!sorted.sort(labels_, q, score_)) return std::numeric_limits<double>::quiet_NaN();
    switch (labels_.rules.kind) {
      case RankingKind::kNdcg: return one_minus_ndcg(q, sorted);
      case RankingKind::kMap: return one_minus_precision(sorted);
      case RankingKind::kMrr: return one_minus_reciprocal(sorted);
      default: return cross_entropy(q, scratch);
    }
  }

  // The end of the documents with the score of the one at a position.
  static std::size_t end_of_tie(const SortedQuery& sorted, std::size_t begin) {
    std::size_t end = begin + 1;
    while (end < sorted.n() && sorted.score(end) == sorted.score(begin)) ++end;
    return end;
  }

  double one_minus_ndcg(std::size_t q, const SortedQuery& sorted) const {
    const std::size_t seen = std::min(sorted.n(), labels_.rules.cut);
    double dcg = 0.0;
    for (std::size_t begin = 0, end = 0; begin < seen; begin = end) {
      end = end_of_tie(sorted, begin);
      double gain = 0.0, discount = 0.0;
      for (std::size_t i = begin; i < end; ++i) gain += labels_.gain[sorted.row(i)];
      for (std::size_t i = begin; i < std::min(end, seen); ++i) discount += labels_.discount[i];
      dcg += gain / static_cast<double>(end - begin) * discount;
    }
    const double ideal = labels_.norm[q];
    return ideal > 0.0 ? at_least(1.0 - dcg / ideal, 0.0) : 0.0;
  }

  // The expected precision at a relevant document, over all orders of each tie (McSherry and Najork 2008).
  double one_minus_precision(const SortedQuery& sorted) const {
    const std::size_t n = sorted.n();
    double sum = 0.0, before = 0.0;
    for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
      end = end_of_tie(sorted, begin);
      const double size = static_cast<double>(end - begin);
      double relevant = 0.0;
      for (std::size_t i = begin; i < end; ++i) relevant += sorted.relevance(i);
      const double others = size > 1.0 ? (relevant - 1.0) / (size - 1.0) : 0.0;
      for (std::size_t i = begin; relevant > 0.0 && i < std::min(end, labels_.rules.cut); ++i) {
        const double hits = before + 1.0 + static_cast<double>(i - begin) * others;
        sum += relevant / size * hits / (static_cast<double>(i) + 1.0);
      }
      before += relevant;
    }
    return before > 0.0 ? at_least(1.0 - sum / std::min(before, static_cast<double>(labels_.rules.cut)), 0.0) : 0.0;
  }

  double one_minus_reciprocal(const SortedQuery& sorted) const {
    const std::size_t n = sorted.n();
    for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
      end = end_of_tie(sorted, begin);
      double relevant = 0.0;
      for (std::size_t i = begin; i < end; ++i) relevant += sorted.relevance(i);
      if (relevant == 0.0) continue;
      double sum = 0.0, none = 1.0;  // the probability that no document of the tie before this one is relevant
      for (std::size_t i = begin; none > 0.0 && i < std::min(end, labels_.rules.cut); ++i) {
        const double chance = relevant / static_cast<double>(end - i);
        sum += none * chance / (static_cast<double>(i) + 1.0);
        none *= at_least(1.0 - chance, 0.0);
      }
      return 1.0 - sum;
    }
    return 0.0;
  }

  // Sets the shares of gains and of the exponentials of scores; returns the sum of the latter. Returns zero, and sets
  // nothing, if there are no gains.
  double shares(std::size_t q, Scratch& scratch) const {
    const double gain = labels_.norm[q];
    if (gain == 0.0) return 0.0;
    const SortedQuery& sorted = scratch.sorted;
    const std::size_t n = sorted.n();
    scratch.gains.resize(n);
    scratch.exps.resize(n);
    vectorised([&]() AGBM_INLINE {
      for (std::size_t i = 0; i < n; ++i) scratch.exps[i] = bounded_exp(sorted.score(i) - sorted.score(0));
    });
    double total = 0.0;
    for (std::size_t i = 0; i < n; ++i) total += scratch.exps[i];
    for (std::size_t i = 0; i < n; ++i) {
      scratch.gains[i] = labels_.gain[sorted.row(i)] / gain;
      scratch.exps[i] /= total;
    }
    return total;
  }

  double cross_entropy(std::size_t q, Scratch& scratch) const {
    const double total = shares(q, scratch);
    if (total == 0.0) return 0.0;
    const SortedQuery& sorted = scratch.sorted;
    double sum = 0.0;
    for (std::size_t i = 0; i < sorted.n(); ++i) {
      sum += scratch.gains[i] * (positive_log(total) - (sorted.score(i) - sorted.score(0)));
    }
    return sum;
  }

  QueryLabels& labels_;
  const Queries& queries_;
  const double* score_;
};

// Writes 1 to the first row of each query with a relevant document (for pairs: with documents of different relevance),
// and zero to the others.
inline void mark_queries(const double* relevance, const Queries& queries, bool pairs, double* out) {
  std::fill(out, out + queries.n_rows(), 0.0);
  for (std::size_t q = 0; q < queries.n(); ++q) {
    const std::uint32_t* documents = queries.documents(q);
    double least = relevance[documents[0]], most = least;
    for (std::size_t i = 1; i < queries.size(q); ++i) {
      least = std::min(least, relevance[documents[i]]);
      most = std::max(most, relevance[documents[i]]);
    }
    out[queries.first(q)] = (pairs ? most > least : most > 0.0) ? 1.0 : 0.0;
  }
}

}  // namespace agbm
