// Computes the thresholds between the bins of a feature, at most 254, from its values.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "bins/matrix.hpp"

namespace agbm {

template <class T>
using Key = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

template <class T>
constexpr Key<T> kMissingKey = std::numeric_limits<Key<T>>::max();

// Maps values to integers in the same order. 0 and -0 have the same key, missing values the largest one.
template <class T>
Key<T> to_key(T value) {
  constexpr Key<T> sign = Key<T>{1} << (8 * sizeof(T) - 1);
  const Key<T> bits = std::bit_cast<Key<T>>(value + T{0});  // -0 + 0 is 0
  const Key<T> key = bits & sign ? ~bits : bits | sign;
  return value == value ? key : kMissingKey<T>;
}

template <class T>
double from_key(Key<T> key) {
  constexpr Key<T> sign = Key<T>{1} << (8 * sizeof(T) - 1);
  return static_cast<double>(std::bit_cast<T>(key & sign ? key ^ sign : ~key));
}

// Sorts by the leading 33 bits in three stable passes of 11 bits each, and keys that agree in these by comparison. For
// 64 bits this is half the passes of a full radix sort, and values rarely agree in 21 bits of the mantissa without
// being equal.
template <class K>
void sort_keys(K* keys, K* spare, std::size_t n) {
  constexpr int kDigitBits = 11, kPasses = 3;
  constexpr int kBits = 8 * sizeof(K), kIgnored = std::max(0, kBits - kPasses * kDigitBits);
  constexpr K kLargestDigit = (1 << kDigitBits) - 1;
  if (std::is_sorted(keys, keys + n)) return;  // in sparse matrices, all values of a column are often equal
  if (n < 1024) return std::sort(keys, keys + n);
  std::array<std::array<std::uint32_t, kLargestDigit + 1>, kPasses> counts{};
  const auto digit = [](K key, int pass) { return key >> (kIgnored + pass * kDigitBits) & kLargestDigit; };
  for (std::size_t i = 0; i < n; ++i) {
    for (int pass = 0; pass < kPasses; ++pass) ++counts[pass][digit(keys[i], pass)];
  }
  K *from = keys, *to = spare;
  for (int pass = 0; pass < kPasses; ++pass) {
    auto& place = counts[pass];
    if (place[digit(keys[0], pass)] == n) continue;
    std::uint32_t before = 0;
    for (std::uint32_t& p : place) before += std::exchange(p, before);
    for (std::size_t i = 0; i < n; ++i) to[place[digit(from[i], pass)]++] = from[i];
    std::swap(from, to);
  }
  if (from != keys) std::copy_n(from, n, keys);
  if (kIgnored == 0) return;
  for (std::size_t begin = 0, end; begin < n; begin = end) {
    bool equal = true;
    for (end = begin + 1; end < n && keys[end] >> kIgnored == keys[begin] >> kIgnored; ++end) {
      equal = equal && keys[end] == keys[begin];
    }
    if (!equal) std::sort(keys + begin, keys + end);
  }
}

// Distinct values in ascending order, and the number of times each occurs.
template <class K>
struct Distinct {
  K* keys;
  K* counts;
  std::size_t n;

  // Overwrites the array of sorted keys, and a spare array of the same size.
  static Distinct of_sorted(K* sorted, K* spare, std::size_t n_keys) {
    Distinct found{sorted, spare, 0};
    for (std::size_t begin = 0, end; begin < n_keys; begin = end) {
      const K key = sorted[begin];
      for (end = begin + 1; end < n_keys && sorted[end] == key;) ++end;
      found.keys[found.n] = key;
      found.counts[found.n++] = static_cast<K>(end - begin);
    }
    return found;
  }

  // Adds `count` occurrences of a value. The arrays must have room for one more entry.
  void add(K key, std::size_t count) {
    const std::size_t at = std::lower_bound(keys, keys + n, key) - keys;
    if (at == n || keys[at] != key) {
      std::copy_backward(keys + at, keys + n, keys + n + 1);
      std::copy_backward(counts + at, counts + n, counts + n + 1);
      keys[at] = key;
      counts[at] = 0;
      ++n;
    }
    counts[at] += static_cast<K>(count);
  }
};

// Ascending indices of values, with a maximum number.
struct Places {
  std::array<std::size_t, 3 * kMaxValueBins> at;
  std::size_t n = 0;

  void add(std::size_t place) { at[n++] = place; }
  const std::size_t* begin() const { return at.data(); }
  const std::size_t* end() const { return at.data() + n; }
};

// Values that are frequent enough to fill a bin, each of which gets its own bin, and the number of cuts left for the
// others.
struct Frequent {
  Places values;
  int free_cuts;
};

// Number of runs of other values before, between and after the frequent ones.
inline int runs_between(const Places& frequent, std::size_t n) {
  std::size_t next = 0;
  int runs = 0;
  for (std::size_t place : frequent) {
    runs += place > next;
    next = place + 1;
  }
  return runs + (next < n);
}

template <class K>
Frequent find_frequent(const K* counts, std::size_t n, int max_bins) {
  std::uint64_t rest = 0;
  for (std::size_t i = 0; i < n; ++i) rest += counts[i];
  Frequent found{{}, max_bins - 1};
  for (;;) {
    // There cannot be more new values than bins left, since each accounts for at least rest / bins_left rows.
    const std::uint64_t bins_left = max_bins - found.values.n;
    const K enough = static_cast<K>((rest + bins_left - 1) / bins_left);
    Frequent then;
    const std::size_t* known = found.values.begin();
    for (std::size_t i = 0; i < n; ++i) {
      if (known != found.values.end() && *known == i) {
        then.values.add(i);
        ++known;
      } else if (counts[i] >= enough) {
        then.values.add(i);
        rest -= counts[i];
      }
    }
    then.free_cuts = max_bins - static_cast<int>(then.values.n) - runs_between(then.values, n);
    if (then.free_cuts < 0 || then.values.n == found.values.n) return found;
    found = then;  // without these, other values may be frequent among the rest
  }
}

// The values after which a new bin starts, if there are more values than bins. Replaces the counts by running sums.
template <class K>
Places quantile_cuts(K* counts, std::size_t n, int max_bins) {
  const Frequent frequent = find_frequent(counts, n, max_bins);
  Places cuts;
  for (std::size_t place : frequent.values) {
    if (place > 0) cuts.add(place - 1);
    if (place < n - 1) cuts.add(place);
    counts[place] = 0;
  }
  K sum = 0;
  for (std::size_t i = 0; i < n; ++i) counts[i] = sum += counts[i];
  const K* others = counts;
  for (int j = 1; j <= frequent.free_cuts; ++j) {
    // The cut nearest to each target. There is no cut after the last value.
    const double target = static_cast<double>(j) * static_cast<double>(sum) / (frequent.free_cuts + 1);
    const std::size_t reached =
        std::lower_bound(others, others + n - 1, target, [](K a, double b) { return static_cast<double>(a) < b; }) -
        others;
    const std::size_t after = std::clamp<std::size_t>(reached, 1, n - 2);
    const bool before_is_nearer =
        target - static_cast<double>(others[after - 1]) < static_cast<double>(others[after]) - target;
    cuts.add(before_is_nearer ? after - 1 : after);
  }
  std::sort(cuts.at.begin(), cuts.at.begin() + cuts.n);
  cuts.n = std::unique(cuts.at.begin(), cuts.at.begin() + cuts.n) - cuts.at.begin();
  return cuts;
}

// The midpoint t with low <= t < high, even if low + high overflows or there is no number in between.
inline double between(double low, double high) {
  const double middle = low / 2 + high / 2;
  return middle >= low && middle < high ? middle : low;
}

// Writes the thresholds of one feature in ascending order and returns their number. They are between neighbouring
// distinct values; if there are too many of these, at quantiles only.
template <class T>
std::size_t find_thresholds(const Distinct<Key<T>>& values, int max_bins, double* out) {
  const auto behind = [&](std::size_t i) {
    return between(from_key<T>(values.keys[i]), from_key<T>(values.keys[i + 1]));
  };
  if (values.n <= static_cast<std::size_t>(max_bins)) {
    for (std::size_t i = 0; i + 1 < values.n; ++i) out[i] = behind(i);
    return values.n == 0 ? 0 : values.n - 1;
  }
  const Places cuts = quantile_cuts(values.counts, values.n, max_bins);
  std::transform(cuts.begin(), cuts.end(), out, behind);
  return cuts.n;
}

// Counts the values of a column that has few distinct ones, such as an indicator, which takes less time than sorting.
template <class K>
class FewValues {
 public:
  // Whether the values are few. If they are many, the first block usually shows it.
  bool count(const K* keys, std::size_t n) {
    constexpr std::size_t block = 64;
    for (std::size_t begin = 0; begin < n; begin += block) {
      const K *next = keys + begin, *end = keys + std::min(n, begin + block);
      std::size_t rest = end - next;
      for (std::size_t i = 0; i < n_; ++i) rest -= count(values_[i], next, end);
      while (rest > 0) {
        if (n_ == kMost) return false;
        next = std::find_if(next, end, [&](K key) { return !has(key); });
        values_[n_] = {*next, 0};
        rest -= count(values_[n_++], next, end);
      }
    }
    for (Counted* next = values_.data(); next < values_.data() + n_; ++next) {
      std::rotate(std::upper_bound(values_.data(), next, *next), next, next + 1);
    }
    return true;
  }

  Distinct<K> write(K* keys, K* counts) const {
    for (std::size_t i = 0; i < n_; ++i) std::tie(keys[i], counts[i]) = values_[i];
    return {keys, counts, n_ - (n_ > 0 && keys[n_ - 1] == std::numeric_limits<K>::max() ? 1 : 0)};
  }

 private:
  static constexpr std::size_t kMost = 4;
  using Counted = std::pair<K, K>;  // key, count

  bool has(K key) const {
    return std::any_of(values_.begin(), values_.begin() + n_, [&](const Counted& value) { return value.first == key; });
  }
  static std::size_t count(Counted& value, const K* begin, const K* end) {
    const std::size_t found = std::count(begin, end, value.first);
    value.second += static_cast<K>(found);
    return found;
  }

  std::array<Counted, kMost> values_;
  std::size_t n_ = 0;
};

// The distinct keys without that of missing values. Overwrites both arrays.
template <class K>
Distinct<K> sort_distinct(K* keys, K* spare, std::size_t n) {
  FewValues<K> few;
  if (few.count(keys, n)) return few.write(keys, spare);
  sort_keys(keys, spare, n);
  const K missing = std::numeric_limits<K>::max();
  return Distinct<K>::of_sorted(keys, spare,
                                static_cast<std::size_t>(std::lower_bound(keys, keys + n, missing) - keys));
}

// Concatenated thresholds of several features, and their number per feature.
struct Thresholds {
  std::vector<double> values;
  std::vector<int> counts;
};

// Memory for the thresholds of several features, allocated before their numbers are known, so that tasks need not
// allocate.
class ThresholdRoom {
 public:
  ThresholdRoom(std::size_t n_features, std::size_t n_rows, int max_bins)
      : most_(std::min<std::size_t>(max_bins, n_rows)), values_(new double[n_features * most_]), counts_(n_features) {}

  template <class T>
  void fill(std::size_t feature, const Distinct<Key<T>>& values, int max_bins) {
    counts_[feature] = static_cast<int>(find_thresholds<T>(values, max_bins, values_.get() + feature * most_));
  }

  void append_to(Thresholds& all, std::size_t n_features) const {
    for (std::size_t f = 0; f < n_features; ++f) {
      const double* first = values_.get() + f * most_;
      all.values.insert(all.values.end(), first, first + counts_[f]);
      all.counts.push_back(counts_[f]);
    }
  }

 private:
  std::size_t most_;
  std::unique_ptr<double[]> values_;
  std::vector<int> counts_;
};

// Bytes of keys that are sorted at a time (at least 32 per row). Small, so that only a small part of X is ever copied.
constexpr std::size_t kSortedBytes = std::size_t{1} << 22;

// Columns of a sparse matrix per task: most have few values.
constexpr std::size_t kColumnsPerTask = 16;

// Number of rows that are read column by column, small enough that their cache lines stay in the L1 cache.
constexpr std::size_t kRowsPerBlock = 256;

// A dense matrix: the value of (row, column) is at values[row * row_stride + column * column_stride].
template <class T>
struct Dense {
  const T* values;
  std::size_t n_columns;
  std::ptrdiff_t row_stride;
  std::ptrdiff_t column_stride;

  const T& at(std::size_t row, std::size_t column) const {
    return values[static_cast<std::ptrdiff_t>(row) * row_stride + static_cast<std::ptrdiff_t>(column) * column_stride];
  }
  void copy_column(std::size_t column, std::size_t first_row, std::size_t n, T* out) const {
    const T* from = &at(first_row, column);
    for (std::size_t i = 0; i < n; ++i, from += row_stride) out[i] = *from;
  }
};

// Thresholds of a dense matrix, from n sampled rows; row_of(i) is the i-th of them.
template <class T, class RowOf>
Thresholds dense_thresholds(const Dense<T>& x, std::size_t n, const RowOf& row_of, int max_bins, int n_threads) {
  n_threads = threads_for(n * x.n_columns, n_threads);
  const std::size_t row_bytes = std::max<std::size_t>(32, kSortedBytes / std::max<std::size_t>(1, n));
  const std::size_t at_once = std::min(x.n_columns, row_bytes / sizeof(T));
  const auto keys = large_array<Key<T>>(at_once * n), spare = large_array<Key<T>>(at_once * n);
  ThresholdRoom room(at_once, n, max_bins);
  Thresholds found;
  found.values.reserve(x.n_columns * std::min<std::size_t>(max_bins, n));  // avoids copies
  for (std::size_t first = 0; first < x.n_columns; first += at_once) {
    const std::size_t width = std::min(at_once, x.n_columns - first);
    const std::size_t blocks = (n + kRowsPerBlock - 1) / kRowsPerBlock;
    parallel_for(blocks, n_threads, [&](std::size_t block) {
      const std::size_t begin = block * kRowsPerBlock, end = std::min(n, begin + kRowsPerBlock);
      for (std::size_t c = 0; c < width; ++c) {
        for (std::size_t i = begin; i < end; ++i) keys[c * n + i] = to_key(x.at(row_of(i), first + c));
      }
    });
    parallel_for(width, n_threads, [&](std::size_t c) {
      room.fill<T>(c, sort_distinct(keys.get() + c * n, spare.get() + c * n, n), max_bins);
    });
    room.append_to(found, width);
  }
  return found;
}

// The columns of a sparse matrix, one after the other: values of column c are at [start[c], start[c + 1]), others are
// 0.
template <class T>
struct SparseValues {
  const T* values;
  const std::int64_t* start;
  std::size_t n_columns;
  std::size_t n_rows;

  std::size_t size(std::size_t c) const { return static_cast<std::size_t>(start[c + 1] - start[c]); }
  // Number of stored values in a range of columns, plus one per column for zero.
  std::size_t size_with_zeros(std::size_t first, std::size_t end) const {
    return static_cast<std::size_t>(start[end] - start[first]) + (end - first);
  }
};

// Thresholds of a sparse matrix, some columns at a time, since memory for millions of columns at once would be large.
template <class T>
class SparseThresholds {
 public:
  SparseThresholds(const SparseValues<T>& x, int max_bins, int n_threads)
      : x_(x), max_bins_(max_bins), n_threads_(n_threads) {}

  Thresholds find() {
    Thresholds found;
    found.counts.resize(x_.n_columns);
    std::size_t most = 0;
    for (std::size_t c = 0; c < x_.n_columns; ++c) most += most_thresholds(c);
    found.values.reserve(most);  // avoids copies; pages that are not used take no memory
    for (std::size_t first = 0, end; first < x_.n_columns; first = end) {
      end = make_room(first);
      sort_columns(first, end, found.counts.data());
      for (std::size_t c = first; c < end; ++c) {
        const double* thresholds = room_.data() + room_of_[c - first];
        found.values.insert(found.values.end(), thresholds, thresholds + found.counts[c]);
      }
    }
    return found;
  }

 private:
  // Including zero, a column has one more distinct value than it stores.
  std::size_t most_thresholds(std::size_t c) const { return std::min<std::size_t>(max_bins_, x_.size(c)); }

  // Allocates memory for as many columns from `first` on as are processed together. Returns the end of their range.
  std::size_t make_room(std::size_t first) {
    std::size_t end = first;
    room_of_.assign(1, 0);
    do {
      room_of_.push_back(room_of_.back() + most_thresholds(end));
      ++end;
    } while (end < x_.n_columns && x_.size_with_zeros(first, end + 1) <= kSortedBytes / sizeof(T));
    const std::size_t n_keys = std::max(keys_.size(), x_.size_with_zeros(first, end));
    keys_.resize(n_keys);
    spare_.resize(n_keys);
    room_.resize(std::max(room_.size(), room_of_.back()));
    return end;
  }

  void sort_columns(std::size_t first, std::size_t end, int* counts) {
    const std::size_t n_tasks = (end - first + kColumnsPerTask - 1) / kColumnsPerTask;
    parallel_for(n_tasks, threads_for(x_.size_with_zeros(first, end), n_threads_), [&](std::size_t task) {
      const std::size_t begin = first + task * kColumnsPerTask;
      for (std::size_t c = begin; c < std::min(end, begin + kColumnsPerTask); ++c) {
        Key<T>* keys = keys_.data() + x_.size_with_zeros(first, c);
        std::transform(x_.values + x_.start[c], x_.values + x_.start[c + 1], keys, to_key<T>);
        Distinct<Key<T>> distinct = sort_distinct(keys, spare_.data() + (keys - keys_.data()), x_.size(c));
        if (x_.size(c) < x_.n_rows) distinct.add(to_key(T{0}), x_.n_rows - x_.size(c));
        counts[c] = static_cast<int>(find_thresholds<T>(distinct, max_bins_, room_.data() + room_of_[c - first]));
      }
    });
  }

  const SparseValues<T>& x_;
  int max_bins_;
  int n_threads_;
  std::vector<Key<T>> keys_, spare_;
  std::vector<double> room_;
  std::vector<std::size_t> room_of_;  // start of each column in room_
};

}  // namespace agbm
