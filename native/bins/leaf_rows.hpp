// Columns of dense matrices: removal of features that no split can use, and columns that features share.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "bins/bin.hpp"
#include "bins/bundle.hpp"
#include "bins/column_filler.hpp"
#include "bins/layout.hpp"

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

// The bins of a matrix in which features have their own columns, in the form that Bundler needs; "zero" is the usual bin
// of a feature, the most frequent one of some rows.
class DenseBins {
 public:
  static constexpr bool kMayBeListed = false;  // the codes of all rows fit in memory, and are faster to look up

  DenseBins(const BinnedMatrix& m, const std::vector<std::uint8_t>& used, int n_threads)
      : n_rows(m.n_rows), zero_bin(m.n_features, 0), m_(m), n_others_(m.n_features, m.n_rows) {
    parallel_for(m.n_features, threads_for(m.n_rows * m.n_columns(), n_threads), [&](std::size_t f) {
      if (used[f] && !m.categorical(static_cast<int>(f))) find_usual_bin(static_cast<int>(f));
    });
  }

  std::size_t size() const { return m_.n_rows * m_.n_columns(); }
  // Calls each(row, bin) for all rows whose bin is not the usual one. Most are, so eight rows are looked at together.
  template <class Each>
  void for_each(int feature, const Each& each) const {
    const std::uint8_t *bins = m_.column_of(feature), usual = zero_bin[feature];
    const std::uint64_t all_usual = usual * 0x0101010101010101u;
    for (std::size_t begin = 0; begin < n_rows; begin += 8) {
      const std::size_t end = std::min(n_rows, begin + 8);
      std::uint64_t word = ~all_usual;
      if (end == begin + 8) std::memcpy(&word, bins + begin, 8);
      for (std::size_t row = begin; word != all_usual && row < end; ++row) {
        if (bins[row] != usual) each(static_cast<Row>(row), bins[row]);
      }
    }
  }
  // All rows if these are certainly more than half.
  std::size_t count(int feature) const { return n_others_[feature]; }
  // Whether a feature does not have its usual bin in any of the rows that are marked with 1.
  bool meets(int feature, const std::vector<std::uint8_t>& marked) const {
    const std::uint8_t *bins = m_.column_of(feature), usual = zero_bin[feature];
    for (std::size_t begin = 0; begin < n_rows; begin += kRowsPerBlock) {
      const std::size_t end = std::min(n_rows, begin + kRowsPerBlock);
      std::uint8_t met = 0;
      for (std::size_t row = begin; row < end; ++row) met |= marked[row] & (bins[row] != usual);
      if (met) return true;
    }
    return false;
  }

  const std::size_t n_rows;
  std::vector<std::uint8_t> zero_bin;  // per feature

 private:
  static constexpr std::size_t kSomeRows = 1024;

  void find_usual_bin(int feature) {
    const std::uint8_t* bins = m_.column_of(feature);
    const std::size_t some = std::min(kSomeRows, n_rows), step = n_rows / std::max<std::size_t>(1, some);
    std::array<std::size_t, kWideCells> rows{};
    for (std::size_t i = 0; i < some; ++i) ++rows[bins[i * step]];
    const auto most = std::max_element(rows.begin(), rows.end());
    if (2 * *most < some) return;
    const std::uint8_t usual = zero_bin[feature] = static_cast<std::uint8_t>(most - rows.begin());
    n_others_[feature] = n_rows - static_cast<std::size_t>(std::count(bins, bins + n_rows, usual));
  }

  const BinnedMatrix& m_;
  std::vector<std::size_t> n_others_;  // per feature: rows that do not have the usual bin
};

// Moves the codes of a matrix in which features have their own columns to the columns of a plan, all of them dense.
inline void move_columns(BinnedMatrix& m, ColumnPlan&& plan, int n_threads) {
  m.shared->grouped = Codes();  // frees the old codes before the new ones are allocated
  Codes columns(m.n_rows * plan.n_dense, {});
  parallel_for(tasks_for_rows(m.n_rows), threads_for(m.n_rows * m.n_columns(), n_threads), [&](std::size_t task) {
    const std::size_t begin = task * kRowsPerTask, end = std::min(m.n_rows, begin + kRowsPerTask);
    for (int f = 0; f < m.n_features; ++f) {
      const FeaturePlace& place = plan.places[f];
      if (!place.used()) continue;
      const std::uint8_t* from = m.column_of(f);
      std::uint8_t* to = columns.data() + m.n_rows * place.column;
      if (!place.shared()) {
        std::memcpy(to + begin, from + begin, end - begin);
        continue;
      }
      std::array<std::uint8_t, kWideCells> code{};
      for (int bin = 0; bin <= m.n_bins[f]; ++bin) code[bin] = static_cast<std::uint8_t>(place.code(bin));
      for (std::size_t row = begin; row < end; ++row) to[row] |= code[from[row]];  // one of them at most is not zero
    }
  });
  m.shared->columns = std::move(columns);
  arrange(m, std::move(plan));
  m.shared->grouped = Codes(m.n_rows * m.n_whole, {});
  parallel_rows(m.n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    for (int column = 0; column < m.n_whole; ++column) copy_to_group(m, column, begin, end);
  });
}

// Removes features that cannot split from a matrix in memory in which features have their own columns, and lets others
// share columns.
inline void leave_features_out(BinnedMatrix& m, const LeafRows& leaf, int n_threads) {
  if (leaf.min_samples_leaf == 0) return;
  std::vector<std::uint8_t> used(m.n_features);
  parallel_for(m.n_features, threads_for(m.n_rows * m.n_columns(), n_threads), [&](std::size_t f) {
    const int feature = static_cast<int>(f);
    used[f] = m.places[f].used() && (m.categorical(feature) || can_split(m.column_of(feature), m.n_bins[f], leaf));
  });
  m.min_samples_leaf = leaf.min_samples_leaf;
  m.n_counted = static_cast<std::size_t>(leaf.total());
  const DenseBins bins(m, used, n_threads);
  ColumnPlan plan = Bundler(bins, m.n_bins).plan(used);
  if (plan.n_columns == static_cast<int>(m.n_columns())) return;
  if (plan.n_columns == plan.n_dense) return move_columns(m, std::move(plan), n_threads);
  BinnedMatrix filled;
  lay_out(filled, m.n_rows, m.n_bins, m.n_categories, std::move(plan));
  filled.min_samples_leaf = m.min_samples_leaf;
  filled.n_counted = m.n_counted;
  ColumnFiller(filled, bins, n_threads).fill();
  m = std::move(filled);
}

}  // namespace agbm
