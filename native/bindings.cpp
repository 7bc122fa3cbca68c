// The boundary to Python: shapes and values are checked here, the GIL is released and signals are let through here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include "bin.hpp"
#include "bundle.hpp"
#include "grow.hpp"
#include "histogram.hpp"
#include "loss.hpp"
#include "model_file.hpp"
#include "predict.hpp"
#include "reuse.hpp"
#include "shap.hpp"
#include "thresholds.hpp"
#include "vectors.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace agbm {
namespace {

template <class T>
using Vector = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using RowMajor = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// A NumPy array that owns its memory, moved out of a vector.
template <class T, class... Shape>
nb::ndarray<nb::numpy, T> to_numpy(std::vector<T>&& data, Shape... shape) {
  auto* owned = new std::vector<T>(std::move(data));
  nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::ndarray<nb::numpy, T>(owned->data(), {static_cast<std::size_t>(shape)...}, owner);
}

// A NumPy array without values, whose memory is used again.
nb::ndarray<nb::numpy, double> empty(const std::vector<std::size_t>& shape) {
  struct Owned {
    double* numbers;
    std::size_t n;
  };
  const std::size_t n = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
  auto owned = std::make_unique<Owned>(Owned{ReusedMemory::instance().take(n), n});
  double* numbers = owned->numbers;
  nb::capsule owner(owned.release(), [](void* p) noexcept {
    std::unique_ptr<Owned> dropped(static_cast<Owned*>(p));
    ReusedMemory::instance().give_back(dropped->numbers, dropped->n);
  });
  return nb::ndarray<nb::numpy, double>(numbers, shape.size(), shape.data(), owner);
}

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

// Lets Ctrl-C through between batches of a growth, at most twenty times a second: taking the GIL may have to wait.
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

void require_matrix(std::size_t n_rows, const std::vector<int>& n_bins) {
  require(n_rows < (std::size_t{1} << 32), "n_rows: more than 2^32 - 1");
  require(!n_bins.empty(), "n_bins: no features");
  for (int n : n_bins) require(n >= 1 && n <= kMaxValueBins, "n_bins: a feature has from 1 to 255");
}

BinnedMatrix make_matrix(std::size_t n_rows, const std::vector<int>& n_bins, const std::vector<int>& n_categories,
                         const std::string& folder) {
  require_matrix(n_rows, n_bins);
  require(n_categories.size() == n_bins.size(), "n_categories: must have one entry for each feature");
  for (int n : n_categories) require(n >= 0, "n_categories: must not be negative");
  std::vector<FeaturePlace> own_columns;
  for (int f = 0; f < static_cast<int>(n_bins.size()); ++f) own_columns.push_back({f});
  BinnedMatrix m;
  try {
    nb::gil_scoped_release release;
    lay_out(m, n_rows, n_bins, n_categories, std::move(own_columns), folder);
  } catch (const std::system_error& error) {  // of the folder's file system
    errno = error.code().value();
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, folder.c_str());
    throw nb::python_error();
  }
  return m;
}

template <class T>
Dense<T> as_dense(const Matrix<T>& x) {
  return {x.data(), x.shape(1), x.stride(0), x.stride(1)};
}

nb::tuple to_numpy(Thresholds&& found) {
  const std::size_t n_values = found.values.size(), n_features = found.counts.size();
  return nb::make_tuple(to_numpy(std::move(found.values), n_values), to_numpy(std::move(found.counts), n_features));
}

// The kernel sorts and counts in 32 bits.
void require_bins(std::size_t n_rows, int max_bins) {
  require(n_rows < (std::size_t{1} << 32), "X: more than 2^32 - 1 rows");
  require(max_bins >= 2 && max_bins <= kMaxValueBins, "max_bins: must be from 2 to 255");
}

template <class T>
nb::tuple thresholds_of(const Matrix<T>& x, const std::optional<Vector<std::int64_t>>& rows, int max_bins, int n_threads) {
  require_bins(x.shape(0), max_bins);
  Thresholds found;
  if (rows) {
    for (std::size_t i = 0; i < rows->size(); ++i) {
      require(rows->data()[i] >= 0 && rows->data()[i] < static_cast<std::int64_t>(x.shape(0)), "rows: no such row");
    }
    nb::gil_scoped_release release;
    const auto row_of = [&](std::size_t i) { return static_cast<std::size_t>(rows->data()[i]); };
    found = dense_thresholds(as_dense(x), rows->size(), row_of, max_bins, n_threads);
  } else {
    nb::gil_scoped_release release;
    found = dense_thresholds(as_dense(x), x.shape(0), [](std::size_t i) { return i; }, max_bins, n_threads);
  }
  return to_numpy(std::move(found));
}

// Whether `start` cuts a vector of that size into parts.
void require_parts(const Vector<std::int64_t>& start, std::size_t size) {
  require(start.size() > 0 && start.data()[0] == 0, "start: must begin with 0");
  for (std::size_t i = 1; i < start.size(); ++i) require(start.data()[i - 1] <= start.data()[i], "start: must not descend");
  require(start.data()[start.size() - 1] == static_cast<std::int64_t>(size), "start: must end with the number of values");
}

template <class T>
nb::tuple sparse_thresholds_of(const Vector<T>& values, const Vector<std::int64_t>& start, std::size_t n_rows,
                               int max_bins, int n_threads) {
  require_bins(n_rows, max_bins);
  require_parts(start, values.size());
  for (std::size_t c = 1; c < start.size(); ++c) {
    require(start.data()[c] - start.data()[c - 1] <= static_cast<std::int64_t>(n_rows), "start: more values than rows");
  }
  Thresholds found;
  {
    nb::gil_scoped_release release;
    found = sparse_thresholds(values.data(), start.data(), start.size() - 1, n_rows, max_bins, n_threads);
  }
  return to_numpy(std::move(found));
}

void require_thresholds(std::span<const int> n_bins, const Vector<double>& thresholds) {
  std::size_t n = 0;
  for (int bins : n_bins) n += bins - 1;
  require(n == thresholds.size(), "thresholds: one fewer than bins of each feature");
}

template <class T>
void fill(BinnedMatrix& m, int first_feature, const Matrix<T>& x, const Vector<double>& thresholds, int n_threads,
          const std::optional<Vector<Row>>& rows) {
  const int n_columns = static_cast<int>(x.shape(1));
  require(x.shape(0) == (rows ? rows->size() : m.n_rows), "X: wrong number of rows");
  if (rows) {
    const Row* end = rows->data() + rows->size();
    require(std::all_of(rows->data(), end, [&](Row row) { return row < m.n_rows; }), "rows: no such row");
  }
  require(first_feature >= 0 && n_columns > 0 && first_feature <= m.n_features - n_columns, "X: no such features");
  for (int f = first_feature; f < first_feature + n_columns; ++f) {
    require(!m.places[f].shared(), "X: features share a column");
  }
  require_thresholds(std::span(m.n_bins).subspan(first_feature, n_columns), thresholds);
  nb::gil_scoped_release release;
  bin_columns(m, first_feature, thresholds.data(), as_dense(x), x.shape(0), rows ? rows->data() : nullptr, n_threads);
}

template <class T>
BinnedMatrix make_sparse(const Vector<T>& values, const Vector<std::int32_t>& features, const Vector<std::int64_t>& start,
                         const std::vector<int>& n_bins, const Vector<double>& thresholds, int n_threads) {
  require(start.size() > 0, "start: must have one entry more than there are rows");
  require_matrix(start.size() - 1, n_bins);
  require_parts(start, values.size());
  require(features.size() == values.size(), "features: must have one entry for each value");
  for (std::size_t i = 0; i < features.size(); ++i) {
    require(features.data()[i] >= 0 && features.data()[i] < static_cast<std::int64_t>(n_bins.size()),
            "features: no such feature");
  }
  require_thresholds(n_bins, thresholds);
  nb::gil_scoped_release release;
  const SparseRows<T> rows{values.data(), features.data(), start.data(), start.size() - 1};
  return bin_bundled(n_bins, thresholds.data(), rows, n_threads);
}

nb::ndarray<nb::numpy, std::uint8_t> all_codes(const BinnedMatrix& m) {
  std::vector<std::uint8_t> out(m.n_rows * m.n_features);
  for (int f = 0; f < m.n_features; ++f) {
    for (std::size_t i = 0; i < m.n_rows; ++i) out[i * m.n_features + f] = m.bin(f, i);
  }
  return to_numpy(std::move(out), m.n_rows, m.n_features);
}

// Values of the trees of a forest on all rows, (column, row): the nodes are records, as bytes, each with the codes that go left.
// No two trees may have values in one column.
nb::ndarray<nb::numpy, double> values_on_codes(const BinnedMatrix& m, const Vector<std::int32_t>& roots,
                                               const Vector<std::int32_t>& first_column,
                                               const Vector<std::uint8_t>& nodes,
                                               const RowMajor<std::uint64_t>& left_codes,
                                               const RowMajor<double>& value, std::size_t n_columns, int n_threads) {
  const std::size_t n_nodes = value.shape(0);
  require(nodes.size() == n_nodes * sizeof(NodeRecord), "nodes: must have as many records as value has rows");
  require(left_codes.shape(0) == n_nodes && left_codes.shape(1) == 4, "left_codes: must have 4 words for each node");
  require(first_column.size() == roots.size(), "first_column: must have one entry for each tree");
  GrownTree all;
  all.n_targets = static_cast<int>(value.shape(1));
  all.value.assign(value.data(), value.data() + value.size());
  for (std::size_t i = 0; i < n_nodes; ++i) {
    NodeRecord record;
    std::memcpy(&record, nodes.data() + i * sizeof record, sizeof record);
    const bool is_leaf = record.left < 0;
    require(is_leaf || (record.feature >= 0 && record.feature < m.n_features), "nodes: no such feature");
    require(is_leaf || (static_cast<std::size_t>(record.left) > i && static_cast<std::size_t>(record.left) + 1 < n_nodes),
            "nodes: children must be behind their parents");
    all.feature.push_back(record.feature);
    all.left.push_back(record.left);
    CodeSet codes;
    std::copy_n(left_codes.data() + 4 * i, 4, codes.words.begin());
    all.left_codes.push_back(codes);
  }
  nb::ndarray<nb::numpy, double> out = empty({n_columns, m.n_rows});
  double* values = out.data();
  for (std::size_t t = 0; t < roots.size(); ++t) {
    require(roots.data()[t] >= 0 && static_cast<std::size_t>(roots.data()[t]) < n_nodes, "roots: no such node");
    require(first_column.data()[t] >= 0 && first_column.data()[t] + value.shape(1) <= n_columns,
            "first_column: more values than columns");
  }
  nb::gil_scoped_release release;
  for (std::size_t t = 0; t < roots.size(); ++t) {
    binned_values(m, all, 0, m.n_rows, values + first_column.data()[t] * m.n_rows, m.n_rows, n_threads, roots.data()[t]);
  }
  return out;
}

// Sums of residuals keep at least 24 bits for each.
constexpr std::int64_t kMostRepeats = std::int64_t{1} << 31;

using Gradients = std::vector<Vector<double>>;

TreeTargets make_targets(const BinnedMatrix& m, const Gradients& gradients,
                         const std::optional<RowMajor<double>>& hessians,
                         const std::optional<Vector<std::int64_t>>& repeats, int n_threads) {
  TreeTargets t;
  t.n_targets = static_cast<int>(gradients.size());
  require(t.n_targets > 0, "gradients: no targets");
  t.n_rows = t.n_repeated = gradients[0].size();
  require(t.n_rows > 0 && t.n_rows <= m.n_rows, "gradients: must have from 1 to as many numbers as X has rows");
  for (const Vector<double>& gradient : gradients) {
    require(gradient.size() == t.n_rows, "gradients: must have as many numbers for each target");
    t.gradients.push_back(gradient.data());
  }
  if (hessians) {
    t.hessians = hessians->data();
    t.n_hessians = static_cast<int>(hessians->shape(0));
    require(hessians->shape(1) == t.n_rows, "hessians: must have as many numbers as gradients");
    require(t.n_hessians > 0 && t.n_targets % t.n_hessians == 0, "hessians: must have a part of the number of gradients");
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
  for (int k = 0; k < t.n_sums(); ++k) {
    t.max.push_back(max_abs(t.summand(k), t.n_rows, n_threads));
    if (k < t.n_targets && !std::isfinite(t.max.back())) throw std::overflow_error("gradients: not finite");
    require(std::isfinite(t.max.back()), "hessians: not finite");
  }
  require(std::none_of(t.hessians, t.hessians + t.n_hessians * t.n_rows, [](double h) { return h < 0.0; }),
          "hessians: negative");
  return t;
}

// Histogram of the given rows, (cell, channel), with the channels' form: for tests of the kernel against its twin.
// Cells of a feature: its value bins, then the missing values.
nb::tuple histogram_of(const BinnedMatrix& m, const Gradients& gradients,
                       const std::optional<RowMajor<double>>& hessians, const std::optional<Vector<Row>>& rows,
                       int n_threads) {
  const TreeTargets targets = make_targets(m, gradients, hessians, std::nullopt, n_threads);
  Channels channels;
  pack(targets, channels, n_threads);
  const std::size_t n = channels.n();
  if (rows) {
    for (std::size_t i = 0; i < rows->size(); ++i) require(rows->data()[i] < targets.n_rows, "rows: no such row");
  }
  std::vector<std::int64_t> cells(m.n_cells() * n);
  HistogramBuilder builder(m, n_threads);
  builder.set_rows(channels.packed.data(), channels.n());
  builder.build({{rows ? rows->data() : nullptr, rows ? rows->size() : targets.n_rows, cells.data()}});
  std::vector<std::int64_t> used;
  for (int f = 0; f < m.n_features; ++f) {
    require(!m.places[f].shared(), "matrix: features share a column");
    const auto begin = cells.begin() + static_cast<std::ptrdiff_t>(m.cell_offset[m.places[f].column] * n);
    used.insert(used.end(), begin, begin + static_cast<std::ptrdiff_t>((m.n_bins[f] + 1) * n));
  }
  const std::size_t n_used = used.size() / n;
  return nb::make_tuple(to_numpy(std::move(used), n_used, n), to_numpy(std::move(channels.unit), n),
                        channels.count_bits);
}

// Grows trees on rows of one matrix, which it keeps alive.
class Grower {
 public:
  // Thresholds: of one feature after the other.
  Grower(const BinnedMatrix& m, const Vector<double>& thresholds, const GrowthRules& rules, int n_threads)
      : matrix_(m),
        n_threads_(n_threads),
        grower_(m, rules, n_threads),
        thresholds_(thresholds.data(), thresholds.data() + thresholds.size()) {
    require_thresholds(m.n_bins, thresholds);
    std::size_t first = 0;
    for (int n : m.n_bins) {
      first_threshold_.push_back(first);
      first += n - 1;
    }
  }

  // A tree for the residuals of the first rows: its nodes (records, as bytes), the codes that go left in each, the values
  // of the nodes, and its values on all rows.
  nb::tuple grow(const Gradients& gradients, const std::optional<RowMajor<double>>& hessians,
                const std::optional<Vector<std::int64_t>>& repeats, const std::optional<Vector<Row>>& rows,
                const std::optional<Vector<std::uint8_t>>& features, double node_share, std::uint64_t seed,
                double min_hessian_leaf) {
    TreeTargets targets = make_targets(matrix_, gradients, hessians, repeats, n_threads_);
    require(min_hessian_leaf >= 0.0, "min_hessian_leaf: must not be negative");
    targets.min_hessian_leaf = min_hessian_leaf;
    const TreeSample sample = make_sample(targets.n_rows, rows, features, node_share, seed);
    const std::size_t n_rows = matrix_.n_rows;
    nb::ndarray<nb::numpy, double> row_values = empty({static_cast<std::size_t>(targets.n_targets), n_rows});
    double* values = row_values.data();
    GrownTree tree;
    {
      nb::gil_scoped_release release;
      grower_.grow(targets, sample, InterruptCheck{});
      tree = grower_.tree();
      const std::size_t known = sample.rows == nullptr ? targets.n_rows : 0;
      if (known > 0) grower_.training_values(values, n_rows);
      binned_values(matrix_, tree, known, n_rows - known, values + known, n_rows, n_threads_);
    }
    std::vector<std::uint64_t> left_codes;
    for (const CodeSet& codes : tree.left_codes) left_codes.insert(left_codes.end(), codes.words.begin(), codes.words.end());
    const std::size_t n = tree.n_nodes();
    return nb::make_tuple(records_of(tree), to_numpy(std::move(left_codes), n, 4),
                          to_numpy(std::move(tree.value), n, targets.n_targets), row_values);
  }

 private:
  nb::ndarray<nb::numpy, std::uint8_t> records_of(const GrownTree& tree) const {
    std::vector<std::uint8_t> bytes(tree.n_nodes() * sizeof(NodeRecord));
    for (std::size_t i = 0; i < tree.n_nodes(); ++i) {
      NodeRecord record{0.0, tree.gain[i], tree.count[i], tree.feature[i], tree.bin[i], tree.left[i], -1, tree.missing_left[i]};
      if (tree.left[i] >= 0) {
        // The last bin is open above: a split behind it sends all values left and only missing ones right.
        const bool open = parts_missing_only(tree.bin[i], matrix_.n_bins[tree.feature[i]]);
        record.threshold = open ? std::numeric_limits<double>::infinity()
                                : thresholds_[first_threshold_[tree.feature[i]] + tree.bin[i]];
      }
      std::memcpy(bytes.data() + i * sizeof record, &record, sizeof record);
    }
    return to_numpy(std::move(bytes), tree.n_nodes() * sizeof(NodeRecord));
  }

  TreeSample make_sample(std::size_t n_train, const std::optional<Vector<Row>>& rows,
                         const std::optional<Vector<std::uint8_t>>& features, double node_share,
                         std::uint64_t seed) const {
    require(node_share > 0.0 && node_share <= 1.0, "node_share: must be from 0 (excluded) to 1");
    TreeSample sample{nullptr, 0, nullptr, node_share, seed};
    if (rows) {
      require(rows->size() > 0, "rows: none");
      for (std::size_t i = 0; i < rows->size(); ++i) {
        require(rows->data()[i] < n_train && (i == 0 || rows->data()[i - 1] < rows->data()[i]),
                "rows: must be training rows, ascending");
      }
      sample.rows = rows->data();
      sample.n_rows = rows->size();
    }
    if (features) {
      require(static_cast<int>(features->size()) == matrix_.n_features, "features: must have one entry for each feature");
      sample.features = features->data();
    }
    return sample;
  }

  const BinnedMatrix& matrix_;
  int n_threads_;
  TreeGrower grower_;
  const std::vector<double> thresholds_;
  std::vector<std::size_t> first_threshold_;  // of each feature
};

GrowthRules make_rules(const BinnedMatrix& m, int max_depth, int max_leaf_nodes, std::int64_t min_samples_leaf,
                       double l2_regularization, double min_split_gain, const std::vector<int>& monotone,
                       const std::vector<std::vector<int>>& interactions) {
  require(max_depth >= 1, "max_depth: must be at least 1");
  require(max_leaf_nodes == 0 || max_leaf_nodes >= 2, "max_leaf_nodes: must be 0 (no limit) or at least 2");
  require(min_samples_leaf >= 1, "min_samples_leaf: must be at least 1");
  require(l2_regularization >= 0.0 && min_split_gain >= 0.0, "l2_regularization, min_split_gain: must not be negative");
  require(monotone.empty() || static_cast<int>(monotone.size()) == m.n_features,
          "monotone: must be empty or have one entry for each feature");
  for (std::size_t f = 0; f < monotone.size(); ++f) {
    require(monotone[f] >= -1 && monotone[f] <= 1, "monotone: must be -1, 0 or 1");
    require(monotone[f] == 0 || !m.categorical(static_cast<int>(f)), "monotone: a feature without order cannot be monotone");
  }
  for (const std::vector<int>& group : interactions) {
    for (int feature : group) require(feature >= 0 && feature < m.n_features, "interactions: no such feature");
  }
  return {max_depth, max_leaf_nodes, min_samples_leaf, l2_regularization, min_split_gain, monotone, interactions};
}

Forest make_forest(int n_features, int n_columns, const Vector<std::int32_t>& roots,
                   const Vector<std::int32_t>& first_column, const Vector<std::uint8_t>& nodes,
                   const Vector<std::uint64_t>& category_words, const Vector<std::int64_t>& category_start,
                   const RowMajor<double>& value) {
  require(value.shape(1) <= static_cast<std::size_t>(std::max(n_columns, 0)), "value: more than the forest has columns");
  Forest::Arrays arrays;
  arrays.n_features = n_features;
  arrays.n_columns = n_columns;
  arrays.n_values = static_cast<int>(value.shape(1));
  arrays.roots.assign(roots.data(), roots.data() + roots.size());
  arrays.first_column.assign(first_column.data(), first_column.data() + first_column.size());
  arrays.take_nodes({nodes.data(), nodes.size()});
  arrays.category_words.assign(category_words.data(), category_words.data() + category_words.size());
  arrays.category_start.assign(category_start.data(), category_start.data() + category_start.size());
  arrays.values.assign(value.data(), value.data() + value.size());
  return Forest(std::move(arrays));
}

template <class T>
nb::ndarray<nb::numpy, double> predict(const Forest& forest, const Matrix<T>& x, int n_threads) {
  require(static_cast<int>(x.shape(1)) == forest.n_features(), "X: wrong number of features");
  std::vector<double> out(x.shape(0) * forest.n_columns(), 0.0);
  {
    nb::gil_scoped_release release;
    forest.add_predictions(x.data(), x.shape(0), x.stride(0), x.stride(1), out.data(), n_threads);
  }
  return to_numpy(std::move(out), x.shape(0), forest.n_columns());
}

// What the table of a model file says: its checksum, and (name, type, checksum, offset, count) of every section.
nb::tuple model_file_table(const Vector<std::uint8_t>& file) {
  const ModelFileTable table = read_model_file({file.data(), file.size()});
  nb::list sections;
  for (const Section& s : table.sections) {
    sections.append(nb::make_tuple(s.name, static_cast<std::uint32_t>(s.type), s.checksum, s.offset, s.count));
  }
  return nb::make_tuple(table.checksum, sections);
}

template <class T>
nb::ndarray<nb::numpy, double> contributions(const Contributions& of, const Matrix<T>& x, int n_threads) {
  require(static_cast<int>(x.shape(1)) == of.n_features(), "X: wrong number of features");
  const std::size_t n_places = static_cast<std::size_t>(of.n_features()) + 1;
  std::vector<double> out(x.shape(0) * of.n_columns() * n_places, 0.0);
  {
    nb::gil_scoped_release release;
    of.add(x.data(), x.shape(0), x.stride(0), x.stride(1), out.data(), n_threads);
  }
  return to_numpy(std::move(out), x.shape(0), of.n_columns(), n_places);
}

using Scores = nb::ndarray<const double, nb::device::cpu>;
using Results = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

using Rows2d = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;

void check_rows(const Rows2d& x, std::size_t n_outputs, std::size_t n_rows) {
  require(x.shape(0) == n_outputs && x.shape(1) == n_rows, "x, y, out: must have the same shape");
  require(n_rows <= 1 || x.stride(1) == 1, "x, y: rows must lie next to each other");
}

// each(x, y, out) for the rows of every output, with the GIL released.
template <class Each>
void for_each_output(const Rows2d& x, const Rows2d& y, const Results& out, const Each& each) {
  require(out.ndim() == 2, "out: must be (output, row)");
  const std::size_t n_rows = out.shape(1);
  check_rows(x, out.shape(0), n_rows);
  check_rows(y, out.shape(0), n_rows);
  nb::gil_scoped_release release;
  for (std::size_t k = 0; k < out.shape(0); ++k) {
    each(x.data() + k * x.stride(0), y.data() + k * y.stride(0), out.data() + k * n_rows);
  }
}

void mix_functions(double a, const Rows2d& x, double b, const Rows2d& y, const Results& out, int n_threads) {
  for_each_output(x, y, out, [&](const double* u, const double* v, double* to) {
    mix(a, u, b, v, to, out.shape(1), n_threads);
  });
}

void multiply_functions(const Rows2d& x, const Rows2d& y, const Results& out, int n_threads) {
  for_each_output(x, y, out, [&](const double* u, const double* v, double* to) {
    multiply(u, v, to, out.shape(1), n_threads);
  });
}

nb::tuple products_of(const Rows2d& x, const Rows2d& y, const std::optional<Vector<double>>& weight, int n_threads) {
  check_rows(x, x.shape(0), x.shape(1));
  check_rows(y, x.shape(0), x.shape(1));
  require(!weight || weight->size() == x.shape(1), "weight: must have one entry for each row");
  InnerProducts total;
  {
    nb::gil_scoped_release release;
    for (std::size_t k = 0; k < x.shape(0); ++k) {
      const InnerProducts sums = inner_products(x.data() + k * x.stride(0), y.data() + k * y.stride(0),
                                                weight ? weight->data() : nullptr, x.shape(1), n_threads);
      total.xx += sums.xx;
      total.xy += sums.xy;
      total.yy += sums.yy;
    }
  }
  return nb::make_tuple(total.xx, total.xy, total.yy);
}

// Calls use(loss) with the one-score loss of that name.
template <class Use>
void with_loss(const std::string& name, double parameter, const Use& use) {
  if (name == "squared_error") return use(HalfSquaredErrorLoss{});
  if (name == "absolute_error") return use(AbsoluteErrorLoss{parameter});
  if (name == "quantile") return use(QuantileLoss{parameter});
  if (name == "huber") return use(HuberLoss{parameter});
  if (name == "poisson") return use(PoissonLoss{});
  if (name == "gamma") return use(GammaLoss{});
  if (name == "tweedie") return use(TweedieLoss{parameter});
  if (name == "logistic") return use(LogisticLoss{});
  if (name == "exponential") return use(ExponentialLoss{});
  throw std::invalid_argument("name: no such loss");
}

// Labels and scores of losses with one score a row: (row), or (output, row).
struct LabelledRows {
  std::size_t n_outputs, n_rows;

  LabelledRows(const Scores& y, const Scores& f) {
    require(y.ndim() == 1 || y.ndim() == 2, "y: must be (rows) or (outputs, rows)");
    require(f.ndim() == y.ndim(), "f: must have as many dimensions as y");
    n_outputs = y.ndim() == 2 ? y.shape(0) : 1;
    n_rows = y.shape(y.ndim() - 1);
    require(f.shape(f.ndim() - 1) == n_rows, "f: must have scores for as many rows as y has labels");
    require(y.ndim() == 1 || f.shape(0) == n_outputs, "f: must have scores for as many outputs as y has labels");
    require_together(y);
    require_together(f);
  }

  static void require_together(const Scores& x) {
    require(x.shape(x.ndim() - 1) <= 1 || x.stride(x.ndim() - 1) == 1, "y, f: rows must lie next to each other");
  }
  static const double* of_output(const Scores& x, std::size_t k) {
    return x.data() + (x.ndim() == 2 ? static_cast<std::ptrdiff_t>(k) * x.stride(0) : 0);
  }
};

void multinomial_quantity(Quantity quantity, double n_classes, const Scores& y, const Scores& f, const Results& out,
                          int n_threads) {
  require(y.ndim() == 1, "y: must be a vector");
  require(f.ndim() == 2, "f: must be (classes, rows)");
  require(f.shape(1) == y.shape(0), "f: must have scores for as many rows as y has labels");
  LabelledRows::require_together(y);
  LabelledRows::require_together(f);
  require(n_classes >= 2.0 && static_cast<double>(f.shape(0)) == n_classes,
          "f: must have scores of as many classes as the loss has, at least 2");
  require(out.size() == (quantity == Quantity::kValue ? y.size() : f.size()), "out: wrong size");
  nb::gil_scoped_release release;
  const ClassScores scores{f.data(), f.stride(0), f.shape(0), y.shape(0)};
  require(MultinomialLoss(scores, y.data(), quantity, out.data()).fill(n_threads),
          "y: must hold codes of classes, whole numbers from 0");
}

// One quantity of every row, into out: NumPy's large arrays lie in large pages, which saves more time than some losses
// take.
template <Quantity quantity>
void loss_quantity(const std::string& name, double parameter, const Scores& y, const Scores& f, const Results& out,
                   int n_threads) {
  if (name == "multinomial") return multinomial_quantity(quantity, parameter, y, f, out, n_threads);
  const LabelledRows rows(y, f);
  require(out.size() == y.size(), "out: wrong size");
  nb::gil_scoped_release release;
  with_loss(name, parameter, [&](auto loss) {
    for (std::size_t k = 0; k < rows.n_outputs; ++k) {
      fill_rows(loss, quantity, rows.of_output(y, k), rows.of_output(f, k), rows.n_rows, out.data() + k * rows.n_rows,
                n_threads);
    }
  });
}

double loss_sum(const std::string& name, double parameter, const Scores& y, const Scores& f,
                const std::optional<Vector<double>>& weight, int n_threads) {
  const LabelledRows rows(y, f);
  require(!weight || weight->size() == rows.n_rows, "weight: must have one entry for each row");
  double sum = 0.0;
  nb::gil_scoped_release release;
  with_loss(name, parameter, [&](auto loss) {
    for (std::size_t k = 0; k < rows.n_outputs; ++k) {
      sum += sum_rows(loss, rows.of_output(y, k), rows.of_output(f, k), weight ? weight->data() : nullptr, rows.n_rows,
                      n_threads);
    }
  });
  return sum;
}

}  // namespace
}  // namespace agbm

NB_MODULE(_native, m) {
  using namespace agbm;
  m.doc() = "Kernels of agbm: binning, tree growth, prediction, losses.";

  nb::class_<BinnedMatrix>(m, "BinnedMatrix", "A matrix of bin codes, one byte a value.")
      .def_ro("n_rows", &BinnedMatrix::n_rows)
      .def_ro("n_features", &BinnedMatrix::n_features)
      .def_ro("n_bins", &BinnedMatrix::n_bins)
      .def(nb::new_(&make_matrix), "n_rows"_a, "n_bins"_a, "n_categories"_a, "folder"_a = "",
           "Codes of zero, in memory or in files of a folder that are gone with the matrix.")
      .def("fill", &fill<double>, "first_feature"_a, "X"_a.noconvert(), "thresholds"_a.noconvert(), "n_threads"_a,
           "rows"_a.noconvert().none() = nb::none())
      .def("fill", &fill<float>, "first_feature"_a, "X"_a.noconvert(), "thresholds"_a.noconvert(), "n_threads"_a,
           "rows"_a.noconvert().none() = nb::none(),
           "Codes of some neighbouring features from their values; thresholds of one after the other, ascending. Row i of X "
           "is row rows[i] of the matrix, or row i.")
      .def("values", &values_on_codes, "roots"_a.noconvert(), "first_column"_a.noconvert(), "nodes"_a.noconvert(),
           "left_codes"_a.noconvert(), "value"_a.noconvert(), "n_columns"_a, "n_threads"_a,
           "Values of the trees of a forest on all rows, (column, row); left_codes has the codes that go left in each node.")
      .def_static("from_sparse", &make_sparse<double>, "values"_a.noconvert(), "features"_a.noconvert(),
                  "start"_a.noconvert(), "n_bins"_a, "thresholds"_a.noconvert(), "n_threads"_a)
      .def_static("from_sparse", &make_sparse<float>, "values"_a.noconvert(), "features"_a.noconvert(),
                  "start"_a.noconvert(), "n_bins"_a, "thresholds"_a.noconvert(), "n_threads"_a,
                  "A matrix from sparse rows, which have no place twice. Features may share columns.")
      .def_prop_ro("n_columns", &BinnedMatrix::n_columns)
      .def("codes", &all_codes, "The bins as a (row, feature) array.");

  m.def("thresholds", &thresholds_of<double>, "X"_a.noconvert(), "rows"_a.noconvert().none(), "max_bins"_a,
        "n_threads"_a);
  m.def("thresholds", &thresholds_of<float>, "X"_a.noconvert(), "rows"_a.noconvert().none(), "max_bins"_a, "n_threads"_a,
        "Thresholds of one feature after the other, from the given rows, and how many each has.");
  m.def("sparse_thresholds", &sparse_thresholds_of<double>, "values"_a.noconvert(), "start"_a.noconvert(), "n_rows"_a,
        "max_bins"_a, "n_threads"_a);
  m.def("sparse_thresholds", &sparse_thresholds_of<float>, "values"_a.noconvert(), "start"_a.noconvert(), "n_rows"_a,
        "max_bins"_a, "n_threads"_a, "The same from a sparse matrix, column by column, that has no place twice.");
  m.def("histogram", &histogram_of, "matrix"_a, "gradients"_a.noconvert(), "hessians"_a.noconvert().none(),
        "rows"_a.noconvert().none(), "n_threads"_a,
        "Histogram cells of the given rows, the value of one step of each channel, and the bits of the count.");
  nb::class_<Grower>(m, "Grower", "Grows one tree after the other on the rows of a matrix; not for two threads at once.")
      .def(
          "__init__",
          [](Grower* self, const BinnedMatrix& m, const Vector<double>& thresholds, int max_depth, int max_leaf_nodes, std::int64_t min_samples_leaf,
             double l2_regularization, double min_split_gain, const std::vector<int>& monotone,
             const std::vector<std::vector<int>>& interactions, int n_threads) {
            new (self) Grower(m, thresholds,
                              make_rules(m, max_depth, max_leaf_nodes, min_samples_leaf, l2_regularization,
                                         min_split_gain, monotone, interactions),
                              n_threads);
          },
          "matrix"_a, "thresholds"_a.noconvert(), nb::kw_only(), "max_depth"_a, "max_leaf_nodes"_a, "min_samples_leaf"_a, "l2_regularization"_a,
          "min_split_gain"_a, "monotone"_a, "interactions"_a, "n_threads"_a, nb::keep_alive<1, 2>())
      .def("grow", &Grower::grow, nb::kw_only(), "gradients"_a.noconvert(), "hessians"_a.noconvert().none(),
           "repeats"_a.noconvert().none(), "rows"_a.noconvert().none(), "features"_a.noconvert().none(), "node_share"_a,
           "seed"_a, "min_hessian_leaf"_a,
           "A tree for the residuals (target, training row): its nodes, and its values on all rows.");

  nb::class_<Forest>(m, "Forest", "Trees ready to predict.")
      .def(nb::new_(&make_forest), "n_features"_a, "n_columns"_a, "roots"_a.noconvert(), "first_column"_a.noconvert(),
           "nodes"_a.noconvert(), "category_words"_a.noconvert(), "category_start"_a.noconvert(),
           "value"_a.noconvert())
      .def("predict", &predict<double>, "X"_a.noconvert(), "n_threads"_a)
      .def("predict", &predict<float>, "X"_a.noconvert(), "n_threads"_a,
           "Sum of the trees' values, (row, output).");
  nb::class_<Contributions>(m, "Contributions", "What each feature adds to the predictions of a forest.")
      .def(
          "__init__",
          [](Contributions* self, const Forest& forest) {
            nb::gil_scoped_release release;
            new (self) Contributions(forest);
          },
          "forest"_a, nb::keep_alive<1, 2>())
      .def("predict", &contributions<double>, "X"_a.noconvert(), "n_threads"_a)
      .def("predict", &contributions<float>, "X"_a.noconvert(), "n_threads"_a,
           "Shapley values, and the expected sum in the last place, (row, output, feature + 1).");

  m.attr("MAX_FEATURES") = kMaxFeatures;
  m.attr("MAX_DEPTH") = kMaxDepth;
  m.def("model_file_table", &model_file_table, "file"_a.noconvert(),
        "The checksum of a model file's table, and (name, type, checksum, offset, count) of every section.");

  m.def("empty", &empty, "shape"_a, "An array without values. Within a run, its memory is used again when it is dropped.");
  m.def("begin_run", [] { ReusedMemory::instance().begin_run(); }, "From now on, memory of dropped arrays is kept.");
  m.def("end_run", [] { ReusedMemory::instance().end_run(); }, "The last run to end gives kept memory back.");
  m.def("mix", &mix_functions, "a"_a, "x"_a.noconvert(), "b"_a, "y"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "a x + b y of functions (output, row), into out.");
  m.def("multiply", &multiply_functions, "x"_a.noconvert(), "y"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "x times y, row by row, of functions (output, row), into out.");
  m.def("inner_products", &products_of, "x"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert().none(), "n_threads"_a,
        "<x, x>, <x, y> and <y, y> of functions (output, row), with weights of rows.");

  m.def("loss_value", &loss_quantity<Quantity::kValue>, "name"_a, "parameter"_a, "y"_a.noconvert(), "f"_a.noconvert(),
        "out"_a.noconvert(), "n_threads"_a,
        "The loss of each row. y and f are (row) or (output, row); for \"multinomial\", f is (class, row).");
  m.def("loss_sum", &loss_sum, "name"_a, "parameter"_a, "y"_a.noconvert(), "f"_a.noconvert(),
        "weight"_a.noconvert().none(), "n_threads"_a, "The losses of all rows, times their weights, together.");
  m.def("loss_negative_gradient", &loss_quantity<Quantity::kNegativeGradient>, "name"_a, "parameter"_a,
        "y"_a.noconvert(), "f"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a, "-dl/df, in the shape of f.");
  m.def("loss_hessian", &loss_quantity<Quantity::kHessian>, "name"_a, "parameter"_a, "y"_a.noconvert(),
        "f"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a, "The curvature of each row, in the shape of f.");
}
