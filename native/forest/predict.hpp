// Predictions of forests on rows of numbers, with start scores and inverse links, and the leaves that rows reach.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "forest/arrays.hpp"
#include "forest/coded_trees.hpp"
#include "formulas/elementary.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/links.hpp"
#include "formulas/portable.hpp"
#include "tree/quantise.hpp"

namespace agbm {

class Forest {
 public:
  explicit Forest(ForestArrays&& arrays) : a_(validated(std::move(arrays))), coded_(a_), depth_(a_.roots.size()) {
    close_leaves();
  }
  Forest(Forest&&) = default;  // no copies: coded trees refer to the memory of the arrays, which moves along

  int n_features() const { return a_.n_features; }
  int n_columns() const { return a_.n_columns; }
  const ForestArrays& arrays() const { return a_; }
  bool is_leaf(std::int32_t node) const { return a_.nodes[node].left == node; }

  // The child that a row goes to from a node; a leaf leads to itself, but reads a feature.
  template <class T>
  std::uint32_t next_node(std::uint32_t at, const T* row, std::ptrdiff_t feature_stride) const {
    const ForestNode& node = a_.nodes[at];
    const double x = static_cast<double>(row[node.feature * feature_stride]);
    if (node.categories < 0) return next_of_numbers(a_.nodes.data(), at, x);
    return static_cast<std::uint32_t>(node.left) + !a_.set_of(node).has(x, node.missing_left);
  }

  // The same for a node that is not split by categories.
  static std::uint32_t next_of_numbers(const ForestNode* nodes, std::uint32_t at, double x) {
    const ForestNode& node = nodes[at];
    const bool missing = x != x;
    const bool right = !(x <= node.threshold) & !(missing & node.missing_left);
    return static_cast<std::uint32_t>(node.left) + right;
  }

  // out (row, column) += sum over trees. Rows are at x[row * row_stride + feature * feature_stride].
  template <class T>
  void add_predictions(const T* x, std::size_t n_rows, std::ptrdiff_t row_stride, std::ptrdiff_t feature_stride,
                       double* out, int n_threads) const {
    if (n_rows * depth_.size() < kFewestSharedWalks) n_threads = 1;
    const std::size_t n_blocks = (n_rows + kBlockRows - 1) / kBlockRows;
    const std::size_t n_tasks = std::min<std::size_t>(n_blocks, 8 * static_cast<std::size_t>(std::max(n_threads, 1)));
    const std::size_t n_codes = n_rows < kFewestCodedRows ? 0 : coded_.n_bytes();
    std::vector<std::uint8_t> codes(n_tasks * n_codes);
    parallel_for(n_tasks, n_threads, [&](std::size_t task) {
      for (std::size_t b = task * n_blocks / n_tasks; b < (task + 1) * n_blocks / n_tasks; ++b) {
        const std::size_t begin = b * kBlockRows;
        const Block<T> block{x + static_cast<std::ptrdiff_t>(begin) * row_stride, std::min(kBlockRows, n_rows - begin),
                             row_stride, feature_stride, out + begin * a_.n_columns};
        if (block.n_rows < kFewestCodedRows) {
          add_row_by_row(block);
        } else {
          add_tree_by_tree(block, codes.data() + task * n_codes);
        }
      }
    });
  }

 private:
  static constexpr std::size_t kFewestCodedRows = 32;         // fewer are walked sooner than a block is encoded
  static constexpr std::size_t kFewestSharedWalks = 1 << 15;  // fewer take at most 0.2 ms, too little to wake a thread
  static constexpr std::size_t kWalks = 8;                    // side by side, since each mostly waits for memory
  static constexpr std::size_t kJoined = 4;                   // trees that add their values together

  template <class T>
  struct Block {
    const T* x;
    std::size_t n_rows;
    std::ptrdiff_t row_stride, feature_stride;
    double* out;

    const T* row(std::size_t i) const { return x + static_cast<std::ptrdiff_t>(i) * row_stride; }
  };

  static ForestArrays&& validated(ForestArrays&& arrays) {
    arrays.validate();
    return std::move(arrays);
  }

  template <class T>
  void add_tree_by_tree(const Block<T>& block, std::uint8_t* codes) const {
    T values[kBlockRows] = {};
    const auto column_of = [&](int feature) {
      const T* column = block.x + feature * block.feature_stride;
      for (std::size_t i = 0; i < block.n_rows; ++i)
        values[i] = column[static_cast<std::ptrdiff_t>(i) * block.row_stride];
      return values;
    };
    coded_.fill<T>(column_of, codes);
    for (std::size_t tree = 0; tree < depth_.size();) {
      if (!coded_.has(tree)) {
        add_walks(block, tree++);
      } else if (can_join(tree)) {
        add_coded<kJoined>(block, tree, codes);
        tree += kJoined;
      } else {
        add_coded<1>(block, tree++, codes);
      }
    }
  }

  // Trees that add single values to the same column do so together: a row's sum is then read and written once.
  bool can_join(std::size_t first) const {
    if (a_.n_values != 1 || first + kJoined > depth_.size()) return false;
    for (std::size_t tree = first; tree < first + kJoined; ++tree) {
      if (!coded_.has(tree) || a_.first_column[tree] != a_.first_column[first]) return false;
    }
    return true;
  }

  template <std::size_t kTrees, class T>
  void add_coded(const Block<T>& block, std::size_t first, const std::uint8_t* codes) const {
    alignas(64) Leaves slots[kTrees][kSlots];
    const std::uint8_t* leaves[kTrees];
    const double* values[kTrees];
    for (std::size_t k = 0; k < kTrees; ++k) {
      leaves[k] = coded_.leaves(first + k, codes, slots[k]);
      values[k] = coded_.values(first + k);
    }
    double* out = block.out + a_.first_column[first];
    for (std::size_t i = 0; i < block.n_rows; ++i, out += a_.n_columns) {
      if (a_.n_values == 1) {
        double sum = *out;
        for (std::size_t k = 0; k < kTrees; ++k) sum += values[k][leaves[k][i]];
        *out = sum;
      } else {
        add_values(values[0] + leaves[0][i] * a_.n_values, out);
      }
    }
  }

  template <class T>
  void add_walks(const Block<T>& block, std::size_t tree) const {
    for (std::size_t first = 0; first < block.n_rows; first += kWalks) {
      const std::size_t n = std::min(kWalks, block.n_rows - first);
      std::uint32_t at[kWalks];
      const T* rows[kWalks];
      for (std::size_t k = 0; k < kWalks; ++k) {
        at[k] = static_cast<std::uint32_t>(a_.roots[tree]);
        rows[k] = block.row(first + std::min(k, n - 1));
      }
      walk(at, rows, block.feature_stride, depth_[tree]);
      for (std::size_t k = 0; k < n; ++k) add_leaf(tree, at[k], block.out + (first + k) * a_.n_columns);
    }
  }

  template <class T>
  void add_row_by_row(const Block<T>& block) const {
    for (std::size_t i = 0; i < block.n_rows; ++i) {
      for (std::size_t first = 0; first < depth_.size(); first += kWalks) {
        const std::size_t n = std::min(kWalks, depth_.size() - first);
        std::uint32_t at[kWalks];
        const T* rows[kWalks];
        int depth = 0;
        for (std::size_t k = 0; k < kWalks; ++k) {
          const std::size_t tree = first + std::min(k, n - 1);
          at[k] = static_cast<std::uint32_t>(a_.roots[tree]);
          rows[k] = block.row(i);
          depth = std::max(depth, depth_[tree]);
        }
        walk(at, rows, block.feature_stride, depth);
        for (std::size_t k = 0; k < n; ++k) add_leaf(first + k, at[k], block.out + i * a_.n_columns);
      }
    }
  }

  void add_leaf(std::size_t tree, std::uint32_t leaf, double* out) const {
    add_values(&a_.values[static_cast<std::size_t>(leaf) * a_.n_values], out + a_.first_column[tree]);
  }

  void add_values(const double* values, double* out) const {
    for (int k = 0; k < a_.n_values; ++k) out[k] += values[k];
  }

  // Takes as many steps as the deepest tree needs; walks that have reached a leaf stay there.
  template <class T>
  void walk(std::uint32_t (&at)[kWalks], const T* const (&rows)[kWalks], std::ptrdiff_t feature_stride,
            int depth) const {
    if (a_.n_sets() > 0) {
      for (int step = 0; step < depth; ++step) {
        for (std::size_t k = 0; k < kWalks; ++k) at[k] = next_node(at[k], rows[k], feature_stride);
      }
      return;
    }
    const ForestNode* const nodes = a_.nodes.data();
    for (int step = 0; step < depth; ++step) {
#pragma GCC unroll 8
      for (std::size_t k = 0; k < kWalks; ++k) {
        at[k] = next_of_numbers(nodes, at[k], static_cast<double>(rows[k][nodes[at[k]].feature * feature_stride]));
      }
    }
  }

  // Leaves become nodes that send every value to themselves, so that a walk need not check whether it has reached one.
  void close_leaves() {
    std::vector<int> depth(a_.nodes.size(), 0);
    for (std::size_t i = a_.nodes.size(); i-- > 0;) {
      ForestNode& node = a_.nodes[i];
      if (node.feature < 0) {
        node = {std::numeric_limits<double>::infinity(), 0, static_cast<std::int32_t>(i), -1, true};
      } else {
        depth[i] = 1 + std::max(depth[node.left], depth[node.left + 1]);
      }
    }
    for (std::size_t tree = 0; tree < depth_.size(); ++tree) depth_[tree] = depth[a_.roots[tree]];
  }

  ForestArrays a_;
  CodedTrees coded_;
  std::vector<int> depth_;  // of each tree
};

// The probabilities of the classes of a row, from its scores.
inline void softmax(double* scores, std::size_t n) {
  const double largest = *std::max_element(scores, scores + n);
  double sum = 0.0;
  for (std::size_t k = 0; k < n; ++k) sum += scores[k] = bounded_exp(scores[k] - largest);
  for (std::size_t k = 0; k < n; ++k) scores[k] /= sum;
}

// Predictions of a forest for rows, (row, column), as in Forest::add_predictions. `start`: one number per output. If a
// result has two columns and the forest has one output, these are the probabilities of two classes.
template <class T>
void predict_rows(const Forest& forest, const double* start, Link link, const T* x, std::size_t n_rows,
                  std::ptrdiff_t row_stride, std::ptrdiff_t feature_stride, std::size_t n_columns, double* out,
                  int n_threads) {
  const std::size_t n_outputs = forest.n_columns();
  const bool both = n_columns > n_outputs;
  double of_one_row = 0.0;
  std::vector<double> of_rows(both && n_rows > 1 ? n_rows : 0);
  double* const sums = !both ? out : n_rows > 1 ? of_rows.data() : &of_one_row;
  std::fill_n(sums, n_rows * n_outputs, 0.0);
  forest.add_predictions(x, n_rows, row_stride, feature_stride, sums, n_threads);
  parallel_rows(n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      double* const scores = sums + i * n_outputs;
      for (std::size_t k = 0; k < n_outputs; ++k) scores[k] += start[k];
      if (link == Link::kSoftmax) {
        softmax(scores, n_outputs);
      } else if (both) {
        const double second = inverse_link(link, *scores);
        out[2 * i] = 1.0 - second;
        out[2 * i + 1] = second;
      } else {
        for (std::size_t k = 0; k < n_outputs; ++k) scores[k] = inverse_link(link, scores[k]);
      }
    }
  });
}

// out (row, tree): the node of the leaf that a row reaches. Rows are at x[row * row_stride + feature * feature_stride].
template <class T>
void find_leaf_nodes(const Forest& forest, const T* x, std::size_t n_rows, std::ptrdiff_t row_stride,
                     std::ptrdiff_t feature_stride, std::int32_t* out, int n_threads) {
  constexpr std::size_t kRows = 256;  // per task, whose features stay in the cache
  constexpr std::size_t kWalks = 8;   // side by side, since each mostly waits for memory
  const std::vector<std::int32_t>& roots = forest.arrays().roots;
  parallel_for((n_rows + kRows - 1) / kRows, n_threads, [&](std::size_t task) {
    const std::size_t end = std::min(n_rows, (task + 1) * kRows);
    for (std::size_t tree = 0; tree < roots.size(); ++tree) {
      for (std::size_t first = task * kRows; first < end; first += kWalks) {
        const std::size_t n = std::min(kWalks, end - first);
        std::uint32_t at[kWalks];
        std::fill_n(at, n, static_cast<std::uint32_t>(roots[tree]));
        for (bool moves = true; moves;) {
          moves = false;
          for (std::size_t k = 0; k < n; ++k) {
            if (forest.is_leaf(static_cast<std::int32_t>(at[k]))) continue;  // reads no feature: there may be none
            at[k] = forest.next_node(at[k], x + static_cast<std::ptrdiff_t>(first + k) * row_stride, feature_stride);
            moves = true;
          }
        }
        for (std::size_t k = 0; k < n; ++k) {
          out[(first + k) * roots.size() + tree] = static_cast<std::int32_t>(at[k]);
        }
      }
    }
  });
}

// Sums of numbers over the rows of each leaf. They are those of a tree that is grown on the rows: integers, so that
// they depend neither on the order of rows nor on the number of threads. repeats: null, or how often a row counts.
inline std::vector<double> sums_of_leaves(const double* x, const std::int32_t* leaf, const std::int64_t* repeats,
                                          std::size_t n_rows, std::size_t n_leaves, int n_threads) {
  std::size_t n_repeated = n_rows;
  for (std::size_t i = 0; repeats != nullptr && i < n_rows; ++i) n_repeated += static_cast<std::size_t>(repeats[i]) - 1;
  const int exponent = scale_exponent(max_abs(x, n_rows, n_threads), value_bits(n_repeated, false));
  const double scale = std::ldexp(1.0, exponent);
  // Few tasks, since each has sums of its own.
  const std::size_t n_tasks = std::clamp<std::size_t>(n_rows / (32 * (n_leaves + 1)), 1, std::max(n_threads, 1));
  std::vector<std::int64_t> partial(n_tasks * n_leaves, 0);
  parallel_for(n_tasks, n_threads, [&](std::size_t task) {
    std::int64_t* sums = partial.data() + task * n_leaves;
    for (std::size_t i = task * n_rows / n_tasks; i < (task + 1) * n_rows / n_tasks; ++i) {
      sums[leaf[i]] += round_scaled(x[i], scale) * (repeats == nullptr ? 1 : repeats[i]);
    }
  });
  std::vector<double> found(n_leaves);
  for (std::size_t k = 0; k < n_leaves; ++k) {
    std::int64_t sum = 0;
    for (std::size_t task = 0; task < n_tasks; ++task) sum += partial[task * n_leaves + k];
    found[k] = static_cast<double>(sum) * std::ldexp(1.0, -exponent);
  }
  return found;
}

}  // namespace agbm
