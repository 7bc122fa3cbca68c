// Features that no split can use.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "bin.hpp"
#include "layout.hpp"
#include "parallel.hpp"

namespace agbm {

// The rows that trees are grown on, and how many of them every leaf must have.
struct LeafRows {
  std::int64_t min_samples_leaf = 0;      // 0: none, so that every feature may be used
  std::size_t n_train = 0;                // the first rows of the matrix
  const std::int64_t* repeats = nullptr;  // of each; null: 1

  std::int64_t count(std::size_t row) const { return row >= n_train ? 0 : repeats == nullptr ? 1 : repeats[row]; }
  std::int64_t total() const {
    return repeats == nullptr ? static_cast<std::int64_t>(n_train)
                              : std::accumulate(repeats, repeats + n_train, std::int64_t{0});
  }
};

// Whether a split on an ordered feature can leave enough rows on both sides, from the rows in its bins and behind them those
// with missing values. A node has some of all rows, so a side that has too few of these has too few in every node: what
// cannot split all rows never splits, and trees are the same without it.
inline bool can_split(const std::int64_t* rows, int n_bins, std::int64_t n_rows, std::int64_t enough) {
  const std::int64_t missing = rows[n_bins];
  std::int64_t left = 0;
  for (int bin = 0; bin < n_bins; ++bin) {
    left += rows[bin];
    const bool missing_right = std::min(left, n_rows - left) >= enough;
    const bool missing_left = std::min(left + missing, n_rows - left - missing) >= enough;
    if (missing_right || missing_left) return true;
  }
  return false;
}

// The same from the bin of every row. Sides only grow with more rows, so the first few mostly tell.
inline bool can_split(const std::uint8_t* bins, int n_bins, const LeafRows& leaf) {
  std::array<std::int64_t, kWideCells> rows{};
  std::int64_t n_rows = 0;
  for (std::size_t row = 0, end = 256; row < leaf.n_train; end *= 16) {
    for (; row < std::min(end, leaf.n_train); ++row) {
      rows[bins[row]] += leaf.count(row);
      n_rows += leaf.count(row);
    }
    if (can_split(rows.data(), n_bins, n_rows, leaf.min_samples_leaf)) return true;
  }
  return false;
}

// Takes the columns of features that cannot split out of a matrix in memory in which every feature has one.
inline void leave_features_out(BinnedMatrix& m, const LeafRows& leaf, int n_threads) {
  if (leaf.min_samples_leaf == 0) return;
  std::vector<std::uint8_t> used(m.n_features);
  parallel_for(m.n_features, threads_for(m.columns.size(), n_threads), [&](std::size_t f) {
    const int feature = static_cast<int>(f);
    used[f] = m.categorical(feature) || can_split(m.column(feature), m.n_bins[f], leaf);
  });
  m.min_samples_leaf = leaf.min_samples_leaf;
  m.n_counted = static_cast<std::size_t>(leaf.total());
  if (std::all_of(used.begin(), used.end(), [](std::uint8_t is_used) { return is_used; })) return;
  ColumnPlan plan;
  plan.places.resize(m.n_features);
  for (int f = 0; f < m.n_features; ++f) {
    if (!used[f]) continue;
    std::uint8_t* const to = m.columns.data() + m.n_rows * plan.n_own;  // never behind the column's own place
    if (plan.n_own < f) std::memcpy(to, m.column(f), m.n_rows);
    plan.places[f].column = plan.n_own++;
  }
  plan.n_whole = plan.n_columns = plan.n_own;
  arrange(m, std::move(plan));
  m.grouped = Codes();  // before there are others
  m.grouped = Codes(m.n_rows * m.n_whole, {});
  parallel_rows(m.n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    for (int column = 0; column < m.n_whole; ++column) copy_to_group(m, column, begin, end);
  });
}

}  // namespace agbm
