// The inputs of a tree from the arrays that Python gives.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "layout.hpp"
#include "python_arrays.hpp"
#include "quantise.hpp"

namespace agbm {

// Sums of residuals keep at least 24 bits for each.
constexpr std::int64_t kMostRepeats = std::int64_t{1} << 31;

using Gradients = std::vector<Vector<double>>;

// Quantiles of leaves, where there are distances to take them of: one vector for each output.
inline LeafQuantiles make_quantiles(const Gradients& distances, double share,
                                    const std::optional<Vector<std::int64_t>>& steps, std::size_t n_rows,
                                    int n_targets) {
  LeafQuantiles q;
  q.n_outputs = static_cast<int>(distances.size());
  q.share = share;
  require(q.n_outputs == 0 || (n_targets % q.n_outputs == 0 && share > 0.0 && share < 1.0),
          "distances: must be those of all outputs, with a share between 0 and 1");
  for (const Vector<double>& distance : distances) {
    require(distance.size() == n_rows, "distances: must have as many numbers as gradients");
    q.distances.push_back(distance.data());
  }
  if (steps) {
    require(steps->size() == n_rows, "steps: must have one entry for each number of gradients");
    q.steps = steps->data();
  }
  return q;
}

// Targets of rows that are here; some at least, unless there are more elsewhere.
inline TreeTargets make_targets(const BinnedMatrix& m, const Gradients& gradients,
                                const std::optional<RowMajor<double>>& hessians,
                                const std::optional<Vector<std::int64_t>>& repeats, int n_threads,
                                bool may_be_empty = false) {
  TreeTargets t;
  t.n_targets = static_cast<int>(gradients.size());
  require(t.n_targets > 0, "gradients: no targets");
  t.n_rows = t.n_repeated = gradients[0].size();
  require((t.n_rows > 0 || may_be_empty) && t.n_rows <= m.n_rows,
          "gradients: must have from 1 to as many numbers as X has rows");
  for (const Vector<double>& gradient : gradients) {
    require(gradient.size() == t.n_rows, "gradients: must have as many numbers for each target");
    t.gradients.push_back(gradient.data());
  }
  if (hessians) {
    t.hessians = hessians->data();
    t.n_hessians = static_cast<int>(hessians->shape(0));
    require(hessians->shape(1) == t.n_rows, "hessians: must have as many numbers as gradients");
    require(t.n_hessians > 0 && t.n_targets % t.n_hessians == 0,
            "hessians: must have a part of the number of gradients");
  }
  if (repeats) {
    require(repeats->size() == t.n_rows, "repeats: must have one entry for each number of gradients");
    t.repeats = repeats->data();
    t.n_repeated = 0;
    for (std::size_t i = 0; i < t.n_rows; ++i) {
      require(t.repeats[i] >= 1 && t.repeats[i] <= kMostRepeats, "repeats: must be from 1 to 2^31");
      t.n_repeated += static_cast<std::size_t>(t.repeats[i]);
    }
    require(t.n_repeated <= kMostRepeats * 128, "repeats: more than 2^38 in all");
  }
  require(m.min_samples_leaf == 0 || t.n_repeated <= m.n_counted, "gradients: features were left out by fewer rows");
  for (int k = 0; k < t.n_sums(); ++k) {
    t.max.push_back(max_abs(t.summand(k), t.n_rows, n_threads));
    if (k < t.n_targets && !std::isfinite(t.max.back())) throw std::overflow_error("gradients: not finite");
    require(std::isfinite(t.max.back()), "hessians: not finite");
  }
  require(std::none_of(t.hessians, t.hessians + t.n_hessians * t.n_rows, [](double h) { return h < 0.0; }),
          "hessians: negative");
  return t;
}

// Rows that a tree may see, ascending; null where it may see all.
inline const Row* chosen_rows(const std::optional<Vector<Row>>& rows, std::size_t n_train) {
  if (!rows) return nullptr;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    require(rows->data()[i] < n_train && (i == 0 || rows->data()[i - 1] < rows->data()[i]),
            "rows: must be training rows, ascending");
  }
  return rows->data();
}

}  // namespace agbm
