// Growth of one tree for K residuals that share its structure.
//
// The loop works in batches of nodes: split them, and find the best splits of their children. Growing by level, a batch
// is a level or a part of it; growing best-first (max_leaf_nodes), one node, or several of which some may turn out not to
// be part of the tree. It knows rows only through NodeSearch, so that the rules are the same wherever the rows are.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
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
    seeds_.assign(1, mixed(sample.seed));
    groups_.clear();
    if (interactions_.empty()) return;
    groups_.emplace_back(interactions_.size());
    std::iota(groups_[0].begin(), groups_[0].end(), 0);
  }

  // Adds the two children of a node that is split on a feature: only the groups that have it remain. What is drawn for a
  // node depends on the path to it alone, so that nodes may be looked at in any order.
  void add_children(std::int32_t parent, int feature) {
    const std::uint64_t seed = seeds_[parent];
    seeds_.push_back(mixed(2 * seed));
    seeds_.push_back(mixed(2 * seed + 1));
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
    std::vector<std::pair<std::uint64_t, int>> draws;  // all of which differ
    draws.reserve(features.size());
    for (int f : features) draws.emplace_back(mixed(seeds_[node] + static_cast<std::uint64_t>(f)), f);
    const double share = sample_.node_share * static_cast<double>(features.size());
    const auto n = std::max<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(share));
    std::nth_element(draws.begin(), draws.begin() + n - 1, draws.end());
    features.clear();
    for (std::ptrdiff_t i = 0; i < n; ++i) features.push_back(draws[i].second);
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
  std::vector<std::uint64_t> seeds_;      // of each node
  std::vector<std::vector<int>> groups_;  // that are still allowed in each node; empty without interactions
  std::deque<std::vector<int>> chosen_;   // features of single nodes that may not use all
};

// The values of a tree's leaves.

// value = sum of residuals / (sum of hessians + l2), with the sum moved towards zero by l1, from integer sums finer than
// those of the histograms: a leaf value is then exact up to rounding, while splits may be chosen on fewer bits. For a
// loss with a kink, the Newton step is replaced by the quantile that is best for the rows of the leaf, which l1 and l2
// shrink by the same factors.
class LeafFitter {
 public:
  // grown: the node of the growth that each node of the tree is. bounds: of the values in each node of the growth; empty
  // without monotone features.
  LeafFitter(const BinnedMatrix& matrix, const GrowthRules& rules, const TreeInputs& inputs,
             const std::vector<std::int32_t>& grown, const std::vector<std::vector<double>>& bounds, GrownTree& tree)
      : matrix_(matrix), rules_(rules), inputs_(inputs), grown_(grown), bounds_(bounds), tree_(tree) {}

  void fit(NodeSearch& all) {
    const std::vector<std::int32_t> leaves = tree_.leaves();
    std::vector<std::int32_t> grown;
    for (std::int32_t leaf : leaves) grown.push_back(grown_[leaf]);
    const std::vector<std::int64_t> sums = all.leaf_sums(grown);
    const std::size_t n_outputs = inputs_.quantiles.n_outputs;
    const std::vector<double> quantiles = n_outputs > 0 ? all.leaf_quantiles(grown) : std::vector<double>();
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
    const Bounds bounds{bounds_.empty() ? nullptr : bounds_[grown_[node]].data()};
    for (int k = 0; k < inputs_.n_residuals; ++k) {
      const int group = k / group_size, h = inputs_.n_residuals + group;
      const double hessian =
          inputs_.n_hessians > 0 ? static_cast<double>(sums[h]) * unit[h] : static_cast<double>(tree_.count[node]);
      const double denominator = leaf_denominator(hessian, inputs_.min_hessian_leaf, inputs_.l2[group]);
      double& value = tree_.value[node * inputs_.n_residuals + k];
      const double sum = static_cast<double>(sums[k]) * unit[k], moved = moved_to_zero(sum, inputs_.l1);
      if (inputs_.has_quantiles(k)) {
        const double kept = denominator > 0.0 ? hessian / denominator : 0.0;
        value = kept * quantiles[inputs_.output_of(k)] * (moved == sum ? 1.0 : moved / sum);
      } else {
        value = bounds.clip(denominator > 0.0 ? moved / denominator : 0.0, k);
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
  const std::vector<std::int32_t>& grown_;
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
    LeafFitter(matrix_, rules_, inputs_, grown_, bounds_, tree_).fit(search_);
  }

  const GrownTree& tree() const { return tree_; }

 private:
  // Larger batches are not faster. A bounded batch, newest nodes first, bounds the number of histograms that a deep
  // tree keeps, to about one batch per level. In trees for many residuals, histograms are large.
  static constexpr std::size_t kBatchNodes = kMostNodes;
  static constexpr std::size_t kHistogramBytes = std::size_t{1} << 31;
  static constexpr std::size_t kUsualLevels = 8;

  static constexpr std::int32_t kNone = -1;

  // A node of the growth, which may not be part of the tree.
  struct NodeState {
    int depth;
    std::int64_t count;
    Split split;
    std::int32_t left = kNone;    // its first child, once it was split
    std::int32_t number = kNone;  // in the tree, if it is part of it
  };

  // A node to split, and whether its children may be split.
  struct Turn {
    std::int32_t node;
    bool children_too;
  };

  // Order of the heap of best-first growth; ties go to the older node.
  struct Worse {
    const std::vector<NodeState>& nodes;
    bool operator()(std::int32_t a, std::int32_t b) const {
      const double gain_a = nodes[a].split.gain, gain_b = nodes[b].split.gain;
      return gain_a != gain_b ? gain_a < gain_b : nodes[a].number > nodes[b].number;
    }
  };

  // Computed from the bins of all features and not from the cells: the numbers of nodes must not depend on the layout of
  // the columns.
  std::size_t batch_nodes() const {
    const std::size_t affordable = kHistogramBytes / (n_bins_ * channels_.n() * sizeof(std::int64_t) * kUsualLevels);
    return std::min(kBatchNodes, std::max<std::size_t>(1, affordable));
  }

  bool may_split(std::int32_t node) const {
    return nodes_[node].depth < rules_.max_depth && nodes_[node].count >= 2 * rules_.min_samples_leaf;
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
    total_.assign(1, search_.start(inputs_, channels_));
    nodes_.assign(1, {0, channels_.count_in(total_[0].back()), {}});
    nodes_[0].number = tree_.add(nodes_[0].count);
    grown_.assign(1, 0);
    pending_.clear();
    if (has_categories_) {
      const std::vector<double> of_all = noise_of(inputs, noise);
      for (int k = 0; k < channels_.n_residuals; ++k) channels_.noise.push_back(of_all[inputs_.sketch.sum(k)]);
    }
    start_bounds();
    search({}, may_split(0) ? std::vector<std::int32_t>{0} : std::vector<std::int32_t>{});
    wait_for_turn(0);
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
    const int feature = nodes_[parent].split.feature;
    const bool unordered = parts_missing_only(nodes_[parent].split.bin, matrix_.n_bins[feature]);
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

  bool best_first() const { return rules_.max_leaf_nodes > 0; }
  int n_leaves() const { return static_cast<int>(tree_.n_nodes() / 2 + 1); }

  // The next nodes to split, from those that have a split. Returns false when there are none.
  bool take_batch() {
    batch_.clear();
    best_first() ? take_best() : take_newest();
    return !batch_.empty();
  }

  void take_newest() {
    const std::size_t n = std::min(pending_.size(), batch_nodes());
    for (auto node = pending_.end() - static_cast<std::ptrdiff_t>(n); node != pending_.end(); ++node) {
      batch_.push_back({*node, true});
    }
    pending_.resize(pending_.size() - n);
  }

  // The node with the largest gain is the next of the tree. Those that follow are split with it if a search takes as long
  // for several nodes: their turn comes unless the children of others gain more, and until then they are not part of the
  // tree.
  void take_best() {
    while (n_leaves() < rules_.max_leaf_nodes && !pending_.empty() && nodes_[pending_.front()].left != kNone) {
      add_to_tree(pop(pending_));
    }
    std::vector<std::int32_t> expected = pending_;
    for (int n = n_leaves() + 1; n <= rules_.max_leaf_nodes && !expected.empty(); ++n) {
      const std::int32_t node = pop(expected), left = nodes_[node].left;
      if (left == kNone) {
        batch_.push_back({node, n < rules_.max_leaf_nodes});
        if (batch_.size() == search_.nodes_at_once()) return;
      } else {
        push(expected, left);
        push(expected, left + 1);
      }
    }
  }

  std::int32_t pop(std::vector<std::int32_t>& heap) const {
    std::pop_heap(heap.begin(), heap.end(), Worse{nodes_});
    const std::int32_t best = heap.back();
    heap.pop_back();
    return best;
  }
  // Only nodes that have a split are pushed.
  void push(std::vector<std::int32_t>& heap, std::int32_t node) const {
    if (!nodes_[node].split.exists()) return;
    heap.push_back(node);
    std::push_heap(heap.begin(), heap.end(), Worse{nodes_});
  }

  // A node of the tree, whose split is known, may be split.
  void wait_for_turn(std::int32_t node) {
    if (best_first()) {
      push(pending_, node);
    } else if (nodes_[node].split.exists()) {
      pending_.push_back(node);
    }
  }

  // The children of a node of the tree become part of it.
  void add_to_tree(std::int32_t node) {
    const NodeState state = nodes_[node];
    tree_.feature[state.number] = state.split.feature;
    tree_.bin[state.number] = state.split.bin;
    tree_.missing_left[state.number] = state.split.missing_left;
    tree_.left_codes[state.number] = state.split.left;
    tree_.left[state.number] = static_cast<std::int32_t>(tree_.n_nodes());
    tree_.gain[state.number] = state.split.gain;
    for (std::int32_t child : {state.left, state.left + 1}) {
      nodes_[child].number = tree_.add(nodes_[child].count);
      grown_.push_back(child);
      wait_for_turn(child);
    }
  }

  void split_batch() {
    std::vector<NodeSplit> splits;
    std::int32_t left = static_cast<std::int32_t>(nodes_.size());
    for (const Turn& turn : batch_) {
      splits.push_back({turn.node, left, nodes_[turn.node].split.feature, nodes_[turn.node].split.left});
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

    const std::int32_t right = left + 1;
    nodes_[parent].left = left;
    for (const std::vector<std::int64_t>& total : {left_total, right_total}) {
      nodes_.push_back({state.depth + 1, channels_.count_in(total.back()), {}});
      total_.push_back(total);
    }
    if (!bounds_.empty()) bound_children(parent, left, right);
    features_.add_children(parent, state.split.feature);

    // The counts of the sums decide which child is smaller: they are global if the rows are spread over machines.
    const bool left_smaller = nodes_[left].count <= nodes_[right].count;
    const std::int32_t small = left_smaller ? left : right;
    const std::int32_t large = left_smaller ? right : left;
    siblings_.push_back({parent, small, large, may_split(small)});
  }

  // The best splits of the children that may be split. If the larger child may not, the smaller may not either.
  void search_children() {
    std::vector<Siblings> families;
    std::vector<std::int32_t> wanted;
    for (std::size_t i = 0; i < siblings_.size(); ++i) {
      const Siblings& pair = siblings_[i];
      if (!batch_[i].children_too || !may_split(pair.large)) {
        search_.forget(pair.parent);
        continue;
      }
      families.push_back(pair);
      wanted.push_back(pair.large);
      if (pair.small_too) wanted.push_back(pair.small);
    }
    std::sort(wanted.begin(), wanted.end());
    search(families, wanted);
    if (best_first()) return;
    for (const Turn& turn : batch_) add_to_tree(turn.node);
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
      if (!candidate.best.exists()) search_.forget(candidate.node);
    }
  }

  const BinnedMatrix& matrix_;
  const GrowthRules rules_;
  const bool has_categories_;
  TreeInputs inputs_;  // of the tree that is being grown
  Channels channels_;
  NodeSearch& search_;
  GrownTree tree_;
  std::vector<std::int32_t> grown_;               // the node of the growth that each node of the tree is
  std::vector<NodeState> nodes_;                  // of the growth
  std::vector<std::vector<std::int64_t>> total_;  // sums of each node
  std::vector<std::vector<double>> bounds_;       // of the values in each node; empty without monotone features
  NodeFeatures features_;                         // per node
  std::vector<std::int32_t> pending_;             // nodes of the tree with a split; a heap if growth is best-first
  std::vector<Turn> batch_;
  std::vector<Siblings> siblings_;
  std::size_t n_bins_ = 0;  // of all features, including those of missing values
};

}  // namespace agbm
