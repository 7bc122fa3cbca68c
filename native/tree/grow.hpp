// Growth of one tree for K residuals that share its structure.
//
// The loop works in batches of nodes: split them, and find the best splits of their children. Growing by level, a batch
// is a level or a part of it; growing best-first (max_leaf_nodes), one node. It knows rows only through NodeSearch, so
// that the rules are the same wherever the rows are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "base/hash.hpp"
#include "bins/matrix.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/split_rules.hpp"
#include "tree/node_search.hpp"
#include "tree/quantise.hpp"
#include "tree/split.hpp"
#include "tree/tree.hpp"

namespace agbm {

// What is drawn for a tree: the features that it may use (null: all), the share of them that each node may be split on,
// and the number of outputs that splits are chosen by (0: all).
struct TreeSample {
  const std::uint8_t* features = nullptr;
  double node_share = 1.0;
  int n_outputs = 0;
  std::uint64_t seed = 0;
};

class NodeFeatures {
 public:
  // interactions: groups of features that may be used together on one path; empty: all may.
  NodeFeatures(const BinnedMatrix& matrix, const std::vector<std::vector<int>>& interactions)
      : matrix_(matrix), interactions_(interactions), has_shared_columns_(matrix.has_shared_columns()) {
    for (int f = 0; f < matrix.n_features; ++f) {
      if (matrix.places[f].used()) all_.push_back(f);
    }
    sort_by_column(all_);
  }

  // Begins a tree with its root.
  void start(const TreeSample& sample) {
    sample_ = sample;
    chosen_.clear();
    groups_.clear();
    if (interactions_.empty()) return;
    groups_.emplace_back(interactions_.size());
    std::iota(groups_[0].begin(), groups_[0].end(), 0);
  }

  // Adds the two children of a node that is split on a feature: only the groups that have it remain.
  void add_children(std::int32_t parent, int feature) {
    if (groups_.empty()) return;
    std::vector<int> remaining;
    for (int group : groups_[parent]) {
      const std::vector<int>& features = interactions_[group];
      if (std::find(features.begin(), features.end(), feature) != features.end()) remaining.push_back(group);
    }
    groups_.push_back(remaining);
    groups_.push_back(remaining);
  }

  // Ordered by column. Valid until forget() is called.
  const std::vector<int>& of(std::int32_t node) {
    if (groups_.empty() && sample_.features == nullptr && sample_.node_share >= 1.0) return all_;
    chosen_.push_back(choose(node));
    return chosen_.back();
  }
  void forget() { chosen_.clear(); }

 private:
  std::vector<int> choose(std::int32_t node) const {
    std::vector<std::uint8_t> allowed(matrix_.n_features, groups_.empty() ? 1 : 0);
    if (!groups_.empty()) {
      for (int group : groups_[node]) {
        for (int feature : interactions_[group]) allowed[feature] = 1;
      }
    }
    std::vector<int> features;
    for (int f = 0; f < matrix_.n_features; ++f) {
      if (allowed[f] && (sample_.features == nullptr || sample_.features[f])) features.push_back(f);
    }
    if (sample_.node_share < 1.0 && !features.empty()) sample_share(features, node);
    // Unused features are removed only now: the sample is drawn among all features.
    features.erase(std::remove_if(features.begin(), features.end(), [&](int f) { return !matrix_.places[f].used(); }),
                   features.end());
    std::sort(features.begin(), features.end());
    sort_by_column(features);
    return features;
  }

  void sample_share(std::vector<int>& features, std::int32_t node) const {
    const std::uint64_t seed = mixed(sample_.seed + mixed(static_cast<std::uint64_t>(node)));
    const auto draw = [&](int feature) { return mixed(seed + static_cast<std::uint64_t>(feature)); };
    const double share = sample_.node_share * static_cast<double>(features.size());
    const auto end = features.begin() + std::max<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(share));
    // The features with the smallest random draws, all of which differ.
    std::nth_element(features.begin(), end - 1, features.end(), [&](int a, int b) { return draw(a) < draw(b); });
    features.erase(end, features.end());
  }

  // Features of one group of columns follow each other, so that its histogram is built once.
  void sort_by_column(std::vector<int>& features) const {
    if (!has_shared_columns_) return;  // they are in this order already
    std::stable_sort(features.begin(), features.end(),
                     [&](int a, int b) { return matrix_.places[a].column < matrix_.places[b].column; });
  }

  const BinnedMatrix& matrix_;
  const std::vector<std::vector<int>>& interactions_;
  const bool has_shared_columns_;
  TreeSample sample_;
  std::vector<int> all_;                  // features that are used
  std::vector<std::vector<int>> groups_;  // that are still allowed in each node; empty without interactions
  std::deque<std::vector<int>> chosen_;   // features of single nodes that may not use all
};

// The values of a tree's leaves.

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

// Grows one tree after the other; buffers are kept from tree to tree.
class TreeGrower {
 public:
  // The matrix may have no rows: only its features matter.
  TreeGrower(const BinnedMatrix& matrix, const GrowthRules& rules, NodeSearch& search)
      : matrix_(matrix),
        rules_(rules),
        has_categories_(
            std::any_of(matrix.n_categories.begin(), matrix.n_categories.end(), [](int n) { return n > 0; })),
        search_(search),
        features_(matrix, rules_.interactions) {
    for (int n : matrix.n_bins) n_bins_ += n + 1;
  }

  // `pause` is called between batches and may throw, which stops the growth.
  void grow(const TreeInputs& inputs, const TreeSample& sample, const std::function<void()>& pause) {
    start(inputs, sample);
    while (take_batch()) {
      pause();
      split_batch();
      search_children();
    }
    LeafFitter(matrix_, rules_, inputs_, bounds_, tree_).fit(search_);
  }

  const GrownTree& tree() const { return tree_; }

 private:
  // Larger batches are not faster. A bounded batch, newest nodes first, bounds the number of histograms that a deep
  // tree keeps, to about one batch per level. In trees for many residuals, histograms are large.
  static constexpr std::size_t kBatchNodes = kMostNodes;
  static constexpr std::size_t kHistogramBytes = std::size_t{1} << 31;
  static constexpr std::size_t kUsualLevels = 8;

  struct NodeState {
    int depth;
    Split split;
  };

  // Order of the heap of best-first growth; ties go to the older node.
  struct Worse {
    const std::vector<NodeState>& nodes;
    bool operator()(std::int32_t a, std::int32_t b) const {
      const double gain_a = nodes[a].split.gain, gain_b = nodes[b].split.gain;
      return gain_a != gain_b ? gain_a < gain_b : a > b;
    }
  };

  // Computed from the bins of all features and not from the cells: random choices depend on the numbers of nodes, which
  // must not depend on the layout of the columns.
  std::size_t batch_nodes() const {
    const std::size_t affordable = kHistogramBytes / (n_bins_ * channels_.n() * sizeof(std::int64_t) * kUsualLevels);
    return std::min(kBatchNodes, std::max<std::size_t>(1, affordable));
  }

  bool may_split(std::int32_t node) const {
    return nodes_[node].depth < rules_.max_depth && tree_.count[node] >= 2 * rules_.min_samples_leaf;
  }

  void start(const TreeInputs& inputs, const TreeSample& sample) {
    inputs_ = inputs;
    features_.start(sample);
    const bool sketches = sample.n_outputs > 0 && sample.n_outputs < inputs.n_groups() && !rules_.bounded();
    const std::vector<std::int64_t> noise =
        sketches || has_categories_ ? search_.noise(inputs_) : std::vector<std::int64_t>();
    inputs_.sketch = sketches ? drawn_sketch(inputs, noise, sample.n_outputs, sample.seed) : Sketch();
    channels_ = channels_of(inputs_);
    tree_ = GrownTree{};
    tree_.n_values = inputs.n_residuals;
    n_leaves_ = 1;
    nodes_.assign(1, {0, {}});
    pending_.clear();
    total_.assign(1, search_.start(inputs_, channels_));
    if (has_categories_) {
      const std::vector<double> of_all = noise_of(inputs, noise);
      for (int k = 0; k < channels_.n_residuals; ++k) channels_.noise.push_back(of_all[inputs_.sketch.sum(k)]);
    }
    start_bounds();
    tree_.add(channels_.count_in(total_[0].back()));
    search({}, may_split(0) ? std::vector<std::int32_t>{0} : std::vector<std::int32_t>{});
  }

  void start_bounds() {
    bounds_.clear();
    if (!rules_.bounded()) return;
    bounds_.emplace_back();
    for (int k = 0; k < inputs_.n_residuals; ++k) {
      bounds_[0].insert(bounds_[0].end(),
                        {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()});
    }
  }

  // The values of the children of a monotone split are bounded by their midpoint, which no descendant may cross.
  void bound_children(std::int32_t parent, std::int32_t left, std::int32_t right) {
    bounds_.push_back(bounds_[parent]);
    bounds_.push_back(bounds_[parent]);
    const int feature = tree_.feature[parent];
    const bool unordered = parts_missing_only(tree_.bin[parent], matrix_.n_bins[feature]);
    const int direction = unordered ? 0 : rules_.monotone[feature];  // zero for categories as well
    const SumReader<0, 0> counted(channels_.rules());
    const SumReader<0, 1> weighed(channels_.rules());
    const Bounds bounds{bounds_[parent].data()};
    const auto value = [&](std::int32_t node, int residual) {
      const std::int64_t* sums = total_[node].data();
      return channels_.n_hessians > 0 ? weighed.leaf_value(sums, residual, bounds)
                                      : counted.leaf_value(sums, residual, bounds);
    };
    for (int k = 0; direction != 0 && k < inputs_.n_residuals; ++k) {
      const double middle = 0.5 * value(left, k) + 0.5 * value(right, k);
      bounds_[direction > 0 ? left : right][2 * k + 1] = middle;
      bounds_[direction > 0 ? right : left][2 * k] = middle;
    }
  }

  Bounds bounds_of(std::size_t node) const { return {bounds_.empty() ? nullptr : bounds_[node].data()}; }

  // The next nodes to split, from those that have a split. Returns false when there are none.
  bool take_batch() {
    batch_.clear();
    if (rules_.max_leaf_nodes > 0) {
      if (n_leaves_ >= rules_.max_leaf_nodes || pending_.empty()) return false;
      std::pop_heap(pending_.begin(), pending_.end(), Worse{nodes_});
      batch_.push_back(pending_.back());
      pending_.pop_back();
    } else {
      const std::size_t n = std::min(pending_.size(), batch_nodes());
      batch_.assign(pending_.end() - static_cast<std::ptrdiff_t>(n), pending_.end());
      pending_.resize(pending_.size() - n);
    }
    return !batch_.empty();
  }

  void split_batch() {
    std::vector<NodeSplit> splits;
    std::int32_t left = static_cast<std::int32_t>(tree_.n_nodes());
    for (std::int32_t node : batch_) {
      splits.push_back({node, left, nodes_[node].split.feature, nodes_[node].split.left});
      left += 2;
    }
    search_.split(splits);
    siblings_.clear();
    for (const NodeSplit& split : splits) add_children(split.node, split.left);
  }

  void add_children(std::int32_t parent, std::int32_t left) {
    const NodeState state = nodes_[parent];
    const std::vector<std::int64_t> left_total = search_.left_total(parent, left, state.split, total_[parent].data());
    std::vector<std::int64_t> right_total = total_[parent];
    for (std::size_t c = 0; c < right_total.size(); ++c) right_total[c] -= left_total[c];

    tree_.add(channels_.count_in(left_total.back()));
    const std::int32_t right = tree_.add(channels_.count_in(right_total.back()));
    tree_.feature[parent] = state.split.feature;
    tree_.bin[parent] = state.split.bin;
    tree_.missing_left[parent] = state.split.missing_left;
    tree_.left_codes[parent] = state.split.left;
    tree_.left[parent] = left;
    tree_.gain[parent] = state.split.gain;
    nodes_.insert(nodes_.end(), 2, {state.depth + 1, {}});
    total_.push_back(left_total);
    total_.push_back(right_total);
    ++n_leaves_;
    if (!bounds_.empty()) bound_children(parent, left, right);
    features_.add_children(parent, state.split.feature);

    // The counts of the sums decide which child is smaller: they are global if the rows are spread over machines.
    const bool left_smaller = tree_.count[left] <= tree_.count[right];
    const std::int32_t small = left_smaller ? left : right;
    const std::int32_t large = left_smaller ? right : left;
    siblings_.push_back({parent, small, large, may_split(small)});
  }

  // The best splits of the children that may be split. If the larger child may not, the smaller may not either.
  void search_children() {
    const bool full = rules_.max_leaf_nodes > 0 && n_leaves_ >= rules_.max_leaf_nodes;
    std::vector<Siblings> families;
    std::vector<std::int32_t> wanted;
    for (const Siblings& pair : siblings_) {
      if (full || !may_split(pair.large)) {
        search_.forget(pair.parent);
        continue;
      }
      families.push_back(pair);
      wanted.push_back(pair.large);
      if (pair.small_too) wanted.push_back(pair.small);
    }
    std::sort(wanted.begin(), wanted.end());
    search(families, wanted);
  }

  void search(const std::vector<Siblings>& families, const std::vector<std::int32_t>& wanted) {
    std::vector<Candidate> candidates;
    features_.forget();
    for (std::int32_t node : wanted) {
      candidates.push_back({node, &features_.of(node), total_[node].data(), bounds_of(node), {}});
      candidates.back().best.gain = rules_.min_split_gain;
    }
    search_.search(families, candidates);
    for (const Candidate& candidate : candidates) {
      nodes_[candidate.node].split = candidate.best;
      if (candidate.best.exists()) {
        pending_.push_back(candidate.node);
        if (rules_.max_leaf_nodes > 0) std::push_heap(pending_.begin(), pending_.end(), Worse{nodes_});
      } else {
        search_.forget(candidate.node);
      }
    }
  }

  const BinnedMatrix& matrix_;
  const GrowthRules rules_;
  const bool has_categories_;
  TreeInputs inputs_;  // of the tree that is being grown
  Channels channels_;
  NodeSearch& search_;
  GrownTree tree_;
  int n_leaves_ = 1;
  std::vector<NodeState> nodes_;                  // by node number
  std::vector<std::vector<std::int64_t>> total_;  // sums of each node
  std::vector<std::vector<double>> bounds_;       // of the values in each node; empty without monotone features
  NodeFeatures features_;                         // per node
  std::vector<std::int32_t> pending_;             // nodes with a split; a heap if growth is best-first
  std::vector<std::int32_t> batch_;
  std::vector<Siblings> siblings_;
  std::size_t n_bins_ = 0;  // of all features, including those of missing values
};

}  // namespace agbm
