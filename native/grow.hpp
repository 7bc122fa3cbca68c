// Growth of one tree for K residuals that share its structure.
//
// The loop works in batches of nodes: split them, build the histogram of each smaller child, subtract it for the larger
// one, find the next splits. Growing by level, a batch is a level or a part of it; growing best-first (max_leaf_nodes),
// one node. It sees rows only through sums (tree_rows.hpp): over the rows of this process, or over those of many, added
// up. If the rows are in this process, nodes with few of them keep no histogram: it is built group by group when the
// node is scanned, in a buffer that stays in the cache. The sums, and therefore the tree, are the same.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "layout.hpp"
#include "leaf_values.hpp"
#include "node_features.hpp"
#include "parallel.hpp"
#include "quantise.hpp"
#include "split.hpp"
#include "tree.hpp"
#include "tree_rows.hpp"

namespace agbm {

// Grows one tree after the other; buffers are kept from tree to tree.
class TreeGrower {
 public:
  // The matrix may have no rows: only the layout of its columns matters. If the rows are in this process, `here` is the
  // same object as `sums`; otherwise it is null.
  TreeGrower(const BinnedMatrix& matrix, const GrowthRules& rules, RowSums& sums, const TreeRows* here, int n_threads)
      : matrix_(matrix),
        rules_(rules),
        n_threads_(n_threads),
        has_categories_(
            std::any_of(matrix.n_categories.begin(), matrix.n_categories.end(), [](int n) { return n > 0; })),
        sums_(sums),
        here_(here),
        features_(matrix, rules_.interactions),
        has_shared_columns_(matrix.has_shared_columns()) {
    std::size_t n_additions = 0;
    for (const ColumnGroup& group : matrix.groups) {
      most_group_cells_ = std::max(most_group_cells_, matrix.n_cells(group));
      n_additions += matrix.n_additions(group);
    }
    few_rows_ = std::max(kFewRows, matrix.n_cells() * matrix.n_rows / std::max<std::size_t>(1, n_additions));
    for (int n : matrix.n_bins) n_bins_ += n + 1;
  }

  // `pause` is called between batches and may throw, which stops the growth.
  void grow(const TreeInputs& inputs, const FeatureSample& sample, const std::function<void()>& pause) {
    start(inputs, sample);
    while (take_batch()) {
      pause();
      split_batch();
      build_histograms();
      find_splits();
    }
    LeafFitter(matrix_, rules_, inputs_, bounds_, tree_).fit(sums_);
  }

  const GrownTree& tree() const { return tree_; }

 private:
  static constexpr std::int32_t kNoSlot = -1;
  // Adding up to this many rows costs no more than subtracting a sibling's cells and reading the result again later.
  // The same holds for adding rows to fewer cells than a histogram has; in sparse matrices, that may be any number of
  // rows.
  static constexpr std::size_t kFewRows = 512;
  // Larger batches are not faster. A bounded batch, newest nodes first, bounds the number of histograms that a deep
  // tree keeps, to about one batch per level. In trees for many residuals, histograms are large.
  static constexpr std::size_t kBatchNodes = 256;
  static constexpr std::size_t kHistogramBytes = std::size_t{1} << 31;
  static constexpr std::size_t kUsualLevels = 8;

  struct NodeState {
    int depth;
    std::int32_t slot = kNoSlot;  // slot of its histogram, if it keeps one
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

  // Two children: the histogram of the smaller is built from its rows, that of the larger is the difference to the
  // parent's. If the larger may not be split, the smaller may not either, and neither needs a histogram.
  struct Siblings {
    std::int32_t small, large;
  };

  // Features of one node that are scanned by one task.
  struct Scan {
    std::int32_t node;
    const int *begin, *end;
    Split best;
  };

  std::size_t cell_count() const { return matrix_.n_cells() * channels_.n(); }
  // Computed from the bins of all features and not from the cells: random choices depend on the numbers of nodes, which
  // must not depend on the layout of the columns.
  std::size_t batch_nodes() const {
    const std::size_t affordable = kHistogramBytes / (n_bins_ * channels_.n() * sizeof(std::int64_t) * kUsualLevels);
    return std::min(kBatchNodes, std::max<std::size_t>(1, affordable));
  }
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

  // Whether the rows of a node are in this process and too few for it to keep a histogram.
  bool few_rows(std::int32_t node) const { return here_ != nullptr && here_->size(node) <= few_rows_; }

  void start(const TreeInputs& inputs, const FeatureSample& sample) {
    inputs_ = inputs;
    features_.start(sample);
    channels_ = channels_of(inputs);
    tree_ = GrownTree{};
    tree_.n_values = inputs.n_residuals;
    n_leaves_ = 1;
    nodes_.assign(1, {0, kNoSlot, {}});
    pending_.clear();
    scanned_.clear();
    free_slots_.clear();
    for (std::size_t slot = histograms_.size(); slot-- > 0;) free_slots_.push_back(static_cast<std::int32_t>(slot));

    if (!few_rows(0)) {
      nodes_[0].slot = acquire_slot();
      sums_.build({{0, histogram(nodes_[0].slot)}});
    }
    if (has_categories_) channels_.noise = noise_of(inputs, sums_.noise());
    const bool in_cells = nodes_[0].slot != kNoSlot && !matrix_.groups.empty() && matrix_.groups[0].sparse < 0;
    total_.assign(1, in_cells ? totals_of_cells(nodes_[0].slot) : here_->totals(0));
    start_bounds();
    tree_.add(channels_.count_in(total_[0].back()));
    if (may_split(0)) scanned_.push_back(0);
    find_splits();
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
    const SumReader<0, false> counted(channels_);
    const SumReader<0, true> weighed(channels_);
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

  // The cells of any column that is not shared add up to the sums of the node.
  std::vector<std::int64_t> totals_of_cells(std::int32_t slot) {
    std::vector<std::int64_t> total(channels_.n(), 0);
    const std::int64_t* cells = histogram(slot);
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
    sums_.split(splits);
    siblings_.clear();
    for (const NodeSplit& split : splits) add_children(split.node, split.left);
  }

  void add_children(std::int32_t parent, std::int32_t left) {
    const NodeState state = nodes_[parent];
    const std::vector<std::int64_t> left_total = state.slot == kNoSlot ? here_->totals(left) : left_totals(parent);
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
    nodes_.insert(nodes_.end(), 2, {state.depth + 1, kNoSlot, {}});
    total_.push_back(left_total);
    total_.push_back(right_total);
    ++n_leaves_;
    if (!bounds_.empty()) bound_children(parent, left, right);
    features_.add_children(parent, state.split.feature);

    // The counts of the sums decide which child is smaller: they are global if the rows are spread over machines.
    const bool left_smaller = tree_.count[left] <= tree_.count[right];
    const std::int32_t small = left_smaller ? left : right;
    const std::int32_t large = left_smaller ? right : left;
    siblings_.push_back({small, large});
  }

  std::vector<std::int64_t> left_totals(std::int32_t node) {
    const Split& split = nodes_[node].split;
    const int channels = channels_.n();
    std::vector<std::int64_t> total(channels, 0), scratch(cells_of_feature());
    const std::size_t offset = matrix_.cell_offset[matrix_.places[split.feature].column];
    const std::int64_t* cells =
        bins_of(split.feature, histogram(nodes_[node].slot) + offset * channels, total_[node].data(), scratch.data());
    for (int bin = 0; bin <= matrix_.n_bins[split.feature]; ++bin) {
      if (!split.left.has(bin)) continue;
      for (int c = 0; c < channels; ++c) total[c] += cells[bin * channels + c];
    }
    return total;
  }

  // Histograms of the children that may be split: that of the smaller child from its rows, the other by subtraction.
  void build_histograms() {
    scanned_.clear();
    const bool full = rules_.max_leaf_nodes > 0 && n_leaves_ >= rules_.max_leaf_nodes;
    std::vector<NodeCells> to_build;
    std::vector<Siblings> wanted;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      const Siblings pair = siblings_[i];
      if (full || !may_split(pair.large)) {
        release_slot(batch_[i]);
        continue;
      }
      if (few_rows(pair.large) && few_rows(pair.small)) {
        release_slot(batch_[i]);
        scanned_.push_back(pair.large);
        if (may_split(pair.small)) scanned_.push_back(pair.small);
        continue;
      }
      nodes_[pair.large].slot = std::exchange(nodes_[batch_[i]].slot, kNoSlot);  // the parent's, reduced below
      nodes_[pair.small].slot = acquire_slot();
      to_build.push_back({pair.small, histogram(nodes_[pair.small].slot)});
      wanted.push_back(pair);
    }
    sums_.build(to_build);
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
    parallel_for(pairs.size() * pieces, threads_for(pairs.size() * cell_count(), n_threads_), [&](std::size_t task) {
      const Siblings& pair = pairs[task / pieces];
      const std::size_t begin = task % pieces * piece;
      subtract(histogram(nodes_[pair.large].slot) + begin, histogram(nodes_[pair.small].slot) + begin,
               std::min(piece, cell_count() - begin));
    });
  }

  void find_splits() {
    plan_scans();
    parallel_for(scans_.size(), threads_for(scanned_.size() * cell_count(), n_threads_), [&](std::size_t i) {
      nodes_[scans_[i].node].slot == kNoSlot ? scan_rows(scans_[i]) : scan_histogram(scans_[i]);
    });
    for (const Scan& scan : scans_) {
      Split& best = nodes_[scan.node].split;
      if (scan.best.better_than(best)) best = scan.best;
    }
    for (std::int32_t node : scanned_) {
      if (nodes_[node].split.exists()) {
        pending_.push_back(node);
        if (rules_.max_leaf_nodes > 0) std::push_heap(pending_.begin(), pending_.end(), Worse{nodes_});
      } else {
        release_slot(node);
      }
    }
  }

  // Each scan covers some features of a node, as many as are worth a task, in whole groups of columns.
  void plan_scans() {
    constexpr std::size_t enough_cells = 4096;
    scans_.clear();
    features_.forget();
    for (std::int32_t node : scanned_) {
      const std::vector<int>& features = features_.of(node);
      nodes_[node].split.gain = rules_.min_split_gain;
      for (std::size_t begin = 0, end = 0; begin < features.size(); begin = end) {
        std::size_t n_cells = 0;
        for (int group = -1; end < features.size(); ++end) {
          if (matrix_.group_of_feature(features[end]) != group && n_cells >= enough_cells) break;
          group = matrix_.group_of_feature(features[end]);
          n_cells += (matrix_.n_bins[features[end]] + 1) * channels_.n();
        }
        scans_.push_back({node, features.data() + begin, features.data() + end, nodes_[node].split});
      }
    }
  }

  void scan_histogram(Scan& scan) {
    std::vector<std::int64_t> scratch(scratch_size());
    const std::int64_t* cells = histogram(nodes_[scan.node].slot);
    for (const int* feature = scan.begin; feature < scan.end; ++feature) {
      const std::size_t offset = matrix_.cell_offset[matrix_.places[*feature].column];
      scan_feature(scan, *feature, cells + offset * channels_.n(), scratch.data());
    }
  }

  // Builds the histogram of one group after the other in a buffer, and scans it at once.
  void scan_rows(Scan& scan) {
    std::vector<std::int64_t> scratch(scratch_size());
    std::vector<std::int64_t> cells(most_group_cells_ * channels_.n());
    for (const int* feature = scan.begin; feature < scan.end;) {
      const int g = matrix_.group_of_feature(*feature);
      const ColumnGroup& group = matrix_.groups[g];
      here_->build_group(group, scan.node, cells.data());
      for (; feature < scan.end && matrix_.group_of_feature(*feature) == g; ++feature) {
        const std::size_t offset =
            matrix_.cell_offset[matrix_.places[*feature].column] - matrix_.cell_offset[group.first_column];
        scan_feature(scan, *feature, cells.data() + offset * channels_.n(), scratch.data());
      }
    }
  }

  // cells: those of the feature's column.
  void scan_feature(Scan& scan, int feature, const std::int64_t* cells, std::int64_t* scratch) const {
    if (too_few_others(feature, cells)) return;
    const std::int64_t* total = total_[scan.node].data();
    improve_split(scan.best, channels_, rules_,
                  {feature, bins_of(feature, cells, total, scratch + 3 * channels_.n()), matrix_.n_bins[feature],
                   matrix_.n_categories[feature], total, scratch, bounds_of(scan.node)});
  }
  // Whether a sparse feature is nonzero in so few rows of a node that the side of a split without zero cannot have
  // enough rows. This is the case for most features in most nodes.
  bool too_few_others(int feature, const std::int64_t* cells) const {
    const FeaturePlace& place = matrix_.places[feature];
    if (!place.shared()) return false;
    const int channels = channels_.n();
    const std::int64_t* last = cells + place.first_code * channels + channels - 1;
    std::int64_t n = 0;
    for (int i = 0; i < matrix_.n_bins[feature]; ++i) n += channels_.count_in(last[i * channels]);
    return n < rules_.min_samples_leaf;
  }
  std::size_t cells_of_feature() const { return has_shared_columns_ ? kWideCells * std::size_t(channels_.n()) : 0; }
  std::size_t scratch_size() const { return 3 * static_cast<std::size_t>(channels_.n()) + cells_of_feature(); }

  // The cells of a feature's bins in order, from those of its column. If the column is shared, the rows in which the
  // feature is zero are those of the node that are in none of its other bins.
  const std::int64_t* bins_of(int feature, const std::int64_t* cells, const std::int64_t* total,
                              std::int64_t* scratch) const {
    const FeaturePlace& place = matrix_.places[feature];
    if (!place.shared()) return cells;
    const int channels = channels_.n();
    std::int64_t* zero = scratch + place.zero_bin * channels;
    std::copy_n(total, channels, zero);
    for (int bin = 0; bin <= matrix_.n_bins[feature]; ++bin) {
      if (bin == place.zero_bin) continue;
      for (int c = 0; c < channels; ++c) {
        const std::int64_t value = cells[place.code(bin) * channels + c];
        scratch[bin * channels + c] = value;
        zero[c] -= value;
      }
    }
    return scratch;
  }

  const BinnedMatrix& matrix_;
  const GrowthRules rules_;
  const int n_threads_;
  const bool has_categories_;
  TreeInputs inputs_;  // of the tree that is being grown
  Channels channels_;
  RowSums& sums_;
  const TreeRows* here_;
  GrownTree tree_;
  int n_leaves_ = 1;
  std::vector<NodeState> nodes_;                       // by node number
  std::vector<std::vector<std::int64_t>> total_;       // sums of each node
  std::vector<std::vector<double>> bounds_;            // of the values in each node; empty without monotone features
  NodeFeatures features_;                              // per node
  std::vector<std::vector<std::int64_t>> histograms_;  // by slot
  std::vector<std::int32_t> free_slots_;
  std::vector<std::int32_t> pending_;  // nodes with a split; a heap if growth is best-first
  std::vector<std::int32_t> batch_, scanned_;
  std::vector<Siblings> siblings_;
  std::vector<Scan> scans_;
  const bool has_shared_columns_;
  std::size_t most_group_cells_ = 0;
  std::size_t few_rows_ = kFewRows;
  std::size_t n_bins_ = 0;  // of all features, including those of missing values
};

}  // namespace agbm
