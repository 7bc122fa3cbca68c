// The best split of a node, from its histogram.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "base/simd.hpp"
#include "bins/matrix.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/split_rules.hpp"
#include "tree/quantise.hpp"
#include "tree/tree.hpp"

namespace agbm {

struct GrowthRules {
  int max_depth;
  int max_leaf_nodes;  // 0: no limit, grow by level
  std::int64_t min_samples_leaf;
  double min_split_gain;
  std::vector<int> monotone;                   // per feature: 1 increasing, -1 decreasing, 0 free; empty: all free
  std::vector<std::vector<int>> interactions;  // groups that may be used together on one path; empty: all may

  // Rows that a category needs in a node to be ranked; one with fewer follows the missing values.
  std::int64_t min_category_rows() const { return std::min<std::int64_t>(10, min_samples_leaf); }
  bool bounded() const { return !monotone.empty(); }
};

// Rows whose code is in the set go left. On an ordered feature these are the codes up to `bin`.
struct Split {
  double gain = 0.0;
  int feature = -1;
  int bin = 0;
  bool missing_left = false;
  CodeSet left;

  bool exists() const { return feature >= 0; }
  // Ties go to the lower feature.
  bool better_than(const Split& other) const {
    return exists() && (gain > other.gain || (gain == other.gain && feature < other.feature));
  }
};

// Places where a feature may be cut, with the sums of the rows to the left of each, channel by channel, so that several
// places are scored at once.
template <int Channels>
struct Cuts {
  static constexpr int kMost =
      (kMaxValueBins + 1 + kLanes - 1) / kLanes * kLanes;  // one for each code, in whole vectors

  int n = 0;
  std::array<int, kMost> place;
  std::array<std::array<std::int64_t, kMost>, Channels> left;
};

// The same computations as in SumReader, for several places at once: the same operations in the same order, so the same
// bits. `Vectors` are those of one register: compilers take wider ones apart, number by number.
template <int Residuals, int Hessians, class Vectors, bool HasL1>
class SumVectors {
 public:
  static constexpr int kChannels = Residuals + Hessians;
  using Numbers = typename Vectors::Numbers;
  using Words = typename Vectors::Words;

  AGBM_INLINE explicit SumVectors(const Channels& channels)
      : count_bits_(channels.count_bits), count_mask_(channels.count_mask()) {
    for (int c = 0; c < kChannels; ++c) unit_[c] = Numbers{} + channels.unit[c];
    floor_ = Numbers{} + channels.min_hessian_leaf;
    l1_ = Numbers{} + channels.l1;
    for (int group = 0; group < kGroups; ++group) l2_[group] = Numbers{} + channels.l2[group];
  }

  // -infinity if the hessians do not suffice for a leaf.
  AGBM_INLINE Numbers score(const Words (&sums)[kChannels]) const {
    const Numbers none = {};
    Numbers score = {}, total = {};
    for (int group = 0; group < kGroups; ++group) {
      const Numbers hessian = this->hessian(sums, group);
      const Numbers denominator = (hessian < floor_ ? floor_ : hessian) + l2_[group];
      score += denominator > none ? squares(sums, group) / denominator : none;
      total += hessian;
    }
    return HasHessian ? (total < floor_ ? none - std::numeric_limits<double>::infinity() : score) : score;
  }

  // Negative if the scores of two sides cannot add up to `bound`. Most cuts cannot, and this takes a fraction of the time
  // of two divisions per group: the scores are added up as one fraction. `count`: the rows of both sides. The minimum of
  // hessians is ignored, since it only lowers scores. The sign of a difference, because compilers take comparisons of
  // vectors apart, lane by lane.
  AGBM_INLINE Words less_than(double bound, const Words (&left)[kChannels], const Words (&right)[kChannels],
                              double count) const {
    Numbers numerator = {}, denominator = Numbers{} + 1.0;
    for (int group = 0; group < kGroups; ++group) {
      const Numbers of_left = hessian(left, group), of_right = HasHessian ? hessian(right, group) : count - of_left;
      const Numbers left_denominator = of_left + l2_[group], right_denominator = of_right + l2_[group];
      const Numbers sum = squares(left, group) * right_denominator + squares(right, group) * left_denominator;
      const Numbers product = left_denominator * right_denominator;
      numerator = group == 0 ? sum : numerator * product + sum * denominator;
      denominator = group == 0 ? product : denominator * product;
    }
    return (Words)(numerator - bound * denominator);
  }

 private:
  static constexpr bool HasHessian = Hessians > 0;
  static constexpr int kGroups = Hessians > 1 ? Hessians : 1, kGroupSize = Residuals / kGroups;

  AGBM_INLINE Numbers value(const Words (&sums)[kChannels], int c) const {
    return to_numbers(c == kChannels - 1 ? sums[c] >> count_bits_ : sums[c]) * unit_[c];
  }
  AGBM_INLINE Numbers hessian(const Words (&sums)[kChannels], int group) const {
    return HasHessian ? value(sums, Residuals + group) : to_numbers(sums[kChannels - 1] & count_mask_);
  }
  AGBM_INLINE Numbers squares(const Words (&sums)[kChannels], int group) const {
    const Numbers first = moved(value(sums, group * kGroupSize));
    Numbers squares = first * first;
    for (int k = 1; k < kGroupSize; ++k) {
      const Numbers next = moved(value(sums, group * kGroupSize + k));
      squares += next * next;
    }
    return squares;
  }
  // The absolute value of a sum that l1 has moved towards zero; the sum itself without l1.
  AGBM_INLINE Numbers moved(Numbers sum) const {
    if constexpr (!HasL1) return sum;
    const Numbers none = {}, left = (Numbers)((Words)sum & std::numeric_limits<std::int64_t>::max()) - l1_;
    return left > none ? left : none;
  }
  AGBM_INLINE static Numbers to_numbers(Words v) { return __builtin_convertvector(v, Numbers); }

  int count_bits_;
  std::int64_t count_mask_;
  Numbers unit_[kChannels], floor_, l1_, l2_[kGroups];
};

struct ScanTask {
  int feature;
  const std::int64_t* cells;  // the value bins of the feature in order, then the cell of missing values
  int n_bins;
  int n_categories;  // 0: the bins have an order
  const std::int64_t* total;
  std::int64_t* scratch;  // three cells
  Bounds bounds;
};

template <int Residuals, int Hessians>
class FeatureScan {
 public:
  FeatureScan(const Channels& channels, const GrowthRules& rules, const ScanTask& task)
      : read_(channels.rules()),
        channels_(channels),
        rules_(rules),
        task_(task),
        left_(task.scratch),
        right_(task.scratch + read_.n_channels()),
        undecided_(task.scratch + 2 * read_.n_channels()),
        noise_(channels.noise) {
    parent_score_ = bounded() ? read_.bounded_score(task.total, task.bounds) : read_.score(task.total);
    n_total_ = read_.count(task.total);
  }

  // Replaces the best split so far by the best one of the feature, if that gains more.
  void improve(Split& best) {
    // Ties go to the lower feature, whichever comes first.
    best_.gain = task_.feature < best.feature ? std::nextafter(best.gain, 0.0) : best.gain;
    task_.n_categories > 0 ? scan_categories() : scan_bins();
    if (best_place_ < 0) return;
    best_.feature = task_.feature;
    best = best_;
  }

 private:
  static constexpr int kFewCuts = 3;  // up to this many are faster to score one by one
  static constexpr int kBinsAtOnce = 16;
  static constexpr int kCutChannels = std::max(1, Residuals + Hessians);

  bool bounded() const { return task_.bounds.of != nullptr; }
  const std::int64_t* cell(int code) const { return task_.cells + std::ptrdiff_t{code} * read_.n_channels(); }

  // Values at or below a bin go left. Both directions are tried for missing values; if the node has none, those of
  // later rows follow the larger child.
  void scan_bins() {
    const bool has_missing = read_.count(cell(task_.n_bins)) > 0;
    const std::vector<int>* in_order = nullptr;
    scan(in_order, has_missing ? task_.n_bins : task_.n_bins - 1, nullptr, has_missing);
    if (has_missing) scan(in_order, task_.n_bins - 1, cell(task_.n_bins), has_missing);
    if (best_place_ < 0) return;
    best_.bin = best_place_;
    best_.left = CodeSet::up_to(best_.bin);
    if (best_.missing_left) best_.left.add(task_.n_bins);
  }

  // Categories are sorted by their mean residual. For one residual, the best of all subsets then consists of the first
  // few (Fisher). Categories with no rows in the node, or too few to be ranked, follow the missing values.
  void scan_categories() {
    std::vector<int> ranked;
    for (int c = 0; c < read_.n_channels(); ++c) undecided_[c] = cell(task_.n_bins)[c];
    for (int code = 0; code < task_.n_bins; ++code) {
      if (read_.count(cell(code)) >= rules_.min_category_rows()) {
        ranked.push_back(code);
      } else {
        for (int c = 0; c < read_.n_channels(); ++c) undecided_[c] += cell(code)[c];
      }
    }
    const bool has_undecided = read_.count(undecided_) > 0;
    std::vector<int> best_order;
    for (int residual : order_residuals(ranked)) {
      sort_by_mean(ranked, residual);
      by_chance_ =
          gain_by_chance(static_cast<std::int64_t>(ranked.size()), task_.n_categories, task_.n_bins, noise_[residual]);
      const double before = best_.gain;
      scan(&ranked, static_cast<int>(ranked.size()), nullptr, has_undecided);
      if (has_undecided) scan(&ranked, static_cast<int>(ranked.size()), undecided_, has_undecided);
      if (best_.gain > before) best_order = ranked;
    }
    if (best_place_ < 0) return;
    if (best_.missing_left) {  // everything but the ranked categories that go right
      CodeSet right;
      for (std::size_t i = best_place_ + 1; i < best_order.size(); ++i) right.add(best_order[i]);
      for (std::size_t w = 0; w < std::size(right.words); ++w) best_.left.words[w] = ~right.words[w];
    } else {
      for (int i = 0; i <= best_place_; ++i) best_.left.add(best_order[i]);
    }
  }

  // The residuals that differ most between categories.
  std::vector<int> order_residuals(const std::vector<int>& codes) const {
    std::vector<int> residuals(read_.n_residuals());
    std::iota(residuals.begin(), residuals.end(), 0);
    if (read_.n_residuals() <= kCategoryOrders) return residuals;
    std::vector<double> spread(residuals.size(), 0.0);
    for (int residual : residuals) {
      for (int code : codes) {
        spread[residual] += read_.spread_of(cell(code), task_.total, residual);
      }
    }
    std::stable_sort(residuals.begin(), residuals.end(), [&](int a, int b) { return spread[a] > spread[b]; });
    residuals.resize(kCategoryOrders);
    return residuals;
  }

  void sort_by_mean(std::vector<int>& codes, int residual) const {
    std::vector<double> mean(task_.n_bins, 0.0);
    for (int code : codes) mean[code] = read_.rank_of(cell(code), task_.total, residual);
    std::sort(codes.begin(), codes.end(), [&](int a, int b) { return mean[a] != mean[b] ? mean[a] < mean[b] : a < b; });
  }

  // Cuts after each of the first `end` codes of an order (null: ascending). `base`: the sums that go left before all of
  // them.
  void scan(const std::vector<int>* order, int end, const std::int64_t* base, bool missing_decided) {
    const auto missing_left = [&](std::int64_t n_left) {
      return missing_decided ? base != nullptr : 2 * n_left >= n_total_;
    };
    // If only missing values remain for the right side, every value goes left, including values that the node has not
    // seen.
    const auto named = [&](int place, std::int64_t n_left) {
      const bool parts_missing =
          order == nullptr && base == nullptr && n_total_ - n_left == read_.count(cell(task_.n_bins));
      return parts_missing ? task_.n_bins - 1 : place;
    };
    if constexpr (Residuals > 0 && kCutChannels <= 2) {
      if (!bounded() && end > kFewCuts && order == nullptr) {
        Place best;
        vectorised_by_register([&](auto vectors) AGBM_INLINE {
          best = channels_.l1 > 0.0 ? best_in_order<decltype(vectors), true>(end, base)
                                    : best_in_order<decltype(vectors), false>(end, base);
        });
        if (best.bin < 0) return;
        best_.missing_left = missing_left(best.n_left);
        best_place_ = named(best.bin, best.n_left);
        return;
      }
    }
    if constexpr (Residuals > 0) {
      if (!bounded() && end > kFewCuts) {
        const int cut = best_cut(order, end, base);
        if (cut < 0) return;
        const std::int64_t n_left = channels_.count_in(cuts_.left.back()[cut]);
        best_.missing_left = missing_left(n_left);
        best_place_ = named(cuts_.place[cut], n_left);
        return;
      }
    }
    for (int c = 0; c < read_.n_channels(); ++c) left_[c] = base == nullptr ? 0 : base[c];
    for (int place = 0; place < end; ++place) {
      const std::int64_t* added = cell(order == nullptr ? place : (*order)[place]);
      if (read_.count(added) == 0) continue;  // the same two sides as at the previous place
      for (int c = 0; c < read_.n_channels(); ++c) {
        left_[c] += added[c];
        right_[c] = task_.total[c] - left_[c];
      }
      const std::int64_t n_left = read_.count(left_);
      if (n_left < rules_.min_samples_leaf) continue;
      if (n_total_ - n_left < rules_.min_samples_leaf) break;
      consider(named(place, n_left), missing_left(n_left));
    }
  }

  // A place where the feature may be cut, and the rows to the left of it.
  struct Place {
    int bin = -1;
    std::int64_t n_left = 0;
  };

  // The same for several bins at once, in ascending order, without a branch for each. Returns the first place with the
  // largest gain, if that is larger than the best so far, and sets the best gain. Places after bins without rows have the
  // gain of the place before, so they are never chosen.
  template <class Vectors, bool HasL1>
  AGBM_INLINE Place best_in_order(int end, const std::int64_t* base) {
    constexpr int lanes = Vectors::kLanes, n_vectors = kBinsAtOnce / lanes;
    using Words = typename Vectors::Words;
    const SumVectors<Residuals, Hessians, Vectors, HasL1> read(channels_);
    const double count = static_cast<double>(n_total_);
    const std::int64_t count_mask = channels_.count_mask(), most = n_total_ - rules_.min_samples_leaf;
    const std::int64_t least = std::max(rules_.min_samples_leaf, base == nullptr ? 1 : read_.count(base) + 1);
    Words total[kCutChannels], sums[kCutChannels], left[n_vectors][kCutChannels], right[n_vectors][kCutChannels];
    for (int c = 0; c < kCutChannels; ++c) {
      total[c] = Words{} + task_.total[c];
      sums[c] = Words{} + (base == nullptr ? 0 : base[c]);
    }
    const bool comparable = this->comparable();
    double enough = bound();
    Place best;
    for (int first = 0; first < end; first += kBinsAtOnce) {
      std::array<std::int64_t, kBinsAtOnce * kCutChannels> last_cells;  // followed by zeros
      const std::int64_t* cells = cell(first);
      if (first + kBinsAtOnce > end) {
        last_cells.fill(0);
        std::copy_n(cells, (end - first) * kCutChannels, last_cells.begin());
        cells = last_cells.data();
      }
      const std::int64_t n_before = sums[kCutChannels - 1][0] & count_mask;
      for (int v = 0; v < n_vectors; ++v) {
        load_cells<Vectors>(cells + v * lanes * kCutChannels, left[v]);
        for (int c = 0; c < kCutChannels; ++c) {
          left[v][c] = sums[c] + WordLanes<Vectors>::prefix_sums(left[v][c]);
          sums[c] = WordLanes<Vectors>::last_in_all(left[v][c]);
          right[v][c] = total[c] - left[v][c];
        }
      }
      const std::int64_t n_after = sums[kCutChannels - 1][0] & count_mask;
      if (n_after < least) continue;
      Words rejected = ~Words{};
      for (int v = 0; v < n_vectors; ++v) {
        Words less = read.less_than(enough, left[v], right[v], count);
        if (n_before < least || n_after > most) {
          const Words n_left = left[v][kCutChannels - 1] & count_mask;
          less |= (n_left - least) | (most - n_left);
        }
        rejected &= less;
      }
      if (!comparable || !WordLanes<Vectors>::all_negative(rejected)) {
        for (int v = 0; v < n_vectors; ++v) {
          const auto children = read.score(left[v]) + read.score(right[v]);
          for (int lane = 0; lane < lanes; ++lane) {
            const std::int64_t n_left = left[v][kCutChannels - 1][lane] & count_mask;
            if (n_left < least || n_left > most || !gains_more(children[lane])) continue;
            best = {first + v * lanes + lane, n_left};
          }
        }
        enough = bound();
      }
      if (n_after > most) break;
    }
    return best;
  }

  // Whether both sides of a cut, with this score, gain more than the best so far, whose gain is then theirs.
  AGBM_INLINE bool gains_more(double children) {
    const double gain = children - parent_score_ - by_chance_;
    if (!(gain > best_.gain && more_than_rounding(gain, children))) return false;
    best_.gain = gain;
    return true;
  }

  // The channels of as many cells as a vector has lanes.
  template <class Vectors>
  AGBM_INLINE static void load_cells(const std::int64_t* cells, typename Vectors::Words (&channels)[kCutChannels]) {
    std::memcpy(channels, cells, sizeof channels);
    if constexpr (kCutChannels == 2) {
      const auto first = channels[0];
      channels[0] = WordLanes<Vectors>::even(first, channels[1]);
      channels[1] = WordLanes<Vectors>::odd(first, channels[1]);
    }
  }

  // The same for bins in any order: all cuts are collected first. Returns the first cut with the largest gain, or -1 if
  // that is not larger than the best so far, and sets the best gain.
  int best_cut(const std::vector<int>* order, int end, const std::int64_t* base) {
    collect_cuts(order, end, base);
    int cut = -1;
    vectorised_by_register([&](auto vectors) AGBM_INLINE {
      cut = channels_.l1 > 0.0 ? find_best<decltype(vectors), true>() : find_best<decltype(vectors), false>();
    });
    return cut;
  }

  void collect_cuts(const std::vector<int>* order, int end, const std::int64_t* base) {
    std::array<std::int64_t, kCutChannels> left;
    for (int c = 0; c < kCutChannels; ++c) left[c] = base == nullptr ? 0 : base[c];
    const std::int64_t least = rules_.min_samples_leaf, most = n_total_ - least;
    const std::int64_t count_mask = channels_.count_mask();
    const std::int64_t* const cells = task_.cells;
    const auto cell_at = [&](int place) { return cells + (order == nullptr ? place : (*order)[place]) * kCutChannels; };
    int place = 0;
    for (; place < end; ++place) {  // too few rows on the left
      const std::int64_t* added = cell_at(place);
      if (((left.back() + added[kCutChannels - 1]) & count_mask) >= least) break;
      for (int c = 0; c < kCutChannels; ++c) left[c] += added[c];
    }
    std::size_t n = 0;
    for (; place < end; ++place) {
      const std::int64_t* added = cell_at(place);
      for (int c = 0; c < kCutChannels; ++c) {
        left[c] += added[c];
        cuts_.left[c][n] = left[c];
      }
      cuts_.place[n] = place;
      if ((left.back() & count_mask) > most) break;
      // Without rows of that code, the cut is the same as at the previous place.
      n += (added[kCutChannels - 1] & count_mask) != 0;
    }
    cuts_.n = static_cast<int>(n);
    // Whole vectors are read: the last cut, repeated, fills the last one.
    const std::size_t whole = (n + kLanes - 1) / kLanes * kLanes;
    for (auto& sums : cuts_.left) std::fill(sums.begin() + n, sums.begin() + whole, n > 0 ? sums[n - 1] : 0);
  }

  // The sum of the scores of two sides that a better cut reaches at least, in spite of rounding errors.
  double bound() const { return (1.0 - 1e-12) * (parent_score_ + by_chance_ + best_.gain); }

  // Whether no product of sums overflows or vanishes when sides are compared with the bound.
  bool comparable() const {
    constexpr double small = Hessians > 1 ? 1e-20 : 1e-50, large = Hessians > 1 ? 1e25 : 1e90, largest_sum = 0x1p62;
    bool fits = bound() < large;
    for (int c = 0; c < kCutChannels; ++c) {
      fits = fits && channels_.unit[c] > small && channels_.unit[c] * largest_sum < large;
    }
    for (int group = 0; group < read_.n_groups(); ++group) fits = fits && read_.denominator(task_.total, group) < large;
    return fits;
  }

  // Exact gains are only computed in blocks with a cut that may be the best so far.
  template <class Vectors, bool HasL1>
  AGBM_INLINE int find_best() {
    constexpr int lanes = Vectors::kLanes;
    using Words = typename Vectors::Words;
    const SumVectors<Residuals, Hessians, Vectors, HasL1> read(channels_);
    const double count = static_cast<double>(n_total_);
    Words total[kCutChannels], left[kCutChannels], right[kCutChannels];
    for (int c = 0; c < kCutChannels; ++c) total[c] = Words{} + task_.total[c];
    const auto load_sides = [&](int cut) AGBM_INLINE {
      for (int c = 0; c < kCutChannels; ++c) {
        std::memcpy(&left[c], &cuts_.left[c][cut], sizeof left[c]);
        right[c] = total[c] - left[c];
      }
    };
    const bool comparable = this->comparable();
    double enough = bound();
    int best = -1;
    for (int first = 0; first < cuts_.n; first += kLanes) {
      Words rejected = ~Words{};
      for (int cut = first; cut < first + kLanes; cut += lanes) {
        load_sides(cut);
        rejected &= read.less_than(enough, left, right, count);
      }
      if (comparable && WordLanes<Vectors>::all_negative(rejected)) continue;
      for (int cut = first; cut < first + kLanes; cut += lanes) {
        load_sides(cut);
        const auto children = read.score(left) + read.score(right);
        for (int lane = 0; lane < lanes; ++lane) {
          if (gains_more(children[lane])) best = cut + lane;  // ties go to the first, never to one repeated at the end
        }
      }
      enough = bound();
    }
    return best;
  }

  void consider(int place, bool missing_left) {
    if (!read_.enough_hessian(left_) || !read_.enough_hessian(right_)) return;
    double children = 0.0;
    if (bounded()) {
      if (task_.n_categories == 0 && !parts_missing_only(place, task_.n_bins) &&
          !read_.ordered(left_, right_, rules_.monotone[task_.feature], task_.bounds)) {
        return;
      }
      children = read_.bounded_score(left_, task_.bounds) + read_.bounded_score(right_, task_.bounds);
    } else {
      children = read_.score(left_) + read_.score(right_);
    }
    if (!gains_more(children)) return;  // ties go to the lower bin
    best_.missing_left = missing_left;
    best_place_ = place;
  }

  const SumReader<Residuals, Hessians> read_;
  const Channels& channels_;
  const GrowthRules& rules_;
  const ScanTask& task_;
  std::int64_t* left_;
  std::int64_t* right_;
  std::int64_t* undecided_;  // missing values, and categories that follow them
  double parent_score_ = 0.0;
  std::int64_t n_total_ = 0;
  const std::vector<double>& noise_;
  double by_chance_ = 0.0;
  int best_place_ = -1;
  Split best_;
  Cuts<kCutChannels> cuts_;
};

// Trees for one or two residuals, and for some outputs with a hessian each, have code of their own.
inline void improve_split(Split& best, const Channels& channels, const GrowthRules& rules, const ScanTask& task) {
  const int residuals = channels.counts_alone ? 0 : channels.n_residuals, hessians = channels.n_hessians;
  const auto scan = [&](auto&& scan) { scan.improve(best); };
  if (residuals == 1 && hessians == 0) return scan(FeatureScan<1, 0>(channels, rules, task));
  if (residuals == 1 && hessians == 1) return scan(FeatureScan<1, 1>(channels, rules, task));
  if (residuals == 2 && hessians == 0) return scan(FeatureScan<2, 0>(channels, rules, task));
  if (residuals == 2 && hessians == 1) return scan(FeatureScan<2, 1>(channels, rules, task));
  if (residuals == 3 && hessians == 3) return scan(FeatureScan<3, 3>(channels, rules, task));
  if (residuals == 4 && hessians == 4) return scan(FeatureScan<4, 4>(channels, rules, task));
  if (residuals == 5 && hessians == 5) return scan(FeatureScan<5, 5>(channels, rules, task));
  if (hessians > 0) return scan(FeatureScan<0, 1>(channels, rules, task));
  return scan(FeatureScan<0, 0>(channels, rules, task));
}

}  // namespace agbm
