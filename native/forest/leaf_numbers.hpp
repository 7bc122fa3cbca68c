// The leaves that rows reach, and sums over the rows of leaves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/parallel.hpp"
#include "forest/predict.hpp"
#include "tree/quantise.hpp"

namespace agbm {

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
