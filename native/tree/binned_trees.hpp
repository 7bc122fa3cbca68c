// Values of grown trees on binned rows.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

#include "base/parallel.hpp"
#include "bins/layout.hpp"
#include "tree/quantise.hpp"
#include "tree/tree.hpp"

namespace agbm {

// The tree's values on the binned rows [first_row, first_row + n), (value, row). root: that of the tree, if there are
// several.
inline void binned_values(const BinnedMatrix& matrix, const GrownTree& tree, std::size_t first_row, std::size_t n,
                          double* out, std::size_t out_stride, int n_threads, std::size_t root = 0) {
  parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      std::size_t node = root;
      while (tree.left[node] >= 0) {
        const int feature = tree.feature[node];
        const int bin = matrix.bin(feature, first_row + i);
        node = static_cast<std::size_t>(tree.left[node]) + (tree.left_codes[node].has(bin) ? 0 : 1);
      }
      for (int k = 0; k < tree.n_values; ++k) out[k * out_stride + i] = tree.value[node * tree.n_values + k];
    }
  });
}

// The tree's values at the positions [begin, end) of vectors, (value, position).
inline void binned_values_at(const BinnedMatrix& matrix, const RowRing& ring, const GrownTree& tree, std::size_t begin,
                             std::size_t end, double* out, std::size_t out_stride, int n_threads) {
  for_runs(ring, begin, end, [&](std::size_t from, std::size_t to, std::size_t row) {
    binned_values(matrix, tree, row, to - from, out + from, out_stride, n_threads);
  });
}

}  // namespace agbm
