// The inputs of a tree, and trees, from the arrays that Python gives.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "bindings/arrays.hpp"
#include "bins/matrix.hpp"
#include "tree/quantise.hpp"
#include "tree/tree.hpp"

namespace agbm {

// With at most this many repeats, sums of residuals keep at least 24 bits of each.
constexpr std::int64_t kMostRepeats = std::int64_t{1} << 31;

using Vectors = std::vector<Vector<double>>;

// Begin, end and first row; see RowRing.
using Ring = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

inline RowRing as_ring(const Ring& ring) { return {std::get<0>(ring), std::get<1>(ring), std::get<2>(ring)}; }

// Leaf quantiles from distances, one vector per output; none without distances.
inline LeafQuantiles make_quantiles(const Vectors& distances, const std::vector<double>& shares,
                                    const std::optional<Vector<std::int64_t>>& steps, std::size_t n_rows,
                                    int n_residuals) {
  LeafQuantiles q;
  q.n_outputs = static_cast<int>(distances.size());
  q.shares = shares;
  require(q.n_outputs == 0 || (n_residuals % q.n_outputs == 0 && shares.size() == distances.size()),
          "distances: must have one entry for each output, as shares");
  for (double share : shares) require(share > 0.0 && share < 1.0, "shares: must be between 0 and 1");
  for (const Vector<double>& distance : distances) {
    require(distance.size() == n_rows, "distances: must have as many rows as residuals");
    q.distances.push_back(distance.data());
  }
  if (steps) {
    require(steps->size() == n_rows, "steps: must have as many rows as residuals");
    q.steps = steps->data();
  }
  return q;
}

// Residuals and hessians of the rows of this process. There must be a row, unless other processes have some.
inline TreeInputs make_inputs(const BinnedMatrix& m, const Vectors& residuals,
                              const std::optional<RowMajor<double>>& hessians,
                              const std::optional<Vector<std::int64_t>>& repeats, const Ring& ring, int n_threads,
                              bool may_be_empty = false) {
  TreeInputs inputs;
  inputs.ring = as_ring(ring);
  inputs.n_residuals = static_cast<int>(residuals.size());
  require(inputs.n_residuals > 0, "residuals: must not be empty");
  inputs.n_rows = inputs.n_repeated = residuals[0].size();
  require((inputs.n_rows > 0 || may_be_empty) && inputs.n_rows <= m.n_rows,
          "residuals: must have at least one row, and at most as many as X");
  const auto [begin, end, first] = inputs.ring;
  require(begin >= 0 && begin <= first && first <= end && static_cast<std::size_t>(end) <= m.n_rows,
          "ring: no such rows");
  require(begin == end || static_cast<std::int64_t>(inputs.n_rows) <= end, "ring: fewer rows than residuals");
  require(begin == end || static_cast<std::int64_t>(inputs.n_rows) >= begin,
          "ring: more rows before it than residuals");
  for (const Vector<double>& residual : residuals) {
    require(residual.size() == inputs.n_rows, "residuals: must all have the same length");
    inputs.residuals.push_back(residual.data());
  }
  if (hessians) {
    inputs.hessians = hessians->data();
    inputs.n_hessians = static_cast<int>(hessians->shape(0));
    require(hessians->shape(1) == inputs.n_rows, "hessians: must have as many rows as residuals");
    require(inputs.n_hessians > 0 && inputs.n_residuals % inputs.n_hessians == 0,
            "hessians: the number of residuals must be a multiple of their number");
  }
  if (repeats) {
    require(repeats->size() == inputs.n_rows, "repeats: must have as many rows as residuals");
    inputs.repeats = repeats->data();
    inputs.n_repeated = 0;
    for (std::size_t i = 0; i < inputs.n_rows; ++i) {
      require(inputs.repeats[i] >= 1 && inputs.repeats[i] <= kMostRepeats, "repeats: must be from 1 to 2^31");
      inputs.n_repeated += static_cast<std::size_t>(inputs.repeats[i]);
    }
    require(inputs.n_repeated <= kMostRepeats * 128, "repeats: must sum to at most 2^38");
  }
  require(m.min_samples_leaf == 0 || inputs.n_repeated <= m.n_counted,
          "residuals: must not have more rows than features were removed by");
  for (int k = 0; k < inputs.n_sums(); ++k) {
    inputs.max.push_back(max_abs(inputs.residual_or_hessian(k), inputs.n_rows, n_threads));
    if (k < inputs.n_residuals && !std::isfinite(inputs.max.back())) throw std::overflow_error("residuals: not finite");
    require(std::isfinite(inputs.max.back()), "hessians: not finite");
  }
  require(std::none_of(inputs.hessians, inputs.hessians + inputs.n_hessians * inputs.n_rows,
                       [](double h) { return h < 0.0; }),
          "hessians: negative");
  return inputs;
}

// How leaves change their sums; l2 is one number for all outputs, or one for each.
inline void set_regularization(TreeInputs& inputs, double min_hessian_leaf, double l1, const std::vector<double>& l2) {
  require(min_hessian_leaf >= 0.0, "min_hessian_leaf: must not be negative");
  require(l1 >= 0.0 && std::isfinite(l1), "l1_regularization: must not be negative");
  const std::size_t n = std::max(inputs.n_hessians, 1);
  require(l2.size() == n || l2.size() == 1, "l2_regularization: must have one entry, or one for each hessian");
  for (double number : l2) require(number >= 0.0, "l2_regularization: must not be negative");
  inputs.min_hessian_leaf = min_hessian_leaf;
  inputs.l1 = l1;
  inputs.l2 = l2.size() == n ? l2 : std::vector<double>(n, l2[0]);
}

// The rows of the matrix that a tree is grown on, ascending; null: all of them that vectors have.
inline const Row* chosen_rows(const std::optional<Vector<Row>>& rows, const TreeInputs& inputs) {
  if (!rows) return nullptr;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const bool known = static_cast<std::size_t>(inputs.ring.position(rows->data()[i])) < inputs.n_rows;
    require(known && (i == 0 || rows->data()[i - 1] < rows->data()[i]),
            "rows: must be ascending numbers of training rows");
  }
  return rows->data();
}

inline void require_thresholds(std::span<const int> n_bins, const Vector<double>& thresholds) {
  std::size_t n = 0;
  for (int bins : n_bins) n += bins - 1;
  require(n == thresholds.size(), "thresholds: must have one entry fewer than bins for each feature");
}

// Trees from the records of their nodes, as bytes, and the codes that go left in each.
inline GrownTree trees_of_records(const BinnedMatrix& m, const Vector<std::uint8_t>& nodes,
                                  const RowMajor<std::uint64_t>& left_codes, const RowMajor<double>& value) {
  const std::size_t n_nodes = value.shape(0);
  require(nodes.size() == n_nodes * sizeof(NodeRecord), "nodes: must have as many records as value has rows");
  require(left_codes.shape(0) == n_nodes && left_codes.shape(1) == 4, "left_codes: must have 4 words for each node");
  GrownTree all;
  all.n_values = static_cast<int>(value.shape(1));
  for (std::size_t i = 0; i < n_nodes; ++i) {
    NodeRecord record;
    std::memcpy(&record, nodes.data() + i * sizeof record, sizeof record);
    const bool is_leaf = record.left < 0;
    require(is_leaf || (record.feature >= 0 && record.feature < m.n_features && m.places[record.feature].used()),
            "nodes: no such feature");
    require(
        is_leaf || (static_cast<std::size_t>(record.left) > i && static_cast<std::size_t>(record.left) + 1 < n_nodes),
        "nodes: children must follow their parents");
    all.add(record.count);
    all.feature[i] = record.feature;
    all.left[i] = record.left;
    std::copy_n(left_codes.data() + 4 * i, 4, all.left_codes[i].words);
  }
  all.value.assign(value.data(), value.data() + value.size());
  return all;
}

}  // namespace agbm
