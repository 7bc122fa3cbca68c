// Fills the columns of a matrix, of which some are lists or are in sparse groups, after their plan is made.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/parallel.hpp"
#include "bins/bin.hpp"
#include "bins/bundle.hpp"
#include "bins/layout.hpp"

namespace agbm {

// Bins: SparseBins or DenseBins.
template <class Bins>
class ColumnFiller {
 public:
  ColumnFiller(BinnedMatrix& m, const Bins& x, int n_threads)
      : m_(m), x_(x), n_threads_(threads_for(x.size(), n_threads)) {
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
    parallel_for(lists.size(), n_threads_, [&](std::size_t i) { count_cells(lists[i]); });
    for (Lists& of_group : lists) of_group.to->cells.resize(of_group.to->start.back());
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
    std::uint8_t* codes = m_.column(place.column);
    if (!place.shared()) std::fill_n(codes, m_.n_rows, x_.zero_bin[feature]);
    x_.for_each(feature, [&](Row row, int bin) { codes[row] = static_cast<std::uint8_t>(place.code(bin)); });
  }

  // Allocates the memory of the lists, except for that of cells, since tasks must not allocate.
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
      SparseGroup& to = m_.lists_of(group);
      to.start.assign(m_.n_rows + 1, 0);
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

  // Finds where the list of each row begins; all have at least one cell.
  void count_cells(const Lists& lists) {
    std::vector<std::uint32_t>& start = lists.to->start;
    for (const int* f = lists.begin; f < lists.end; ++f) {
      x_.for_each(*f, [&](Row row, int) { ++start[row + 1]; });
    }
    for (std::size_t row = 0; row < m_.n_rows; ++row) start[row + 1] = start[row] + std::max(1u, start[row + 1]);
  }

  // Lists the cells of the group's columns, for each row.
  void list_cells(const Lists& lists) {
    std::vector<std::uint32_t>& start = lists.to->start;
    std::vector<std::uint16_t>& cells = lists.to->cells;
    for (const int* f = lists.begin; f < lists.end; ++f) {
      const FeaturePlace& place = m_.places[*f];
      const std::size_t first = first_cell(lists, place.column);
      x_.for_each(*f,
                  [&](Row row, int bin) { cells[start[row]++] = static_cast<std::uint16_t>(first + place.code(bin)); });
    }
    std::copy_backward(start.begin(), start.end() - 1, start.end());  // each was moved to the end of its row
    start[0] = 0;
    for (std::size_t row = 0; row < m_.n_rows; ++row) {
      if (start[row + 1] == start[row]) ++start[row + 1];  // without values, it was not moved
      cells[start[row + 1] - 1] |= SparseGroup::kLastOfRow;
    }
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
        if (SparseGroup::cell(to.cells[k]) == 0) continue;  // a row without values
        const std::size_t cell = *cells + SparseGroup::cell(to.cells[k]);
        const std::ptrdiff_t column = std::upper_bound(cells, cells + lists.group->width, cell) - cells - 1;
        to.rows[start[column]] = static_cast<Row>(row);
        to.codes[start[column]++] = static_cast<std::uint8_t>(cell - cells[column]);
      }
    }
    std::copy_backward(start, start + lists.group->width, start + lists.group->width + 1);
    start[0] = 0;
  }

  BinnedMatrix& m_;
  const Bins& x_;
  int n_threads_;
  std::vector<int> features_;  // sorted by column
};

}  // namespace agbm
