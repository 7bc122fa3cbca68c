// The columns of a matrix: which features share one, which have none because no split can use them, and their codes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "bins/encode.hpp"
#include "bins/matrix.hpp"

namespace agbm {

// Number of columns that are tried for a feature. More would rarely help, and take long if there are many features.
constexpr std::size_t kTriedColumns = 64;

// A shared column of a sparse matrix is stored as a list if fewer than 1 / kListedShare of its codes are nonzero: a list
// takes five bytes per entry, other columns take one byte per row.
constexpr std::size_t kListedShare = 8;

// A shared column may be in a sparse group if fewer than 1 / kSparseShare of its codes are nonzero: reading the list of
// a row, and each entry of it, takes about as long as adding the row to this many dense columns.
constexpr std::size_t kSparseShare = 4;

// The bins of a sparse matrix, column by column: the rows of feature f, ascending, and their bins are at
// [start[f], start[f + 1]). All other rows have the bin of zero; some of the stored ones may have it as well.
struct SparseBins {
  const Row* rows;
  const std::int64_t* start;
  std::size_t n_rows;
  std::vector<std::uint8_t> bins;
  std::vector<std::uint8_t> zero_bin;  // per feature

  static constexpr bool kMayBeListed = true;

  std::size_t size() const { return bins.size(); }
  // Calls each(row, bin) for all rows whose bin is not that of zero.
  template <class Each>
  void for_each(int feature, const Each& each) const {
    for (std::int64_t i = start[feature]; i < start[feature + 1]; ++i) {
      if (bins[i] != zero_bin[feature]) each(rows[i], bins[i]);
    }
  }
  std::size_t count(int feature) const {
    std::size_t n = 0;
    for_each(feature, [&](Row, int) { ++n; });
    return n;
  }
  // Whether a feature is not zero in any of the rows that are marked with 1.
  bool meets(int feature, const std::vector<std::uint8_t>& marked) const {
    for (std::int64_t i = start[feature]; i < start[feature + 1]; ++i) {
      if (marked[rows[i]] && bins[i] != zero_bin[feature]) return true;
    }
    return false;
  }
};

// Assigns every feature to the first shared column in which its rows are still free and which has enough codes left.
// Features that are nonzero in more than half of the rows get their own columns, before the shared ones; so do features
// that turn out to be alone in a dense column. Features that are not used get no column. Bins: SparseBins or DenseBins.
template <class Bins>
class Bundler {
 public:
  Bundler(const Bins& x, const std::vector<int>& n_bins) : x_(x), n_bins_(n_bins) {}

  // used: whether each feature is used.
  ColumnPlan plan(const std::vector<std::uint8_t>& used) {
    ColumnPlan plan;
    plan.places.resize(n_bins_.size());
    for (int feature = 0; feature < static_cast<int>(n_bins_.size()); ++feature) {
      if (!used[feature]) continue;
      const std::size_t n = x_.count(feature);
      if (n > x_.n_rows / 2 || n_bins_[feature] >= kWideCells) {
        plan.places[feature].column = plan.n_dense++;
      } else {
        plan.places[feature] = share(feature, n);
      }
    }
    decide_lists();
    number_columns(plan);
    return plan;
  }

 private:
  struct Bundle {
    int n_codes;
    std::size_t n_entries;
    int n_features;
    std::vector<std::uint8_t> taken;  // per row: 0 or 1

    bool thin(std::size_t share) const { return share * n_entries < taken.size(); }
  };
  enum Kind { kDense, kSparse, kListed };  // in the order of the columns

  // Whether lists take less time than dense columns.
  void decide_lists() {
    std::size_t n_columns = 0, n_entries = 0;
    for (const Bundle& bundle : bundles_) {
      if (!bundle.thin(kSparseShare)) continue;
      ++n_columns;
      n_entries += bundle.n_entries;
    }
    lists_ = n_columns * x_.n_rows > kSparseShare * (x_.n_rows + n_entries);
  }
  Kind kind(const Bundle& bundle) const {
    if (!lists_ || !bundle.thin(kSparseShare)) return kDense;
    return Bins::kMayBeListed && bundle.thin(kListedShare) ? kListed : kSparse;
  }

  FeaturePlace share(int feature, std::size_t n) {
    const std::size_t first = bundles_.size() > kTriedColumns ? bundles_.size() - kTriedColumns : 0;
    std::size_t b = first;
    while (b < bundles_.size() && !fits(bundles_[b], feature)) ++b;
    if (b == bundles_.size()) bundles_.push_back({1, 0, 0, std::vector<std::uint8_t>(x_.n_rows)});
    Bundle& bundle = bundles_[b];
    x_.for_each(feature, [&](Row row, int) { bundle.taken[row] = 1; });
    const FeaturePlace place{static_cast<int>(b), bundle.n_codes, x_.zero_bin[feature]};
    bundle.n_codes += n_bins_[feature];
    bundle.n_entries += n;
    ++bundle.n_features;
    return place;
  }

  bool fits(const Bundle& bundle, int feature) const {
    return bundle.n_codes + n_bins_[feature] <= kWideCells && !x_.meets(feature, bundle.taken);
  }

  // Replaces the numbers of bundles by numbers of columns.
  void number_columns(ColumnPlan& plan) const {
    std::vector<int> column(bundles_.size());
    int next = plan.n_dense;
    int* const ends[] = {&plan.n_dense, &plan.n_whole, &plan.n_columns};
    for (const Kind of : {kDense, kSparse, kListed}) {
      for (std::size_t b = 0; b < bundles_.size(); ++b) {
        if (kind(bundles_[b]) == of) column[b] = next++;
      }
      *ends[of] = next;
    }
    for (FeaturePlace& place : plan.places) {
      if (!place.shared()) continue;
      const Bundle& bundle = bundles_[place.column];
      place.column = column[place.column];
      if (kind(bundle) == kDense && bundle.n_features == 1) place = {place.column};
    }
  }

  const Bins& x_;
  const std::vector<int>& n_bins_;
  std::vector<Bundle> bundles_;
  bool lists_ = false;
};

// Fills the columns of a matrix, of which some are lists or are in sparse groups, after their plan is made.
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
