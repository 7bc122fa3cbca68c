// Which sparse features share a column.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "layout.hpp"

namespace agbm {

// Columns that a feature is tried in: more would find few places more, and take long where there are many features.
constexpr std::size_t kTriedColumns = 64;

// A shared column is a list if it has a code other than 0 in fewer than one of so many rows: an entry takes five bytes, a
// row of other columns one.
constexpr std::size_t kListedShare = 8;

// The bins of a sparse matrix, column by column: rows of feature f and their bins are at [start[f], start[f + 1]), ascending.
// All others, and some of these, have the bin of zero.
struct SparseBins {
  const Row* rows;
  const std::int64_t* start;
  std::size_t n_rows;
  std::vector<std::uint8_t> bins;
  std::vector<std::uint8_t> zero_bin;  // of each feature

  // each(row, bin) for the rows with other bins than that of zero.
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

// Puts every feature into the first column where no row has another one, and where there are codes left for its bins.
// Features that are not zero in many rows get columns of their own, before all others; those that are not used get none.
class Bundler {
 public:
  Bundler(const SparseBins& x, const std::vector<int>& n_bins) : x_(x), n_bins_(n_bins) {}

  // used: of each feature.
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
    std::vector<bool> taken;  // rows

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

  // So far shared columns have the numbers of their bundles. Lists go behind the others.
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
