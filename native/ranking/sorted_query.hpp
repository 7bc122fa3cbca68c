// The documents of a query in the order of their scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ranking/query_labels.hpp"

namespace agbm {

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
