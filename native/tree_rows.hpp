// Rows while a tree grows on them: which node each belongs to, and sums over the rows of nodes.
//
// This is all that a tree needs of rows; what is decided with the sums is in grow.hpp. All sums are of integers, so where the
// rows are spread over processes, each has its own TreeRows, and the sums of all are added up.
#pragma once

#include <vector>

#include "histogram.hpp"
#include "layout.hpp"
#include "parallel.hpp"
#include "partition.hpp"
#include "quantise.hpp"
#include "split.hpp"

namespace agbm {

// A node whose rows go to its children, which are left and left + 1.
struct NodeSplit {
  std::int32_t node, left;
  int feature;
  CodeSet codes;  // of the rows that go left
};

// A node whose histogram is wanted, and where.
struct NodeCells {
  std::int32_t node;
  std::int64_t* cells;
};

// Where the sums over rows come from.
class RowSums {
 public:
  virtual ~RowSums() = default;
  virtual void split(const std::vector<NodeSplit>& splits) = 0;
  virtual void build(const std::vector<NodeCells>& wanted) = 0;
  // See noise_sums().
  virtual std::vector<std::int64_t> noise() = 0;
  // (leaf, target or hessian), finer than those of the histograms.
  virtual std::vector<std::int64_t> leaf_sums(const std::vector<std::int32_t>& leaves) = 0;
};

// Rows of this process. Buffers are kept from tree to tree.
class TreeRows : public RowSums {
 public:
  TreeRows(const BinnedMatrix& matrix, int n_threads)
      : n_threads_(n_threads), builder_(matrix, n_threads), partition_(matrix, n_threads) {}

  // The rows of a new tree: those chosen, or all (null).
  void start(const TreeTargets& targets, const Row* chosen, std::size_t n_chosen) {
    targets_ = targets;
    channels_ = channels_of(targets);
    pack(targets, channels_, packed_, n_threads_);
    chosen_ = chosen;
    const std::size_t n_rows = chosen == nullptr ? targets.n_rows : n_chosen;
    partition_.reset(chosen, n_rows);
    builder_.set_rows(packed_.data(), channels_.n());
    ranges_.assign(1, {0, n_rows});
  }

  void split(const std::vector<NodeSplit>& splits) override {
    std::vector<RowRange> ranges;
    std::vector<Split> rules(splits.size());
    for (std::size_t i = 0; i < splits.size(); ++i) {
      ranges.push_back(ranges_[splits[i].node]);
      rules[i].feature = splits[i].feature;
      rules[i].left = splits[i].codes;
    }
    const std::vector<std::size_t> middle = partition_.split(ranges, rules);
    for (std::size_t i = 0; i < splits.size(); ++i) {
      const std::size_t left = splits[i].left;
      if (ranges_.size() < left + 2) ranges_.resize(left + 2);
      ranges_[left] = {ranges[i].begin, middle[i]};
      ranges_[left + 1] = {middle[i], ranges[i].end};
    }
  }

  void build(const std::vector<NodeCells>& wanted) override {
    std::vector<NodeRows> nodes;
    for (const NodeCells& node : wanted) {
      const RowRange range = ranges_[node.node];
      // The root's rows without a list of them are read in a straight line.
      const bool straight = node.node == 0 && chosen_ == nullptr;
      nodes.push_back({straight ? nullptr : partition_.rows() + range.begin, range.size(), node.cells});
    }
    builder_.build(nodes);
  }

  // The cells of one group alone.
  void build_group(const ColumnGroup& group, std::int32_t node, std::int64_t* cells) const {
    const RowRange range = ranges_[node];
    builder_.build_group(group, {partition_.rows() + range.begin, range.size(), cells});
  }

  std::vector<std::int64_t> noise() override { return noise_sums(targets_, n_threads_); }

  std::vector<std::int64_t> leaf_sums(const std::vector<std::int32_t>& leaves) override {
    struct Piece {
      std::size_t leaf;
      RowRange rows;
    };
    std::vector<Piece> pieces;
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      const RowRange rows = ranges_[leaves[leaf]];
      for (std::size_t begin = rows.begin; begin < rows.end; begin += kRowsPerTask) {
        pieces.push_back({leaf, {begin, std::min(rows.end, begin + kRowsPerTask)}});
      }
    }
    const int n_sums = targets_.n_sums();
    std::vector<double> scale;
    for (int k = 0; k < n_sums; ++k) scale.push_back(std::ldexp(1.0, targets_.leaf_exponent(k)));
    std::vector<std::int64_t> partial(pieces.size() * n_sums);
    parallel_for(pieces.size(), threads_for(targets_.n_rows, n_threads_), [&](std::size_t p) {
      for (int k = 0; k < n_sums; ++k) {
        const double* x = targets_.summand(k);
        std::int64_t sum = 0;
        for (std::size_t i = pieces[p].rows.begin; i < pieces[p].rows.end; ++i) {
          const Row row = partition_.rows()[i];
          sum += round_scaled(x[row], scale[k]) * targets_.repeat(row);
        }
        partial[p * n_sums + k] = sum;
      }
    });
    std::vector<std::int64_t> sums(leaves.size() * n_sums, 0);
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      for (int k = 0; k < n_sums; ++k) sums[pieces[p].leaf * n_sums + k] += partial[p * n_sums + k];
    }
    return sums;
  }

  // Sums of a node's rows, of every channel.
  std::vector<std::int64_t> totals(std::int32_t node) const {
    std::vector<std::int64_t> total(channels_.n(), 0);
    for (std::size_t i = ranges_[node].begin; i < ranges_[node].end; ++i) {
      const std::int64_t* packed = packed_.data() + partition_.rows()[i] * total.size();
      for (std::size_t c = 0; c < total.size(); ++c) total[c] += packed[c];
    }
    return total;
  }

  // Without nodes, until start() is called again.
  void stop() { ranges_.clear(); }

  std::size_t size(std::int32_t node) const { return ranges_[node].size(); }
  std::size_t n_nodes() const { return ranges_.size(); }
  int n_channels() const { return channels_.n(); }

  // The tree's value on every row that it saw, (target, row), from those of its nodes, (node, target): a leaf knows its rows,
  // none walks the tree. Block by block of rows, so that a line of the result is written by one thread, while it is in the
  // cache.
  void values(const std::vector<std::int32_t>& leaves, const double* node_values, double* out,
              std::size_t stride) const {
    const Row* rows = partition_.rows();
    const std::size_t block =
        std::max<std::size_t>(kRowsPerTask, 32 * leaves.size());  // more rows than searches for them
    parallel_for((targets_.n_rows + block - 1) / block, n_threads_, [&](std::size_t number) {
      const std::size_t begin = number * block, end = std::min(targets_.n_rows, begin + block);
      for (std::int32_t leaf : leaves) {
        const Row* first = std::lower_bound(rows + ranges_[leaf].begin, rows + ranges_[leaf].end, begin);
        const Row* last = std::lower_bound(first, rows + ranges_[leaf].end, end);
        for (int k = 0; k < targets_.n_targets; ++k) {
          const double value = node_values[static_cast<std::size_t>(leaf) * targets_.n_targets + k];
          double* column = out + k * stride;
          for (const Row* row = first; row < last; ++row) column[*row] = value;
        }
      }
    });
  }

 private:
  int n_threads_;
  HistogramBuilder builder_;
  RowPartition partition_;
  TreeTargets targets_;  // of the tree that is being grown
  Channels channels_;
  LargeVector<std::int64_t> packed_;  // (row, channel)
  const Row* chosen_ = nullptr;
  std::vector<RowRange> ranges_;  // of each node
};

}  // namespace agbm
