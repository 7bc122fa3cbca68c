// The rows of one process, on which another process grows trees.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/growers.hpp"
#include "bindings/tree_inputs.hpp"
#include "bins/matrix.hpp"
#include "formulas/histogram_layout.hpp"
#include "tree/node_search.hpp"
#include "tree/quantise.hpp"
#include "tree/rows.hpp"
#include "tree/tree.hpp"

namespace agbm {

// The part of the rows that this process holds while another one grows trees on them. Keeps the matrix alive.
class ShardRows {
 public:
  ShardRows(const BinnedMatrix& m, const Ring& ring, int n_threads)
      : matrix_(m), ring_(ring), n_threads_(n_threads), rows_(m, n_threads) {}

  // Takes the residuals of the first rows. Returns the number of rows, counting repeats, and the largest absolute value
  // of each residual and hessian; start() takes those of all shards together.
  nb::tuple set_residuals(const Vectors& residuals, const std::optional<RowMajor<double>>& hessians,
                          const std::optional<Vector<std::int64_t>>& repeats, const Vectors& distances,
                          const std::vector<double>& shares, const std::optional<Vector<std::int64_t>>& steps) {
    rows_.stop();  // the rows point to the arrays of the last tree
    inputs_ = make_inputs(matrix_, residuals, hessians, repeats, ring_, n_threads_, true);
    inputs_.quantiles = make_quantiles(distances, shares, steps, inputs_.n_rows, inputs_.n_residuals);
    residuals_ = residuals;
    hessians_ = hessians;
    repeats_ = repeats;
    distances_ = distances;
    steps_ = steps;
    return nb::make_tuple(inputs_.n_repeated, inputs_.max);
  }

  void start(std::int64_t n_repeated, const std::vector<double>& max, const std::optional<Vector<Row>>& rows) {
    require(!residuals_.empty(), "start: no residuals have been set");
    require(n_repeated >= static_cast<std::int64_t>(inputs_.n_repeated),
            "n_repeated: must not be less than that of this shard");
    require(max.size() == inputs_.max.size(), "max: must have one entry for each residual and hessian");
    for (std::size_t k = 0; k < max.size(); ++k)
      require(max[k] >= inputs_.max[k], "max: must not be less than that of this shard");
    TreeInputs inputs = inputs_;
    inputs.n_repeated = static_cast<std::size_t>(n_repeated);
    inputs.max = max;
    chosen_ = rows;
    const Row* chosen = chosen_rows(chosen_, inputs);
    nb::gil_scoped_release release;
    rows_.start(inputs, chosen, rows ? rows->size() : 0);
  }

  // Which residuals, and then hessians, histograms sum (none: all), and how many of them are residuals.
  void summed_by(const Vector<std::int32_t>& sums, int n_residuals) {
    require(rows_.n_nodes() > 0, "summed_by: no tree has been started");
    const Sketch sketch{{sums.data(), sums.data() + sums.size()}, n_residuals};
    const int n_hessians = static_cast<int>(sums.size()) - n_residuals;
    require(sketch.all() || (n_residuals > 0 && n_hessians >= 0), "n_residuals: must be from 1 to the number of sums");
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const bool is_residual = static_cast<int>(k) < n_residuals;
      const int least = is_residual ? 0 : inputs_.n_residuals,
                end = is_residual ? inputs_.n_residuals : inputs_.n_sums();
      require(sketch.sums[k] >= least && sketch.sums[k] < end, "sums: no such residual or hessian");
    }
    require(sketch.all() || n_hessians == 0 || n_residuals % n_hessians == 0,
            "sums: the number of residuals must be a multiple of that of hessians");
    nb::gil_scoped_release release;
    rows_.summed_by(sketch);
  }

  void split(const RowMajor<std::int64_t>& splits) {
    require(splits.shape(1) == kSplitWords, "splits: must be (split, 7)");
    std::vector<NodeSplit> parsed;
    for (std::size_t i = 0; i < splits.shape(0); ++i) {
      const auto s = record_from<NodeSplit>(splits.data() + i * kSplitWords);
      require(s.node >= 0 && s.node < static_cast<std::int64_t>(rows_.n_nodes()), "splits: no such node");
      require(s.left == static_cast<std::int64_t>(rows_.n_nodes() + 2 * i), "splits: no such child");
      require(s.feature >= 0 && s.feature < matrix_.n_features && matrix_.places[s.feature].used(),
              "splits: no such feature");
      parsed.push_back(s);
    }
    nb::gil_scoped_release release;
    rows_.split(parsed);
  }

  nb::ndarray<nb::numpy, std::int64_t> histograms(const Vector<std::int32_t>& nodes) {
    const std::vector<std::int32_t> known = known_nodes(nodes);
    require(rows_.n_channels() > 0, "histograms: summed_by() has not been called");
    const std::size_t n_cells = matrix_.n_cells() * rows_.n_channels();
    std::vector<std::int64_t> cells(nodes.size() * n_cells);
    std::vector<NodeCells> wanted;
    for (std::int32_t node : known) wanted.push_back({node, cells.data() + wanted.size() * n_cells});
    {
      nb::gil_scoped_release release;
      rows_.build(wanted);
    }
    const std::size_t size = cells.size();
    return to_numpy(std::move(cells), size);
  }

  nb::ndarray<nb::numpy, std::int64_t> noise() {
    require(rows_.n_nodes() > 0, "noise: no tree has been started");
    std::vector<std::int64_t> sums = rows_.noise();
    const std::size_t size = sums.size();
    return to_numpy(std::move(sums), size);
  }

  nb::ndarray<nb::numpy, std::int64_t> leaf_sums(const Vector<std::int32_t>& leaves) {
    std::vector<std::int64_t> sums;
    {
      const std::vector<std::int32_t> known = known_nodes(leaves);
      nb::gil_scoped_release release;
      sums = rows_.leaf_sums(known);
    }
    const std::size_t size = sums.size();
    return to_numpy(std::move(sums), size);
  }

  // See TreeRows; (leaf, next bits), flat.
  nb::ndarray<nb::numpy, std::int64_t> tally(const Vector<std::int32_t>& leaves, int output,
                                             const Vector<std::uint64_t>& known, int shift, int width) {
    require(output >= 0 && output < inputs_.quantiles.n_outputs, "output: no such output");
    require(known.size() == leaves.size(), "known: must have one entry for each leaf");
    require(width >= 1 && width <= 16 && shift >= 0 && shift + width <= 64, "shift, width: beyond 64 bits");
    std::vector<std::int64_t> tallies;
    {
      const std::vector<std::int32_t> nodes = known_nodes(leaves);
      nb::gil_scoped_release release;
      tallies = rows_.tally(nodes, output, known.data(), shift, width);
    }
    const std::size_t size = tallies.size();
    return to_numpy(std::move(tallies), size);
  }

  // The values of a tree on all rows. Its nodes may have other numbers than those of the growth here.
  nb::ndarray<nb::numpy, double> values(const Vector<std::uint8_t>& nodes, const RowMajor<std::uint64_t>& left_codes,
                                        const RowMajor<double>& value) {
    const GrownTree tree = trees_of_records(matrix_, nodes, left_codes, value);
    require(tree.n_nodes() > 0, "nodes: none");
    const std::size_t n_rows = matrix_.n_rows;
    nb::ndarray<nb::numpy, double> out = empty({value.shape(1), n_rows});
    nb::gil_scoped_release release;
    binned_values_at(matrix_, inputs_.ring, tree, 0, n_rows, out.data(), n_rows, n_threads_);
    return out;
  }

 private:
  std::vector<std::int32_t> known_nodes(const Vector<std::int32_t>& nodes) const {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      require(nodes.data()[i] >= 0 && static_cast<std::size_t>(nodes.data()[i]) < rows_.n_nodes(),
              "nodes: no such node");
    }
    return {nodes.data(), nodes.data() + nodes.size()};
  }

  const BinnedMatrix& matrix_;
  const Ring ring_;
  int n_threads_;
  TreeRows rows_;
  TreeInputs inputs_;
  Vectors residuals_, distances_;  // these and the following are kept alive while a tree grows on them
  std::optional<RowMajor<double>> hessians_;
  std::optional<Vector<std::int64_t>> repeats_, steps_;
  std::optional<Vector<Row>> chosen_;
};

}  // namespace agbm
