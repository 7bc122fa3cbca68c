// Trees while they grow and as Python stores them, and their values on binned rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/parallel.hpp"
#include "bins/matrix.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/row_ring.hpp"
#include "tree/quantise.hpp"

namespace agbm {

// Children of node i are left[i] and left[i] + 1; a leaf has feature -1.
struct GrownTree {
  int n_values = 0;  // per leaf: one for each residual that the tree is grown on
  std::vector<std::int32_t> feature;
  std::vector<std::int32_t> bin;
  std::vector<std::uint8_t> missing_left;
  std::vector<CodeSet> left_codes;
  std::vector<std::int32_t> left;
  std::vector<double> gain;
  std::vector<std::int64_t> count;
  std::vector<double> value;  // (node, value); zero in inner nodes

  std::size_t n_nodes() const { return feature.size(); }
  std::vector<std::int32_t> leaves() const {
    std::vector<std::int32_t> found;
    for (std::size_t node = 0; node < n_nodes(); ++node) {
      if (left[node] < 0) found.push_back(static_cast<std::int32_t>(node));
    }
    return found;
  }
  std::int32_t add(std::int64_t rows) {
    feature.push_back(-1);
    bin.push_back(0);
    missing_left.push_back(0);
    left_codes.push_back({});
    left.push_back(-1);
    gain.push_back(0.0);
    count.push_back(rows);
    value.insert(value.end(), n_values, 0.0);
    return static_cast<std::int32_t>(n_nodes()) - 1;
  }
};

// A node of a tree as Python stores it: one record of an array (NODE in forest.py).
struct NodeRecord {
  double threshold;  // values at or below go left
  double gain;
  std::int64_t count;       // training rows
  std::int32_t feature;     // -1: leaf
  std::int32_t bin;         // of the threshold
  std::int32_t left;        // child, followed by the other one; -1: leaf
  std::int32_t categories;  // number of the set of categories that go left; -1: the threshold decides
  std::uint8_t missing_left;
  std::uint8_t unused[7] = {};
};

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
