// Histograms: for each column and code, the sums of the packed rows that have it.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/simd.hpp"
#include "bins/matrix.hpp"
#include "tree/quantise.hpp"

namespace agbm {

// One group of columns, n rows. `rows` is null if the rows are first_row, first_row + 1, ...
struct HistogramTask {
  const std::uint8_t* codes;  // of the group
  const std::int64_t* packed;
  const Row* rows;
  std::size_t first_row;
  std::size_t n;
  std::int64_t* cells;  // of the group
};

// Neighbouring integers, added by one instruction.
template <class Words>
AGBM_INLINE inline void add_words(std::int64_t* to, const std::int64_t* x) {
  Words sums, values;
  std::memcpy(&sums, to, sizeof sums);
  std::memcpy(&values, x, sizeof values);
  sums += values;
  std::memcpy(to, &sums, sizeof sums);
}

// `Vectors`: of the widest register that may be used.
template <int Channels, class Vectors = Vectors128>
AGBM_INLINE inline void add_cell(std::int64_t* cell, const std::int64_t* value) {
  int c = 0;
  if constexpr (Vectors::kLanes >= 8) {
    for (; c + 8 <= Channels; c += 8) add_words<Vectors512::Words>(cell + c, value + c);
  }
  if constexpr (Vectors::kLanes >= 4) {
    for (; c + 4 <= Channels; c += 4) add_words<Vectors256::Words>(cell + c, value + c);
  }
  for (; c + 2 <= Channels; c += 2) add_words<Vectors128::Words>(cell + c, value + c);
  if (c < Channels) cell[c] += value[c];
}

// Whether codes are read eight at a time, if a group has as many. On 64-bit ARM, loads limit the adds, and this takes
// 10 to 20 % less time than reading them one by one. It was not measured elsewhere.
#if defined(__aarch64__)
constexpr bool kCodesInWords = std::endian::native == std::endian::little;
#else
constexpr bool kCodesInWords = false;
#endif

// The codes of a row.
template <int Width, bool InWords = kCodesInWords && Width >= 8>
class RowCodes {
 public:
  explicit RowCodes(const std::uint8_t* codes) : codes_(codes) {}
  std::size_t operator[](int j) const { return codes_[j]; }

 private:
  const std::uint8_t* codes_;
};

template <int Width>
class RowCodes<Width, true> {
 public:
  explicit RowCodes(const std::uint8_t* codes) {
    for (int w = 0; w < kWords; ++w) std::memcpy(&words_[w], codes + first(w), 8);
  }
  std::size_t operator[](int j) const { return words_[j / 8] >> (8 * (j - first(j / 8))) & 0xff; }

 private:
  static constexpr int kWords = (Width + 7) / 8;
  // The last word may begin within the one before, so that it ends with the row.
  static constexpr int first(int word) { return std::min(8 * word, Width - 8); }

  std::array<std::uint64_t, kWords> words_;
};

// Width (columns in the group), Cells (of each) and Channels are compile-time constants so that the adds of one row are
// straight-line code; adds to different columns never wait for one another.
template <int Channels, int Cells, bool Indexed, int Width>
void add_rows(const HistogramTask& given) {
  // A copy, like that of the values: the adds cannot alias it, so it stays in registers.
  const HistogramTask task = given;
  constexpr std::size_t ahead = 24;  // rows; a node's rows are far apart, so the hardware cannot predict them
  for (std::size_t i = 0; i < task.n; ++i) {
    const std::size_t row = Indexed ? task.rows[i] : task.first_row + i;
    if constexpr (Indexed) {
      const std::size_t later = task.rows[std::min(i + ahead, task.n - 1)];
      __builtin_prefetch(task.codes + later * Width);
      __builtin_prefetch(task.packed + later * Channels);
    }
    const RowCodes<Width> code(task.codes + row * Width);
    std::array<std::int64_t, Channels> value;
    std::copy_n(task.packed + row * Channels, Channels, value.begin());
#pragma GCC unroll 16
    for (int j = 0; j < Width; ++j) {
      add_cell<Channels>(task.cells + (j * Cells + code[j]) * Channels, value.data());
    }
  }
}

// Trees for some residuals with a hessian each: loops over columns, with straight-line code for one.
template <int Channels>
void add_rows_by_column(const HistogramTask& given, const ColumnGroup& group) {
  vectorised_by_register([&](auto vectors) AGBM_INLINE {
    const HistogramTask task = given;
    const int width = group.width;
    const std::size_t stride = std::size_t{static_cast<unsigned>(group.cells)} * Channels;
    for (std::size_t i = 0; i < task.n; ++i) {
      const std::size_t row = task.rows != nullptr ? task.rows[i] : task.first_row + i;
      const std::uint8_t* code = task.codes + row * width;
      std::array<std::int64_t, Channels> value;
      std::copy_n(task.packed + row * Channels, Channels, value.begin());
      std::int64_t* cells = task.cells;
      for (int j = 0; j < width; ++j, cells += stride) {
        add_cell<Channels, decltype(vectors)>(cells + std::size_t{code[j]} * Channels, value.data());
      }
    }
  });
}

// Any number of channels: trees for many residuals.
inline void add_rows_wide(const HistogramTask& task, int channels, const ColumnGroup& group) {
  for (std::size_t i = 0; i < task.n; ++i) {
    const std::size_t row = task.rows != nullptr ? task.rows[i] : task.first_row + i;
    const std::uint8_t* code = task.codes + row * group.width;
    const std::int64_t* value = task.packed + row * channels;
    for (int j = 0; j < group.width; ++j) {
      std::int64_t* cell = task.cells + (std::size_t{static_cast<unsigned>(j * group.cells)} + code[j]) * channels;
      for (int c = 0; c < channels; ++c) cell[c] += value[c];
    }
  }
}

using AddRows = void (*)(const HistogramTask&);

template <int Channels, int Cells, bool Indexed, int... W>
constexpr std::array<AddRows, sizeof...(W)> add_rows_by_width(std::integer_sequence<int, W...>) {
  return {&add_rows<Channels, Cells, Indexed, W + 1>...};
}

template <int Channels, int Cells, bool Indexed>
void add_rows_of_width(const HistogramTask& task, int width) {
  static constexpr auto table =
      add_rows_by_width<Channels, Cells, Indexed>(std::make_integer_sequence<int, kMaxGroupWidth>{});
  table[width - 1](task);
}

template <int Channels>
void add_rows_of_channels(const HistogramTask& task, const ColumnGroup& group) {
  const bool wide = group.cells == kWideCells;
  if (task.rows != nullptr) {
    wide ? add_rows_of_width<Channels, kWideCells, true>(task, group.width)
         : add_rows_of_width<Channels, kNarrowCells, true>(task, group.width);
  } else {
    wide ? add_rows_of_width<Channels, kWideCells, false>(task, group.width)
         : add_rows_of_width<Channels, kNarrowCells, false>(task, group.width);
  }
}

// The same for a sparse group.
template <int Channels>
void add_sparse_rows(const SparseGroup& group, const HistogramTask& given) {
  const HistogramTask task = given;
  const std::uint32_t* const start = group.start.data();
  const std::uint16_t* const cells = group.cells.data();
  if (task.rows == nullptr) {
    const std::int64_t* value = task.packed + task.first_row * Channels;
    for (std::uint32_t k = start[task.first_row], end = start[task.first_row + task.n]; k < end; ++k) {
      add_cell<Channels>(task.cells + SparseGroup::cell(cells[k]) * Channels, value);
      value += SparseGroup::is_last(cells[k]) * Channels;
    }
    return;
  }
  for (std::size_t i = 0; i < task.n; ++i) {
    const std::size_t row = task.rows[i];
    std::array<std::int64_t, Channels> value;
    std::copy_n(task.packed + row * Channels, Channels, value.begin());
    for (std::uint32_t k = start[row], end = start[row + 1]; k < end; ++k) {
      add_cell<Channels>(task.cells + SparseGroup::cell(cells[k]) * Channels, value.data());
    }
  }
}

inline void add_sparse_rows_wide(const SparseGroup& group, const HistogramTask& task, std::size_t channels) {
  for (std::size_t i = 0; i < task.n; ++i) {
    const std::size_t row = task.rows != nullptr ? task.rows[i] : task.first_row + i;
    const std::int64_t* value = task.packed + row * channels;
    for (std::uint32_t k = group.start[row]; k < group.start[row + 1]; ++k) {
      std::int64_t* cell = task.cells + SparseGroup::cell(group.cells[k]) * channels;
      for (std::size_t c = 0; c < channels; ++c) cell[c] += value[c];
    }
  }
}

inline void accumulate_sparse(const SparseGroup& group, const HistogramTask& task, int channels) {
  switch (channels) {
    case 1: return add_sparse_rows<1>(group, task);
    case 2: return add_sparse_rows<2>(group, task);
    case 3: return add_sparse_rows<3>(group, task);
    default: return add_sparse_rows_wide(group, task, channels);
  }
}

inline void accumulate(const HistogramTask& task, int channels, const ColumnGroup& group) {
  switch (channels) {
    case 1: return add_rows_of_channels<1>(task, group);
    case 2: return add_rows_of_channels<2>(task, group);
    case 3: return add_rows_of_channels<3>(task, group);
    case 4: return add_rows_of_channels<4>(task, group);
    case 6: return add_rows_by_column<6>(task, group);
    case 8: return add_rows_by_column<8>(task, group);
    case 10: return add_rows_by_column<10>(task, group);
    default: return add_rows_wide(task, channels, group);
  }
}

// The rows of one node and the histogram that they are added to.
struct NodeRows {
  const Row* rows;  // null: the first of the rows that trees are grown on, in ascending order
  std::size_t n;
  std::int64_t* histogram;
};

// Histograms of a batch of nodes, zeroed first. The work is cut into (node, group, piece of rows). The first piece of a
// node and group adds to the histogram, every other one to a separate buffer that is merged afterwards. Since sums are
// of integers, the result does not depend on the cut.
class HistogramBuilder {
 public:
  HistogramBuilder(const BinnedMatrix& matrix, int n_threads) : matrix_(matrix), n_threads_(n_threads) {}

  // Sets the packed rows of all histograms that follow. All rows that trees are grown on, in ascending order, are
  // those up to n_before, and then those from `first` on.
  void set_rows(const std::int64_t* packed, const RowForm& form, std::size_t n_before = 0, std::size_t first = 0) {
    packed_ = packed;
    form_ = form;
    n_before_ = n_before;
    first_ = first;
  }

  void build(const std::vector<NodeRows>& nodes) {
    const std::size_t additions = plan(nodes) + nodes.size() * matrix_.n_cells();
    parallel_for(pieces_.size(), threads_for(additions * form_.n, n_threads_), [&](std::size_t p) {
      const Piece& piece = pieces_[p];
      build_group(*piece.group, {piece.rows, piece.n, piece.cells}, piece.begin);
    });
    parallel_for(merges_.size(), n_threads_, [&](std::size_t m) {
      const Merge& merge = merges_[m];
      for (std::size_t copy = 0; copy < merge.copies; ++copy) {
        for (std::size_t i = 0; i < merge.n; ++i) merge.into[i] += merge.from[copy * merge.n + i];
      }
    });
  }

  // The histogram of one group only. Without a list of rows, the first `begin` ones are left out.
  void build_group(const ColumnGroup& group, const NodeRows& node, std::size_t begin = 0) const {
    std::memset(node.histogram, 0, group_cells(group) * sizeof(std::int64_t));
    if (!form_.in_blocks()) return add_to(group, node, begin);
    const std::size_t n_cells = matrix_.n_cells(group);
    LargeVector<std::int64_t> sums(n_cells * form_.n);
    for (std::size_t from = 0; from < node.n; from += kCountedRows) {
      std::fill(sums.begin(), sums.end(), 0);
      const Row* rows = node.rows == nullptr ? nullptr : node.rows + from;
      add_to(group, {rows, std::min(kCountedRows, node.n - from), sums.data()}, begin + from);
      for (std::size_t i = 0; i < n_cells; ++i) form_.add(&sums[i * form_.n], node.histogram + i * form_.n_cell);
    }
  }

 private:
  struct Piece {
    const ColumnGroup* group;
    const Row* rows;
    std::size_t begin, n;
    std::int64_t* cells;  // of the group
    std::size_t cost;     // additions
  };
  // All buffers of one node and group, one after the other: a single task adds them, so that no two tasks write to the
  // same cells.
  struct Merge {
    std::int64_t* into;
    const std::int64_t* from;
    std::size_t n, copies;
  };

  // Adds rows to cells that have the integers of rows.
  void add_to(const ColumnGroup& group, const NodeRows& node, std::size_t begin) const {
    if (node.rows != nullptr) return add_run(group, node, 0);
    const std::size_t end = begin + node.n, middle = std::clamp(n_before_, begin, end);
    if (begin < middle) add_run(group, {nullptr, middle - begin, node.histogram}, begin);
    if (middle < end) add_run(group, {nullptr, end - middle, node.histogram}, first_ + middle - n_before_);
  }

  // Without a list, rows are those from first_row on.
  void add_run(const ColumnGroup& group, const NodeRows& node, std::size_t first_row) const {
    const HistogramTask task{matrix_.codes_of(group), packed_, node.rows, first_row, node.n, node.histogram};
    if (group.sparse >= 0) return accumulate_sparse(matrix_.lists_of(group), task, form_.n);
    accumulate(task, form_.n, group);
  }

  std::size_t group_cells(const ColumnGroup& group) const { return matrix_.n_cells(group) * form_.n_cell; }

  // Cells that a row of a group adds to, and one for the list of them.
  std::size_t row_cost(const ColumnGroup& group) const {
    if (group.sparse < 0) return group.width;
    return 1 + matrix_.n_additions(group) / std::max<std::size_t>(1, matrix_.n_rows);
  }

  // Several pieces per thread, since one may be slower than another, but none so short that waking a thread, or
  // clearing and merging its cells, would dominate. At least one, which clears the cells of a node without rows.
  std::size_t piece_count(const NodeRows& node, const ColumnGroup& group, std::size_t all_additions) const {
    constexpr std::size_t pieces_a_thread = 4, least = 8192;
    if (n_threads_ <= 1) return 1;
    const std::size_t enough =
        std::max({all_additions / (pieces_a_thread * n_threads_), least, 4 * matrix_.n_cells(group)});
    return std::clamp<std::size_t>(node.n * row_cost(group) / enough, 1, std::max<std::size_t>(1, node.n));
  }

  // Returns the number of additions.
  std::size_t plan(const std::vector<NodeRows>& nodes) {
    pieces_.clear();
    merges_.clear();
    std::size_t additions = 0, buffer_size = 0;
    for (const NodeRows& node : nodes) {
      for (const ColumnGroup& group : matrix_.groups) additions += node.n * row_cost(group);
    }
    for (const NodeRows& node : nodes) {
      for (const ColumnGroup& group : matrix_.groups) {
        buffer_size += (piece_count(node, group, additions) - 1) * group_cells(group);
      }
    }
    buffer_.resize(buffer_size);
    std::int64_t* free = buffer_.data();
    for (const NodeRows& node : nodes) {
      for (const ColumnGroup& group : matrix_.groups) {
        std::int64_t* cells = node.histogram + matrix_.cell_offset[group.first_column] * form_.n_cell;
        const std::size_t n_pieces = piece_count(node, group, additions);
        if (n_pieces > 1) merges_.push_back({cells, free, group_cells(group), n_pieces - 1});
        for (std::size_t piece = 0; piece < n_pieces; ++piece) {
          const std::size_t begin = piece * node.n / n_pieces, end = (piece + 1) * node.n / n_pieces;
          pieces_.push_back({&group, node.rows == nullptr ? nullptr : node.rows + begin, begin, end - begin,
                             piece == 0 ? cells : free, (end - begin) * row_cost(group)});
          if (piece > 0) free += group_cells(group);
        }
      }
    }
    // Largest first, so that no long piece is left for the end.
    std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.cost > b.cost; });
    return additions;
  }

  const BinnedMatrix& matrix_;
  int n_threads_;
  const std::int64_t* packed_ = nullptr;
  RowForm form_;
  std::size_t n_before_ = 0, first_ = 0;
  std::vector<Piece> pieces_;
  std::vector<Merge> merges_;
  LargeVector<std::int64_t> buffer_;
};

// Replaces the histogram of a parent by that of its larger child: parent - smaller child, exact.
inline void subtract(std::int64_t* parent, const std::int64_t* child, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) parent[i] -= child[i];
}

}  // namespace agbm
