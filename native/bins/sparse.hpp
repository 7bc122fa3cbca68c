// Conversion of sparse matrices to bin codes.
#pragma once

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "bins/columns.hpp"
#include "bins/encode.hpp"
#include "bins/matrix.hpp"
#include "bins/thresholds.hpp"

namespace agbm {

inline bool can_split(const SparseBins& x, int feature, int n_bins, const LeafRows& leaf, std::int64_t n_rows) {
  if (leaf.min_samples_leaf == 0) return true;
  std::array<std::int64_t, kWideCells> rows;
  std::fill_n(rows.begin(), n_bins + 1, 0);
  std::int64_t n_others = 0;
  x.for_each(feature, [&](Row row, int bin) {
    rows[bin] += leaf.count(row);
    n_others += leaf.count(row);
  });
  if (n_others < leaf.min_samples_leaf) return false;  // the side without zero cannot have more rows than this
  rows[x.zero_bin[feature]] = n_rows - n_others;
  return can_split(rows.data(), n_bins, n_rows, leaf.min_samples_leaf);
}

// Number of values of a feature from which on building a table is faster than searching.
constexpr std::size_t kValuesWorthATable = 512;

// Bins of the values of a feature with n thresholds. Missing values have the bin after the last one.
template <class T>
void bin_column(const T* values, std::size_t n_values, const double* thresholds, std::size_t n, std::uint8_t* bins) {
  const int missing = static_cast<int>(n) + 1;
  if (n_values < kValuesWorthATable) {
    for (std::size_t i = 0; i < n_values; ++i) {
      const double value = static_cast<double>(values[i]);
      const auto below = std::lower_bound(thresholds, thresholds + n, value) - thresholds;
      bins[i] = static_cast<std::uint8_t>(value == value ? below : missing);
    }
    return;
  }
  const BinTable<T> table(thresholds, n, missing);
  for (std::size_t first = 0; first < n_values; first += kRowsPerBlock) {
    table.encode(values + first, std::min(kRowsPerBlock, n_values - first), bins + first);
  }
}

// Converts the values of all features to bins, and sets `used` for features that can split.
template <class T>
SparseBins bin_values(const SparseValues<T>& x, const Row* rows, const std::vector<int>& n_bins,
                      const double* thresholds, const LeafRows& leaf, std::vector<std::uint8_t>& used, int n_threads) {
  SparseBins binned{rows, x.start, x.n_rows, std::vector<std::uint8_t>(x.start[x.n_columns]),
                    std::vector<std::uint8_t>(x.n_columns)};
  std::vector<std::size_t> first_threshold(x.n_columns + 1, 0);
  for (std::size_t f = 0; f < x.n_columns; ++f) first_threshold[f + 1] = first_threshold[f] + n_bins[f] - 1;
  used.resize(x.n_columns);
  const std::int64_t n_train = leaf.total();
  const std::size_t n_tasks = (x.n_columns + kColumnsPerTask - 1) / kColumnsPerTask;
  parallel_for(n_tasks, threads_for(x.size_with_zeros(0, x.n_columns), n_threads), [&](std::size_t task) {
    const std::size_t begin = task * kColumnsPerTask, end = std::min(x.n_columns, begin + kColumnsPerTask);
    for (std::size_t f = begin; f < end; ++f) {
      const double* its = thresholds + first_threshold[f];
      const std::size_t n = first_threshold[f + 1] - first_threshold[f];
      bin_column(x.values + x.start[f], x.size(f), its, n, binned.bins.data() + x.start[f]);
      binned.zero_bin[f] = static_cast<std::uint8_t>(std::lower_bound(its, its + n, 0.0) - its);
      used[f] = can_split(binned, static_cast<int>(f), n_bins[f], leaf, n_train);
    }
  });
  return binned;
}

// Bins a sparse matrix. `rows` has the row of each value, ascending within a column. Features that cannot split the
// training rows get no column.
template <class T>
BinnedMatrix bin_sparse(const SparseValues<T>& x, const Row* rows, const std::vector<int>& n_bins,
                        const double* thresholds, const LeafRows& leaf, int n_threads) {
  std::vector<std::uint8_t> used;
  const SparseBins binned = bin_values(x, rows, n_bins, thresholds, leaf, used, n_threads);
  BinnedMatrix m;
  lay_out(m, x.n_rows, n_bins, std::vector<int>(n_bins.size(), 0), Bundler(binned, n_bins).plan(used));
  m.min_samples_leaf = leaf.min_samples_leaf;
  m.n_counted = static_cast<std::size_t>(leaf.total());
  ColumnFiller(m, binned, n_threads).fill();
  return m;
}

}  // namespace agbm
