// Growth of one tree for K residuals that share its structure.
//
// The loop works in batches of nodes: split them, and find the best splits of their children. Growing by level, a batch
// is a level or a part of it; growing best-first (max_leaf_nodes), one node. It knows rows only through NodeSearch, so
// that the rules are the same wherever the rows are.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "bins/layout.hpp"
#include "tree/leaf_values.hpp"
#include "tree/node_features.hpp"
#include "tree/node_search.hpp"
#include "tree/quantise.hpp"
#include "tree/split.hpp"
#include "tree/tree.hpp"

namespace agbm {

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
  void grow(const TreeInputs& inputs, const FeatureSample& sample, const std::function<void()>& pause) {
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
  static constexpr std::size_t kBatchNodes = 256;
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

  void start(const TreeInputs& inputs, const FeatureSample& sample) {
    inputs_ = inputs;
    features_.start(sample);
    channels_ = channels_of(inputs);
    tree_ = GrownTree{};
    tree_.n_values = inputs.n_residuals;
    n_leaves_ = 1;
    nodes_.assign(1, {0, {}});
    pending_.clear();
    total_.assign(1, search_.start(inputs_, channels_));
    if (has_categories_) channels_.noise = noise_of(inputs, search_.noise());
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
    const SumReader<0, false> counted(channels_.rules());
    const SumReader<0, true> weighed(channels_.rules());
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
