// Removal of features that no split can use.
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

// The training rows, and the minimum number of them per leaf.
struct LeafRows {
  std::int64_t min_samples_leaf = 0;      // 0: no minimum, so that every feature can be used
  std::size_t n_train = 0;                // the first rows of the matrix are the training rows
  const std::int64_t* repeats = nullptr;  // per training row; null: 1

  std::int64_t count(std::size_t row) const { return row >= n_train ? 0 : repeats == nullptr ? 1 : repeats[row]; }
  std::int64_t total() const {
    return repeats == nullptr ? static_cast<std::int64_t>(n_train)
                              : std::accumulate(repeats, repeats + n_train, std::int64_t{0});
  }
};

// Whether some split on an ordered feature has enough rows on both sides. `rows` has the number of rows per bin,
// followed by that of missing values. A node has a subset of all rows, so a feature that cannot split all rows cannot
// split any node, and trees are the same without it.
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

// The same from the bin of every row. More rows never make a side smaller, so the first few rows usually suffice.
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

// Removes the columns of features that cannot split from a matrix in memory in which every feature has its own column.
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
    std::uint8_t* const to = m.columns.data() + m.n_rows * plan.n_own;  // never after the column's current place
    if (plan.n_own < f) std::memcpy(to, m.column(f), m.n_rows);
    plan.places[f].column = plan.n_own++;
  }
  plan.n_whole = plan.n_columns = plan.n_own;
  arrange(m, std::move(plan));
  m.grouped = Codes();  // frees the old codes before the new ones are allocated
  m.grouped = Codes(m.n_rows * m.n_whole, {});
  parallel_rows(m.n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    for (int column = 0; column < m.n_whole; ++column) copy_to_group(m, column, begin, end);
  });
}

}  // namespace agbm
