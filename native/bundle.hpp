// Which sparse features share a column.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "bin.hpp"
#include "layout.hpp"

namespace agbm {

// Columns that a feature is tried in: more would find few places more, and take long where there are many features.
constexpr std::size_t kTriedColumns = 64;

// Puts every feature into the first column where no row has another one, and where there are codes left for its bins.
// Features that are not zero in many rows get columns of their own, before all others. zero_bin: of each feature.
class Bundler {
 public:
  Bundler(std::size_t n_rows, const std::vector<int>& n_bins, const std::vector<int>& zero_bin)
      : n_rows_(n_rows), n_bins_(n_bins), zero_bin_(zero_bin) {}

  // rows_of(feature) gives [begin, end) of its rows with another bin than that of zero.
  template <class RowsOf>
  std::vector<FeaturePlace> places(const RowsOf& rows_of) {
    std::vector<FeaturePlace> places;
    int n_own = 0;
    for (int feature = 0; feature < static_cast<int>(n_bins_.size()); ++feature) {
      const auto [begin, end] = rows_of(feature);
      const std::size_t n = end - begin;
      if (n > n_rows_ / 2 || n_bins_[feature] >= kWideCells) {
        places.push_back({n_own++});
      } else {
        places.push_back(share(feature, begin, end));
      }
    }
    for (FeaturePlace& place : places) place.column += place.shared() ? n_own : 0;
    return places;
  }

 private:
  struct Bundle {
    int n_codes;
    std::vector<bool> taken;  // rows
  };

  FeaturePlace share(int feature, const Row* begin, const Row* end) {
    const std::size_t first = bundles_.size() > kTriedColumns ? bundles_.size() - kTriedColumns : 0;
    std::size_t b = first;
    while (b < bundles_.size() && !fits(bundles_[b], feature, begin, end)) ++b;
    if (b == bundles_.size()) bundles_.push_back({1, std::vector<bool>(n_rows_)});
    Bundle& bundle = bundles_[b];
    for (const Row* row = begin; row < end; ++row) bundle.taken[*row] = true;
    const FeaturePlace place{static_cast<int>(b), bundle.n_codes, zero_bin_[feature]};
    bundle.n_codes += n_bins_[feature];
    return place;
  }

  bool fits(const Bundle& bundle, int feature, const Row* begin, const Row* end) const {
    if (bundle.n_codes + n_bins_[feature] > kWideCells) return false;
    return std::none_of(begin, end, [&](Row row) { return bundle.taken[row]; });
  }

  const std::size_t n_rows_;
  const std::vector<int>& n_bins_;
  const std::vector<int>& zero_bin_;
  std::vector<Bundle> bundles_;
};

// A binned matrix of sparse rows.
template <class T>
BinnedMatrix bin_bundled(const std::vector<int>& n_bins, const double* thresholds, const SparseRows<T>& x,
                         int n_threads) {
  const int n_features = static_cast<int>(n_bins.size());
  BinnedMatrix m;
  m.n_bins = n_bins;
  std::vector<int> zero_bin;
  for (const BinTable<T>& table : make_tables<T>(m, 0, n_features, thresholds)) zero_bin.push_back(table.code(T{0}));
  std::vector<std::size_t> begin(n_features + 1, 0);
  for (std::int64_t i = 0; i < x.start[x.n_rows]; ++i) begin[x.features[i] + 1] += x.values[i] != T{0};
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<Row> rows(begin.back());
  std::vector<std::size_t> next = begin;
  for (std::size_t row = 0; row < x.n_rows; ++row) {
    for (std::int64_t i = x.start[row]; i < x.start[row + 1]; ++i) {
      if (x.values[i] != T{0}) rows[next[x.features[i]]++] = static_cast<Row>(row);
    }
  }
  std::vector<FeaturePlace> places = Bundler(x.n_rows, n_bins, zero_bin).places([&](int feature) {
    return std::pair<const Row*, const Row*>(rows.data() + begin[feature], rows.data() + begin[feature + 1]);
  });
  lay_out(m, x.n_rows, n_bins, std::vector<int>(n_features, 0), std::move(places));
  bin_sparse(m, thresholds, x, n_threads);
  return m;
}

}  // namespace agbm
