// The rows of queries, their labels, and their order by scores.
//
// The documents of a query are sorted by falling score and, among equal scores, by rising relevance: ties count as the
// worst order. Documents with equal score and relevance form a run; they are interchangeable, and each gets the mean over
// the positions of its run. So results do not depend on the order of rows, and sums run over runs in this order.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "base/parallel.hpp"
#include "formulas/elementary.hpp"

namespace agbm {

// The rows of each query. Numbers of queries are any finite numbers, and rows of a query need not follow each other.
class Queries {
 public:
  std::vector<std::size_t> begin;  // one more than there are queries

  Queries(const double* query, std::size_t n_rows) : rows_(n_rows) {
    std::iota(rows_.begin(), rows_.end(), 0u);
    if (!std::is_sorted(query, query + n_rows)) {
      sort(query);
    }
    for (std::size_t i = 0; i < n_rows; ++i) {
      if (i == 0 || query[rows_[i]] != query[rows_[i - 1]]) {
        begin.push_back(i);
        first_.push_back(rows_[i]);
      }
    }
    begin.push_back(n_rows);
  }
  std::size_t n_rows() const { return rows_.size(); }
  std::size_t n() const { return begin.size() - 1; }
  std::size_t size(std::size_t q) const { return begin[q + 1] - begin[q]; }
  // The first row of a query.
  std::uint32_t first(std::size_t q) const { return first_[q]; }
  // The rows of a query, at first in ascending order; users may order them in another way.
  std::uint32_t* documents(std::size_t q) { return rows_.data() + begin[q]; }
  const std::uint32_t* documents(std::size_t q) const { return rows_.data() + begin[q]; }
  std::size_t longest() const {
    std::size_t most = 0;
    for (std::size_t q = 0; q < n(); ++q) most = std::max(most, size(q));
    return most;
  }

  // Calls body(query, scratch) for each query; a scratch belongs to one thread at a time.
  template <class Scratch, class Body>
  void for_each(int n_threads, const Body& body) const {
    const std::vector<std::size_t> pieces = pieces_of_rows();
    parallel_for(pieces.size() - 1, n_threads, [&](std::size_t p) {
      Scratch scratch;
      for (std::size_t q = pieces[p]; q < pieces[p + 1]; ++q) body(q, scratch);
    });
  }

 private:
  void sort(const double* query) {
    const std::size_t n = rows_.size(), most = 4 * n + 4096;
    std::vector<std::uint32_t> places(most + 1);
    bool few = true;  // numbers from 0 to `most`, as estimators give them
    for (std::size_t i = 0; few && i < n; ++i) {
      few = query[i] >= 0.0 && query[i] < static_cast<double>(most) && query[i] == std::floor(query[i]);
      if (few) ++places[static_cast<std::size_t>(query[i]) + 1];
    }
    if (!few) {
      std::stable_sort(rows_.begin(), rows_.end(),
                       [query](std::uint32_t a, std::uint32_t b) { return query[a] < query[b]; });
      return;
    }
    std::partial_sum(places.begin(), places.end(), places.begin());
    for (std::size_t i = 0; i < n; ++i) rows_[places[static_cast<std::size_t>(query[i])]++] = i;
  }

  // Consecutive queries with about as many rows.
  std::vector<std::size_t> pieces_of_rows() const {
    constexpr std::size_t rows_per_piece = 4096;
    std::vector<std::size_t> first = {0};
    for (std::size_t q = 1; q < n(); ++q) {
      if (begin[q] - begin[first.back()] >= rows_per_piece) first.push_back(q);
    }
    if (n() > 0) first.push_back(n());
    return first;
  }

  std::vector<std::uint32_t> rows_, first_;
};

// The labels of queries, and what depends on nothing else: computed once for all iterations.

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

// The documents of a query in the order of their scores, as numbers of rows, and their runs.
class SortedQuery {
 public:
  // begin[r] is the position of the first document of run r; the last entry is the number of documents.
  std::vector<std::size_t> begin;

  // Returns whether all scores are finite.
  bool sort(QueryLabels& labels, std::size_t q, const double* score) {
    std::uint32_t* documents = labels.queries.documents(q);
    const std::size_t n = labels.queries.size(q);
    begin.clear();
    keys_.resize(n);
    bool finite = true;
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t row = documents[i];
      keys_[i] = {score[row] + 0.0, labels.relevance[row], row};
      finite = finite && std::isfinite(keys_[i].score);
    }
    if (!finite) return false;
    if (!insert_all()) std::sort(keys_.begin(), keys_.end(), is_before);
    for (std::size_t i = 0; i < n; ++i) {
      documents[i] = keys_[i].row;
      if (i == 0 || keys_[i].score != keys_[i - 1].score || keys_[i].relevance != keys_[i - 1].relevance) {
        begin.push_back(i);
      }
    }
    begin.push_back(n);
    return true;
  }
  std::size_t n() const { return keys_.size(); }
  std::size_t n_runs() const { return begin.size() - 1; }
  double score(std::size_t position) const { return keys_[position].score; }
  double relevance(std::size_t position) const { return keys_[position].relevance; }
  std::uint32_t row(std::size_t position) const { return keys_[position].row; }

 private:
  struct Key {
    double score, relevance;
    std::uint32_t row;
  };

  static bool is_before(const Key& a, const Key& b) {
    return a.score != b.score ? a.score > b.score : a.relevance < b.relevance;
  }

  // Sorts keys that are nearly in order. Returns false, with the keys in any order, if they are not.
  bool insert_all() {
    constexpr std::size_t moves_per_key = 8;
    std::size_t moves_left = moves_per_key * keys_.size();
    for (std::size_t i = 1; i < keys_.size(); ++i) {
      const Key key = keys_[i];
      std::size_t to = i;
      for (; to > 0 && is_before(key, keys_[to - 1]); --to) keys_[to] = keys_[to - 1];
      keys_[to] = key;
      if (i - to > moves_left) return false;
      moves_left -= i - to;
    }
    return true;
  }

  std::vector<Key> keys_;
};

}  // namespace agbm
