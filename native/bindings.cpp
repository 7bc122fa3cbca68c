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
#include "binned_trees.hpp"
#include "grow.hpp"
#include "histogram.hpp"
#include "leaf_rows.hpp"
#include "loss.hpp"
#include "model_file.hpp"
#include "predict.hpp"
#include "reuse.hpp"
#include "shap.hpp"
#include "sparse.hpp"
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
  BinnedMatrix m;
  try {
    nb::gil_scoped_release release;
    lay_out(m, n_rows, n_bins, n_categories, ColumnPlan::of_own(static_cast<int>(n_bins.size())), folder);
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
nb::tuple thresholds_of(const Matrix<T>& x, const std::optional<Vector<std::int64_t>>& rows, int max_bins,
                        int n_threads) {
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
  for (std::size_t i = 1; i < start.size(); ++i)
    require(start.data()[i - 1] <= start.data()[i], "start: must not descend");
  require(start.data()[start.size() - 1] == static_cast<std::int64_t>(size),
          "start: must end with the number of values");
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
    const SparseValues<T> x{values.data(), start.data(), start.size() - 1, n_rows};
    found = SparseThresholds<T>(x, max_bins, n_threads).find();
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
    require(m.places[f].used() && !m.places[f].shared(), "X: features have no columns of their own");
  }
  require_thresholds(std::span(m.n_bins).subspan(first_feature, n_columns), thresholds);
  nb::gil_scoped_release release;
  bin_columns(m, first_feature, thresholds.data(), as_dense(x), x.shape(0), rows ? rows->data() : nullptr, n_threads);
}

LeafRows make_leaf(std::size_t n_rows, std::int64_t min_samples_leaf, std::size_t n_train,
                   const std::optional<Vector<std::int64_t>>& repeats) {
  require(n_train <= n_rows && min_samples_leaf >= 0, "n_train, min_samples_leaf: no such rows");
  require(!repeats || repeats->size() == n_train, "repeats: must have one entry for each training row");
  return {min_samples_leaf, n_train, repeats ? repeats->data() : nullptr};
}

void leave_out(BinnedMatrix& m, int n_threads, std::int64_t min_samples_leaf, std::size_t n_train,
               const std::optional<Vector<std::int64_t>>& repeats) {
  require(m.n_columns() == static_cast<std::size_t>(m.n_features), "matrix: features have no columns of their own");
  const LeafRows leaf = make_leaf(m.n_rows, min_samples_leaf, n_train, repeats);
  nb::gil_scoped_release release;
  leave_features_out(m, leaf, n_threads);
}

template <class T>
BinnedMatrix make_sparse(const Vector<T>& values, const Vector<Row>& rows, const Vector<std::int64_t>& start,
                         std::size_t n_rows, const std::vector<int>& n_bins, const Vector<double>& thresholds,
                         int n_threads, std::int64_t min_samples_leaf, std::size_t n_train,
                         const std::optional<Vector<std::int64_t>>& repeats) {
  require_matrix(n_rows, n_bins);
  require(start.size() == n_bins.size() + 1, "start: must have one entry more than there are features");
  require_parts(start, values.size());
  require(rows.size() == values.size(), "rows: must have one entry for each value");
  for (std::size_t f = 0; f < n_bins.size(); ++f) {
    for (std::int64_t i = start.data()[f]; i < start.data()[f + 1]; ++i) {
      require(rows.data()[i] < n_rows, "rows: no such row");
      require(i == start.data()[f] || rows.data()[i - 1] < rows.data()[i], "rows: must ascend within a feature");
    }
  }
  require_thresholds(n_bins, thresholds);
  const LeafRows leaf = make_leaf(n_rows, min_samples_leaf, n_train, repeats);
  nb::gil_scoped_release release;
  const SparseValues<T> x{values.data(), start.data(), n_bins.size(), n_rows};
  return bin_sparse(x, rows.data(), n_bins, thresholds.data(), leaf, n_threads);
}

bool all_used(const BinnedMatrix& m) {
  return std::all_of(m.places.begin(), m.places.end(), [](const FeaturePlace& p) { return p.used(); });
}

nb::ndarray<nb::numpy, std::uint8_t> all_codes(const BinnedMatrix& m) {
  require(all_used(m), "matrix: some features have no column");
  std::vector<std::uint8_t> out(m.n_rows * m.n_features);
  for (int f = 0; f < m.n_features; ++f) {
    for (std::size_t i = 0; i < m.n_rows; ++i) out[i * m.n_features + f] = m.bin(f, i);
  }
  return to_numpy(std::move(out), m.n_rows, m.n_features);
}

// Codes column after column, of a matrix in which no features share one.
nb::ndarray<nb::numpy, std::uint8_t> all_columns(const BinnedMatrix& m) {
  require(std::all_of(m.places.begin(), m.places.end(), [](auto& p) { return p.used() && !p.shared(); }),
          "matrix: features have no columns of their own");
  std::vector<std::uint8_t> out(m.columns.data(), m.columns.data() + m.columns.size());
  return to_numpy(std::move(out), m.n_columns(), m.n_rows);
}

// The columns of some neighbouring rows, as above, into a matrix.
void put_columns(BinnedMatrix& m, const RowMajor<std::uint8_t>& codes, std::size_t first_row) {
  const std::size_t n = codes.shape(1);
  require(codes.shape(0) == m.n_columns() && m.n_columns() == static_cast<std::size_t>(m.n_features),
          "codes: must have a row for each feature");
  require(first_row <= m.n_rows && n <= m.n_rows - first_row, "first_row: no such rows");
  for (int f = 0; f < m.n_features; ++f) {
    const std::uint8_t* column = codes.data() + f * n;
    require(std::all_of(column, column + n, [&](std::uint8_t code) { return code <= m.n_bins[f]; }),
            "codes: no such bin");
    std::copy_n(column, n, m.columns.data() + m.n_rows * f + first_row);
    copy_to_group(m, f, first_row, first_row + n);
  }
}

// The trees whose nodes are records, as bytes, each with the codes that go left.
GrownTree trees_of_records(const BinnedMatrix& m, const Vector<std::uint8_t>& nodes,
                           const RowMajor<std::uint64_t>& left_codes, const RowMajor<double>& value) {
  const std::size_t n_nodes = value.shape(0);
  require(nodes.size() == n_nodes * sizeof(NodeRecord), "nodes: must have as many records as value has rows");
  require(left_codes.shape(0) == n_nodes && left_codes.shape(1) == 4, "left_codes: must have 4 words for each node");
  GrownTree all;
  all.n_targets = static_cast<int>(value.shape(1));
  for (std::size_t i = 0; i < n_nodes; ++i) {
    NodeRecord record;
    std::memcpy(&record, nodes.data() + i * sizeof record, sizeof record);
    const bool is_leaf = record.left < 0;
    require(is_leaf || (record.feature >= 0 && record.feature < m.n_features && m.places[record.feature].used()),
            "nodes: no such feature");
    require(
        is_leaf || (static_cast<std::size_t>(record.left) > i && static_cast<std::size_t>(record.left) + 1 < n_nodes),
        "nodes: children must be behind their parents");
    all.add(record.count);
    all.feature[i] = record.feature;
    all.left[i] = record.left;
    std::copy_n(left_codes.data() + 4 * i, 4, all.left_codes[i].words.begin());
  }
  all.value.assign(value.data(), value.data() + value.size());
  return all;
}

// Values of the trees of a forest on all rows, (column, row). No two trees may have values in one column.
nb::ndarray<nb::numpy, double> values_on_codes(const BinnedMatrix& m, const Vector<std::int32_t>& roots,
                                               const Vector<std::int32_t>& first_column,
                                               const Vector<std::uint8_t>& nodes,
                                               const RowMajor<std::uint64_t>& left_codes, const RowMajor<double>& value,
                                               std::size_t n_columns, int n_threads) {
  const std::size_t n_nodes = value.shape(0);
  require(first_column.size() == roots.size(), "first_column: must have one entry for each tree");
  const GrownTree all = trees_of_records(m, nodes, left_codes, value);
  nb::ndarray<nb::numpy, double> out = empty({n_columns, m.n_rows});
  double* values = out.data();
  for (std::size_t t = 0; t < roots.size(); ++t) {
    require(roots.data()[t] >= 0 && static_cast<std::size_t>(roots.data()[t]) < n_nodes, "roots: no such node");
    require(first_column.data()[t] >= 0 && first_column.data()[t] + value.shape(1) <= n_columns,
            "first_column: more values than columns");
  }
  nb::gil_scoped_release release;
  for (std::size_t t = 0; t < roots.size(); ++t) {
    binned_values(m, all, 0, m.n_rows, values + first_column.data()[t] * m.n_rows, m.n_rows, n_threads,
                  roots.data()[t]);
  }
  return out;
}

// Sums of residuals keep at least 24 bits for each.
constexpr std::int64_t kMostRepeats = std::int64_t{1} << 31;

using Gradients = std::vector<Vector<double>>;

// Quantiles of leaves, where there are distances to take them of: one vector for each output.
LeafQuantiles make_quantiles(const Gradients& distances, double share, const std::optional<Vector<std::int64_t>>& steps,
                             std::size_t n_rows, int n_targets) {
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
TreeTargets make_targets(const BinnedMatrix& m, const Gradients& gradients,
                         const std::optional<RowMajor<double>>& hessians,
                         const std::optional<Vector<std::int64_t>>& repeats, int n_threads, bool may_be_empty = false) {
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

// Histogram of the given rows, (cell, channel), with the channels' form: for tests of the kernel against its twin.
// Cells of a feature: its value bins, then the missing values.
nb::tuple histogram_of(const BinnedMatrix& m, const Gradients& gradients,
                       const std::optional<RowMajor<double>>& hessians, const std::optional<Vector<Row>>& rows,
                       int n_threads) {
  const TreeTargets targets = make_targets(m, gradients, hessians, std::nullopt, n_threads);
  Channels channels = channels_of(targets);
  LargeVector<std::int64_t> packed;
  pack(targets, channels, packed, n_threads);
  const std::size_t n = channels.n();
  if (rows) {
    for (std::size_t i = 0; i < rows->size(); ++i) require(rows->data()[i] < targets.n_rows, "rows: no such row");
  }
  std::vector<std::int64_t> cells(m.n_cells() * n);
  HistogramBuilder builder(m, n_threads);
  builder.set_rows(packed.data(), channels.n());
  builder.build({{rows ? rows->data() : nullptr, rows ? rows->size() : targets.n_rows, cells.data()}});
  std::vector<std::int64_t> used;
  for (int f = 0; f < m.n_features; ++f) {
    require(m.places[f].used() && !m.places[f].shared(), "matrix: features have no columns of their own");
    const auto begin = cells.begin() + static_cast<std::ptrdiff_t>(m.cell_offset[m.places[f].column] * n);
    used.insert(used.end(), begin, begin + static_cast<std::ptrdiff_t>((m.n_bins[f] + 1) * n));
  }
  const std::size_t n_used = used.size() / n;
  return nb::make_tuple(to_numpy(std::move(used), n_used, n), to_numpy(std::move(channels.unit), n),
                        channels.count_bits);
}

// Splits as they travel: (split, word), with node, left child, feature and the four words of the codes that go left.
constexpr std::size_t kSplitWords = 7;

// What growers make of trees for Python, and of what Python gives them.
class GrowerBase {
 protected:
  // Thresholds: of one feature after the other.
  GrowerBase(const BinnedMatrix& m, const Vector<double>& thresholds, int n_threads)
      : matrix_(m), n_threads_(n_threads), thresholds_(thresholds) {
    require_thresholds(m.n_bins, thresholds);
    std::size_t first = 0;
    for (int n : m.n_bins) {
      first_threshold_.push_back(first);
      first += n - 1;
    }
  }

  // Its nodes (records, as bytes), the codes that go left in each, and the values of the nodes.
  nb::tuple parts_of(const GrownTree& tree) const {
    std::vector<std::uint64_t> left_codes;
    for (const CodeSet& codes : tree.left_codes)
      left_codes.insert(left_codes.end(), codes.words.begin(), codes.words.end());
    const std::size_t n = tree.n_nodes();
    return nb::make_tuple(records_of(tree), to_numpy(std::move(left_codes), n, 4),
                          to_numpy(std::vector<double>(tree.value), n, tree.n_targets));
  }

  FeatureSample make_sample(const std::optional<Vector<std::uint8_t>>& features, double node_share,
                            std::uint64_t seed) const {
    require(node_share > 0.0 && node_share <= 1.0, "node_share: must be from 0 (excluded) to 1");
    require(!features || static_cast<int>(features->size()) == matrix_.n_features,
            "features: must have one entry for each feature");
    return {features ? features->data() : nullptr, node_share, seed};
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
        // The last bin is open above: a split behind it sends all values left and only missing ones right.
        const bool open = parts_missing_only(tree.bin[i], matrix_.n_bins[tree.feature[i]]);
        record.threshold = open ? std::numeric_limits<double>::infinity()
                                : thresholds_.data()[first_threshold_[tree.feature[i]] + tree.bin[i]];
      }
      std::memcpy(bytes.data() + i * sizeof record, &record, sizeof record);
    }
    return to_numpy(std::move(bytes), tree.n_nodes() * sizeof(NodeRecord));
  }

  const Vector<double> thresholds_;           // not a copy: there may be millions
  std::vector<std::size_t> first_threshold_;  // of each feature
};

// Rows that a tree may see, ascending; null where it may see all.
const Row* chosen_rows(const std::optional<Vector<Row>>& rows, std::size_t n_train) {
  if (!rows) return nullptr;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    require(rows->data()[i] < n_train && (i == 0 || rows->data()[i - 1] < rows->data()[i]),
            "rows: must be training rows, ascending");
  }
  return rows->data();
}

// Grows trees on rows of one matrix, which it keeps alive.
class Grower : GrowerBase {
 public:
  Grower(const BinnedMatrix& m, const Vector<double>& thresholds, const GrowthRules& rules, int n_threads)
      : GrowerBase(m, thresholds, n_threads), rows_(m, n_threads), grower_(m, rules, rows_, &rows_, n_threads) {}

  // A tree for the residuals of the first rows, and its values on all rows.
  nb::tuple grow(const Gradients& gradients, const std::optional<RowMajor<double>>& hessians,
                 const std::optional<Vector<std::int64_t>>& repeats, const Gradients& distances, double share,
                 const std::optional<Vector<std::int64_t>>& steps, const std::optional<Vector<Row>>& rows,
                 const std::optional<Vector<std::uint8_t>>& features, double node_share, std::uint64_t seed,
                 double min_hessian_leaf) {
    TreeTargets targets = make_targets(matrix_, gradients, hessians, repeats, n_threads_);
    targets.quantiles = make_quantiles(distances, share, steps, targets.n_rows, targets.n_targets);
    require(min_hessian_leaf >= 0.0, "min_hessian_leaf: must not be negative");
    targets.min_hessian_leaf = min_hessian_leaf;
    const FeatureSample sample = make_sample(features, node_share, seed);
    require(!rows || rows->size() > 0, "rows: none");
    const Row* chosen = chosen_rows(rows, targets.n_rows);
    const std::size_t n_rows = matrix_.n_rows;
    nb::ndarray<nb::numpy, double> row_values = empty({static_cast<std::size_t>(targets.n_targets), n_rows});
    double* values = row_values.data();
    {
      nb::gil_scoped_release release;
      rows_.start(targets, chosen, rows ? rows->size() : 0);
      grower_.grow(targets, sample, InterruptCheck{});
      const GrownTree& tree = grower_.tree();
      const std::size_t known = chosen == nullptr ? targets.n_rows : 0;
      if (known > 0) rows_.values(tree.leaves(), tree.value.data(), values, n_rows);
      binned_values(matrix_, tree, known, n_rows - known, values + known, n_rows, n_threads_);
    }
    const nb::tuple parts = parts_of(grower_.tree());
    return nb::make_tuple(parts[0], parts[1], parts[2], row_values);
  }

 private:
  TreeRows rows_;
  TreeGrower grower_;
};

// Sums of rows in other processes, which a Python object adds up.
class PythonSums : public RowSums {
 public:
  void begin(const nb::object& others, std::size_t n_cells, const TreeTargets& targets) {
    others_ = others;
    n_cells_ = n_cells;
    n_sums_ = targets.n_sums();
    n_outputs_ = targets.quantiles.n_outputs;
    splits_.clear();
  }
  void end() { others_ = nb::none(); }

  // Sent with the next request.
  void split(const std::vector<NodeSplit>& splits) override {
    for (const NodeSplit& s : splits) {
      splits_.insert(splits_.end(), {s.node, s.left, s.feature});
      for (std::uint64_t word : s.codes.words) splits_.push_back(static_cast<std::int64_t>(word));
    }
  }

  void build(const std::vector<NodeCells>& wanted) override {
    if (wanted.empty()) return;
    std::vector<std::int32_t> nodes;
    for (const NodeCells& node : wanted) nodes.push_back(node.node);
    nb::gil_scoped_acquire gil;
    const Vector<std::int64_t> sums = ask("histograms", std::move(nodes), wanted.size() * n_cells_);
    for (std::size_t i = 0; i < wanted.size(); ++i) std::copy_n(sums.data() + i * n_cells_, n_cells_, wanted[i].cells);
  }

  std::vector<std::int64_t> noise() override {
    nb::gil_scoped_acquire gil;
    return as_vector(checked(others_.attr("noise")(), n_sums_));
  }

  std::vector<std::int64_t> leaf_sums(const std::vector<std::int32_t>& leaves) override {
    nb::gil_scoped_acquire gil;
    return as_vector(ask("leaf_sums", std::vector<std::int32_t>(leaves), leaves.size() * n_sums_));
  }

  // All splits have been sent with the request of leaf sums.
  std::vector<double> leaf_quantiles(const std::vector<std::int32_t>& leaves) override {
    nb::gil_scoped_acquire gil;
    const std::size_t n_leaves = leaves.size();
    const nb::object given = others_.attr("leaf_quantiles")(to_numpy(std::vector<std::int32_t>(leaves), n_leaves));
    const auto found = nb::cast<Vector<double>>(given);
    require(found.size() == n_leaves * n_outputs_, "leaf_quantiles: wrong size");
    return {found.data(), found.data() + found.size()};
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
  std::size_t n_cells_ = 0, n_sums_ = 0, n_outputs_ = 0;
  std::vector<std::int64_t> splits_;
};

// Grows trees on rows of other processes. Its matrix has none, but the columns of theirs.
class RemoteGrower : GrowerBase {
 public:
  RemoteGrower(const BinnedMatrix& m, const Vector<double>& thresholds, const GrowthRules& rules, int n_threads)
      : GrowerBase(m, thresholds, n_threads), grower_(m, rules, sums_, nullptr, n_threads) {}

  nb::tuple grow(const nb::object& sums, std::int64_t n_repeated, const std::vector<double>& max, int n_targets,
                 int n_quantiles, const std::optional<Vector<std::uint8_t>>& features, double node_share,
                 std::uint64_t seed, double min_hessian_leaf) {
    TreeTargets targets;
    targets.n_targets = n_targets;
    targets.n_hessians = static_cast<int>(max.size()) - n_targets;
    require(n_targets > 0 && targets.n_hessians >= 0, "max: must have an entry for each target");
    require(n_repeated > 0, "n_repeated: must be positive");
    require(min_hessian_leaf >= 0.0, "min_hessian_leaf: must not be negative");
    targets.n_repeated = static_cast<std::size_t>(n_repeated);
    targets.max = max;
    targets.min_hessian_leaf = min_hessian_leaf;
    require(n_quantiles >= 0 && (n_quantiles == 0 || n_targets % n_quantiles == 0),
            "n_quantiles: must be those of all outputs");
    targets.quantiles.n_outputs = n_quantiles;
    const FeatureSample sample = make_sample(features, node_share, seed);
    sums_.begin(sums, matrix_.n_cells() * channels_of(targets).n(), targets);
    try {
      nb::gil_scoped_release release;
      grower_.grow(targets, sample, InterruptCheck{});
    } catch (...) {
      sums_.end();
      throw;
    }
    sums_.end();
    return parts_of(grower_.tree());
  }

 private:
  PythonSums sums_;
  TreeGrower grower_;
};

// One process' part of the rows that trees are grown on by others; keeps the matrix alive.
class ShardRows {
 public:
  ShardRows(const BinnedMatrix& m, int n_threads) : matrix_(m), n_threads_(n_threads), rows_(m, n_threads) {}

  // Takes the residuals of the first rows, and says how many rows there are, repeated ones counted, and the largest
  // number of each target and hessian: those of all shards together are asked for in start().
  nb::tuple set_targets(const Gradients& gradients, const std::optional<RowMajor<double>>& hessians,
                        const std::optional<Vector<std::int64_t>>& repeats, const Gradients& distances, double share,
                        const std::optional<Vector<std::int64_t>>& steps) {
    rows_.stop();  // they have pointers to the last tree's arrays
    targets_ = make_targets(matrix_, gradients, hessians, repeats, n_threads_, true);
    targets_.quantiles = make_quantiles(distances, share, steps, targets_.n_rows, targets_.n_targets);
    gradients_ = gradients;
    hessians_ = hessians;
    repeats_ = repeats;
    distances_ = distances;
    steps_ = steps;
    return nb::make_tuple(targets_.n_repeated, targets_.max);
  }

  void start(std::int64_t n_repeated, const std::vector<double>& max, const std::optional<Vector<Row>>& rows) {
    require(!gradients_.empty(), "start: there are no targets");
    require(n_repeated >= static_cast<std::int64_t>(targets_.n_repeated), "n_repeated: fewer than are here");
    require(max.size() == targets_.max.size(), "max: must have one entry for each target and hessian");
    for (std::size_t k = 0; k < max.size(); ++k) require(max[k] >= targets_.max[k], "max: smaller than here");
    TreeTargets targets = targets_;
    targets.n_repeated = static_cast<std::size_t>(n_repeated);
    targets.max = max;
    chosen_ = rows;
    const Row* chosen = chosen_rows(chosen_, targets.n_rows);
    nb::gil_scoped_release release;
    rows_.start(targets, chosen, rows ? rows->size() : 0);
  }

  void split(const RowMajor<std::int64_t>& splits) {
    require(splits.shape(1) == kSplitWords, "splits: must be (split, 7)");
    std::vector<NodeSplit> parsed;
    for (std::size_t i = 0; i < splits.shape(0); ++i) {
      const std::int64_t* words = splits.data() + i * kSplitWords;
      require(words[0] >= 0 && words[0] < static_cast<std::int64_t>(rows_.n_nodes()), "splits: no such node");
      require(words[1] == static_cast<std::int64_t>(rows_.n_nodes() + 2 * i), "splits: no such child");
      require(words[2] >= 0 && words[2] < matrix_.n_features && matrix_.places[words[2]].used(),
              "splits: no such feature");
      NodeSplit s{
          static_cast<std::int32_t>(words[0]), static_cast<std::int32_t>(words[1]), static_cast<int>(words[2]), {}};
      for (int w = 0; w < 4; ++w) s.codes.words[w] = static_cast<std::uint64_t>(words[3 + w]);
      parsed.push_back(s);
    }
    nb::gil_scoped_release release;
    rows_.split(parsed);
  }

  nb::ndarray<nb::numpy, std::int64_t> histograms(const Vector<std::int32_t>& nodes) {
    const std::size_t n_cells = matrix_.n_cells() * rows_.n_channels();
    std::vector<std::int64_t> cells(nodes.size() * n_cells);
    std::vector<NodeCells> wanted;
    for (std::int32_t node : known_nodes(nodes)) wanted.push_back({node, cells.data() + wanted.size() * n_cells});
    {
      nb::gil_scoped_release release;
      rows_.build(wanted);
    }
    const std::size_t size = cells.size();
    return to_numpy(std::move(cells), size);
  }

  nb::ndarray<nb::numpy, std::int64_t> noise() {
    require(rows_.n_nodes() > 0, "noise: there is no tree");
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
    require(output >= 0 && output < targets_.quantiles.n_outputs, "output: no such output");
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

  // Of the tree that was grown last, on all rows.
  nb::ndarray<nb::numpy, double> values(const Vector<std::uint8_t>& nodes, const RowMajor<std::uint64_t>& left_codes,
                                        const RowMajor<double>& value) {
    const GrownTree tree = trees_of_records(matrix_, nodes, left_codes, value);
    require(tree.n_nodes() > 0 && tree.n_nodes() == rows_.n_nodes() && tree.n_targets == targets_.n_targets,
            "nodes: not the last tree's");
    const std::size_t known = chosen_ ? 0 : targets_.n_rows, n_rows = matrix_.n_rows;
    nb::ndarray<nb::numpy, double> out = empty({value.shape(1), n_rows});
    nb::gil_scoped_release release;
    if (known > 0) rows_.values(tree.leaves(), tree.value.data(), out.data(), n_rows);
    binned_values(matrix_, tree, known, n_rows - known, out.data() + known, n_rows, n_threads_);
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
  int n_threads_;
  TreeRows rows_;
  TreeTargets targets_;
  Gradients gradients_, distances_;  // they and the others are kept alive while a tree is grown on them
  std::optional<RowMajor<double>> hessians_;
  std::optional<Vector<std::int64_t>> repeats_, steps_;
  std::optional<Vector<Row>> chosen_;
};

GrowthRules make_rules(const BinnedMatrix& m, int max_depth, int max_leaf_nodes, std::int64_t min_samples_leaf,
                       double l2_regularization, double min_split_gain, const std::vector<int>& monotone,
                       const std::vector<std::vector<int>>& interactions) {
  require(max_depth >= 1, "max_depth: must be at least 1");
  require(max_leaf_nodes == 0 || max_leaf_nodes >= 2, "max_leaf_nodes: must be 0 (no limit) or at least 2");
  require(min_samples_leaf >= 1, "min_samples_leaf: must be at least 1");
  require(min_samples_leaf >= m.min_samples_leaf, "min_samples_leaf: features were left out for want of more rows");
  require(l2_regularization >= 0.0 && min_split_gain >= 0.0, "l2_regularization, min_split_gain: must not be negative");
  require(monotone.empty() || static_cast<int>(monotone.size()) == m.n_features,
          "monotone: must be empty or have one entry for each feature");
  for (std::size_t f = 0; f < monotone.size(); ++f) {
    require(monotone[f] >= -1 && monotone[f] <= 1, "monotone: must be -1, 0 or 1");
    require(monotone[f] == 0 || !m.categorical(static_cast<int>(f)),
            "monotone: a feature without order cannot be monotone");
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
  require(value.shape(1) <= static_cast<std::size_t>(std::max(n_columns, 0)),
          "value: more than the forest has columns");
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
  for_each_output(x, y, out,
                  [&](const double* u, const double* v, double* to) { mix(a, u, b, v, to, out.shape(1), n_threads); });
}

void multiply_functions(const Rows2d& x, const Rows2d& y, const Results& out, int n_threads) {
  for_each_output(x, y, out,
                  [&](const double* u, const double* v, double* to) { multiply(u, v, to, out.shape(1), n_threads); });
}

using Numbers = nb::ndarray<const double, nb::c_contig, nb::device::cpu>;

// A function of each number, into out.
template <void (*function)(const double*, double*, std::size_t, int)>
void elementwise(const Numbers& x, const Results& out, int n_threads) {
  require(out.size() == x.size(), "out: wrong size");
  nb::gil_scoped_release release;
  function(x.data(), out.data(), x.size(), n_threads);
}

// What Python makes a sum of: a whole number of 2^-1074 as bytes, and the sum of what is not finite.
nb::tuple to_python(const ExactSum& sum) {
  const std::string bytes = sum.little_endian();
  return nb::make_tuple(nb::bytes(bytes.data(), bytes.size()), sum.not_finite());
}

using Weights = std::optional<Vector<double>>;

const double* checked(const Weights& weight, std::size_t n_rows) {
  require(!weight || weight->size() == n_rows, "weight: must have one entry for each row");
  return weight ? weight->data() : nullptr;
}

nb::tuple sum_of(const Rows2d& x, const Weights& weight, int n_threads) {
  check_rows(x, x.shape(0), x.shape(1));
  const double* w = checked(weight, x.shape(1));
  ExactSum total;
  {
    nb::gil_scoped_release release;
    for (std::size_t k = 0; k < x.shape(0); ++k) {
      total.add(sum_vector(x.data() + k * x.stride(0), w, x.shape(1), n_threads));
    }
  }
  return to_python(total);
}

nb::tuple products_of(const Rows2d& x, const Rows2d& y, const Weights& weight, int n_threads) {
  check_rows(x, x.shape(0), x.shape(1));
  check_rows(y, x.shape(0), x.shape(1));
  const double* w = checked(weight, x.shape(1));
  std::array<ExactSum, 3> total;
  {
    nb::gil_scoped_release release;
    for (std::size_t k = 0; k < x.shape(0); ++k) {
      const std::array<ExactSum, 3> sums =
          inner_products(x.data() + k * x.stride(0), y.data() + k * y.stride(0), w, x.shape(1), n_threads);
      for (std::size_t i = 0; i < sums.size(); ++i) total[i].add(sums[i]);
    }
  }
  return nb::make_tuple(to_python(total[0]), to_python(total[1]), to_python(total[2]));
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

nb::tuple loss_sum(const std::string& name, double parameter, const Scores& y, const Scores& f, const Weights& weight,
                   int n_threads) {
  const LabelledRows rows(y, f);
  const double* w = checked(weight, rows.n_rows);
  ExactSum total;
  {
    nb::gil_scoped_release release;
    with_loss(name, parameter, [&](auto loss) {
      for (std::size_t k = 0; k < rows.n_outputs; ++k) {
        total.add(sum_rows(loss, rows.of_output(y, k), rows.of_output(f, k), w, rows.n_rows, n_threads));
      }
    });
  }
  return to_python(total);
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
           "Codes of some neighbouring features from their values; thresholds of one after the other, ascending. Row i "
           "of X "
           "is row rows[i] of the matrix, or row i.")
      .def("values", &values_on_codes, "roots"_a.noconvert(), "first_column"_a.noconvert(), "nodes"_a.noconvert(),
           "left_codes"_a.noconvert(), "value"_a.noconvert(), "n_columns"_a, "n_threads"_a,
           "Values of the trees of a forest on all rows, (column, row); left_codes has the codes that go left in each "
           "node.")
      .def("leave_out", &leave_out, "n_threads"_a, "min_samples_leaf"_a, "n_train"_a,
           "repeats"_a.noconvert().none() = nb::none(),
           "Take features out that cannot split the first n_train rows, each as often as repeats says, into two parts "
           "of "
           "min_samples_leaf.")
      .def_static("from_sparse", &make_sparse<double>, "values"_a.noconvert(), "rows"_a.noconvert(),
                  "start"_a.noconvert(), "n_rows"_a, "n_bins"_a, "thresholds"_a.noconvert(), "n_threads"_a,
                  "min_samples_leaf"_a = 0, "n_train"_a = 0, "repeats"_a.noconvert().none() = nb::none())
      .def_static(
          "from_sparse", &make_sparse<float>, "values"_a.noconvert(), "rows"_a.noconvert(), "start"_a.noconvert(),
          "n_rows"_a, "n_bins"_a, "thresholds"_a.noconvert(), "n_threads"_a, "min_samples_leaf"_a = 0, "n_train"_a = 0,
          "repeats"_a.noconvert().none() = nb::none(),
          "A matrix from the columns of a sparse one, which have no row twice. Features may share columns; those "
          "that leave_out would take out have none.")
      .def_prop_ro("n_columns", &BinnedMatrix::n_columns)
      .def("codes", &all_codes, "The bins as a (row, feature) array.")
      .def("columns", &all_columns, "The codes as a (feature, row) array.")
      .def("put", &put_columns, "codes"_a.noconvert(), "first_row"_a,
           "Codes as columns() gives them, of rows from first_row on.");

  m.def("thresholds", &thresholds_of<double>, "X"_a.noconvert(), "rows"_a.noconvert().none(), "max_bins"_a,
        "n_threads"_a);
  m.def("thresholds", &thresholds_of<float>, "X"_a.noconvert(), "rows"_a.noconvert().none(), "max_bins"_a,
        "n_threads"_a, "Thresholds of one feature after the other, from the given rows, and how many each has.");
  m.def("sparse_thresholds", &sparse_thresholds_of<double>, "values"_a.noconvert(), "start"_a.noconvert(), "n_rows"_a,
        "max_bins"_a, "n_threads"_a);
  m.def("sparse_thresholds", &sparse_thresholds_of<float>, "values"_a.noconvert(), "start"_a.noconvert(), "n_rows"_a,
        "max_bins"_a, "n_threads"_a, "The same from a sparse matrix, column by column, that has no place twice.");
  m.def("histogram", &histogram_of, "matrix"_a, "gradients"_a.noconvert(), "hessians"_a.noconvert().none(),
        "rows"_a.noconvert().none(), "n_threads"_a,
        "Histogram cells of the given rows, the value of one step of each channel, and the bits of the count.");
  const auto def_grower = [](auto& grower) {
    using G = typename std::remove_reference_t<decltype(grower)>::Type;
    grower.def(
        "__init__",
        [](G* self, const BinnedMatrix& m, const Vector<double>& thresholds, int max_depth, int max_leaf_nodes,
           std::int64_t min_samples_leaf, double l2_regularization, double min_split_gain,
           const std::vector<int>& monotone, const std::vector<std::vector<int>>& interactions, int n_threads) {
          new (self) G(m, thresholds,
                       make_rules(m, max_depth, max_leaf_nodes, min_samples_leaf, l2_regularization, min_split_gain,
                                  monotone, interactions),
                       n_threads);
        },
        "matrix"_a, "thresholds"_a.noconvert(), nb::kw_only(), "max_depth"_a, "max_leaf_nodes"_a, "min_samples_leaf"_a,
        "l2_regularization"_a, "min_split_gain"_a, "monotone"_a, "interactions"_a, "n_threads"_a,
        nb::keep_alive<1, 2>());
  };
  nb::class_<Grower> grower(m, "Grower",
                            "Grows one tree after the other on the rows of a matrix; not for two threads at once.");
  def_grower(grower);
  grower.def("grow", &Grower::grow, nb::kw_only(), "gradients"_a.noconvert(), "hessians"_a.noconvert().none(),
             "repeats"_a.noconvert().none(), "distances"_a.noconvert() = nb::list(), "share"_a = 0.0,
             "steps"_a.noconvert().none() = nb::none(), "rows"_a.noconvert().none(), "features"_a.noconvert().none(),
             "node_share"_a, "seed"_a, "min_hessian_leaf"_a,
             "A tree for the residuals (target, training row): its parts and its values on all rows. With distances "
             "(output, training row), the values of each output's first target are quantiles of these.");
  nb::class_<RemoteGrower> remote(m, "RemoteGrower", "Grows trees on rows of other processes, from sums over them.");
  def_grower(remote);
  remote.def(
      "grow", &RemoteGrower::grow, nb::kw_only(), "sums"_a, "n_repeated"_a, "max"_a, "n_targets"_a, "n_quantiles"_a = 0,
      "features"_a.noconvert().none(), "node_share"_a, "seed"_a, "min_hessian_leaf"_a,
      "The parts of a tree. `sums` has the methods histograms(splits, nodes), noise() and leaf_sums(splits, leaves) "
      "of ShardRows, for all shards together, and leaf_quantiles(leaves), (leaf, output), flat.");
  nb::class_<ShardRows>(m, "ShardRows", "One process' part of the rows that trees are grown on by others.")
      .def(nb::init<const BinnedMatrix&, int>(), "matrix"_a, "n_threads"_a, nb::keep_alive<1, 2>())
      .def("set_targets", &ShardRows::set_targets, nb::kw_only(), "gradients"_a.noconvert(),
           "hessians"_a.noconvert().none(), "repeats"_a.noconvert().none(), "distances"_a.noconvert() = nb::list(),
           "share"_a = 0.0, "steps"_a.noconvert().none() = nb::none(),
           "Take residuals; returns the number of rows, repeated ones counted, and the largest numbers.")
      .def("start", &ShardRows::start, nb::kw_only(), "n_repeated"_a, "max"_a, "rows"_a.noconvert().none(),
           "Begin a tree, with the number of rows and the largest numbers of all shards.")
      .def("split", &ShardRows::split, "splits"_a.noconvert(), "Send the rows of nodes to their children.")
      .def("histograms", &ShardRows::histograms, "nodes"_a.noconvert(), "Of some nodes, one after the other.")
      .def("noise", &ShardRows::noise, "Sums that the noise of the targets follows from.")
      .def("leaf_sums", &ShardRows::leaf_sums, "leaves"_a.noconvert(), "(leaf, target or hessian), flat.")
      .def("tally", &ShardRows::tally, "leaves"_a.noconvert(), "output"_a, "known"_a.noconvert(), "shift"_a, "width"_a,
           "Weights of distances that begin with known bits, by the next ones, (leaf, next bits), flat.")
      .def("values", &ShardRows::values, "nodes"_a.noconvert(), "left_codes"_a.noconvert(), "value"_a.noconvert(),
           "Values (target, row) of the tree that was grown last.");

  nb::class_<Forest>(m, "Forest", "Trees ready to predict.")
      .def(nb::new_(&make_forest), "n_features"_a, "n_columns"_a, "roots"_a.noconvert(), "first_column"_a.noconvert(),
           "nodes"_a.noconvert(), "category_words"_a.noconvert(), "category_start"_a.noconvert(), "value"_a.noconvert())
      .def("predict", &predict<double>, "X"_a.noconvert(), "n_threads"_a)
      .def("predict", &predict<float>, "X"_a.noconvert(), "n_threads"_a, "Sum of the trees' values, (row, output).");
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

  m.def("empty", &empty, "shape"_a,
        "An array without values. Within a run, its memory is used again when it is dropped.");
  m.def("begin_run", [] { ReusedMemory::instance().begin_run(); }, "From now on, memory of dropped arrays is kept.");
  m.def("end_run", [] { ReusedMemory::instance().end_run(); }, "The last run to end gives kept memory back.");
  m.def("mix", &mix_functions, "a"_a, "x"_a.noconvert(), "b"_a, "y"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "a x + b y of functions (output, row), into out.");
  m.def("multiply", &multiply_functions, "x"_a.noconvert(), "y"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "x times y, row by row, of functions (output, row), into out.");
  m.def("exp", &elementwise<exp_of>, "x"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "The exponentials of numbers, held between -700 and 700, into out: the same bits on every platform.");
  m.def("log", &elementwise<log_of>, "x"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "The logarithms of numbers, into out: the same bits on every platform.");
  m.def("exact_sum", &sum_of, "x"_a.noconvert(), "weight"_a.noconvert().none(), "n_threads"_a,
        "The sum of a function (output, row), with weights of rows.");
  m.def("inner_products", &products_of, "x"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert().none(),
        "n_threads"_a, "<x, x>, <x, y> and <y, y> of functions (output, row), with weights of rows.");

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
