// The documents of a query in the order of their scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "elementary.hpp"
#include "queries.hpp"

namespace agbm {

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

// The documents of a query in the order of their scores, as numbers of rows, and their runs.
class SortedQuery {
 public:
  // begin[r] is the position of the first document of run r; the last entry is the number of documents.
  std::vector<std::uint32_t> order;
  std::vector<std::size_t> begin;

  // Returns whether all scores are finite. With `binary`, relevances count as zero or positive.
  bool sort(const RankedRows& rows, const std::uint32_t* documents, std::size_t n, bool binary) {
    order.resize(n);
    begin.clear();
    keys_.resize(n);
    bool finite = true;
    for (std::size_t i = 0; i < n; ++i) {
      const double score = rows.score[documents[i]] + 0.0, relevance = rows.relevance[documents[i]];
      finite = finite && std::isfinite(score);
      keys_[i] = {score, binary ? (relevance > 0.0 ? 1.0 : 0.0) : relevance, documents[i]};
    }
    if (!finite) return false;
    std::sort(keys_.begin(), keys_.end(), [](const Key& a, const Key& b) {
      return a.score != b.score ? a.score > b.score : a.relevance < b.relevance;
    });
    for (std::size_t i = 0; i < n; ++i) {
      order[i] = keys_[i].row;
      if (i == 0 || keys_[i].score != keys_[i - 1].score || keys_[i].relevance != keys_[i - 1].relevance) {
        begin.push_back(i);
      }
    }
    begin.push_back(n);
    return true;
  }
  std::size_t n_runs() const { return begin.size() - 1; }
  double score(std::size_t position) const { return keys_[position].score; }
  double relevance(std::size_t position) const { return keys_[position].relevance; }

 private:
  struct Key {
    double score, relevance;
    std::uint32_t row;
  };
  std::vector<Key> keys_;
};

// The largest possible DCG of gains in falling order.
inline double ideal_dcg(std::vector<double>& gains, std::size_t cut, const std::vector<double>& discount) {
  std::sort(gains.begin(), gains.end(), std::greater<>());
  double sum = 0.0;
  for (std::size_t i = 0; i < std::min(cut, gains.size()); ++i) sum += gains[i] * discount[i];
  return sum;
}

}  // namespace agbm
