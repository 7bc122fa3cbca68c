// Bindings of the growth of trees. All growers are in one file: in several, the kernels of histograms would be compiled
// several times.
#include <cstdint>
#include <optional>
#include <vector>

#include "base/memory.hpp"
#include "bindings/arrays.hpp"
#include "bindings/growers.hpp"
#include "bindings/module.hpp"
#include "bindings/shard_rows.hpp"
#include "bindings/tree_inputs.hpp"
#include "device/calls.hpp"
#include "device/rows.hpp"
#include "tree/histogram.hpp"
#include "tree/quantise.hpp"

namespace agbm {
namespace {

// Histogram of the given rows, (cell, channel), with the form of the channels, for tests of the kernel. The cells of a
// feature are its value bins, followed by the missing values.
nb::tuple histogram_of(const BinnedMatrix& m, const Vectors& residuals, const std::optional<RowMajor<double>>& hessians,
                       const std::optional<Vector<Row>>& rows, int n_threads) {
  const TreeInputs inputs = make_inputs(m, residuals, hessians, std::nullopt, {}, n_threads);
  Channels channels = channels_of(inputs);
  LargeVector<std::int64_t> packed;
  const RowForm form(channels, false);
  pack(inputs, channels, form, packed, n_threads);
  const std::size_t n = channels.n();
  if (rows) {
    for (std::size_t i = 0; i < rows->size(); ++i) require(rows->data()[i] < inputs.n_rows, "rows: no such row");
  }
  std::vector<std::int64_t> cells(m.n_cells() * n);
  HistogramBuilder builder(m, n_threads);
  builder.set_rows(packed.data(), form);
  builder.build({{rows ? rows->data() : nullptr, rows ? rows->size() : inputs.n_rows, cells.data()}});
  std::vector<std::int64_t> used;
  for (int f = 0; f < m.n_features; ++f) {
    require(m.places[f].used() && !m.places[f].shared(), "matrix: features must have their own columns");
    const auto begin = cells.begin() + static_cast<std::ptrdiff_t>(m.cell_offset[m.places[f].column] * n);
    used.insert(used.end(), begin, begin + static_cast<std::ptrdiff_t>((m.n_bins[f] + 1) * n));
  }
  const std::size_t n_used = used.size() / n;
  return nb::make_tuple(to_numpy(std::move(used), n_used, n), to_numpy(std::move(channels.unit), n),
                        channels.count_bits);
}

GrowthRules make_rules(const BinnedMatrix& m, int max_depth, int max_leaf_nodes, std::int64_t min_samples_leaf,
                       double min_split_gain, const std::vector<int>& monotone,
                       const std::vector<std::vector<int>>& interactions) {
  require(max_depth >= 1, "max_depth: must be at least 1");
  require(max_leaf_nodes == 0 || max_leaf_nodes >= 2, "max_leaf_nodes: must be 0 (no limit) or at least 2");
  require(min_samples_leaf >= 1, "min_samples_leaf: must be at least 1");
  require(min_samples_leaf >= m.min_samples_leaf,
          "min_samples_leaf: must be at least the value that features were removed by");
  require(min_split_gain >= 0.0, "min_split_gain: must not be negative");
  require(monotone.empty() || static_cast<int>(monotone.size()) == m.n_features,
          "monotone: must be empty or have one entry for each feature");
  for (std::size_t f = 0; f < monotone.size(); ++f) {
    require(monotone[f] >= -1 && monotone[f] <= 1, "monotone: must be -1, 0 or 1");
    require(monotone[f] == 0 || !m.categorical(static_cast<int>(f)),
            "monotone: a categorical feature cannot be monotone");
  }
  for (const std::vector<int>& group : interactions) {
    for (int feature : group) require(feature >= 0 && feature < m.n_features, "interactions: no such feature");
  }
  return {max_depth, max_leaf_nodes, min_samples_leaf, min_split_gain, monotone, interactions};
}

template <class G>
void def_init(nb::class_<G>& grower) {
  grower.def(
      "__init__",
      [](G* self, const BinnedMatrix& m, const Vector<double>& thresholds, int max_depth, int max_leaf_nodes,
         std::int64_t min_samples_leaf, double min_split_gain, const std::vector<int>& monotone,
         const std::vector<std::vector<int>>& interactions, int n_threads) {
        new (self) G(m, thresholds,
                     make_rules(m, max_depth, max_leaf_nodes, min_samples_leaf, min_split_gain, monotone, interactions),
                     n_threads);
      },
      "matrix"_a, "thresholds"_a.noconvert(), nb::kw_only(), "max_depth"_a, "max_leaf_nodes"_a, "min_samples_leaf"_a,
      "min_split_gain"_a, "monotone"_a, "interactions"_a, "n_threads"_a, nb::keep_alive<1, 2>());
}

void bind_growers(nb::module_& m) {
  nb::class_<Grower> grower(m, "Grower", "Grows one tree after the other on the rows of a matrix; not thread-safe.");
  def_init(grower);
  grower.def(
      "grow", &Grower::grow, nb::kw_only(), "residuals"_a.noconvert(), "hessians"_a.noconvert().none(),
      "repeats"_a.noconvert().none(), "distances"_a.noconvert() = nb::list(), "shares"_a = std::vector<double>(),
      "steps"_a.noconvert().none() = nb::none(), "rows"_a.noconvert().none(), "ring"_a = Ring(),
      "features"_a.noconvert().none(), "node_share"_a, "n_outputs"_a = 0, "seed"_a, "min_hessian_leaf"_a,
      "l1_regularization"_a = 0.0, "l2_regularization"_a,
      "A tree for residuals, one array per residual: its parts and its values on all rows. With distances, one array "
      "per output, the leaf values for each output's first residual are quantiles of these. `rows` are those of the "
      "matrix to grow on, None for all that residuals have. `ring` is the begin, the end and the first row of the "
      "ring of rows; see row_ring.hpp. Splits are chosen by `n_outputs` outputs that are drawn at random; 0: by all.");
  nb::class_<RemoteGrower> remote(m, "RemoteGrower", "Grows trees on rows of other processes, from sums over them.");
  def_init(remote);
  remote.def(
      "grow", &RemoteGrower::grow, nb::kw_only(), "sums"_a, "n_repeated"_a, "max"_a, "n_residuals"_a,
      "n_quantiles"_a = 0, "features"_a.noconvert().none(), "node_share"_a, "n_outputs"_a = 0, "seed"_a,
      "min_hessian_leaf"_a, "l1_regularization"_a = 0.0, "l2_regularization"_a,
      "The parts of a tree. `sums` has the methods histograms(splits, nodes), noise(), summed_by(sums, n_residuals) "
      "and leaf_sums(splits, leaves) of ShardRows, for all shards together, and leaf_quantiles(leaves), (leaf, "
      "output), flat.");
}

void bind_device(nb::module_& m) {
  m.attr("DEVICE_KERNELS") = nb::tuple(nb::cast(kKernelNames));
  nb::class_<DeviceRows>(m, "DeviceRows", "The rows of trees that grow on a device, one after the other.")
      .def(
          "__init__",
          [](DeviceRows* self, Address launch, Address copy_to_device, Address copy_to_host, Address clear,
             Address wait, const std::vector<Address>& kernels, int n_processors, std::int64_t n_rows, int n_features,
             int group_columns, std::int64_t n_cells, std::int64_t widest_group, std::int64_t first_cells,
             Address codes, Address first_cell, Address n_bins, Address n_categories, Address monotone) {
            new (self) DeviceRows({launch, copy_to_device, copy_to_host, clear, wait, kernels},
                                  {n_processors, n_rows, n_features, group_columns, n_cells, widest_group, first_cells,
                                   codes, first_cell, n_bins, n_categories, monotone});
          },
          nb::kw_only(), "launch"_a, "copy_to_device"_a, "copy_to_host"_a, "clear"_a, "wait"_a, "kernels"_a,
          "n_processors"_a, "n_rows"_a, "n_features"_a, "group_columns"_a, "n_cells"_a, "widest_group"_a,
          "first_cells"_a, "codes"_a, "first_cell"_a, "n_bins"_a, "n_categories"_a, "monotone"_a,
          "Functions of the driver, kernels in the order of DEVICE_KERNELS and arrays are given as addresses.");
  nb::class_<DeviceGrower> grower(m, "DeviceGrower", "Grows trees on rows of a device, which finds the best splits.");
  def_init(grower);
  grower.def(
      "grow", &DeviceGrower::grow, nb::kw_only(), "rows"_a, "host"_a, "stream"_a, "residuals"_a, "hessians"_a,
      "repeats"_a, "n_repeated"_a, "chosen"_a, "n_chosen"_a, "n_train"_a, "ring"_a, "n_quantiles"_a, "values"_a,
      "features"_a.noconvert().none(), "node_share"_a, "n_outputs"_a = 0, "seed"_a, "min_hessian_leaf"_a,
      "l1_regularization"_a = 0.0, "l2_regularization"_a,
      "The parts of a tree; its values on all rows are written to `values`. Arrays are given as addresses, 0 for "
      "none. `host` has the methods memory and leaf_quantiles of DeviceTreeRows in agbm/_engines/device/growth.py.");
}

void bind_shard(nb::module_& m) {
  nb::class_<ShardRows>(m, "ShardRows", "The rows of one process, on which another process grows trees.")
      .def(nb::init<const BinnedMatrix&, const Ring&, int>(), "matrix"_a, "ring"_a, "n_threads"_a,
           nb::keep_alive<1, 2>())
      .def("set_residuals", &ShardRows::set_residuals, nb::kw_only(), "residuals"_a.noconvert(),
           "hessians"_a.noconvert().none(), "repeats"_a.noconvert().none(), "distances"_a.noconvert() = nb::list(),
           "shares"_a = std::vector<double>(), "steps"_a.noconvert().none() = nb::none(),
           "Take residuals. Returns the number of rows, counting repeats, and the largest absolute values.")
      .def("start", &ShardRows::start, nb::kw_only(), "n_repeated"_a, "max"_a, "rows"_a.noconvert().none(),
           "Begin a tree, given the number of rows and the largest absolute values of all shards.")
      .def("summed_by", &ShardRows::summed_by, "sums"_a.noconvert(), "n_residuals"_a,
           "Which residuals, and then hessians, histograms sum: none for all, and how many of them are residuals.")
      .def("split", &ShardRows::split, "splits"_a.noconvert(), "Send the rows of nodes to their children.")
      .def("histograms", &ShardRows::histograms, "nodes"_a.noconvert(),
           "Histograms of nodes, one after the other, flat.")
      .def("noise", &ShardRows::noise, "Sums that the noise of the residuals is computed from.")
      .def("leaf_sums", &ShardRows::leaf_sums, "leaves"_a.noconvert(),
           "Sums over the rows of leaves, (leaf, residual or hessian), flat.")
      .def("tally", &ShardRows::tally, "leaves"_a.noconvert(), "output"_a, "known"_a.noconvert(), "shift"_a, "width"_a,
           "Weights of the distances that begin with the known bits, by the next bits, (leaf, next bits), flat.")
      .def("values", &ShardRows::values, "nodes"_a.noconvert(), "left_codes"_a.noconvert(), "value"_a.noconvert(),
           "Values (value, row) of a tree.");
}

}  // namespace

void bind_tree(nb::module_& m) {
  m.def("histogram", &histogram_of, "matrix"_a, "residuals"_a.noconvert(), "hessians"_a.noconvert().none(),
        "rows"_a.noconvert().none(), "n_threads"_a,
        "Histogram cells of the given rows, the value of one step of each channel, and the bits of the count.");
  bind_growers(m);
  bind_device(m);
  bind_shard(m);
}

}  // namespace agbm
