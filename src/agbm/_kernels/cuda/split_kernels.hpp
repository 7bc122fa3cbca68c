// Kernels that find the best splits of nodes from their histograms, by the rules of split_rules.hpp.
//
// A block scans one feature of two siblings; a thread has one place where the feature may be cut. Of the cuts with the
// largest gain the first one counts, in the order in which the CPU would try them.
#pragma once

#include "cuda/block.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/portable.hpp"
#include "formulas/split_rules.hpp"

namespace agbm {

constexpr double kNoGain = -1.0;  // of no split; gains of splits are positive

// The columns of the binned rows, one per feature.
struct DeviceColumns {
  const int *first_cell, *n_bins, *n_categories, *monotone;  // monotone: null without constraints
};

struct ScanRules {
  ChannelRules channels;
  Int64 min_samples_leaf, min_category_rows;
};

// A candidate: its sums, and the bounds of its values (null: none).
struct NodeFacts {
  const Int64* total;
  Bounds bounds;
};

// The sums to the left of a place, and to the right of it.
struct LeftSums {
  const Int64* prefix;  // (channel, place)
  const Int64* base;    // what goes left before all places; null: nothing
  AGBM_INLINE Int64 operator[](int c) const { return prefix[c * kPlaces] + (base == nullptr ? 0 : base[c]); }
};
struct RightSums {
  const Int64* total;
  const LeftSums& left;
  AGBM_INLINE Int64 operator[](int c) const { return total[c] - left[c]; }
};

// A cut: the order of categories, whether the missing values go left, and the place, as one number in the order of
// trial.
struct Cut {
  double gain;
  int number;

  AGBM_INLINE bool better_than(const Cut& other) const {
    return gain > other.gain || (gain == other.gain && number < other.number);
  }
};

// The best cut of all threads, in all of them.
AGBM_INLINE inline Cut best_of_block(Cut cut) {
  __shared__ Cut of_warps[kWarp];
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Cut other = {__shfl_down_sync(kWholeWarp, cut.gain, step), __shfl_down_sync(kWholeWarp, cut.number, step)};
    if (other.better_than(cut)) cut = other;
  }
  if (lane() == 0) of_warps[warp()] = cut;
  __syncthreads();
  Cut best = of_warps[0];
  for (int w = 1; w < n_warps(); ++w) {
    if (of_warps[w].better_than(best)) best = of_warps[w];
  }
  __syncthreads();
  return best;
}

template <int Residuals, bool HasHessian>
class BlockScan {
 public:
  // cells: of the feature, (cell, channel); scratch: (channel, place) of the block.
  __device__ BlockScan(const ScanRules& rules, const DeviceColumns& columns, int feature, const Int64* cells,
                       const NodeFacts& node, Int64* scratch)
      : read_(rules.channels),
        rules_(rules),
        cells_(cells),
        node_(node),
        prefix_(scratch),
        n_bins_(columns.n_bins[feature]),
        n_categories_(columns.n_categories[feature]),
        direction_(columns.monotone == nullptr ? 0 : columns.monotone[feature]) {
    parent_score_ = bounded() ? read_.bounded_score(node.total, node.bounds) : read_.score(node.total);
    n_total_ = read_.count(node.total);
  }

  // Writes the best split of the feature as a record, without the feature.
  __device__ void write_best(SplitRecord* record) {
    if (threadIdx.x == 0) record->gain = kNoGain;
    __syncthreads();
    n_categories_ > 0 ? scan_categories(record) : scan_bins(record);
  }

 private:
  AGBM_INLINE bool bounded() const { return node_.bounds.of != nullptr; }
  AGBM_INLINE const Int64* cell(int code) const { return cells_ + static_cast<long long>(code) * read_.n_channels(); }
  AGBM_INLINE int place() const { return static_cast<int>(threadIdx.x); }

  // Sums of the cells of the codes up to each place. code: that of this thread's place; -1: none.
  __device__ void set_prefix(int code) {
    for (int c = 0; c < read_.n_channels(); ++c) {
      prefix_[c * kPlaces + place()] = block_prefix(code < 0 ? 0 : cell(code)[c]);
    }
    __syncthreads();
  }

  // Values at or below a bin go left; see FeatureScan.
  __device__ void scan_bins(SplitRecord* record) {
    const bool has_missing = read_.count(cell(n_bins_)) > 0;
    const int code = place() < n_bins_ ? place() : -1;
    set_prefix(code);
    const Cut best = best_of_block(best_here(code, has_missing ? n_bins_ : n_bins_ - 1, n_bins_ - 1,
                                             has_missing ? cell(n_bins_) : nullptr, false));
    if (!(best.gain > 0.0) || best.number % kPlaces != place()) return;
    const bool second = best.number >= kPlaces;
    const LeftSums left{prefix_ + place(), second ? cell(n_bins_) : nullptr};
    const Int64 n_left = read_.count(left);
    const int bin = named(n_left, second);
    const bool missing_left = has_missing ? second : 2 * n_left >= n_total_;
    record->gain = best.gain;
    record->bin = bin;
    record->missing_left = missing_left;
    record->left = CodeSet::up_to(bin);
    if (missing_left) record->left.add(n_bins_);
  }

  // If only missing values remain for the right side, every value goes left, including values that the node has not
  // seen.
  AGBM_INLINE int named(Int64 n_left, bool missing_left) const {
    return !missing_left && n_total_ - n_left == read_.count(cell(n_bins_)) ? n_bins_ - 1 : place();
  }

  // Categories in the order of their mean residual; see FeatureScan.
  __device__ void scan_categories(SplitRecord* record) {
    __shared__ double mean[kPlaces];
    __shared__ int order[kPlaces];
    const bool ranked = place() < n_bins_ && read_.count(cell(place())) >= rules_.min_category_rows;
    const int n_ranked = __syncthreads_count(ranked);
    int residuals[kCategoryOrders];
    const int n_orders = order_residuals(residuals);
    Int64* undecided = prefix_ + read_.n_channels() * kPlaces;
    Cut best{kNoGain, 0};
    for (int o = 0; o < n_orders; ++o) {
      mean[place()] = ranked ? read_.rank_of(cell(place()), node_.total, residuals[o]) : 0.0;
      order[place()] = -1;
      __syncthreads();
      int rank = 0;
      for (int other = 0; other < n_bins_; ++other) {
        const bool earlier = mean[other] < mean[place()] || (mean[other] == mean[place()] && other < place());
        if (earlier && read_.count(cell(other)) >= rules_.min_category_rows) ++rank;
      }
      if (ranked) order[rank] = place();
      __syncthreads();
      set_prefix(order[place()]);
      for (int c = place(); c < read_.n_channels(); c += kPlaces) {
        undecided[c] = node_.total[c] - prefix_[c * kPlaces + kPlaces - 1];
      }
      __syncthreads();
      by_chance_ = gain_by_chance(n_ranked, n_categories_, n_bins_, rules_.channels.noise[residuals[o]]);
      const bool has_undecided = read_.count(undecided) > 0;
      const Cut cut =
          best_of_block(best_here(order[place()], n_ranked, n_ranked, has_undecided ? undecided : nullptr, true));
      if (cut.gain > 0.0 && cut.gain > best.gain) {
        best = cut;
        write_categories(record, order, n_ranked, cut, has_undecided, undecided);
      }
      __syncthreads();
    }
  }

  __device__ void write_categories(SplitRecord* record, const int* order, int n_ranked, const Cut& cut,
                                   bool has_undecided, const Int64* undecided) const {
    const bool second = cut.number >= kPlaces;
    const int last = cut.number % kPlaces;
    const LeftSums left{prefix_ + last, second ? undecided : nullptr};
    const bool missing_left = has_undecided ? second : 2 * read_.count(left) >= n_total_;
    if (place() == 0) {
      record->gain = cut.gain;
      record->bin = 0;
      record->missing_left = missing_left;
    }
    if (place() >= 4) return;
    UInt64 word = missing_left ? ~UInt64{0} : 0;  // everything but the ranked categories that go right
    for (int i = 0; i < n_ranked; ++i) {
      if (order[i] / 64 == place() && (i <= last) != missing_left) word ^= UInt64{1} << order[i] % 64;
    }
    record->left.words[place()] = word;
  }

  // The residuals that differ most between categories, as many as orders are tried. Returns their number.
  __device__ int order_residuals(int* residuals) {
    const int n = read_.n_residuals();
    if (n <= kCategoryOrders) {
      for (int k = 0; k < n; ++k) residuals[k] = k;
      return n;
    }
    double* spread = reinterpret_cast<double*>(prefix_);
    for (int k = place(); k < n; k += kPlaces) {
      spread[k] = 0.0;
      for (int code = 0; code < n_bins_; ++code) {
        if (read_.count(cell(code)) < rules_.min_category_rows) continue;
        spread[k] += read_.spread_of(cell(code), node_.total, k);
      }
    }
    __syncthreads();
    for (int o = 0; o < kCategoryOrders; ++o) {
      int best = -1;
      for (int k = 0; k < n; ++k) {
        bool taken = false;
        for (int before = 0; before < o; ++before) taken |= residuals[before] == k;
        if (!taken && (best < 0 || spread[k] > spread[best])) best = k;
      }
      residuals[o] = best;
    }
    __syncthreads();
    return kCategoryOrders;
  }

  // The better one of the two cuts at this thread's place: without `base` on the left side, if the place is before
  // `end`, and with it, if it is before `end_with_base`; null: nothing may go left before all places.
  __device__ Cut best_here(int code, int end, int end_with_base, const Int64* base, bool categories) const {
    Cut best{kNoGain, 0};
    // One loop instead of two calls: the formulas take long to compile.
    AGBM_NO_UNROLL
    for (int second = 0; second < (base == nullptr ? 1 : 2); ++second) {
      const bool with_base = second == 1;
      consider(best, code, with_base ? end_with_base : end, with_base ? base : nullptr, second * kPlaces, categories);
    }
    return best;
  }

  // Improves this thread's best cut by that at its place, if there is one before `end`.
  __device__ void consider(Cut& best, int code, int end, const Int64* base, int first_number, bool categories) const {
    if (code < 0 || place() >= end || read_.count(cell(code)) == 0) return;
    const LeftSums left{prefix_ + place(), base};
    const RightSums right{node_.total, left};
    const Int64 n_left = read_.count(left);
    if (n_left < rules_.min_samples_leaf || n_total_ - n_left < rules_.min_samples_leaf) return;
    if (!read_.enough_hessian(left) || !read_.enough_hessian(right)) return;
    double children = 0.0;
    if (bounded()) {
      const bool has_order = !categories && !parts_missing_only(named(n_left, base != nullptr), n_bins_);
      if (has_order && !read_.ordered(left, right, direction_, node_.bounds)) return;
      children = read_.bounded_score(left, node_.bounds) + read_.bounded_score(right, node_.bounds);
    } else {
      children = read_.score(left) + read_.score(right);
    }
    const Cut cut{children - parent_score_ - by_chance_, first_number + place()};
    if (more_than_rounding(cut.gain, children) && cut.better_than(best)) best = cut;
  }

  const SumReader<Residuals, HasHessian> read_;
  const ScanRules& rules_;
  const Int64* cells_;
  const NodeFacts& node_;
  Int64* prefix_;
  const int n_bins_, n_categories_, direction_;
  double parent_score_ = 0.0, by_chance_ = 0.0;
  Int64 n_total_ = 0;
};

// What the candidates of a search may do; see agbm_scan.
struct Candidates {
  const Int64* totals;
  const double* bounds;  // (candidate, residual, 2); null: none
  const UInt64* masks;   // (candidate, word): the features; null: all
  long long n_words;

  AGBM_INLINE bool may_use(long long candidate, int feature) const {
    return masks == nullptr || (masks[candidate * n_words + feature / 64] >> feature % 64 & 1);
  }
  AGBM_INLINE NodeFacts facts(long long candidate, const ChannelRules& rules) const {
    return {totals + candidate * rules.n, {bounds == nullptr ? nullptr : bounds + candidate * 2 * rules.n_residuals}};
  }
};

// Both children of a family, one feature: subtracts the histogram of the smaller from the parent's, which becomes that
// of the larger, and scans both.
template <int Residuals, bool HasHessian>
__device__ void scan_family(const Family& family, int feature, int n_features, const Candidates& candidates,
                            const ScanRules& rules, const DeviceColumns& columns, const HistogramSlots& histograms,
                            Int64* scratch, SplitRecord* records) {
  const int n_numbers = (columns.first_cell[feature + 1] - columns.first_cell[feature]) * rules.channels.n;
  const int first_cell = columns.first_cell[feature];
  Int64* large = histograms.cells(family.large_slot, first_cell);
  const Int64* small = family.small_slot < 0 ? nullptr : histograms.cells(family.small_slot, first_cell);
  if (small != nullptr) {
    for (int i = threadIdx.x; i < n_numbers; i += blockDim.x) large[i] -= small[i];
    __syncthreads();
  }
  for (int child = 0; child < 2; ++child) {
    const Int64 candidate = family.candidates[child];
    if (candidate < 0) continue;
    SplitRecord* record = records + candidate * n_features + feature;
    if (!candidates.may_use(candidate, feature)) {
      if (threadIdx.x == 0) record->gain = kNoGain;
      continue;
    }
    const NodeFacts facts = candidates.facts(candidate, rules.channels);
    BlockScan<Residuals, HasHessian> scan(rules, columns, feature, child == 0 ? large : small, facts, scratch);
    scan.write_best(record);
    __syncthreads();
  }
}

}  // namespace agbm

// The best split of each feature of some candidates. numbers: the least sum of hessians of a leaf, and l1, then l2 of each
// hessian (at least one), unit of each channel and noise of each residual; spill: memory for blocks whose prefixes are too
// large for the memory that threads share; null: none.
#define AGBM_SCAN(name, residuals, has_hessian)                                                                        \
  extern "C" __global__ void name(                                                                                     \
      const agbm::Family* families, long long n_families, long long n_features, const agbm::Int64* totals,             \
      const double* bounds, const agbm::UInt64* masks, long long n_words, const int* first_cell, const int* n_bins,    \
      const int* n_categories, const int* monotone, long long n_residuals, long long n_hessians, long long n_channels, \
      long long count_bits, const double* numbers, long long min_samples_leaf, long long min_category_rows,            \
      agbm::Int64* histograms, long long size, agbm::Int64* spill, agbm::SplitRecord* records) {                       \
    AGBM_DYNAMIC_SHARED(agbm::Int64, shared);                                                                          \
    const long long n_scratch = n_channels * (agbm::kPlaces + 1);                                                      \
    agbm::Int64* scratch = spill == nullptr ? shared : spill + blockIdx.x * n_scratch;                                 \
    const double* l2 = numbers + 2;                                                                                    \
    const double* unit = l2 + (n_hessians > 0 ? n_hessians : 1);                                                       \
    const agbm::ScanRules rules{                                                                                       \
        {static_cast<int>(n_residuals), static_cast<int>(n_hessians), static_cast<int>(n_channels),                    \
         static_cast<int>(count_bits), numbers[0], numbers[1], l2, unit, unit + n_channels},                           \
        min_samples_leaf,                                                                                              \
        min_category_rows};                                                                                            \
    for (long long task = blockIdx.x; task < n_families * n_features; task += gridDim.x) {                             \
      agbm::scan_family<residuals, has_hessian>(families[task / n_features], static_cast<int>(task % n_features),      \
                                                static_cast<int>(n_features), {totals, bounds, masks, n_words}, rules, \
                                                {first_cell, n_bins, n_categories, monotone},                          \
                                                {histograms, size, n_channels}, scratch, records);                     \
      __syncthreads();                                                                                                 \
    }                                                                                                                  \
  }

AGBM_SCAN(agbm_scan_1, 1, false)
AGBM_SCAN(agbm_scan_1_hessian, 1, true)
AGBM_SCAN(agbm_scan_2, 2, false)
AGBM_SCAN(agbm_scan_2_hessian, 2, true)
AGBM_SCAN(agbm_scan_any, 0, false)
AGBM_SCAN(agbm_scan_any_hessian, 0, true)

// The best split of each candidate, a block for each: its record, and the sums of the rows that go left.
extern "C" __global__ void agbm_best_splits(const agbm::Int64* slots, long long n_features, double least_gain,
                                            const int* first_cell, const int* n_bins, agbm::Int64* histograms,
                                            long long size, long long n_channels, const agbm::SplitRecord* records,
                                            agbm::Int64* out) {
  const agbm::SplitRecord* of_candidate = records + blockIdx.x * n_features;
  agbm::Int64* words = out + blockIdx.x * (agbm::kRecordWords + n_channels);
  agbm::Cut best{agbm::kNoGain, 0};
  for (int f = threadIdx.x; f < n_features; f += blockDim.x) {
    const agbm::Cut of_feature{of_candidate[f].gain, f};
    if (of_feature.better_than(best)) best = of_feature;
  }
  best = agbm::best_of_block(best);
  const bool exists = best.gain > least_gain;
  const agbm::SplitRecord& record = of_candidate[best.number];
  if (threadIdx.x == 0) {
    agbm::SplitRecord found = {};
    if (exists) found = record;
    found.feature = exists ? best.number : -1;
    *reinterpret_cast<agbm::SplitRecord*>(words) = found;
  }
  const int code = static_cast<int>(threadIdx.x);
  const bool left = exists && code <= n_bins[best.number] && record.left.has(code);
  const agbm::Int64* cells =
      agbm::HistogramSlots{histograms, size, n_channels}.cells(slots[blockIdx.x], first_cell[best.number]);
  for (int c = 0; c < n_channels; ++c) {
    const agbm::Int64 sum = agbm::block_sum(left ? cells[code * n_channels + c] : 0);
    if (threadIdx.x == 0) words[agbm::kRecordWords + c] = sum;
  }
}
