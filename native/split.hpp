// The best split of a node, from its histogram.
#pragma once

#include <limits>

#include "layout.hpp"
#include "quantise.hpp"

namespace agbm {

struct GrowthRules {
  int max_depth;
  int max_leaf_nodes;  // 0: no limit, grow by level
  std::int64_t min_samples_leaf;
  double l2_regularization;
  double min_split_gain;
};

// Values at or below the bin go left.
struct Split {
  double gain = -std::numeric_limits<double>::infinity();
  int feature = -1;
  int bin = 0;
  bool missing_left = false;

  bool exists() const { return feature >= 0; }
};

// A gain this small against the score is rounding, not gain.
constexpr double kGainNoise = 1e-12;

// Sums of one side of a split are a cell of the histogram's form: one integer a channel, the count within the last.
// score = sum over targets of G^2 / (H + l2): how much of the squared residual a leaf explains. H is the row count where
// hessians are constant. No factor 1/2 and no division by n, as in the units that the paper's authors tune in.
//
// Targets and HasHessian are compile-time constants for the usual cases; Targets = 0 is for all others.
template <int Targets, bool HasHessian>
class FeatureScan {
 public:
  // `scratch`: two cells.
  FeatureScan(const Channels& channels, const GrowthRules& rules, const std::int64_t* total, std::int64_t* scratch)
      : channels_(channels), rules_(rules), total_(total), left_(scratch), right_(scratch + n_channels()) {
    parent_score_ = score(total, hessian(total));
    n_total_ = count(total);
  }

  // `cells`: the value bins of the feature in order, then the cell of missing values. Both directions of the missing
  // values are tried; where the node has none, later ones will follow the larger child.
  Split best(int feature, const std::int64_t* cells, int n_bins) {
    best_ = Split{};
    const std::int64_t* missing = cells + std::ptrdiff_t{n_bins} * n_channels();
    const bool has_missing = count(missing) > 0;
    for (int c = 0; c < n_channels(); ++c) left_[c] = 0;
    scan(cells, has_missing ? n_bins : n_bins - 1, has_missing, false);
    if (has_missing) {
      for (int c = 0; c < n_channels(); ++c) left_[c] = missing[c];
      scan(cells, n_bins - 1, true, true);
    }
    if (best_.gain > rules_.min_split_gain) best_.feature = feature;
    return best_;
  }

 private:
  int n_targets() const { return Targets > 0 ? Targets : channels_.n_targets; }
  int n_channels() const { return Targets > 0 ? Targets + (HasHessian ? 1 : 0) : channels_.n(); }

  std::int64_t count(const std::int64_t* sums) const {
    return channels_.count_in(sums[n_channels() - 1]);
  }
  double value(const std::int64_t* sums, int c) const {
    // An arithmetic shift takes the count off: it is never negative and never reaches the value bits.
    return static_cast<double>(c == n_channels() - 1 ? sums[c] >> channels_.count_bits : sums[c]) * channels_.unit[c];
  }
  double hessian(const std::int64_t* sums) const {
    return HasHessian ? value(sums, n_targets()) : static_cast<double>(count(sums));
  }
  double score(const std::int64_t* sums, double hessian) const {
    const double denominator = hessian + rules_.l2_regularization;
    if (!(denominator > 0.0)) return 0.0;
    double total = 0.0;
    for (int k = 0; k < n_targets(); ++k) {
      const double g = value(sums, k);
      total += g * g;
    }
    return total / denominator;
  }

  void scan(const std::int64_t* cells, int end, bool has_missing, bool missing_left) {
    for (int bin = 0; bin < end; ++bin) {
      const std::int64_t* cell = cells + std::ptrdiff_t{bin} * n_channels();
      if (count(cell) == 0) continue;  // the same two sides as one bin before
      for (int c = 0; c < n_channels(); ++c) {
        left_[c] += cell[c];
        right_[c] = total_[c] - left_[c];
      }
      const std::int64_t n_left = count(left_);
      if (n_left < rules_.min_samples_leaf) continue;
      if (n_total_ - n_left < rules_.min_samples_leaf) break;
      consider(bin, has_missing ? missing_left : 2 * n_left >= n_total_);
    }
  }

  void consider(int bin, bool missing_left) {
    const double h_left = hessian(left_);
    const double h_right = hessian(right_);
    if (h_left < channels_.min_hessian_leaf || h_right < channels_.min_hessian_leaf) return;
    const double children = score(left_, h_left) + score(right_, h_right);
    const double gain = children - parent_score_;
    if (gain > best_.gain && gain > kGainNoise * children) {  // ties go to the lower bin
      best_.gain = gain;
      best_.bin = bin;
      best_.missing_left = missing_left;
    }
  }

  const Channels& channels_;
  const GrowthRules& rules_;
  const std::int64_t* total_;
  std::int64_t* left_;
  std::int64_t* right_;
  double parent_score_ = 0.0;
  std::int64_t n_total_ = 0;
  Split best_;
};

struct ScanTask {
  int feature;
  const std::int64_t* cells;
  int n_bins;
  const std::int64_t* total;
  std::int64_t* scratch;
};

template <int Targets, bool HasHessian>
Split scan_feature(const Channels& channels, const GrowthRules& rules, const ScanTask& task) {
  return FeatureScan<Targets, HasHessian>(channels, rules, task.total, task.scratch)
      .best(task.feature, task.cells, task.n_bins);
}

inline Split best_split(const Channels& channels, const GrowthRules& rules, const ScanTask& task) {
  const int targets = channels.n_targets <= 2 && !channels.counts_alone ? channels.n_targets : 0;
  switch (2 * targets + (channels.has_hessian ? 1 : 0)) {
    case 2: return scan_feature<1, false>(channels, rules, task);
    case 3: return scan_feature<1, true>(channels, rules, task);
    case 4: return scan_feature<2, false>(channels, rules, task);
    case 5: return scan_feature<2, true>(channels, rules, task);
    case 1: return scan_feature<0, true>(channels, rules, task);
    default: return scan_feature<0, false>(channels, rules, task);
  }
}

}  // namespace agbm
