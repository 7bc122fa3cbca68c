// Growth of one tree with K targets and one structure.
//
// The loop works in batches of nodes: split them, build the histogram of each smaller child, subtract for the larger, find
// the next splits. Growing by level, a batch is a level or a part of it; growing best-first (max_leaf_nodes), one node.
// build_histograms() is the one step whose result has to be summed when the rows are spread over machines.
#pragma once

#include <functional>
#include <utility>

#include "histogram.hpp"
#include "layout.hpp"
#include "parallel.hpp"
#include "partition.hpp"
#include "quantise.hpp"
#include "split.hpp"

namespace agbm {

// Children of node i are left[i] and left[i] + 1; a leaf has feature -1.
struct GrownTree {
  int n_targets = 0;
  std::vector<std::int32_t> feature;
  std::vector<std::int32_t> bin;
  std::vector<std::uint8_t> missing_left;
  std::vector<std::int32_t> left;
  std::vector<double> gain;
  std::vector<std::int64_t> count;
  std::vector<double> value;  // (node, target); zero in inner nodes

  std::size_t n_nodes() const { return feature.size(); }
  std::int32_t add(std::int64_t rows) {
    feature.push_back(-1);
    bin.push_back(0);
    missing_left.push_back(0);
    left.push_back(-1);
    gain.push_back(0.0);
    count.push_back(rows);
    value.insert(value.end(), n_targets, 0.0);
    return static_cast<std::int32_t>(n_nodes()) - 1;
  }
};

// Grows one tree after the other on the same rows; buffers are kept from tree to tree.
class TreeGrower {
 public:
  TreeGrower(const BinnedMatrix& matrix, const GrowthRules& rules, int n_threads)
      : matrix_(matrix),
        rules_(rules),
        n_threads_(n_threads),
        builder_(matrix, n_threads),
        partition_(matrix, n_threads) {}

  // Training rows are the first targets.n_rows rows of the matrix. `pause` is called between batches and may throw: the
  // way to stop a long growth.
  void grow(const TreeTargets& targets, const std::function<void()>& pause) {
    start(targets);
    while (take_batch()) {
      pause();
      split_batch();
      build_histograms();
      find_splits();
    }
    fit_leaves();
  }

  const GrownTree& tree() const { return tree_; }

  // The tree's value on every training row, (target, row): a leaf knows its rows, none walks the tree.
  void training_values(double* out, std::size_t stride) const {
    for_leaf_pieces([&](std::int32_t node, RowRange range, std::size_t) {
      for (int k = 0; k < tree_.n_targets; ++k) {
        const double value = tree_.value[static_cast<std::size_t>(node) * tree_.n_targets + k];
        double* column = out + k * stride;
        for (std::size_t i = range.begin; i < range.end; ++i) column[partition_.rows()[i]] = value;
      }
    });
  }

 private:
  static constexpr std::int32_t kNoSlot = -1;
  // More nodes at once gain nothing, and a bounded batch, newest first, bounds the histograms alive in deep trees.
  static constexpr std::size_t kBatchNodes = 256;

  struct NodeState {
    RowRange rows;
    int depth;
    std::int32_t slot = kNoSlot;   // of its histogram
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

  // Two children: the smaller gets its histogram from its rows, the larger what remains of the parent's. The larger may
  // be split wherever the smaller may: where it may not, neither needs a histogram.
  struct Siblings {
    std::int32_t small, large;
  };

  std::size_t cell_count() const { return matrix_.n_cells() * channels_.n(); }
  std::int64_t* histogram(std::int32_t slot) { return histograms_[slot].data(); }

  std::int32_t acquire_slot() {
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<std::int32_t>(histograms_.size()));
      histograms_.emplace_back();
    }
    const std::int32_t slot = free_slots_.back();
    free_slots_.pop_back();
    histograms_[slot].resize(cell_count());
    return slot;
  }
  void release_slot(std::int32_t node) {
    if (nodes_[node].slot != kNoSlot) free_slots_.push_back(nodes_[node].slot);
    nodes_[node].slot = kNoSlot;
  }

  bool may_split(std::int32_t node) const {
    return nodes_[node].depth < rules_.max_depth && tree_.count[node] >= 2 * rules_.min_samples_leaf;
  }

  void start(const TreeTargets& targets) {
    targets_ = targets;
    pack(targets, channels_, n_threads_);
    partition_.reset(targets.n_rows);
    tree_ = GrownTree{};
    tree_.n_targets = targets.n_targets;
    n_leaves_ = 1;
    nodes_.assign(1, {{0, targets.n_rows}, 0, kNoSlot, {}});
    pending_.clear();
    scanned_.clear();
    free_slots_.clear();
    for (std::size_t slot = histograms_.size(); slot-- > 0;) free_slots_.push_back(static_cast<std::int32_t>(slot));

    nodes_[0].slot = acquire_slot();
    builder_.build({{nullptr, targets.n_rows, histogram(nodes_[0].slot)}}, channels_.packed.data(), channels_.n());
    total_.assign(1, totals_of(0));
    tree_.add(channels_.count_in(total_[0].back()));
    if (may_split(0)) scanned_.push_back(0);
    find_splits();
  }

  // Any feature's cells sum to the node's sums.
  std::vector<std::int64_t> totals_of(std::int32_t node) {
    std::vector<std::int64_t> total(channels_.n(), 0);
    const std::int64_t* cells = histogram(nodes_[node].slot);
    for (std::size_t i = 0; i < matrix_.cell_offset[1] * total.size(); ++i) total[i % total.size()] += cells[i];
    return total;
  }

  // The next nodes to split, from those that have a split. Returns false when there are none.
  bool take_batch() {
    batch_.clear();
    if (rules_.max_leaf_nodes > 0) {
      if (n_leaves_ >= rules_.max_leaf_nodes || pending_.empty()) return false;
      std::pop_heap(pending_.begin(), pending_.end(), Worse{nodes_});
      batch_.push_back(pending_.back());
      pending_.pop_back();
    } else {
      const std::size_t n = std::min(pending_.size(), kBatchNodes);
      batch_.assign(pending_.end() - static_cast<std::ptrdiff_t>(n), pending_.end());
      pending_.resize(pending_.size() - n);
    }
    return !batch_.empty();
  }

  void split_batch() {
    std::vector<RowRange> ranges;
    std::vector<Split> splits;
    for (std::int32_t node : batch_) {
      ranges.push_back(nodes_[node].rows);
      splits.push_back(nodes_[node].split);
    }
    const std::vector<std::size_t> middle = partition_.split(ranges, splits);
    siblings_.clear();
    for (std::size_t i = 0; i < batch_.size(); ++i) add_children(batch_[i], middle[i]);
  }

  void add_children(std::int32_t parent, std::size_t middle) {
    const NodeState state = nodes_[parent];
    const std::vector<std::int64_t> left_total = left_totals(parent);
    std::vector<std::int64_t> right_total = total_[parent];
    for (std::size_t c = 0; c < right_total.size(); ++c) right_total[c] -= left_total[c];

    const std::int32_t left = tree_.add(channels_.count_in(left_total.back()));
    const std::int32_t right = tree_.add(channels_.count_in(right_total.back()));
    tree_.feature[parent] = state.split.feature;
    tree_.bin[parent] = state.split.bin;
    tree_.missing_left[parent] = state.split.missing_left;
    tree_.left[parent] = left;
    tree_.gain[parent] = state.split.gain;
    nodes_.push_back({{state.rows.begin, middle}, state.depth + 1, kNoSlot, {}});
    nodes_.push_back({{middle, state.rows.end}, state.depth + 1, kNoSlot, {}});
    total_.push_back(left_total);
    total_.push_back(right_total);
    ++n_leaves_;

    // The smaller child by the counts of the sums, which are global where rows are spread over machines.
    const bool left_smaller = tree_.count[left] <= tree_.count[right];
    const std::int32_t small = left_smaller ? left : right;
    const std::int32_t large = left_smaller ? right : left;
    siblings_.push_back({small, large});
  }

  std::vector<std::int64_t> left_totals(std::int32_t node) {
    const Split& split = nodes_[node].split;
    const int channels = channels_.n();
    std::vector<std::int64_t> total(channels, 0);
    const std::int64_t* cells = histogram(nodes_[node].slot) + matrix_.cell_offset[split.feature] * channels;
    for (int code = 0; code <= matrix_.n_bins[split.feature]; ++code) {
      if (!goes_left(code, split.bin, split.missing_left, matrix_.n_bins[split.feature])) continue;
      for (int c = 0; c < channels; ++c) total[c] += cells[code * channels + c];
    }
    return total;
  }

  // Histograms of the children that may be split; the smaller one of each pair from its rows, the larger by subtraction.
  void build_histograms() {
    scanned_.clear();
    const bool full = rules_.max_leaf_nodes > 0 && n_leaves_ >= rules_.max_leaf_nodes;
    std::vector<NodeRows> to_build;
    std::vector<Siblings> wanted;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      const Siblings pair = siblings_[i];
      if (full || !may_split(pair.large)) {
        release_slot(batch_[i]);
        continue;
      }
      nodes_[pair.large].slot = std::exchange(nodes_[batch_[i]].slot, kNoSlot);  // to be reduced to its own
      nodes_[pair.small].slot = acquire_slot();
      const RowRange rows = nodes_[pair.small].rows;
      to_build.push_back({partition_.rows() + rows.begin, rows.size(), histogram(nodes_[pair.small].slot)});
      wanted.push_back(pair);
    }
    builder_.build(to_build, channels_.packed.data(), channels_.n());
    subtract_small(wanted);
    for (const Siblings& pair : wanted) {
      scanned_.push_back(pair.large);
      if (may_split(pair.small)) {
        scanned_.push_back(pair.small);
      } else {
        release_slot(pair.small);
      }
    }
    std::sort(scanned_.begin(), scanned_.end());
  }

  void subtract_small(const std::vector<Siblings>& pairs) {
    constexpr std::size_t piece = 16384;
    const std::size_t pieces = (cell_count() + piece - 1) / piece;
    parallel_for(pairs.size() * pieces, n_threads_, [&](std::size_t task) {
      const Siblings& pair = pairs[task / pieces];
      const std::size_t begin = task % pieces * piece;
      subtract(histogram(nodes_[pair.large].slot) + begin, histogram(nodes_[pair.small].slot) + begin,
               std::min(piece, cell_count() - begin));
    });
  }

  void find_splits() {
    const std::size_t n_features = static_cast<std::size_t>(matrix_.n_features);
    std::vector<Split> found(scanned_.size() * n_features);
    std::vector<std::int64_t> scratch(found.size() * 2 * channels_.n());
    parallel_for(found.size(), n_threads_, [&](std::size_t task) {
      const std::int32_t node = scanned_[task / n_features];
      const int feature = static_cast<int>(task % n_features);
      found[task] = best_split(
          channels_, rules_,
          {feature, histogram(nodes_[node].slot) + matrix_.cell_offset[feature] * channels_.n(),
           matrix_.n_bins[feature], total_[node].data(), scratch.data() + task * 2 * channels_.n()});
    });
    for (std::size_t i = 0; i < scanned_.size(); ++i) {
      const std::int32_t node = scanned_[i];
      Split best;
      for (std::size_t f = 0; f < n_features; ++f) {
        const Split& split = found[i * n_features + f];
        if (split.exists() && split.gain > best.gain) best = split;  // ties go to the lower feature
      }
      nodes_[node].split = best;
      if (best.exists()) {
        pending_.push_back(node);
        if (rules_.max_leaf_nodes > 0) std::push_heap(pending_.begin(), pending_.end(), Worse{nodes_});
      } else {
        release_slot(node);
      }
    }
  }

  // body(leaf, its rows or a piece of them, number of the piece), in parallel.
  template <class Body>
  void for_leaf_pieces(const Body& body) const {
    std::vector<std::pair<std::int32_t, RowRange>> pieces;
    for (std::size_t node = 0; node < tree_.n_nodes(); ++node) {
      if (tree_.left[node] >= 0) continue;
      const RowRange rows = nodes_[node].rows;
      for (std::size_t begin = rows.begin; begin < rows.end; begin += kRowsPerTask) {
        pieces.push_back({static_cast<std::int32_t>(node), {begin, std::min(rows.end, begin + kRowsPerTask)}});
      }
    }
    parallel_for(pieces.size(), n_threads_, [&](std::size_t p) { body(pieces[p].first, pieces[p].second, p); });
  }

  // value = sum of residuals / (sum of hessians + l2), from integer sums finer than the histograms': a leaf value is then
  // within rounding of the exact one, while splits may be chosen on fewer bits.
  void fit_leaves() {
    const int n_sums = targets_.n_targets + (targets_.hessians != nullptr ? 1 : 0);
    std::vector<double> scale(n_sums), unit(n_sums);
    for (int k = 0; k < n_sums; ++k) {
      const double largest = k < targets_.n_targets ? targets_.gradient_max[k] : targets_.hessian_max;
      const int exponent = scale_exponent(largest, value_bits(targets_.n_repeated, false));
      scale[k] = std::ldexp(1.0, exponent);
      unit[k] = std::ldexp(1.0, -exponent);
    }
    const std::size_t max_pieces = tree_.n_nodes() + tasks_for_rows(targets_.n_rows);
    std::vector<std::int64_t> partial(max_pieces * n_sums, 0);
    std::vector<std::int32_t> leaf_of(max_pieces, -1);
    for_leaf_pieces([&](std::int32_t node, RowRange range, std::size_t piece) {
      leaf_of[piece] = node;
      for (int k = 0; k < n_sums; ++k) {
        const double* x = k < targets_.n_targets ? targets_.gradient(k) : targets_.hessians;
        std::int64_t sum = 0;
        for (std::size_t i = range.begin; i < range.end; ++i) {
          const Row row = partition_.rows()[i];
          sum += round_scaled(x[row], scale[k]) * targets_.repeat(row);
        }
        partial[piece * n_sums + k] = sum;
      }
    });
    std::vector<std::int64_t> sums(tree_.n_nodes() * n_sums, 0);
    for (std::size_t piece = 0; piece < max_pieces && leaf_of[piece] >= 0; ++piece) {
      for (int k = 0; k < n_sums; ++k) sums[leaf_of[piece] * n_sums + k] += partial[piece * n_sums + k];
    }
    for (std::size_t node = 0; node < tree_.n_nodes(); ++node) {
      if (tree_.left[node] >= 0) continue;
      const std::int64_t* s = &sums[node * n_sums];
      const double h = targets_.hessians != nullptr ? static_cast<double>(s[n_sums - 1]) * unit[n_sums - 1]
                                                    : static_cast<double>(tree_.count[node]);
      const double denominator = h + rules_.l2_regularization;
      for (int k = 0; k < targets_.n_targets && denominator > 0.0; ++k) {
        tree_.value[node * targets_.n_targets + k] = static_cast<double>(s[k]) * unit[k] / denominator;
      }
    }
  }

  const BinnedMatrix& matrix_;
  const GrowthRules rules_;
  const int n_threads_;
  TreeTargets targets_;  // of the tree that is being grown
  Channels channels_;
  HistogramBuilder builder_;
  RowPartition partition_;
  GrownTree tree_;
  int n_leaves_ = 1;
  std::vector<NodeState> nodes_;                    // by node number
  std::vector<std::vector<std::int64_t>> total_;    // sums of each node
  std::vector<std::vector<std::int64_t>> histograms_;  // by slot
  std::vector<std::int32_t> free_slots_;
  std::vector<std::int32_t> pending_;  // nodes with a split; a heap where growth is best-first
  std::vector<std::int32_t> batch_, scanned_;
  std::vector<Siblings> siblings_;
};

}  // namespace agbm
