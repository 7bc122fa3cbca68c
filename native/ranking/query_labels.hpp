// The labels of queries, and what depends on nothing else: computed once for all iterations.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "formulas/elementary.hpp"
#include "ranking/queries.hpp"

namespace agbm {

enum class RankingKind { kNdcg, kMap, kMrr, kPairwise, kListwise };

struct RankingRules {
  RankingKind kind;
  std::size_t cut;         // positions that the metric sees
  std::size_t truncation;  // the better placed document of a pair must have one of these positions
  bool exponential_gain;   // 2^relevance - 1 instead of the relevance
};

// 1 / log2(position + 2), for positions from 0.
inline std::vector<double> discounts(std::size_t n) {
  std::vector<double> found(n);
  for (std::size_t i = 0; i < n; ++i) found[i] = positive_log(2.0) / positive_log(static_cast<double>(i) + 2.0);
  return found;
}

// The gains of the documents of a query, times a power of two that makes the largest of them about 1, so that no sum
// overflows: metrics are ratios of gains.
class Gains {
 public:
  Gains(double largest_relevance, bool exponential) : exponential_(exponential) {
    if (exponential_) {
      scale_ = std::floor(std::min(largest_relevance, 1e15));
    } else {
      int exponent = 0;
      std::frexp(largest_relevance, &exponent);
      scale_ = exponent;
    }
  }
  double operator()(double relevance) const {
    if (relevance == 0.0) return 0.0;  // most of them
    if (!exponential_) return std::ldexp(relevance, -static_cast<int>(scale_));
    const double whole = std::floor(relevance);
    const double power = bounded_exp((relevance - whole) * 0.69314718055994531);
    return std::ldexp(power, exponent(whole - scale_)) - std::ldexp(1.0, exponent(-scale_));
  }

 private:
  static int exponent(double x) { return static_cast<int>(std::max(x, -2000.0)); }

  bool exponential_;
  double scale_;
};

// Queries with the relevances and gains of their documents. Sorting by scores leaves the documents of a query in that
// order, which is nearly that of the next iteration.
class QueryLabels {
 public:
  const RankingRules rules;
  Queries queries;
  std::vector<double> relevance, gain;  // of each row; with binary metrics, relevances are zero or one
  // What the gains of a query are divided by: its ideal DCG or, for lists, their sum; for pairs, the number of those with
  // different relevance. Zero if there is nothing to learn.
  std::vector<double> norm;
  std::vector<double> discount;

  QueryLabels(const RankingRules& rules, const double* relevance, const double* query, std::size_t n)
      : rules(rules), queries(query, n), relevance(relevance, relevance + n), gain(n), norm(queries.n()) {
    if (rules.kind == RankingKind::kMap || rules.kind == RankingKind::kMrr) {
      for (double& x : this->relevance) x = x > 0.0 ? 1.0 : 0.0;
    }
    if (rules.kind == RankingKind::kNdcg) discount = discounts(queries.longest());
    for (std::size_t q = 0; q < queries.n(); ++q) set_gains(q);
  }

 private:
  void set_gains(std::size_t q) {
    const std::uint32_t* rows = queries.documents(q);
    const std::size_t n = queries.size(q);
    std::vector<double> sorted(n);
    for (std::size_t i = 0; i < n; ++i) sorted[i] = relevance[rows[i]];
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const Gains gain_of(sorted[0], rules.exponential_gain);
    for (std::size_t i = 0; i < n; ++i) gain[rows[i]] = gain_of(relevance[rows[i]]);
    std::size_t first = 0;  // with the relevance of document i
    for (std::size_t i = 0; i < n; ++i) {
      if (sorted[i] != sorted[first]) first = i;
      if (rules.kind == RankingKind::kPairwise) norm[q] += static_cast<double>(first);
      if (rules.kind == RankingKind::kListwise) norm[q] += gain_of(sorted[i]);
      if (rules.kind == RankingKind::kNdcg && i < rules.cut) norm[q] += gain_of(sorted[i]) * discount[i];
    }
  }
};

}  // namespace agbm
