// Partition of the rows of a split node into those of its two children.
#pragma once

#include <array>

#include "base/parallel.hpp"
#include "bins/layout.hpp"
#include "formulas/row_ring.hpp"
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

}  // namespace agbm
