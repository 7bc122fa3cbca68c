// Conversion of values to bin codes.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "bins/matrix.hpp"
#include "bins/thresholds.hpp"

namespace agbm {

// Finds the bin of a value with a lookup table.
//
// The range of the thresholds is divided into buckets, and the table has the number of thresholds in all lower buckets.
// Only the thresholds in the value's own bucket have to be compared with it. Any monotone map from values to buckets is
// correct, since a threshold in a lower bucket is below the value. There are two such maps; each feature uses the one
// that spreads its thresholds more evenly. Missing values have an additional bucket at the end, whose entry is their
// code.
template <class T>
class BinTable {
 public:
  // The thresholds are ascending; `missing` is the code of missing values.
  BinTable(const double* thresholds, std::size_t n, int missing) {
    std::fill(std::begin(thresholds_), std::end(thresholds_), std::numeric_limits<T>::infinity());
    std::transform(thresholds, thresholds + n, thresholds_, round_down);
    count_below_[kBuckets] = static_cast<std::uint8_t>(missing);
    if (n > 0) choose_buckets(n);
  }

  std::uint8_t code(T value) const {
    const std::int32_t bucket = by_bits_ ? bits_.bucket(value) : linear_.bucket(value);
    return static_cast<std::uint8_t>(count_on(count_below_[bucket], value, steps_));
  }

  // Codes of up to kRowsPerBlock values.
  void encode(const T* values, std::size_t n, std::uint8_t* codes) const {
    std::array<std::int32_t, kRowsPerBlock> buckets;
    by_bits_ ? find_buckets(bits_, values, n, buckets.data()) : find_buckets(linear_, values, n, buckets.data());
    static constexpr auto searches = make_searches(std::make_integer_sequence<int, 9>{});
    (this->*searches[steps_])(values, n, buckets.data(), codes);
  }

 private:
  static constexpr int kBucketBits = 11;
  static constexpr int kBuckets = 1 << kBucketBits;

  // Buckets of equal width.
  struct Linear {
    T low = 0;
    T scale = 0;

    std::int32_t bucket(T value) const {
      T position = (value - low) * scale;
      position = position > T{0} ? position : T{0};
      position = position < T{kBuckets - 1} ? position : T{kBuckets - 1};
      return static_cast<std::int32_t>(value == value ? position : T{kBuckets});
    }
  };

  // Buckets by the leading bits of a value, the same number per octave: for values that span many octaves.
  struct Bits {
    std::int32_t low = 0;
    std::int32_t high = 0;
    int shift = 0;

    static std::int32_t leading(T value) {
      const std::int32_t bits = static_cast<std::int32_t>(std::bit_cast<Key<T>>(value + T{0}) >> (8 * sizeof(T) - 32));
      return bits ^ (bits >> 31 & 0x7fffffff);
    }
    std::int32_t bucket(T value) const {
      const std::int32_t bits = std::clamp(leading(value), low, high);
      const std::uint32_t above_low = static_cast<std::uint32_t>(bits) - static_cast<std::uint32_t>(low);
      return value == value ? static_cast<std::int32_t>(above_low >> shift) : kBuckets;
    }
  };

  // The largest T that is not above the threshold. A value of type T is above both of them or above neither.
  static T round_down(double threshold) {
    const T rounded = static_cast<T>(threshold);
    return rounded > threshold ? std::nextafter(rounded, -std::numeric_limits<T>::infinity()) : rounded;
  }

  void choose_buckets(std::size_t n) {
    // Starts at the first finite threshold: a range that starts at -infinity cannot have buckets of equal width.
    const T low = *std::find_if(thresholds_, thresholds_ + n - 1, [](T t) { return std::isfinite(t); });
    const T high = thresholds_[n - 1];
    if (std::isfinite(high - low) && high > low) linear_ = {low, T{kBuckets - 1} / (high - low)};
    steps_ = count_below(linear_, n);
    if (steps_ <= 2) return;
    bits_ = {Bits::leading(low), Bits::leading(high), 0};
    const std::uint32_t range = static_cast<std::uint32_t>(bits_.high) - static_cast<std::uint32_t>(bits_.low);
    bits_.shift = std::max(0, static_cast<int>(std::bit_width(range)) - kBucketBits);
    const int steps = steps_;
    steps_ = count_below(bits_, n);
    by_bits_ = steps_ < steps;
    if (!by_bits_) steps_ = count_below(linear_, n);
  }

  // Fills the table. Returns the number of steps of a binary search in the bucket with the most thresholds.
  template <class Map>
  int count_below(const Map& map, std::size_t n) {
    int bucket = 0;
    std::size_t most = 0;
    for (std::size_t begin = 0, end; begin < n; begin = end) {
      const int next = map.bucket(thresholds_[begin]);
      for (end = begin + 1; end < n && map.bucket(thresholds_[end]) == next;) ++end;
      std::fill(count_below_ + bucket, count_below_ + next + 1, static_cast<std::uint8_t>(begin));
      bucket = next + 1;
      most = std::max(most, end - begin);
    }
    std::fill(count_below_ + bucket, count_below_ + kBuckets, static_cast<std::uint8_t>(n));
    return static_cast<int>(std::bit_width(most));
  }

  // Branch-free, so that it can be vectorised.
  template <class Map>
  static void find_buckets(const Map map, const T* values, std::size_t n, std::int32_t* out) {
    for (std::size_t i = 0; i < n; ++i) out[i] = map.bucket(values[i]);
  }

  // Goes from the number of thresholds below the value's bucket to the number below the value. Branch-free. It may read
  // thresholds after the bucket, which are above the value, and the infinity after the last one.
  unsigned count_on(unsigned code, T value, int steps) const {
    for (unsigned half = 1u << steps >> 1; half > 0; half /= 2) {
      code += half * AGBM_WITHOUT_BRANCH(thresholds_[code + half - 1] < value);
    }
    return code;
  }

  template <int Steps>
  void search(const T* values, std::size_t n, const std::int32_t* buckets, std::uint8_t* codes) const {
    for (std::size_t i = 0; i < n; ++i) {
      codes[i] = static_cast<std::uint8_t>(count_on(count_below_[buckets[i]], values[i], Steps));
    }
  }

  using Search = void (BinTable::*)(const T*, std::size_t, const std::int32_t*, std::uint8_t*) const;
  template <int... Steps>
  static constexpr std::array<Search, sizeof...(Steps)> make_searches(std::integer_sequence<int, Steps...>) {
    return {&BinTable::search<Steps>...};
  }

  T thresholds_[2 * (kMaxValueBins + 1)];
  std::uint8_t count_below_[kBuckets + 1] = {};
  Linear linear_;
  Bits bits_;
  bool by_bits_ = false;
  int steps_ = 0;
};

// One table per feature, for a range of features whose thresholds are concatenated.
template <class T>
std::vector<BinTable<T>> make_tables(const BinnedMatrix& m, int first_feature, int end_feature,
                                     const double* thresholds) {
  std::vector<BinTable<T>> tables;
  tables.reserve(end_feature - first_feature);
  for (int feature = first_feature; feature < end_feature; ++feature) {
    const int n = m.n_bins[feature] - 1;
    tables.emplace_back(thresholds, n, m.n_bins[feature]);
    thresholds += n;
  }
  return tables;
}

// Assigns columns to groups. Groups of neighbouring columns have nearly the same width, so that threads get equal work.
// Sparse groups come after all others.
inline void arrange(BinnedMatrix& m, ColumnPlan&& plan) {
  m.places = std::move(plan.places);
  m.n_whole = plan.n_whole;
  std::vector<int> n_codes(plan.n_columns, 0);  // per column
  for (int f = 0; f < m.n_features; ++f) {
    const FeaturePlace& place = m.places[f];
    if (place.used()) n_codes[place.column] = std::max(n_codes[place.column], place.n_codes(m.n_bins[f]));
  }
  m.cell_offset.assign(1, 0);
  m.groups.clear();
  m.group_of.clear();
  m.shared->sparse_groups.clear();
  const auto add_groups = [&](int first, int end, int most_columns, bool sparse) {
    const int n_groups = (end - first + most_columns - 1) / most_columns;
    for (int g = 0; g < n_groups; ++g) {
      const int width = (end - first + (n_groups - g) - 1) / (n_groups - g);
      const int most = *std::max_element(n_codes.begin() + first, n_codes.begin() + first + width);
      const int cells = most <= kNarrowCells ? kNarrowCells : kWideCells;
      const int number = sparse ? static_cast<int>(m.shared->sparse_groups.size()) : -1;
      m.group_of.insert(m.group_of.end(), width, static_cast<int>(m.groups.size()));
      m.groups.push_back({first, width, cells, m.n_rows * first, number});
      if (sparse) m.shared->sparse_groups.emplace_back();
      for (int j = 0; j < width; ++j) {
        m.cell_offset.push_back(m.cell_offset.back() + (sparse ? n_codes[first + j] : cells));
      }
      first += width;
    }
  };
  const int sparse_width =
      static_cast<int>(std::min<std::size_t>(kMaxSparseWidth, kMaxSparseEntries / std::max<std::size_t>(1, m.n_rows)));
  add_groups(0, plan.n_dense, kMaxGroupWidth, false);
  add_groups(plan.n_dense, plan.n_whole, sparse_width, true);
  add_groups(plan.n_whole, plan.n_columns, sparse_width, true);
}

// Allocates a matrix whose codes are all 0, in files of `folder`, or in memory if it is empty.
inline void lay_out(BinnedMatrix& m, std::size_t n_rows, const std::vector<int>& n_bins,
                    const std::vector<int>& n_categories, ColumnPlan&& plan, const std::string& folder = {}) {
  m.n_rows = n_rows;
  m.n_categories = n_categories;
  m.n_features = static_cast<int>(n_bins.size());
  m.n_bins = n_bins;
  m.shared->grouped = Codes(n_rows * plan.n_dense, folder);
  m.shared->columns = Codes(n_rows * plan.n_whole, folder);
  arrange(m, std::move(plan));
}

// A matrix with the codes of another one, and with columns of its own for some features, which have none in the other
// and other bins. Their codes are all 0, in files of `folder`, or in memory if it is empty.
inline BinnedMatrix with_own_features(const BinnedMatrix& other, const std::vector<int>& features,
                                      const std::vector<int>& n_bins, const std::vector<int>& n_categories,
                                      const std::string& folder) {
  BinnedMatrix m = other;
  const int n_own = m.n_own = static_cast<int>(features.size());
  m.own = std::make_shared<CodeStore>();
  m.own->grouped = Codes(m.n_rows * features.size(), folder);
  m.own->columns = Codes(m.n_rows * features.size(), folder);
  for (FeaturePlace& place : m.places) place.column += place.used() ? n_own : 0;
  m.groups.clear();
  m.group_of.clear();
  m.cell_offset.assign(1, 0);
  const auto add_group = [&](ColumnGroup group, const auto& cells_of) {
    m.group_of.insert(m.group_of.end(), group.width, static_cast<int>(m.groups.size()));
    for (int j = 0; j < group.width; ++j) m.cell_offset.push_back(m.cell_offset.back() + cells_of(j));
    m.groups.push_back(group);
  };
  for (int first = 0; first < n_own; first += kMaxGroupWidth) {
    const int width = std::min(kMaxGroupWidth, n_own - first);
    add_group({first, width, kWideCells, m.n_rows * first, -1, true}, [](int) { return kWideCells; });
  }
  for (int i = 0; i < n_own; ++i) {
    m.places[features[i]] = {i};
    m.n_bins[features[i]] = n_bins[i];
    m.n_categories[features[i]] = n_categories[i];
  }
  for (const ColumnGroup& group : other.groups) {
    ColumnGroup shifted = group;
    shifted.first_column += n_own;
    const std::size_t* offset = other.cell_offset.data() + group.first_column;
    add_group(shifted, [&](int j) { return offset[j + 1] - offset[j]; });
  }
  m.n_whole += n_own;
  return m;
}

// Copies the codes of a range of rows from a column to its group.
inline void copy_to_group(BinnedMatrix& m, int column, std::size_t begin, std::size_t end) {
  const ColumnGroup& group = m.groups[m.group_of[column]];
  const std::uint8_t* from = m.column(column);
  std::uint8_t* to = m.codes_of(group) + (column - group.first_column);
  for (std::size_t row = begin; row < end; ++row) to[row * group.width] = from[row];
}

// Copies features from another matrix, in which they have the same bins: row i becomes a copy of row rows[i].
inline void take_rows(BinnedMatrix& m, const BinnedMatrix& from, const std::vector<int>& features, const Row* rows,
                      int n_threads) {
  parallel_rows(m.n_rows, threads_for(m.n_rows * features.size(), n_threads), [&](std::size_t begin, std::size_t end) {
    for (const int feature : features) {
      const int column = m.places[feature].column;
      const std::uint8_t* codes = from.column(from.places[feature].column);
      std::uint8_t* to = m.column(column);
      for (std::size_t row = begin; row < end; ++row) to[row] = codes[rows[row]];
      copy_to_group(m, column, begin, end);
    }
  });
}

// Writes the codes of a column for the given rows to its group.
inline void scatter_to_group(BinnedMatrix& m, int column, const std::uint8_t* codes, const Row* rows, std::size_t n) {
  const ColumnGroup& group = m.groups[m.group_of[column]];
  std::uint8_t* to = m.codes_of(group) + (column - group.first_column);
  for (std::size_t i = 0; i < n; ++i) to[static_cast<std::size_t>(rows[i]) * group.width] = codes[i];
}

// Number of features whose tables exist at a time: enough to read whole cache lines, few enough for the L2 cache.
constexpr int kTables = 64;

// Encodes the n rows of x, whose columns are the features from first_feature on, which must have their own columns. Row
// i of x is row rows[i] of the matrix, or row i if rows is null. A matrix can be filled some columns or some rows at a
// time, so that its values need not be in memory all at once.
template <class T>
void bin_columns(BinnedMatrix& m, int first_feature, const double* thresholds, const Dense<T>& x, std::size_t n,
                 const Row* rows, int n_threads) {
  n_threads = threads_for(n * x.n_columns, n_threads);
  const int end_feature = first_feature + static_cast<int>(x.n_columns);
  for (int first = first_feature; first < end_feature; first += kTables) {
    const int end = std::min(end_feature, first + kTables);
    const std::vector<BinTable<T>> tables = make_tables<T>(m, first, end, thresholds);
    std::vector<std::uint8_t> codes(rows == nullptr ? 0 : n * (end - first));
    parallel_for((n + kRowsPerBlock - 1) / kRowsPerBlock, n_threads, [&](std::size_t block) {
      const std::size_t begin = block * kRowsPerBlock, n_here = std::min(n - begin, kRowsPerBlock);
      std::array<T, kRowsPerBlock> values;
      for (int feature = first; feature < end; ++feature) {
        const int column = m.places[feature].column;
        x.copy_column(feature - first_feature, begin, n_here, values.data());
        if (rows == nullptr) {
          tables[feature - first].encode(values.data(), n_here, m.column(column) + begin);
          copy_to_group(m, column, begin, begin + n_here);
        } else {
          std::uint8_t* to = codes.data() + n * (feature - first) + begin;
          tables[feature - first].encode(values.data(), n_here, to);
          scatter_to_group(m, column, to, rows + begin, n_here);
        }
      }
    });
    if (rows != nullptr) {  // column by column, so that the writes of one task stay in few pages
      parallel_for(end - first, n_threads, [&](std::size_t i) {
        std::uint8_t* to = m.column(m.places[first + i].column);
        for (std::size_t row = 0; row < n; ++row) to[rows[row]] = codes[n * i + row];
      });
    }
    for (int feature = first; feature < end; ++feature) thresholds += m.n_bins[feature] - 1;
  }
}

}  // namespace agbm
