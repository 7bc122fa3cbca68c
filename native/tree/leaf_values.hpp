// The values of a tree's leaves.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bins/layout.hpp"
#include "tree/node_search.hpp"
#include "tree/quantise.hpp"
#include "tree/split.hpp"
#include "tree/tree.hpp"

namespace agbm {

// value = sum of residuals / (sum of hessians + l2), from integer sums finer than those of the histograms: a leaf value
// is then exact up to rounding, while splits may be chosen on fewer bits. For a loss with a kink, the Newton step is
// replaced by the quantile that is best for the rows of the leaf, which l2 shrinks by the same factor.
class LeafFitter {
 public:
  // bounds: of the values in each node; empty without monotone features.
  LeafFitter(const BinnedMatrix& matrix, const GrowthRules& rules, const TreeInputs& inputs,
             const std::vector<std::vector<double>>& bounds, GrownTree& tree)
      : matrix_(matrix), rules_(rules), inputs_(inputs), bounds_(bounds), tree_(tree) {}

  void fit(NodeSearch& all) {
    const std::vector<std::int32_t> leaves = tree_.leaves();
    const std::vector<std::int64_t> sums = all.leaf_sums(leaves);
    const std::size_t n_outputs = inputs_.quantiles.n_outputs;
    const std::vector<double> quantiles = n_outputs > 0 ? all.leaf_quantiles(leaves) : std::vector<double>();
    std::vector<double> unit;
    for (int k = 0; k < inputs_.n_sums(); ++k) unit.push_back(std::ldexp(1.0, -inputs_.leaf_exponent(k)));
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      fit_leaf(leaves[leaf], &sums[leaf * unit.size()], unit, quantiles.data() + leaf * n_outputs);
    }
    for (int k = 0; rules_.bounded() && k < inputs_.n_residuals; ++k) {
      if (inputs_.has_quantiles(k)) order_leaves(k);
    }
  }

 private:
  // unit: the value of one step of each sum. quantiles: one per output.
  void fit_leaf(std::size_t node, const std::int64_t* sums, const std::vector<double>& unit, const double* quantiles) {
    const int group_size = inputs_.n_hessians > 0 ? inputs_.n_residuals / inputs_.n_hessians : inputs_.n_residuals;
    const Bounds bounds{bounds_.empty() ? nullptr : bounds_[node].data()};
    for (int k = 0; k < inputs_.n_residuals; ++k) {
      const int group = k / group_size, h = inputs_.n_residuals + group;
      const double hessian =
          inputs_.n_hessians > 0 ? static_cast<double>(sums[h]) * unit[h] : static_cast<double>(tree_.count[node]);
      const double denominator = leaf_denominator(hessian, inputs_.min_hessian_leaf, inputs_.l2[group]);
      double& value = tree_.value[node * inputs_.n_residuals + k];
      if (inputs_.has_quantiles(k)) {
        const double kept = denominator > 0.0 ? hessian / denominator : 0.0;
        value = kept * quantiles[inputs_.output_of(k)];
      } else {
        value = bounds.clip(denominator > 0.0 ? static_cast<double>(sums[k]) * unit[k] / denominator : 0.0, k);
      }
    }
  }

  // Bounds values that are not Newton steps: the two sides of a monotone split are bounded by the middle between their
  // means.
  void order_leaves(int residual) {
    const std::size_t n = tree_.n_nodes();
    const auto value = [&](std::size_t node) -> double& { return tree_.value[node * inputs_.n_residuals + residual]; };
    std::vector<double> mean(n), lower(n, -std::numeric_limits<double>::infinity()),
        upper(n, std::numeric_limits<double>::infinity());
    for (std::size_t node = n; node-- > 0;) {  // children follow their parents
      if (tree_.left[node] < 0) {
        mean[node] = value(node);
      } else {
        const std::size_t left = tree_.left[node], right = left + 1;
        mean[node] = (mean[left] * static_cast<double>(tree_.count[left]) +
                      mean[right] * static_cast<double>(tree_.count[right])) /
                     static_cast<double>(tree_.count[node]);
      }
    }
    for (std::size_t node = 0; node < n; ++node) {
      if (tree_.left[node] < 0) {
        value(node) = std::min(std::max(value(node), lower[node]), upper[node]);
        continue;
      }
      const std::size_t left = tree_.left[node], right = left + 1;
      lower[left] = lower[right] = lower[node];
      upper[left] = upper[right] = upper[node];
      const int feature = tree_.feature[node];
      const bool unordered = parts_missing_only(tree_.bin[node], matrix_.n_bins[feature]);
      const int direction = unordered ? 0 : rules_.monotone[feature];
      if (direction == 0) continue;
      const double middle = std::min(std::max(0.5 * mean[left] + 0.5 * mean[right], lower[node]), upper[node]);
      upper[direction > 0 ? left : right] = middle;
      lower[direction > 0 ? right : left] = middle;
    }
  }

  const BinnedMatrix& matrix_;
  const GrowthRules& rules_;
  const TreeInputs& inputs_;
  const std::vector<std::vector<double>>& bounds_;
  GrownTree& tree_;
};

}  // namespace agbm
