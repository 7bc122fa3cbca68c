// Histograms: for each feature and bin the sums of the packed rows that fall into it.
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "layout.hpp"
#include "parallel.hpp"

namespace agbm {

// One feature group, n rows. `rows` is null where the rows are first_row, first_row + 1, ...
struct HistogramTask {
  const std::uint8_t* codes;        // of the group
  const std::uint32_t* cell_offset; // of the group's features, relative to `cells`
  const std::int64_t* packed;
  const Row* rows;
  std::size_t first_row;
  std::size_t n;
  std::int64_t* cells;
};

// Width (features in the group) and Channels are compile-time constants so that the adds of one row are straight-line
// code; adds to different features never wait for one another.
template <int Channels, int Width, bool Indexed>
void add_rows(const HistogramTask& task) {
  std::array<std::uint32_t, Width> offset;
  for (int j = 0; j < Width; ++j) offset[j] = task.cell_offset[j] * Channels;
  constexpr std::size_t ahead = 24;  // rows; a node's rows are far apart, the hardware does not foresee them
  for (std::size_t i = 0; i < task.n; ++i) {
    const std::size_t row = Indexed ? task.rows[i] : task.first_row + i;
    if constexpr (Indexed) {
      const std::size_t later = task.rows[std::min(i + ahead, task.n - 1)];
      __builtin_prefetch(task.codes + later * Width);
      __builtin_prefetch(task.packed + later * Channels);
    }
    const std::uint8_t* code = task.codes + row * Width;
    const std::int64_t* value = task.packed + row * Channels;
    for (int j = 0; j < Width; ++j) {
      std::int64_t* cell = task.cells + offset[j] + std::size_t{code[j]} * Channels;
      for (int c = 0; c < Channels; ++c) cell[c] += value[c];
    }
  }
}

// Any number of channels: trees with many targets.
template <bool Indexed>
void add_rows_wide(const HistogramTask& task, int channels, int width) {
  for (std::size_t i = 0; i < task.n; ++i) {
    const std::size_t row = Indexed ? task.rows[i] : task.first_row + i;
    const std::uint8_t* code = task.codes + row * width;
    const std::int64_t* value = task.packed + row * channels;
    for (int j = 0; j < width; ++j) {
      std::int64_t* cell = task.cells + (std::size_t{task.cell_offset[j]} + code[j]) * channels;
      for (int c = 0; c < channels; ++c) cell[c] += value[c];
    }
  }
}

using AddRows = void (*)(const HistogramTask&);

template <int Channels, bool Indexed, int... W>
constexpr std::array<AddRows, sizeof...(W)> add_rows_table(std::integer_sequence<int, W...>) {
  return {&add_rows<Channels, W + 1, Indexed>...};
}

template <int Channels>
void add_rows_of_width(const HistogramTask& task, int width) {
  using Widths = std::make_integer_sequence<int, kMaxGroupWidth>;
  static constexpr auto indexed = add_rows_table<Channels, true>(Widths{});
  static constexpr auto dense = add_rows_table<Channels, false>(Widths{});
  (task.rows != nullptr ? indexed : dense)[width - 1](task);
}

inline void accumulate(const HistogramTask& task, int channels, int width) {
  if (task.n == 0) return;
  switch (channels) {
    case 1: return add_rows_of_width<1>(task, width);
    case 2: return add_rows_of_width<2>(task, width);
    case 3: return add_rows_of_width<3>(task, width);
    default: return task.rows != nullptr ? add_rows_wide<true>(task, channels, width)
                                         : add_rows_wide<false>(task, channels, width);
  }
}

// The rows of one node and the histogram they go to.
struct NodeRows {
  const Row* rows;  // null: all rows from 0
  std::size_t n;
  std::int64_t* histogram;
};

// Histograms of a batch of nodes, zeroed first. The work is cut into (node, group, piece of rows); a piece but the
// first of its node and group adds into a buffer of its own, merged afterwards. Integer sums make every cut equal.
class HistogramBuilder {
 public:
  HistogramBuilder(const BinnedMatrix& matrix, const std::int64_t* packed, int channels, int n_threads)
      : matrix_(matrix), packed_(packed), channels_(channels), n_threads_(n_threads) {}

  void build(const std::vector<NodeRows>& nodes) {
    plan(nodes);
    parallel_for(pieces_.size(), n_threads_, [&](std::size_t p) { run(pieces_[p]); });
    parallel_for(merges_.size(), n_threads_, [&](std::size_t m) {
      const Merge& merge = merges_[m];
      for (std::size_t i = 0; i < merge.n; ++i) merge.into[i] += merge.from[i];
    });
  }

 private:
  struct Piece {
    std::size_t group;
    const Row* rows;
    std::size_t first_row, n;
    std::int64_t* cells;  // of the group
  };
  struct Merge {
    std::int64_t* into;
    const std::int64_t* from;
    std::size_t n;
  };

  std::size_t group_cells(std::size_t g) const {
    const FeatureGroup& group = matrix_.groups[g];
    return std::size_t{matrix_.cell_offset[group.first_feature + group.width] - matrix_.cell_offset[group.first_feature]} *
           channels_;
  }

  void plan(const std::vector<NodeRows>& nodes) {
    pieces_.clear();
    merges_.clear();
    std::size_t total = 0;
    for (const NodeRows& node : nodes) total += node.n;
    // As many pieces as keep all threads busy, and no piece so short that clearing and merging its cells would dominate.
    const std::size_t slots = std::max<std::size_t>(1, n_threads_ / std::max<std::size_t>(1, matrix_.groups.size()));
    const std::size_t piece_rows = std::max<std::size_t>(total / slots + 1, 8192);
    std::vector<std::size_t> extra;  // (piece index) of pieces that need a buffer
    std::size_t buffer_size = 0;
    for (const NodeRows& node : nodes) {
      for (std::size_t g = 0; g < matrix_.groups.size(); ++g) {
        std::int64_t* cells =
            node.histogram + std::size_t{matrix_.cell_offset[matrix_.groups[g].first_feature]} * channels_;
        for (std::size_t begin = 0; begin == 0 || begin < node.n; begin += piece_rows) {
          const std::size_t n = std::min(piece_rows, node.n - begin);
          pieces_.push_back({g, node.rows == nullptr ? nullptr : node.rows + begin, begin, n, cells});
          if (begin > 0) {
            extra.push_back(pieces_.size() - 1);
            buffer_size += group_cells(g);
          }
        }
      }
    }
    buffer_.resize(buffer_size);
    std::int64_t* free = buffer_.data();
    for (std::size_t p : extra) {
      const std::size_t n = group_cells(pieces_[p].group);
      merges_.push_back({pieces_[p].cells, free, n});
      pieces_[p].cells = free;
      free += n;
    }
    // Largest first, so that no long piece is left for the end.
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.n > b.n; });
  }

  void run(const Piece& piece) const {
    const FeatureGroup& group = matrix_.groups[piece.group];
    std::memset(piece.cells, 0, group_cells(piece.group) * sizeof(std::int64_t));
    std::array<std::uint32_t, kMaxGroupWidth> offset;
    for (int j = 0; j < group.width; ++j) {
      offset[j] = matrix_.cell_offset[group.first_feature + j] - matrix_.cell_offset[group.first_feature];
    }
    accumulate({matrix_.codes.data() + group.data_offset, offset.data(), packed_, piece.rows, piece.first_row, piece.n,
                piece.cells},
               channels_, group.width);
  }

  const BinnedMatrix& matrix_;
  const std::int64_t* packed_;
  int channels_;
  int n_threads_;
  std::vector<Piece> pieces_;
  std::vector<Merge> merges_;
  std::vector<std::int64_t> buffer_;
};

// Histogram of the larger child in place of its parent's: parent - smaller child, exact.
inline void subtract(std::int64_t* parent, const std::int64_t* child, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) parent[i] -= child[i];
}

}  // namespace agbm
