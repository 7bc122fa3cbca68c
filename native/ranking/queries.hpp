// The rows of queries.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/parallel.hpp"

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

}  // namespace agbm
