// The growers of trees that Python uses: on rows of this process, of others, and of a device.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/tree_inputs.hpp"
#include "bins/matrix.hpp"
#include "device/rows.hpp"
#include "device/search.hpp"
#include "formulas/histogram_layout.hpp"
#include "tree/grow.hpp"
#include "tree/histogram_search.hpp"
#include "tree/node_search.hpp"
#include "tree/quantise.hpp"
#include "tree/rows.hpp"
#include "tree/split.hpp"
#include "tree/tree.hpp"

namespace agbm {

// Lets Ctrl-C interrupt a growth between batches. Signals are checked at most twenty times per second, because
// acquiring the GIL may have to wait.
class InterruptCheck {
 public:
  void operator()() {
    const auto now = std::chrono::steady_clock::now();
    if (now - last_ < std::chrono::milliseconds(50)) return;
    last_ = now;
    nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

// The common part of all growers: the conversion of trees for Python, and of arguments from Python.
class GrowerBase {
 protected:
  // thresholds: those of all features, concatenated.
  GrowerBase(const BinnedMatrix& m, const Vector<double>& thresholds, int n_threads)
      : matrix_(m), n_threads_(n_threads), thresholds_(thresholds) {
    require_thresholds(m.n_bins, thresholds);
    std::size_t first = 0;
    for (int n : m.n_bins) {
      first_threshold_.push_back(first);
      first += n - 1;
    }
  }

  // The nodes of a tree (records, as bytes), the codes that go left in each, and their values.
  nb::tuple parts_of(const GrownTree& tree) const {
    std::vector<std::uint64_t> left_codes;
    for (const CodeSet& codes : tree.left_codes)
      left_codes.insert(left_codes.end(), std::begin(codes.words), std::end(codes.words));
    const std::size_t n = tree.n_nodes();
    return nb::make_tuple(records_of(tree), to_numpy(std::move(left_codes), n, 4),
                          to_numpy(std::vector<double>(tree.value), n, tree.n_values));
  }

  TreeSample make_sample(const std::optional<Vector<std::uint8_t>>& features, double node_share, int n_outputs,
                         std::uint64_t seed) const {
    require(node_share > 0.0 && node_share <= 1.0, "node_share: must be from 0 (excluded) to 1");
    require(!features || static_cast<int>(features->size()) == matrix_.n_features,
            "features: must have one entry for each feature");
    require(n_outputs >= 0, "n_outputs: must not be negative");
    return {features ? features->data() : nullptr, node_share, n_outputs, seed};
  }

  const BinnedMatrix& matrix_;
  int n_threads_;

 private:
  nb::ndarray<nb::numpy, std::uint8_t> records_of(const GrownTree& tree) const {
    std::vector<std::uint8_t> bytes(tree.n_nodes() * sizeof(NodeRecord));
    for (std::size_t i = 0; i < tree.n_nodes(); ++i) {
      NodeRecord record{0.0,          tree.gain[i], tree.count[i],       tree.feature[i], tree.bin[i],
                        tree.left[i], -1,           tree.missing_left[i]};
      if (tree.left[i] >= 0) {
        // The last bin has no upper threshold: a split after it sends all values left and only missing values right.
        const bool open = parts_missing_only(tree.bin[i], matrix_.n_bins[tree.feature[i]]);
        record.threshold = open ? std::numeric_limits<double>::infinity()
                                : thresholds_.data()[first_threshold_[tree.feature[i]] + tree.bin[i]];
      }
      std::memcpy(bytes.data() + i * sizeof record, &record, sizeof record);
    }
    return to_numpy(std::move(bytes), tree.n_nodes() * sizeof(NodeRecord));
  }

  const Vector<double> thresholds_;           // a reference, not a copy: there may be millions
  std::vector<std::size_t> first_threshold_;  // per feature
};

// What is known here of rows that are elsewhere.
inline TreeInputs inputs_of_others(std::int64_t n_repeated, const std::vector<double>& max, int n_residuals,
                                   int n_quantiles, double min_hessian_leaf, double l1_regularization,
                                   const std::vector<double>& l2_regularization) {
  TreeInputs inputs;
  inputs.n_residuals = n_residuals;
  inputs.n_hessians = static_cast<int>(max.size()) - n_residuals;
  require(n_residuals > 0 && inputs.n_hessians >= 0, "max: must have an entry for each residual");
  require(n_repeated > 0, "n_repeated: must be positive");
  inputs.n_repeated = static_cast<std::size_t>(n_repeated);
  inputs.max = max;
  set_regularization(inputs, min_hessian_leaf, l1_regularization, l2_regularization);
  require(n_quantiles >= 0 && (n_quantiles == 0 || n_residuals % n_quantiles == 0),
          "n_quantiles: must be 0 or the number of outputs");
  inputs.quantiles.n_outputs = n_quantiles;
  return inputs;
}

// Grows trees on the rows of a matrix, which it keeps alive.
class Grower : GrowerBase {
 public:
  Grower(const BinnedMatrix& m, const Vector<double>& thresholds, const GrowthRules& rules, int n_threads)
      : GrowerBase(m, thresholds, n_threads),
        rows_(m, n_threads),
        search_(m, rules, rows_, &rows_, n_threads),
        grower_(m, rules, search_) {}

  // A tree for the residuals of the first rows, and its values on all rows.
  nb::tuple grow(const Vectors& residuals, const std::optional<RowMajor<double>>& hessians,
                 const std::optional<Vector<std::int64_t>>& repeats, const Vectors& distances,
                 const std::vector<double>& shares, const std::optional<Vector<std::int64_t>>& steps,
                 const std::optional<Vector<Row>>& rows, const Ring& ring,
                 const std::optional<Vector<std::uint8_t>>& features, double node_share, int n_outputs,
                 std::uint64_t seed, double min_hessian_leaf, double l1_regularization,
                 const std::vector<double>& l2_regularization) {
    TreeInputs inputs = make_inputs(matrix_, residuals, hessians, repeats, ring, n_threads_);
    inputs.quantiles = make_quantiles(distances, shares, steps, inputs.n_rows, inputs.n_residuals);
    set_regularization(inputs, min_hessian_leaf, l1_regularization, l2_regularization);
    const TreeSample sample = make_sample(features, node_share, n_outputs, seed);
    require(!rows || rows->size() > 0, "rows: none");
    const Row* chosen = chosen_rows(rows, inputs);
    const std::size_t n_rows = matrix_.n_rows;
    nb::ndarray<nb::numpy, double> row_values = empty({static_cast<std::size_t>(inputs.n_residuals), n_rows});
    double* values = row_values.data();
    {
      nb::gil_scoped_release release;
      rows_.start(inputs, chosen, rows ? rows->size() : 0);
      grower_.grow(inputs, sample, InterruptCheck{});
      const GrownTree& tree = grower_.tree();
      const std::size_t known = chosen == nullptr ? inputs.n_rows : 0;
      if (known > 0) rows_.values(tree.leaves(), tree.value.data(), values, n_rows);
      binned_values_at(matrix_, inputs.ring, tree, known, n_rows, values, n_rows, n_threads_);
    }
    const nb::tuple parts = parts_of(grower_.tree());
    return nb::make_tuple(parts[0], parts[1], parts[2], row_values);
  }

 private:
  TreeRows rows_;
  HistogramSearch search_;
  TreeGrower grower_;
};

// Leaf quantiles, (leaf, output), from the method of a Python object.
inline std::vector<double> quantiles_from(const nb::object& from, const std::vector<std::int32_t>& leaves,
                                          std::size_t n_outputs) {
  nb::gil_scoped_acquire gil;
  const std::size_t n_leaves = leaves.size();
  const nb::object given = from.attr("leaf_quantiles")(to_numpy(std::vector<std::int32_t>(leaves), n_leaves));
  const auto found = nb::cast<Vector<double>>(given);
  require(found.size() == n_leaves * n_outputs, "leaf_quantiles: wrong size");
  return {found.data(), found.data() + found.size()};
}

// Sums over the rows of other processes, which a Python object adds up.
class PythonSums : public RowSums {
 public:
  void begin(const nb::object& others, std::size_t n_cells, const TreeInputs& inputs) {
    others_ = others;
    inputs_ = inputs;
    n_cells_ = n_cells;
    n_sums_ = inputs.n_sums();
    n_outputs_ = inputs.quantiles.n_outputs;
    splits_.clear();
  }
  void end() { others_ = nb::none(); }

  void summed_by(const Sketch& sketch) override {
    inputs_.sketch = sketch;
    n_words_ = n_cells_ * channels_of(inputs_).n();
    std::vector<std::int32_t> sums(sketch.sums.begin(), sketch.sums.end());
    const std::size_t n = sums.size();
    nb::gil_scoped_acquire gil;
    others_.attr("summed_by")(to_numpy(std::move(sums), n), sketch.n_residuals);
  }

  // Splits are sent with the next request.
  void split(const std::vector<NodeSplit>& splits) override {
    for (const NodeSplit& s : splits) append_words(splits_, s);
  }

  void build(const std::vector<NodeCells>& wanted) override {
    if (wanted.empty()) return;
    std::vector<std::int32_t> nodes;
    for (const NodeCells& node : wanted) nodes.push_back(node.node);
    nb::gil_scoped_acquire gil;
    const Vector<std::int64_t> sums = ask("histograms", std::move(nodes), wanted.size() * n_words_);
    for (std::size_t i = 0; i < wanted.size(); ++i) std::copy_n(sums.data() + i * n_words_, n_words_, wanted[i].cells);
  }

  std::vector<std::int64_t> noise() override {
    nb::gil_scoped_acquire gil;
    return as_vector(checked(others_.attr("noise")(), n_sums_));
  }

  std::vector<std::int64_t> leaf_sums(const std::vector<std::int32_t>& leaves) override {
    nb::gil_scoped_acquire gil;
    return as_vector(ask("leaf_sums", std::vector<std::int32_t>(leaves), leaves.size() * n_sums_));
  }

  // All splits were sent with the request for the leaf sums.
  std::vector<double> leaf_quantiles(const std::vector<std::int32_t>& leaves) override {
    return quantiles_from(others_, leaves, n_outputs_);
  }

 private:
  Vector<std::int64_t> ask(const char* method, std::vector<std::int32_t>&& nodes, std::size_t size) {
    const std::size_t n_nodes = nodes.size(), n_splits = splits_.size() / kSplitWords;
    nb::object given = others_.attr(method)(to_numpy(std::exchange(splits_, {}), n_splits, kSplitWords),
                                            to_numpy(std::move(nodes), n_nodes));
    return checked(given, size);
  }
  static Vector<std::int64_t> checked(const nb::object& given, std::size_t size) {
    const auto sums = nb::cast<Vector<std::int64_t>>(given);
    require(sums.size() == size, "sums: wrong size");
    return sums;
  }
  static std::vector<std::int64_t> as_vector(const Vector<std::int64_t>& sums) {
    return {sums.data(), sums.data() + sums.size()};
  }

  nb::object others_ = nb::none();
  TreeInputs inputs_;                      // of the tree that is being grown
  std::size_t n_cells_ = 0, n_words_ = 0;  // of a histogram
  std::size_t n_sums_ = 0, n_outputs_ = 0;
  std::vector<std::int64_t> splits_;  // words of those that have not been sent
};

// Grows trees on the rows of other processes. Its matrix has no rows, but the same columns as theirs.
class RemoteGrower : GrowerBase {
 public:
  RemoteGrower(const BinnedMatrix& m, const Vector<double>& thresholds, const GrowthRules& rules, int n_threads)
      : GrowerBase(m, thresholds, n_threads),
        search_(m, rules, sums_, nullptr, n_threads),
        grower_(m, rules, search_) {}

  nb::tuple grow(const nb::object& sums, std::int64_t n_repeated, const std::vector<double>& max, int n_residuals,
                 int n_quantiles, const std::optional<Vector<std::uint8_t>>& features, double node_share, int n_outputs,
                 std::uint64_t seed, double min_hessian_leaf, double l1_regularization,
                 const std::vector<double>& l2_regularization) {
    const TreeInputs inputs = inputs_of_others(n_repeated, max, n_residuals, n_quantiles, min_hessian_leaf,
                                               l1_regularization, l2_regularization);
    const TreeSample sample = make_sample(features, node_share, n_outputs, seed);
    sums_.begin(sums, matrix_.n_cells(), inputs);
    try {
      nb::gil_scoped_release release;
      grower_.grow(inputs, sample, InterruptCheck{});
    } catch (...) {
      sums_.end();
      throw;
    }
    sums_.end();
    return parts_of(grower_.tree());
  }

 private:
  PythonSums sums_;
  HistogramSearch search_;
  TreeGrower grower_;
};

// Grows trees on the rows of a device. Its matrix has no rows, but the same features.
class DeviceGrower : GrowerBase {
 public:
  DeviceGrower(const BinnedMatrix& m, const Vector<double>& thresholds, const GrowthRules& rules, int n_threads)
      : GrowerBase(m, thresholds, n_threads), search_(m, rules), grower_(m, rules, search_) {}

  // The parts of a tree for the residuals of the device; its values (value, row) on all rows are written to `values`.
  nb::tuple grow(DeviceRows& rows, const nb::object& host, Address stream, const std::vector<Address>& residuals,
                 const std::vector<Address>& hessians, Address repeats, std::int64_t n_repeated, Address chosen,
                 std::int64_t n_chosen, std::int64_t n_train, const Ring& ring, int n_quantiles, Address values,
                 const std::optional<Vector<std::uint8_t>>& features, double node_share, int n_outputs,
                 std::uint64_t seed, double min_hessian_leaf, double l1_regularization,
                 const std::vector<double>& l2_regularization) {
    require(!residuals.empty() && n_chosen > 0, "residuals: must not be empty, and a tree must have rows");
    const TreeSample sample = make_sample(features, node_share, n_outputs, seed);
    const std::size_t n_of_quantiles = static_cast<std::size_t>(std::max(n_quantiles, 0));
    // Until end(): an object of Python that refers to this one would never be freed.
    rows.begin(
        [memory = nb::object(host.attr("memory"))](const char* name, std::size_t n_words, bool keep, Place place) {
          nb::gil_scoped_acquire gil;
          return nb::cast<Address>(memory(name, n_words, keep, place == Place::kHost));
        },
        stream, {n_train, as_ring(ring), residuals, hessians, repeats, chosen, n_chosen});
    search_.begin(
        rows, [&](const std::vector<std::int32_t>& leaves) { return quantiles_from(host, leaves, n_of_quantiles); });
    try {
      nb::gil_scoped_release release;
      const TreeInputs inputs = inputs_of_others(n_repeated, rows.largest(), static_cast<int>(residuals.size()),
                                                 n_quantiles, min_hessian_leaf, l1_regularization, l2_regularization);
      grower_.grow(inputs, sample, InterruptCheck{});
      rows.values(grower_.tree(), values);
    } catch (...) {
      search_.end();
      rows.end();
      throw;
    }
    search_.end();
    rows.end();
    return parts_of(grower_.tree());
  }

 private:
  DeviceSearch search_;
  TreeGrower grower_;
};

}  // namespace agbm
