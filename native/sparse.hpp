// Conversion of sparse matrices to bin codes.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "bin.hpp"
#include "bundle.hpp"
#include "layout.hpp"
#include "leaf_rows.hpp"
#include "parallel.hpp"
#include "thresholds.hpp"

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

// Fills an allocated matrix.
class SparseFiller {
 public:
  SparseFiller(BinnedMatrix& m, const SparseBins& x, int n_threads)
      : m_(m), x_(x), n_threads_(threads_for(x.bins.size(), n_threads)) {
    for (int f = 0; f < m.n_features; ++f) {
      if (m.places[f].used()) features_.push_back(f);
    }
    std::stable_sort(features_.begin(), features_.end(),
                     [&](int a, int b) { return m.places[a].column < m.places[b].column; });
  }

  void fill() {
    const auto is_listed = [&](int feature) { return m_.listed(m_.places[feature].column); };
    const std::size_t n_whole = std::find_if(features_.begin(), features_.end(), is_listed) - features_.begin();
    parallel_for(n_whole, n_threads_, [&](std::size_t i) { fill_whole(features_[i]); });
    parallel_rows(m_.n_rows, n_threads_, [&](std::size_t begin, std::size_t end) {
      for (const ColumnGroup& group : m_.groups) {
        for (int j = 0; group.sparse < 0 && j < group.width; ++j) copy_to_group(m_, group.first_column + j, begin, end);
      }
    });
    std::vector<Lists> lists = make_lists();
    parallel_for(lists.size(), n_threads_, [&](std::size_t i) {
      list_cells(lists[i]);
      if (m_.listed(lists[i].group->first_column)) list_columns(lists[i]);
    });
  }

 private:
  // A sparse group and its features.
  struct Lists {
    const ColumnGroup* group;
    SparseGroup* to;
    const int *begin, *end;
  };

  void fill_whole(int feature) {
    const FeaturePlace& place = m_.places[feature];
    std::uint8_t* codes = m_.columns.data() + m_.n_rows * place.column;
    if (!place.shared()) std::fill_n(codes, m_.n_rows, x_.zero_bin[feature]);
    x_.for_each(feature, [&](Row row, int bin) { codes[row] = static_cast<std::uint8_t>(place.code(bin)); });
  }

  // Allocates the memory of all lists, since tasks must not allocate.
  std::vector<Lists> make_lists() {
    std::vector<Lists> lists;
    const int* feature = features_.data();
    const int* const end = feature + features_.size();
    for (const ColumnGroup& group : m_.groups) {
      const int* const first = feature;
      std::size_t n_entries = 0;
      for (; feature < end && m_.places[*feature].column < group.first_column + group.width; ++feature) {
        if (group.sparse >= 0) n_entries += x_.count(*feature);
      }
      if (group.sparse < 0) continue;
      SparseGroup& to = m_.sparse_groups[group.sparse];
      to.start.assign(m_.n_rows + 1, 0);
      to.cells.resize(n_entries);
      if (m_.listed(group.first_column)) {
        to.column_start.assign(group.width + 1, 0);
        to.rows.resize(n_entries);
        to.codes.resize(n_entries);
      }
      lists.push_back({&group, &to, first, feature});
    }
    return lists;
  }

  std::size_t first_cell(const Lists& lists, int column) const {
    return m_.cell_offset[column] - m_.cell_offset[lists.group->first_column];
  }

  // Lists the cells of the group's columns, for each row.
  void list_cells(const Lists& lists) {
    std::uint32_t* start = lists.to->start.data();
    for (const int* f = lists.begin; f < lists.end; ++f) {
      x_.for_each(*f, [&](Row row, int) { ++start[row + 1]; });
    }
    std::partial_sum(start, start + m_.n_rows + 1, start);
    for (const int* f = lists.begin; f < lists.end; ++f) {
      const FeaturePlace& place = m_.places[*f];
      const std::size_t first = first_cell(lists, place.column);
      x_.for_each(*f, [&](Row row, int bin) {
        lists.to->cells[start[row]++] = static_cast<std::uint16_t>(first + place.code(bin));
      });
    }
    std::copy_backward(start, start + m_.n_rows, start + m_.n_rows + 1);  // each was moved to the end of its row
    start[0] = 0;
  }

  // Lists the rows and codes of each column, from the lists of cells.
  void list_columns(const Lists& lists) {
    SparseGroup& to = *lists.to;
    std::uint32_t* start = to.column_start.data();
    for (const int* f = lists.begin; f < lists.end; ++f) {
      start[m_.places[*f].column - lists.group->first_column + 1] += static_cast<std::uint32_t>(x_.count(*f));
    }
    std::partial_sum(start, start + lists.group->width + 1, start);
    const auto cells = m_.cell_offset.begin() + lists.group->first_column;  // first cell of each column
    for (std::size_t row = 0; row < m_.n_rows; ++row) {
      for (std::uint32_t k = to.start[row]; k < to.start[row + 1]; ++k) {
        const std::size_t cell = *cells + to.cells[k];
        const std::ptrdiff_t column = std::upper_bound(cells, cells + lists.group->width, cell) - cells - 1;
        to.rows[start[column]] = static_cast<Row>(row);
        to.codes[start[column]++] = static_cast<std::uint8_t>(cell - cells[column]);
      }
    }
    std::copy_backward(start, start + lists.group->width, start + lists.group->width + 1);
    start[0] = 0;
  }

  BinnedMatrix& m_;
  const SparseBins& x_;
  int n_threads_;
  std::vector<int> features_;  // sorted by column
};

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
  SparseFiller(m, binned, n_threads).fill();
  return m;
}

}  // namespace agbm
