// Rows while a tree grows on them: which node each belongs to, and sums over the rows of nodes.
//
// This is all that a tree needs of rows; grow.hpp decides what to do with the sums. All sums are of integers, so if the
// rows are spread over processes, each has its own TreeRows, and their sums are added up.
#pragma once

#include <array>
#include <vector>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "bins/matrix.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/row_ring.hpp"
#include "tree/histogram.hpp"
#include "tree/node_search.hpp"
#include "tree/quantise.hpp"
#include "tree/split.hpp"

namespace agbm {

struct RowRange {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};

// All rows, permuted so that each node has a contiguous range. The partition is stable: rows of a node stay in
// ascending order, which is faster to read. Pieces of rows are first separated into two sides, then copied to their
// places.
class RowPartition {
 public:
  RowPartition(const BinnedMatrix& matrix, int n_threads) : matrix_(matrix), n_threads_(n_threads) {}

  // Starts a new tree, with n_rows in one range: those chosen, or the first ones of vectors (null), ascending.
  void reset(const Row* chosen, std::size_t n_rows, const RowRing& ring) {
    rows_.resize(n_rows);
    left_.resize(n_rows);
    right_.resize(n_rows);
    parallel_rows(n_rows, n_threads_, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        rows_[i] =
            chosen != nullptr
                ? chosen[i]
                : static_cast<Row>(ring.ascending(static_cast<std::int64_t>(i), static_cast<std::int64_t>(n_rows)));
      }
    });
  }

  const Row* rows() const { return rows_.data(); }

  // Splits a batch of disjoint ranges. Returns the start of the right side of each.
  std::vector<std::size_t> split(const std::vector<RowRange>& ranges, const std::vector<Split>& splits) {
    std::vector<Piece> pieces;
    std::size_t n_rows = 0;
    for (std::size_t node = 0; node < ranges.size(); ++node) {
      n_rows += ranges[node].size();
      for (std::size_t begin = ranges[node].begin; begin < ranges[node].end; begin += kRowsPerTask) {
        pieces.push_back({node, begin, std::min(ranges[node].end, begin + kRowsPerTask), 0, 0, 0});
      }
    }
    const int n_threads = threads_for(n_rows, n_threads_);
    parallel_for(pieces.size(), n_threads, [&](std::size_t p) { cut(pieces[p], splits[pieces[p].node]); });
    std::vector<std::size_t> middle = place(pieces, ranges);
    parallel_for(pieces.size(), n_threads, [&](std::size_t p) {
      const Piece& piece = pieces[p];
      const std::size_t n_right = piece.end - piece.begin - piece.n_left;
      std::copy_n(left_.data() + piece.begin, piece.n_left, rows_.data() + piece.left_to);
      std::copy_n(right_.data() + piece.begin, n_right, rows_.data() + piece.right_to);
    });
    return middle;
  }

 private:
  struct Piece {
    std::size_t node, begin, end, n_left, left_to, right_to;
  };

  void cut(Piece& piece, const Split& split) {
    const FeaturePlace& place = matrix_.places[split.feature];
    std::array<std::uint8_t, 256> goes_left;
    goes_left.fill(place.shared() && split.left.has(place.zero_bin));
    for (int bin = 0; bin <= matrix_.n_bins[split.feature]; ++bin) goes_left[place.code(bin)] = split.left.has(bin);
    if (matrix_.listed(place.column)) {
      std::array<std::uint8_t, kRowsPerTask> codes;
      matrix_.codes_of_listed(place.column, rows_.data() + piece.begin, piece.end - piece.begin, codes.data());
      part(piece, [&](std::size_t i, Row) { return goes_left[codes[i]]; });
    } else {
      const std::uint8_t* codes = matrix_.column(place.column);
      part(piece, [&](std::size_t, Row row) { return goes_left[codes[row]]; });
    }
  }

  // Branch-free: every row is written to both sides, and only one side advances. The sides of some rows are looked up
  // before any of these is written, since the addresses of the writes depend on the lookups before them.
  template <class GoesLeft>
  void part(Piece& piece, const GoesLeft& goes_left) {
    constexpr std::size_t together = 8;
    const Row* __restrict from = rows_.data() + piece.begin;
    Row* __restrict left = left_.data() + piece.begin;
    Row* __restrict right = right_.data() + piece.begin;
    const std::size_t n = piece.end - piece.begin;
    std::size_t n_left = 0;
    const auto write = [&](std::size_t i, std::size_t goes) AGBM_INLINE {
      left[n_left] = from[i];
      right[i - n_left] = from[i];
      n_left += goes;
    };
    std::size_t i = 0;
    for (; i + together <= n; i += together) {
      std::array<std::size_t, together> goes;
#pragma GCC unroll 8
      for (std::size_t j = 0; j < together; ++j) goes[j] = goes_left(i + j, from[i + j]);
#pragma GCC unroll 8
      for (std::size_t j = 0; j < together; ++j) write(i + j, goes[j]);
    }
    for (; i < n; ++i) write(i, goes_left(i, from[i]));
    piece.n_left = n_left;
  }

  static std::vector<std::size_t> place(std::vector<Piece>& pieces, const std::vector<RowRange>& ranges) {
    std::vector<std::size_t> middle(ranges.size());
    for (std::size_t node = 0; node < ranges.size(); ++node) middle[node] = ranges[node].begin;
    for (const Piece& piece : pieces) middle[piece.node] += piece.n_left;
    std::vector<std::size_t> left_to(ranges.size());
    std::vector<std::size_t> right_to = middle;
    for (std::size_t node = 0; node < ranges.size(); ++node) left_to[node] = ranges[node].begin;
    for (Piece& piece : pieces) {
      piece.left_to = left_to[piece.node];
      piece.right_to = right_to[piece.node];
      left_to[piece.node] += piece.n_left;
      right_to[piece.node] += piece.end - piece.begin - piece.n_left;
    }
    return middle;
  }

  const BinnedMatrix& matrix_;
  int n_threads_;
  LargeVector<Row> rows_, left_, right_;
};

// Rows of this process. Buffers are kept from tree to tree.
class TreeRows : public RowSums {
 public:
  TreeRows(const BinnedMatrix& matrix, int n_threads)
      : n_threads_(n_threads), builder_(matrix, n_threads), partition_(matrix, n_threads) {}

  // The rows of a new tree: those chosen, ascending, or all (null). Histograms need summed_by() as well.
  void start(const TreeInputs& inputs, const Row* chosen, std::size_t n_chosen) {
    inputs_ = inputs;
    channels_ = {};  // until summed_by()
    chosen_ = chosen;
    const std::size_t n_rows = chosen == nullptr ? inputs.n_rows : n_chosen;
    partition_.reset(chosen, n_rows, inputs.ring);
    ranges_.assign(1, {0, n_rows});
  }

  void summed_by(const Sketch& sketch) override {
    inputs_.sketch = sketch;
    channels_ = channels_of(inputs_);
    form_ = RowForm(channels_, inputs_.repeats != nullptr);
    pack(inputs_, channels_, form_, packed_, n_threads_);
    builder_.set_rows(packed_.data(), form_, inputs_.ring.n_before(inputs_.n_rows), inputs_.ring.first);
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
      // Without a list of its rows, the root's are read sequentially.
      const bool straight = node.node == 0 && chosen_ == nullptr;
      nodes.push_back({straight ? nullptr : partition_.rows() + range.begin, range.size(), node.cells});
    }
    builder_.build(nodes);
  }

  // The cells of one group only.
  void build_group(const ColumnGroup& group, std::int32_t node, std::int64_t* cells) const {
    const RowRange range = ranges_[node];
    builder_.build_group(group, {partition_.rows() + range.begin, range.size(), cells});
  }

  std::vector<std::int64_t> noise() override { return noise_sums(inputs_, n_threads_); }

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
    const int n_sums = inputs_.n_sums();
    std::vector<double> scale;
    for (int k = 0; k < n_sums; ++k) scale.push_back(std::ldexp(1.0, inputs_.leaf_exponent(k)));
    std::vector<std::int64_t> partial(pieces.size() * n_sums);
    parallel_for(pieces.size(), threads_for(inputs_.n_rows * n_sums, n_threads_), [&](std::size_t p) {
      const RowRange rows = pieces[p].rows;
      std::array<std::uint32_t, kRowsPerTask> at;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        at[i] = static_cast<std::uint32_t>(position(partition_.rows()[rows.begin + i]));
      }
      for (int k = 0; k < n_sums; ++k) {
        const double* x = inputs_.residual_or_hessian(k);
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          sum += round_scaled(x[at[i]], scale[k]) * inputs_.repeat(at[i]);
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

  std::vector<double> leaf_quantiles(const std::vector<std::int32_t>& leaves) override {
    const std::size_t n_outputs = inputs_.quantiles.distances.size();
    std::vector<double> found(leaves.size() * n_outputs);
    parallel_for(found.size(), threads_for(inputs_.n_rows, n_threads_), [&](std::size_t i) {
      found[i] = quantile(ranges_[leaves[i / n_outputs]], static_cast<int>(i % n_outputs));
    });
    return found;
  }

  // The weight of the rows of each leaf whose distances begin with the known bits, by the `width` bits that follow:
  // (leaf, next bits). `shift` is the number of bits after these. Quantiles over the rows of many processes are found
  // by such tallies.
  std::vector<std::int64_t> tally(const std::vector<std::int32_t>& leaves, int output, const std::uint64_t* known,
                                  int shift, int width) const {
    const double* distance = inputs_.quantiles.distances[output];
    const std::uint64_t mask = (std::uint64_t{1} << width) - 1;
    std::vector<std::int64_t> tallies(leaves.size() << width, 0);
    parallel_for(leaves.size(), threads_for(inputs_.n_rows, n_threads_), [&](std::size_t leaf) {
      std::int64_t* tally = tallies.data() + (leaf << width);
      for (std::size_t i = ranges_[leaves[leaf]].begin; i < ranges_[leaves[leaf]].end; ++i) {
        const std::size_t at = position(partition_.rows()[i]);
        const std::uint64_t bits = ordered_bits(distance[at]);
        const bool begins_so = shift + width == 64 || bits >> (shift + width) == known[leaf];
        if (begins_so) tally[bits >> shift & mask] += steps(at);
      }
    });
    return tallies;
  }

  // Sums over a node's rows, per channel.
  std::vector<std::int64_t> totals(std::int32_t node) const {
    std::vector<std::int64_t> total(channels_.n(), 0);
    for (std::size_t i = ranges_[node].begin; i < ranges_[node].end; ++i) {
      form_.add(packed_.data() + std::size_t{partition_.rows()[i]} * form_.n, total.data());
    }
    return total;
  }

  // Removes all nodes, until start() is called again.
  void stop() { ranges_.clear(); }

  std::size_t size(std::int32_t node) const { return ranges_[node].size(); }
  std::size_t n_nodes() const { return ranges_.size(); }
  int n_channels() const { return channels_.n(); }

  // The tree's values on every row that it was grown on, (value, position), from those of its nodes, (node, value): a
  // leaf knows its rows, so none walks down the tree. This goes block by block, so that each cache line of the result is
  // written by one thread while it is in the cache.
  void values(const std::vector<std::int32_t>& leaves, const double* node_values, double* out,
              std::size_t stride) const {
    const Row* rows = partition_.rows();
    // So large that searching for the rows of leaves costs less than writing their values.
    const std::size_t block = std::max<std::size_t>(kRowsPerTask, 32 * leaves.size());
    const auto n_rows = static_cast<std::size_t>(inputs_.ring.limit(static_cast<std::int64_t>(inputs_.n_rows)));
    parallel_for((n_rows + block - 1) / block, n_threads_, [&](std::size_t number) {
      const std::size_t begin = number * block, end = std::min(n_rows, begin + block);
      for (std::int32_t leaf : leaves) {
        const Row* first = std::lower_bound(rows + ranges_[leaf].begin, rows + ranges_[leaf].end, begin);
        const Row* last = std::lower_bound(first, rows + ranges_[leaf].end, end);
        for (int k = 0; k < inputs_.n_residuals; ++k) {
          const double value = node_values[static_cast<std::size_t>(leaf) * inputs_.n_residuals + k];
          double* column = out + k * stride;
          for (const Row* row = first; row < last; ++row) column[position(*row)] = value;
        }
      }
    });
  }

 private:
  // The place of a row in vectors.
  std::size_t position(Row row) const { return static_cast<std::size_t>(inputs_.ring.position(row)); }

  std::int64_t steps(std::size_t position) const {
    return inputs_.quantiles.steps == nullptr ? inputs_.repeat(position) : inputs_.quantiles.steps[position];
  }

  // The smallest distance such that the rows up to it have the wanted share of the weight; 0 if there are no rows.
  double quantile(const RowRange& range, int output) const {
    if (range.size() == 0) return 0.0;
    const Row *begin = partition_.rows() + range.begin, *end = partition_.rows() + range.end;
    const double* distance = inputs_.quantiles.distances[output];
    std::int64_t total = 0;
    for (const Row* row = begin; row < end; ++row) total += steps(position(*row));
    const double enough = inputs_.quantiles.enough(output, total);
    const bool equal_weights = inputs_.quantiles.steps == nullptr && inputs_.repeats == nullptr;
    if (equal_weights) return nth_distance(begin, end, distance, static_cast<std::size_t>(enough) - 1);
    std::vector<std::pair<double, std::int64_t>> weighed;
    for (const Row* row = begin; row < end; ++row) {
      weighed.emplace_back(distance[position(*row)], steps(position(*row)));
    }
    std::sort(weighed.begin(), weighed.end());
    std::int64_t so_far = 0;
    for (const auto& [value, weight] : weighed) {
      so_far += weight;
      if (static_cast<double>(so_far) >= enough) return value + 0.0;  // 0 and not -0
    }
    return weighed.back().first + 0.0;
  }
  double nth_distance(const Row* begin, const Row* end, const double* distance, std::size_t n) const {
    std::vector<double> distances;
    for (const Row* row = begin; row < end; ++row) distances.push_back(distance[position(*row)]);
    std::nth_element(distances.begin(), distances.begin() + static_cast<std::ptrdiff_t>(n), distances.end());
    return distances[n] + 0.0;
  }

  int n_threads_;
  HistogramBuilder builder_;
  RowPartition partition_;
  TreeInputs inputs_;  // of the tree that is being grown
  Channels channels_;
  RowForm form_;
  LargeVector<std::int64_t> packed_;  // (row of the matrix, channel)
  const Row* chosen_ = nullptr;
  std::vector<RowRange> ranges_;  // per node
};

}  // namespace agbm
