// Decides which sparse features share a column.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "layout.hpp"

namespace agbm {

// Number of columns that are tried for a feature. More would rarely help, and take long if there are many features.
constexpr std::size_t kTriedColumns = 64;

// A shared column is stored as a list if fewer than 1 / kListedShare of its codes are nonzero: a list takes five bytes
// per entry, other columns take one byte per row.
constexpr std::size_t kListedShare = 8;

// The bins of a sparse matrix, column by column: the rows of feature f, ascending, and their bins are at
// [start[f], start[f + 1]). All other rows have the bin of zero; some of the stored ones may have it as well.
struct SparseBins {
  const Row* rows;
  const std::int64_t* start;
  std::size_t n_rows;
  std::vector<std::uint8_t> bins;
  std::vector<std::uint8_t> zero_bin;  // per feature

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
};

// Assigns every feature to the first shared column in which its rows are still free and which has enough codes left.
// Features that are nonzero in more than half of the rows get their own columns, before the shared ones. Features that
// are not used get no column.
class Bundler {
 public:
  Bundler(const SparseBins& x, const std::vector<int>& n_bins) : x_(x), n_bins_(n_bins) {}

  // used: whether each feature is used.
  ColumnPlan plan(const std::vector<std::uint8_t>& used) {
    ColumnPlan plan;
    plan.places.resize(n_bins_.size());
    for (int feature = 0; feature < static_cast<int>(n_bins_.size()); ++feature) {
      if (!used[feature]) continue;
      const std::size_t n = x_.count(feature);
      if (n > x_.n_rows / 2 || n_bins_[feature] >= kWideCells) {
        plan.places[feature].column = plan.n_own++;
      } else {
        plan.places[feature] = share(feature, n);
      }
    }
    number_columns(plan);
    return plan;
  }

 private:
  struct Bundle {
    int n_codes;
    std::size_t n_entries;
    std::vector<bool> taken;  // per row

    bool listed() const { return kListedShare * n_entries < taken.size(); }
  };

  FeaturePlace share(int feature, std::size_t n) {
    const std::size_t first = bundles_.size() > kTriedColumns ? bundles_.size() - kTriedColumns : 0;
    std::size_t b = first;
    while (b < bundles_.size() && !fits(bundles_[b], feature)) ++b;
    if (b == bundles_.size()) bundles_.push_back({1, 0, std::vector<bool>(x_.n_rows)});
    Bundle& bundle = bundles_[b];
    x_.for_each(feature, [&](Row row, int) { bundle.taken[row] = true; });
    const FeaturePlace place{static_cast<int>(b), bundle.n_codes, x_.zero_bin[feature]};
    bundle.n_codes += n_bins_[feature];
    bundle.n_entries += n;
    return place;
  }

  bool fits(const Bundle& bundle, int feature) const {
    if (bundle.n_codes + n_bins_[feature] > kWideCells) return false;
    for (std::int64_t i = x_.start[feature]; i < x_.start[feature + 1]; ++i) {
      if (bundle.taken[x_.rows[i]] && x_.bins[i] != x_.zero_bin[feature]) return false;
    }
    return true;
  }

  // Replaces the numbers of bundles by numbers of columns. Columns that are lists come last.
  void number_columns(ColumnPlan& plan) const {
    std::vector<int> column(bundles_.size());
    int next = plan.n_own;
    for (const bool listed : {false, true}) {
      for (std::size_t b = 0; b < bundles_.size(); ++b) {
        if (bundles_[b].listed() == listed) column[b] = next++;
      }
      if (!listed) plan.n_whole = next;
    }
    plan.n_columns = next;
    for (FeaturePlace& place : plan.places) {
      if (place.shared()) place.column = column[place.column];
    }
  }

  const SparseBins& x_;
  const std::vector<int>& n_bins_;
  std::vector<Bundle> bundles_;
};

}  // namespace agbm
