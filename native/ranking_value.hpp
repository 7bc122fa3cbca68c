// The metrics of rankings, with ties averaged over their orders, and the listwise cross entropy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "elementary.hpp"
#include "loss.hpp"
#include "queries.hpp"
#include "ranking.hpp"

namespace agbm {

class RankingValues {
 public:
  RankingValues(const RankedRows& rows, const Queries& queries, const RankingRules& rules)
      : rows_(rows), queries_(queries), rules_(rules) {
    if (rules.kind == RankingKind::kNdcg) discount_ = discounts(queries.longest());
  }

  // Writes 1 - the metric of each query, or its cross entropy, to its first row, and zero to the others. Queries without
  // relevant documents have no metric: zero.
  void fill_values(double* out, int n_threads) {
    std::fill(out, out + rows_.n, 0.0);
    queries_.for_each<Scratch>(
        n_threads, [&](std::size_t q, Scratch& scratch) { out[queries_.documents(q)[0]] = value(q, scratch); });
  }

  // Writes the negative gradient and the hessian of the cross entropy of each row.
  void fill_listwise(double* residual, double* hessian, int n_threads) {
    queries_.for_each<Scratch>(n_threads, [&](std::size_t q, Scratch& scratch) {
      const std::size_t n = queries_.size(q);
      const bool finite = scratch.sorted.sort(rows_, queries_.documents(q), n, false);
      const double total = finite ? shares(scratch) : std::numeric_limits<double>::quiet_NaN();
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t row = finite ? scratch.sorted.order[i] : queries_.documents(q)[i];
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

  bool binary() const { return rules_.kind == RankingKind::kMap || rules_.kind == RankingKind::kMrr; }

  double value(std::size_t q, Scratch& scratch) const {
    SortedQuery& sorted = scratch.sorted;
    if (!sorted.sort(rows_, queries_.documents(q), queries_.size(q), binary())) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    switch (rules_.kind) {
      case RankingKind::kNdcg: return one_minus_ndcg(scratch);
      case RankingKind::kMap: return one_minus_precision(sorted);
      case RankingKind::kMrr: return one_minus_reciprocal(sorted);
      default: return cross_entropy(scratch);
    }
  }

  // The gain of each document in the order of `sorted`.
  void set_gains(Scratch& scratch) const {
    const std::size_t n = scratch.sorted.order.size();
    double largest = 0.0;
    for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, scratch.sorted.relevance(i));
    const Gains gain(largest, rules_.exponential_gain);
    scratch.gains.resize(n);
    for (std::size_t i = 0; i < n; ++i) scratch.gains[i] = gain(scratch.sorted.relevance(i));
  }

  // The end of the documents with the score of the one at a position.
  static std::size_t end_of_tie(const SortedQuery& sorted, std::size_t begin) {
    std::size_t end = begin + 1;
    while (end < sorted.order.size() && sorted.score(end) == sorted.score(begin)) ++end;
    return end;
  }

  double one_minus_ndcg(Scratch& scratch) const {
    set_gains(scratch);
    const SortedQuery& sorted = scratch.sorted;
    const std::size_t n = sorted.order.size(), seen = std::min(n, rules_.cut);
    double dcg = 0.0;
    for (std::size_t begin = 0, end = 0; begin < seen; begin = end) {
      end = end_of_tie(sorted, begin);
      double gain = 0.0, discount = 0.0;
      for (std::size_t i = begin; i < end; ++i) gain += scratch.gains[i];
      for (std::size_t i = begin; i < std::min(end, seen); ++i) discount += discount_[i];
      dcg += gain / static_cast<double>(end - begin) * discount;
    }
    const double ideal = ideal_dcg(scratch.gains, rules_.cut, discount_);
    return ideal > 0.0 ? at_least(1.0 - dcg / ideal, 0.0) : 0.0;
  }

  // The expected precision at a relevant document, over all orders of each tie (McSherry and Najork 2008).
  double one_minus_precision(const SortedQuery& sorted) const {
    const std::size_t n = sorted.order.size();
    double sum = 0.0, before = 0.0;
    for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
      end = end_of_tie(sorted, begin);
      const double size = static_cast<double>(end - begin);
      double relevant = 0.0;
      for (std::size_t i = begin; i < end; ++i) relevant += sorted.relevance(i);
      const double others = size > 1.0 ? (relevant - 1.0) / (size - 1.0) : 0.0;
      for (std::size_t i = begin; relevant > 0.0 && i < std::min(end, rules_.cut); ++i) {
        const double hits = before + 1.0 + static_cast<double>(i - begin) * others;
        sum += relevant / size * hits / (static_cast<double>(i) + 1.0);
      }
      before += relevant;
    }
    return before > 0.0 ? at_least(1.0 - sum / std::min(before, static_cast<double>(rules_.cut)), 0.0) : 0.0;
  }

  double one_minus_reciprocal(const SortedQuery& sorted) const {
    const std::size_t n = sorted.order.size();
    for (std::size_t begin = 0, end = 0; begin < n; begin = end) {
      end = end_of_tie(sorted, begin);
      double relevant = 0.0;
      for (std::size_t i = begin; i < end; ++i) relevant += sorted.relevance(i);
      if (relevant == 0.0) continue;
      double sum = 0.0, none = 1.0;  // the probability that no document of the tie before this one is relevant
      for (std::size_t i = begin; none > 0.0 && i < std::min(end, rules_.cut); ++i) {
        const double chance = relevant / static_cast<double>(end - i);
        sum += none * chance / (static_cast<double>(i) + 1.0);
        none *= at_least(1.0 - chance, 0.0);
      }
      return 1.0 - sum;
    }
    return 0.0;
  }

  // Sets gains to their shares and exps to those of the exponentials of scores. Returns zero, and sets nothing, if there
  // are no gains.
  double shares(Scratch& scratch) const {
    const SortedQuery& sorted = scratch.sorted;
    set_gains(scratch);
    const std::size_t n = sorted.order.size();
    double gain = 0.0, total = 0.0;
    scratch.exps.resize(n);
    for (std::size_t i = 0; i < n; ++i) {
      gain += scratch.gains[i];
      scratch.exps[i] = bounded_exp(sorted.score(i) - sorted.score(0));
      total += scratch.exps[i];
    }
    if (gain == 0.0) return 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      scratch.gains[i] /= gain;
      scratch.exps[i] /= total;
    }
    return total;
  }

  double cross_entropy(Scratch& scratch) const {
    const double total = shares(scratch);
    if (total == 0.0) return 0.0;
    const SortedQuery& sorted = scratch.sorted;
    double sum = 0.0;
    for (std::size_t i = 0; i < sorted.order.size(); ++i) {
      sum += scratch.gains[i] * (positive_log(total) - (sorted.score(i) - sorted.score(0)));
    }
    return sum;
  }

  const RankedRows& rows_;
  const Queries& queries_;
  const RankingRules rules_;
  std::vector<double> discount_;
};

// Writes 1 to the first row of each query with a relevant document (for pairs: with documents of different relevance),
// and zero to the others.
inline void mark_queries(const RankedRows& rows, const Queries& queries, bool pairs, double* out) {
  std::fill(out, out + rows.n, 0.0);
  for (std::size_t q = 0; q < queries.n(); ++q) {
    const std::uint32_t* documents = queries.documents(q);
    double least = rows.relevance[documents[0]], most = least;
    for (std::size_t i = 1; i < queries.size(q); ++i) {
      least = std::min(least, rows.relevance[documents[i]]);
      most = std::max(most, rows.relevance[documents[i]]);
    }
    out[documents[0]] = (pairs ? most > least : most > 0.0) ? 1.0 : 0.0;
  }
}

}  // namespace agbm
