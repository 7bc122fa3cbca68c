// Values of grown trees on rows.
#pragma once

#include <stdexcept>
#include <string>

#include "grow.hpp"
#include "layout.hpp"
#include "parallel.hpp"

namespace agbm {

// The trees of a forest, one after the other. Children of a node are left and left + 1, both behind their parent, so a
// walk always ends. The values of a tree are added to neighbouring columns of the prediction.
struct Forest {
  struct Node {
    double threshold;          // values at or below go left
    std::int32_t feature;      // -1: leaf
    std::int32_t left;         // within the whole forest
    std::int32_t categories;   // number of the set of categories that go left; -1 where the threshold decides
    bool missing_left;
  };

  int n_features = 0;
  int n_columns = 0;
  int n_values = 0;  // of each leaf
  std::vector<std::int32_t> roots;
  std::vector<std::int32_t> first_column;  // of each tree
  std::vector<Node> nodes;
  std::vector<std::uint64_t> category_words;  // of all sets, one bit a category
  std::vector<std::int64_t> category_start;   // first word of each set; the last entry is the total
  std::vector<double> values;  // (node, value)

  std::int64_t n_sets() const { return static_cast<std::int64_t>(category_start.size()) - 1; }

  // Checks everything a walk relies on; a walk checks nothing.
  void validate() const {
    for (std::int32_t root : roots) {
      if (root < 0 || static_cast<std::size_t>(root) >= nodes.size()) throw std::invalid_argument("roots: no such node");
    }
    if (category_start.empty() || category_start.front() != 0 ||
        category_start.back() != static_cast<std::int64_t>(category_words.size()) ||
        !std::is_sorted(category_start.begin(), category_start.end())) {
      throw std::invalid_argument("category_start: must rise from 0 to the number of words");
    }
    for (std::int32_t first : first_column) {
      if (first < 0 || first > n_columns - n_values) throw std::invalid_argument("first_column: no such column");
    }
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Node& node = nodes[i];
      if (node.feature < -1 || node.feature >= n_features) {
        throw std::invalid_argument("feature: node " + std::to_string(i) + " splits on feature " +
                                    std::to_string(node.feature) + ", the forest has " + std::to_string(n_features));
      }
      if (node.categories < -1 || node.categories >= n_sets()) {
        throw std::invalid_argument("categories: node " + std::to_string(i) + " has set " +
                                    std::to_string(node.categories) + " of " + std::to_string(n_sets()));
      }
      if (node.feature >= 0 && (node.left <= static_cast<std::int64_t>(i) ||
                                static_cast<std::size_t>(node.left) + 1 >= nodes.size())) {
        throw std::invalid_argument("left: children of node " + std::to_string(i) + " are out of place");
      }
    }
  }

  // out (row, column) += sum over trees. Rows lie at x[row * row_stride + feature * feature_stride].
  template <class T>
  void add_predictions(const T* x, std::size_t n_rows, std::ptrdiff_t row_stride, std::ptrdiff_t feature_stride,
                       double* out, int n_threads) const {
    constexpr std::size_t block = 256;  // rows that stay in cache while all trees pass over them
    parallel_for((n_rows + block - 1) / block, n_threads, [&](std::size_t b) {
      const std::size_t end = std::min(n_rows, (b + 1) * block);
      for (std::size_t tree = 0; tree < roots.size(); ++tree) {
        for (std::size_t row = b * block; row < end; ++row) {
          const T* values_of_row = x + static_cast<std::ptrdiff_t>(row) * row_stride;
          const std::size_t leaf = walk(roots[tree], [&](std::int32_t f) { return values_of_row[f * feature_stride]; });
          double* columns = out + row * n_columns + first_column[tree];
          for (int k = 0; k < n_values; ++k) columns[k] += values[leaf * n_values + k];
        }
      }
    });
  }

 private:
  template <class ValueOf>
  std::size_t walk(std::int32_t root, const ValueOf& value_of) const {
    std::size_t i = static_cast<std::size_t>(root);
    while (nodes[i].feature >= 0) {
      const Node& node = nodes[i];
      const double x = static_cast<double>(value_of(node.feature));
      const bool left = node.categories >= 0 ? has_category(node, x) : x != x ? node.missing_left : x <= node.threshold;
      i = static_cast<std::size_t>(node.left) + (left ? 0 : 1);
    }
    return i;
  }

  // Categories are numbered from 0. What the set does not know is missing.
  bool has_category(const Node& node, double x) const {
    const std::int64_t begin = category_start[node.categories], end = category_start[node.categories + 1];
    if (!(x >= 0.0 && x < 64.0 * static_cast<double>(end - begin))) return node.missing_left;
    const std::int64_t category = static_cast<std::int64_t>(x);
    return category_words[begin + category / 64] >> (category % 64) & 1;
  }
};

// The tree's values on the binned rows [first_row, first_row + n), (target, row).
inline void binned_values(const BinnedMatrix& matrix, const GrownTree& tree, std::size_t first_row, std::size_t n,
                          double* out, std::size_t out_stride, int n_threads) {
  parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      std::size_t node = 0;
      while (tree.left[node] >= 0) {
        const int feature = tree.feature[node];
        const int bin = matrix.bin(feature, first_row + i);
        node = static_cast<std::size_t>(tree.left[node]) + (tree.left_codes[node].has(bin) ? 0 : 1);
      }
      for (int k = 0; k < tree.n_targets; ++k) out[k * out_stride + i] = tree.value[node * tree.n_targets + k];
    }
  });
}

}  // namespace agbm
