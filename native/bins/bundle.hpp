// Decides which features share a column.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bins/layout.hpp"

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

}  // namespace agbm
