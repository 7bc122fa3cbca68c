// Values to bin codes.
#pragma once

#include <cmath>
#include <limits>

#include "layout.hpp"
#include "parallel.hpp"

namespace agbm {

// Thresholds of one feature, padded to 256 with infinity so that the search needs no bounds and always takes eight steps.
struct ThresholdTable {
  double values[256];
};

// Number of thresholds below x (so x <= threshold[code], and code is the bin). Branch-free.
inline int search(const ThresholdTable& table, double x) {
  int low = 0;
  for (int half = 128; half > 0; half /= 2) low += half * (table.values[low + half - 1] < x);
  return low;
}

// Neighbouring features share a group; groups are as equal in width as they can be, so that threads get equal work.
inline void lay_out(BinnedMatrix& m, std::size_t n_rows, const std::vector<int>& n_bins,
                    const std::vector<int>& n_categories) {
  m.n_rows = n_rows;
  m.n_categories = n_categories;
  m.n_features = static_cast<int>(n_bins.size());
  m.n_bins = n_bins;
  m.cell_offset.assign(1, 0);
  const int n_groups = (m.n_features + kMaxGroupWidth - 1) / kMaxGroupWidth;
  int first = 0;
  for (int g = 0; g < n_groups; ++g) {
    const int width = (m.n_features - first + (n_groups - g) - 1) / (n_groups - g);
    const int most = *std::max_element(n_bins.begin() + first, n_bins.begin() + first + width);
    const int cells = most < kNarrowCells ? kNarrowCells : kWideCells;
    m.groups.push_back({first, width, cells, n_rows * first});
    m.group_of.insert(m.group_of.end(), width, g);
    for (int j = 0; j < width; ++j) m.cell_offset.push_back(m.cell_offset.back() + cells);
    first += width;
  }
  m.codes.resize(n_rows * m.n_features);
  m.columns.resize(n_rows * m.n_features);
}

// Codes of a block of whole columns, first_feature and those behind it: x[row * row_stride + column * column_stride], strides
// in values. Filling a matrix block by block needs no copy of all values at once.
template <class T>
void bin_columns(BinnedMatrix& m, int first_feature, const std::vector<ThresholdTable>& tables, const T* x,
                 std::ptrdiff_t row_stride, std::ptrdiff_t column_stride, int n_threads) {
  const std::size_t pieces = tasks_for_rows(m.n_rows);
  const int end_feature = first_feature + static_cast<int>(tables.size());
  const std::size_t first_group = m.group_of[first_feature];
  const std::size_t n_groups = m.group_of[end_feature - 1] - first_group + 1;
  parallel_for(pieces * n_groups, n_threads, [&](std::size_t task) {
    const FeatureGroup& group = m.groups[first_group + task / pieces];
    const std::size_t begin = task % pieces * kRowsPerTask;
    const std::size_t end = std::min(m.n_rows, begin + kRowsPerTask);
    const int last = std::min(end_feature, group.first_feature + group.width);
    for (int feature = std::max(first_feature, group.first_feature); feature < last; ++feature) {
      const ThresholdTable& table = tables[feature - first_feature];
      const T* column = x + (feature - first_feature) * column_stride;
      std::uint8_t* out = m.codes.data() + group.data_offset + (feature - group.first_feature);
      const int missing = m.n_bins[feature];
      for (std::size_t row = begin; row < end; ++row) {
        const double value = static_cast<double>(column[static_cast<std::ptrdiff_t>(row) * row_stride]);
        const int code = search(table, value);
        out[row * group.width] = static_cast<std::uint8_t>(value == value ? code : missing);
        m.columns[m.n_rows * feature + row] = out[row * group.width];
      }
    }
  });
}

}  // namespace agbm
