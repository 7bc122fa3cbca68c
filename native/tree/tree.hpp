// Trees while they grow and as Python stores them, and their values on binned rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
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

// A walk of binned rows down to the leaves of a tree. Several rows go together, so that none waits for what another one
// loads, and a row that is at its leaf stays there until all are at theirs.
class TreeWalk {
 public:
  // root: that of the tree, if there are several.
  TreeWalk(const BinnedMatrix& matrix, const GrownTree& tree, std::size_t root = 0) : matrix_(matrix), tree_(tree) {
    steps_.push_back(step_from(root));
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const std::int32_t node = steps_[i].node, left = tree.left[node];
      steps_[i].next = static_cast<std::uint32_t>(left < 0 ? i : steps_.size());
      if (left < 0) continue;
      steps_.push_back(step_from(left));
      steps_.push_back(step_from(left + 1));
    }
  }

  // The tree's values on the rows [first_row, first_row + n), (value, row).
  void values(std::size_t first_row, std::size_t n, double* out, std::size_t out_stride, int n_threads) const {
    parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
      std::vector<Step> steps = steps_;
      const std::vector<std::uint8_t> listed = set_codes(steps, first_row + begin, end - begin);
      for (std::size_t i = begin; i < end; i += kTogether) {
        const std::size_t n_rows = std::min(kTogether, end - i);
        const std::array<std::uint32_t, kTogether> leaf = leaves(steps.data(), i - begin, n_rows);
        for (std::size_t j = 0; j < n_rows; ++j) {
          const double* value = tree_.value.data() + static_cast<std::size_t>(steps[leaf[j]].node) * tree_.n_values;
          for (int k = 0; k < tree_.n_values; ++k) out[k * out_stride + i + j] = value[k];
        }
      }
    });
  }

 private:
  static constexpr std::size_t kTogether = 16;

  struct Step {
    const std::uint8_t* codes = nullptr;  // of some rows, in the column that the node is split on
    CodeSet left;                         // codes of the column that go left: all, in a leaf
    std::uint32_t next = 0;               // the step of the left child, followed by that of the right; a leaf's own
    std::int32_t node = 0;
  };

  Step step_from(std::size_t node) const {
    Step step;
    step.node = static_cast<std::int32_t>(node);
    const int feature = tree_.feature[node];
    const bool is_leaf = tree_.left[node] < 0;
    if (is_leaf || matrix_.places[feature].shared()) {
      for (int code = 0; code < kWideCells; ++code) {
        if (is_leaf || tree_.left_codes[node].has(matrix_.places[feature].bin(code, matrix_.n_bins[feature]))) {
          step.left.add(code);
        }
      }
    } else {
      step.left = tree_.left_codes[node];
    }
    return step;
  }

  // Sets the codes of all steps for n rows. Returns those of columns that are lists.
  std::vector<std::uint8_t> set_codes(std::vector<Step>& steps, std::size_t first_row, std::size_t n) const {
    const auto column_of = [&](const Step& step) { return matrix_.places[tree_.feature[step.node]].column; };
    const auto is_listed = [&](const Step& step) {
      return tree_.left[step.node] >= 0 && matrix_.listed(column_of(step));
    };
    std::vector<std::uint8_t> listed(n * (1 + std::count_if(steps.begin(), steps.end(), is_listed)));
    std::uint8_t* next = listed.data() + n;  // leaves look at the first n, whatever these are
    std::vector<Row> rows;
    for (Step& step : steps) {
      if (tree_.left[step.node] < 0) {
        step.codes = listed.data();
      } else if (!is_listed(step)) {
        step.codes = matrix_.column(column_of(step)) + first_row;
      } else {
        rows.resize(n);
        std::iota(rows.begin(), rows.end(), static_cast<Row>(first_row));
        matrix_.codes_of_listed(column_of(step), rows.data(), n, next);
        step.codes = std::exchange(next, next + n);
      }
    }
    return listed;
  }

  // The steps of the leaves of up to kTogether rows; of fewer, the last one is repeated.
  static std::array<std::uint32_t, kTogether> leaves(const Step* steps, std::size_t first, std::size_t n) {
    std::array<std::uint32_t, kTogether> at = {};
    for (std::uint32_t moved = 1; moved != 0;) {
      moved = 0;
#pragma GCC unroll 16
      for (std::size_t j = 0; j < kTogether; ++j) {
        const Step& step = steps[at[j]];
        const std::uint32_t next = step.next + (step.left.has(step.codes[first + std::min(j, n - 1)]) ? 0 : 1);
        moved |= next ^ at[j];
        at[j] = next;
      }
    }
    return at;
  }

  const BinnedMatrix& matrix_;
  const GrownTree& tree_;
  std::vector<Step> steps_;
};

// The tree's values at the positions [begin, end) of vectors, (value, position).
inline void binned_values_at(const BinnedMatrix& matrix, const RowRing& ring, const GrownTree& tree, std::size_t begin,
                             std::size_t end, double* out, std::size_t out_stride, int n_threads) {
  const TreeWalk walk(matrix, tree);
  for_runs(ring, begin, end, [&](std::size_t from, std::size_t to, std::size_t row) {
    walk.values(row, to - from, out + from, out_stride, n_threads);
  });
}

}  // namespace agbm
