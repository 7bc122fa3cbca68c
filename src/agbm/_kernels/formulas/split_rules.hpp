// What the sums of a node's rows say about leaves and splits: the rules that all searches for splits share.
#pragma once

#include "formulas/portable.hpp"

namespace agbm {

// Relative to the score, a smaller gain is a rounding error.
constexpr double kGainNoise = 1e-12;

// A category is ranked by its mean residual as if the node had this many more rows of it with residual zero, because
// the order of rare categories is mostly noise.
constexpr double kCategorySmoothing = 10.0;

// Splitting categories in the order of their mean residuals has a large gain even if these differ by chance alone. For
// m equivalent categories, the sum of their G^2 / H exceeds that of the node by about m - 1 times the noise of a row,
// and the best cut through sorted normal numbers takes 2 / pi of it. That much is subtracted from the gain.
constexpr double kGainByChance = 0.6366197723675814;

// In a tree for many residuals, categories are ranked by the means of this many of them, one after the other.
constexpr int kCategoryOrders = 2;

// A bin may hold several categories, which were merged because their residuals were similar at the start.
AGBM_INLINE inline double gain_by_chance(Int64 n_ranked, int n_categories, int n_bins, double noise) {
  const double a_bin = larger(static_cast<double>(n_categories) / n_bins, 1.0);
  return kGainByChance * larger(static_cast<double>(n_ranked) * a_bin - 1.0, 0.0) * noise;
}

AGBM_INLINE inline bool more_than_rounding(double gain, double score) { return gain > kGainNoise * absolute(score); }

// Whether a split on an ordered feature separates missing values from all others, so that its sides have no order.
AGBM_INLINE inline bool parts_missing_only(int bin, int n_bins) { return bin == n_bins - 1; }

// The number that a leaf divides its sum of residuals by. The floor keeps a step finite if residuals have separate
// hessians and some of these almost vanish in a leaf; if all share one hessian, leaves below the floor are never
// created.
AGBM_INLINE inline double leaf_denominator(double hessian, double floor, double l2) {
  return larger(hessian, floor) + l2;
}

// A sum of residuals that l1 has moved towards zero.
AGBM_INLINE inline double moved_to_zero(double sum, double l1) {
  if (!(l1 > 0.0)) return sum;
  const double left = absolute(sum) - l1;
  return left > 0.0 ? (sum < 0.0 ? -left : left) : 0.0;
}

// Bounds of a leaf's values, from the monotone splits above it: (lower, upper) of each residual.
struct Bounds {
  const double* of = nullptr;  // null: none

  AGBM_INLINE double clip(double value, int residual) const {
    return of == nullptr ? value : smaller(larger(value, of[2 * residual]), of[2 * residual + 1]);
  }
};

// The form of histogram cells and the numbers that leaves depend on; see Channels.
struct ChannelRules {
  int n_residuals, n_hessians, n;
  int count_bits;
  double min_hessian_leaf, l1;
  const double *l2, *unit, *noise;

  AGBM_INLINE Int64 count_mask() const { return (Int64{1} << count_bits) - 1; }
  // The count within the last integer of a cell or of sums.
  AGBM_INLINE Int64 count_in(Int64 last) const { return last & count_mask(); }
};

// Sums of the rows of a node or of one side of a split, in the form of a histogram cell: one integer per channel, with
// the count in the last one. score = sum over residuals of G^2 / (H + l2), where G is the sum of the residual, which l1
// moves towards zero, and H that of its hessian: how much of the squared residual a leaf explains. H is the row count if
// hessians are constant. There is no factor 1/2 and no division by n, as in the units of the paper.
//
// Residuals and Hessians are compile-time constants for the usual cases; Residuals = 0 is for all others, for which
// Hessians is 1 if there are any. Sums have an
// operator [] for the integer of a channel.
template <int Residuals, int Hessians>
class SumReader {
  static constexpr bool HasHessian = Hessians > 0;

 public:
  AGBM_INLINE explicit SumReader(const ChannelRules& rules) : rules_(rules) {}

  AGBM_INLINE int n_residuals() const { return Residuals > 0 ? Residuals : rules_.n_residuals; }
  AGBM_INLINE int n_channels() const { return Residuals > 0 ? Residuals + Hessians : rules_.n; }
  AGBM_INLINE int n_groups() const { return !HasHessian ? 1 : Residuals > 0 ? Hessians : rules_.n_hessians; }
  AGBM_INLINE int group_size() const { return n_residuals() / n_groups(); }

  template <class Sums>
  AGBM_INLINE Int64 count(const Sums& sums) const {
    return rules_.count_in(sums[n_channels() - 1]);
  }
  template <class Sums>
  AGBM_INLINE double value(const Sums& sums, int c) const {
    // An arithmetic shift removes the count, which is never negative and never reaches the bits of the value.
    return static_cast<double>(c == n_channels() - 1 ? sums[c] >> rules_.count_bits : sums[c]) * rules_.unit[c];
  }
  template <class Sums>
  AGBM_INLINE double hessian(const Sums& sums, int group) const {
    return HasHessian ? value(sums, n_residuals() + group) : static_cast<double>(count(sums));
  }
  template <class Sums>
  AGBM_INLINE double denominator(const Sums& sums, int group) const {
    return leaf_denominator(hessian(sums, group), rules_.min_hessian_leaf, rules_.l2[group]);
  }
  // Whether the hessians of all residuals together suffice for a leaf.
  template <class Sums>
  AGBM_INLINE bool enough_hessian(const Sums& sums) const {
    if (!HasHessian) return true;
    double total = 0.0;
    for (int group = 0; group < n_groups(); ++group) total += hessian(sums, group);
    return !(total < rules_.min_hessian_leaf);
  }

  template <class Sums>
  AGBM_INLINE double score(const Sums& sums) const {
    double score = 0.0;
    for (int group = 0; group < n_groups(); ++group) {
      const double denominator = this->denominator(sums, group);
      if (!(denominator > 0.0)) continue;
      double squares = 0.0;
      for (int k = 0; k < group_size(); ++k) {
        const double g = moved_to_zero(value(sums, group * group_size() + k), rules_.l1);
        squares += g * g;
      }
      score += squares / denominator;
    }
    return score;
  }

  template <class Sums>
  AGBM_INLINE double leaf_value(const Sums& sums, int residual, Bounds bounds) const {
    const double denominator = this->denominator(sums, residual / group_size());
    const double g = moved_to_zero(value(sums, residual), rules_.l1);
    return bounds.clip(denominator > 0.0 ? g / denominator : 0.0, residual);
  }
  // The same score for bounded values v: 2 G v - (H + l2) v^2 - 2 l1 |v|.
  template <class Sums>
  AGBM_INLINE double bounded_score(const Sums& sums, Bounds bounds) const {
    double score = 0.0;
    for (int residual = 0; residual < n_residuals(); ++residual) {
      const double v = leaf_value(sums, residual, bounds);
      score += (2.0 * value(sums, residual) - denominator(sums, residual / group_size()) * v) * v -
               2.0 * rules_.l1 * absolute(v);
    }
    return score;
  }
  // Whether the values of two sides are in the order that a monotone constraint demands.
  template <class Left, class Right>
  AGBM_INLINE bool ordered(const Left& left, const Right& right, int direction, Bounds bounds) const {
    for (int residual = 0; direction != 0 && residual < n_residuals(); ++residual) {
      const double rise = leaf_value(right, residual, bounds) - leaf_value(left, residual, bounds);
      if (direction * rise < 0.0) return false;
    }
    return true;
  }

  // The number that the residual of a category is divided by to rank it; `total`: the sums of the node.
  template <class Sums, class Total>
  AGBM_INLINE double smoothed(const Sums& sums, const Total& total, int residual) const {
    const int group = residual / group_size();
    const double rows = kCategorySmoothing * hessian(total, group) / static_cast<double>(count(total));
    return hessian(sums, group) + rows;
  }
  // The mean by which a category is ranked.
  template <class Sums, class Total>
  AGBM_INLINE double rank_of(const Sums& sums, const Total& total, int residual) const {
    const double h = smoothed(sums, total, residual);
    return h > 0.0 ? value(sums, residual) / h : 0.0;
  }
  // What a category adds to the spread of a residual: those with the largest spread order the categories.
  template <class Sums, class Total>
  AGBM_INLINE double spread_of(const Sums& sums, const Total& total, int residual) const {
    const double g = value(sums, residual), h = smoothed(sums, total, residual);
    return h > 0.0 ? g * g / h : 0.0;
  }

 private:
  const ChannelRules rules_;
};

}  // namespace agbm
