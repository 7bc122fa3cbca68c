// The boundary to Python: shapes and values are checked here, the GIL is released and signals are let through here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <optional>
#include <stdexcept>

#include "bin.hpp"
#include "grow.hpp"
#include "histogram.hpp"
#include "loss.hpp"
#include "predict.hpp"

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

BinnedMatrix make_matrix(std::size_t n_rows, const std::vector<int>& n_bins, const std::vector<int>& n_categories) {
  require(n_rows < (std::size_t{1} << 32), "n_rows: more than 2^32 - 1");
  require(!n_bins.empty(), "n_bins: no features");
  require(n_categories.size() == n_bins.size(), "n_categories: must have one entry for each feature");
  for (int n : n_categories) require(n >= 0, "n_categories: must not be negative");
  for (int n : n_bins) require(n >= 1 && n <= kMaxValueBins, "n_bins: a feature has from 1 to 255");
  BinnedMatrix m;
  nb::gil_scoped_release release;
  lay_out(m, n_rows, n_bins, n_categories);
  return m;
}

template <class T>
void fill(BinnedMatrix& m, int first_feature, const Matrix<T>& x, const Vector<double>& thresholds, int n_threads) {
  const int n_columns = static_cast<int>(x.shape(1));
  require(x.shape(0) == m.n_rows, "X: wrong number of rows");
  require(first_feature >= 0 && n_columns > 0 && first_feature <= m.n_features - n_columns, "X: no such features");
  std::vector<ThresholdTable> tables(n_columns);
  std::size_t used = 0;
  for (int f = 0; f < n_columns; ++f) {
    const std::size_t n = m.n_bins[first_feature + f] - 1;
    require(used + n <= thresholds.size(), "thresholds: one fewer than bins of each feature");
    std::fill(std::begin(tables[f].values), std::end(tables[f].values), std::numeric_limits<double>::infinity());
    std::copy_n(thresholds.data() + used, n, tables[f].values);
    used += n;
  }
  require(used == thresholds.size(), "thresholds: one fewer than bins of each feature");
  nb::gil_scoped_release release;
  bin_columns(m, first_feature, tables, x.data(), x.stride(0), x.stride(1), n_threads);
}

nb::ndarray<nb::numpy, std::uint8_t> codes_of(const BinnedMatrix& m) {
  std::vector<std::uint8_t> out(m.n_rows * m.n_features);
  for (int f = 0; f < m.n_features; ++f) {
    for (std::size_t i = 0; i < m.n_rows; ++i) out[i * m.n_features + f] = m.column(f)[i * m.column_stride(f)];
  }
  return to_numpy(std::move(out), m.n_rows, m.n_features);
}

// Sums of residuals keep at least 24 bits for each.
constexpr std::int64_t kMostRepeats = std::int64_t{1} << 31;

TreeTargets make_targets(const BinnedMatrix& m, const RowMajor<double>& gradients,
                         const std::optional<RowMajor<double>>& hessians,
                         const std::optional<Vector<std::int64_t>>& repeats, int n_threads) {
  TreeTargets t;
  t.n_targets = static_cast<int>(gradients.shape(0));
  t.n_rows = t.n_repeated = gradients.shape(1);
  t.gradients = gradients.data();
  require(t.n_targets > 0, "gradients: no targets");
  require(t.n_rows > 0 && t.n_rows <= m.n_rows, "gradients: must have from 1 to as many columns as X has rows");
  if (hessians) {
    t.hessians = hessians->data();
    t.n_hessians = static_cast<int>(hessians->shape(0));
    require(hessians->shape(1) == t.n_rows, "hessians: must have as many columns as gradients");
    require(t.n_hessians > 0 && t.n_targets % t.n_hessians == 0, "hessians: must have a part of the rows of gradients");
  }
  if (repeats) {
    require(repeats->size() == t.n_rows, "repeats: must have one entry for each column of gradients");
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
    require(std::isfinite(t.max.back()), k < t.n_targets ? "gradients: not finite" : "hessians: not finite");
  }
  for (std::size_t i = 0; i < t.n_hessians * t.n_rows; ++i) require(t.hessians[i] >= 0.0, "hessians: negative");
  return t;
}

// Histogram of the given rows, (cell, channel), with the channels' form: for tests of the kernel against its twin.
// Cells of a feature: its value bins, then the missing values.
nb::tuple histogram_of(const BinnedMatrix& m, const RowMajor<double>& gradients,
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
  HistogramBuilder(m, n_threads)
      .build({{rows ? rows->data() : nullptr, rows ? rows->size() : targets.n_rows, cells.data()}},
             channels.packed.data(), channels.n());
  std::vector<std::int64_t> used;
  for (int f = 0; f < m.n_features; ++f) {
    const auto begin = cells.begin() + static_cast<std::ptrdiff_t>(m.cell_offset[f] * n);
    used.insert(used.end(), begin, begin + static_cast<std::ptrdiff_t>((m.n_bins[f] + 1) * n));
  }
  const std::size_t n_used = used.size() / n;
  return nb::make_tuple(to_numpy(std::move(used), n_used, n), to_numpy(std::move(channels.unit), n),
                        channels.count_bits);
}

// Grows trees on rows of one matrix, which it keeps alive.
class Grower {
 public:
  Grower(const BinnedMatrix& m, const GrowthRules& rules, int n_threads)
      : matrix_(m), n_threads_(n_threads), grower_(m, rules, n_threads) {}

  // A tree for the residuals of the first gradients.shape[1] rows: its nodes, and its values on all rows.
  nb::dict grow(const RowMajor<double>& gradients, const std::optional<RowMajor<double>>& hessians,
                const std::optional<Vector<std::int64_t>>& repeats, const std::optional<Vector<Row>>& rows,
                const std::optional<Vector<std::uint8_t>>& features, double node_share, std::uint64_t seed,
                double min_hessian_leaf) {
    TreeTargets targets = make_targets(matrix_, gradients, hessians, repeats, n_threads_);
    require(min_hessian_leaf >= 0.0, "min_hessian_leaf: must not be negative");
    targets.min_hessian_leaf = min_hessian_leaf;
    const TreeSample sample = make_sample(targets.n_rows, rows, features, node_share, seed);
    const std::size_t n_rows = matrix_.n_rows;
    std::vector<double> values(n_rows * targets.n_targets);
    GrownTree tree;
    {
      nb::gil_scoped_release release;
      grower_.grow(targets, sample, InterruptCheck{});
      tree = grower_.tree();
      const std::size_t known = sample.rows == nullptr ? targets.n_rows : 0;
      if (known > 0) grower_.training_values(values.data(), n_rows);
      binned_values(matrix_, tree, known, n_rows - known, values.data() + known, n_rows, n_threads_);
    }
    nb::dict out;
    const std::size_t n = tree.n_nodes();
    out["feature"] = to_numpy(std::move(tree.feature), n);
    out["bin"] = to_numpy(std::move(tree.bin), n);
    out["missing_left"] = to_numpy(std::move(tree.missing_left), n);
    std::vector<std::uint64_t> left_codes;
    for (const CodeSet& codes : tree.left_codes) left_codes.insert(left_codes.end(), codes.words.begin(), codes.words.end());
    out["left_codes"] = to_numpy(std::move(left_codes), n, 4);
    out["left"] = to_numpy(std::move(tree.left), n);
    out["gain"] = to_numpy(std::move(tree.gain), n);
    out["count"] = to_numpy(std::move(tree.count), n);
    out["value"] = to_numpy(std::move(tree.value), n, targets.n_targets);
    out["row_values"] = to_numpy(std::move(values), targets.n_targets, n_rows);
    return out;
  }

 private:
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
                   const Vector<std::int32_t>& first_column, const Vector<std::int32_t>& feature,
                   const Vector<double>& threshold, const Vector<std::int32_t>& left,
                   const Vector<std::uint8_t>& missing_left, const Vector<std::int32_t>& categories,
                   const Vector<std::uint64_t>& category_words, const Vector<std::int64_t>& category_start,
                   const RowMajor<double>& value) {
  const std::size_t n = feature.size();
  require(threshold.size() == n && left.size() == n && missing_left.size() == n && categories.size() == n &&
              value.shape(0) == n,
          "feature, threshold, left, missing_left, categories, value: must have one entry for each node");
  require(first_column.size() == roots.size(), "first_column: must have one entry for each root");
  Forest::Arrays arrays;
  arrays.n_features = n_features;
  arrays.n_columns = n_columns;
  arrays.n_values = static_cast<int>(value.shape(1));
  arrays.roots.assign(roots.data(), roots.data() + roots.size());
  arrays.first_column.assign(first_column.data(), first_column.data() + first_column.size());
  for (std::size_t i = 0; i < n; ++i) {
    arrays.nodes.push_back({threshold.data()[i], feature.data()[i], left.data()[i], categories.data()[i],
                            missing_left.data()[i] != 0});
  }
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

using Scores = nb::ndarray<const double, nb::device::cpu>;
using Results = nb::ndarray<double, nb::c_contig, nb::device::cpu>;

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

// One quantity of every row, into out: NumPy's large arrays lie in large pages, which saves more time than some losses
// take.
template <Quantity quantity>
void loss_quantity(const std::string& name, double parameter, const Scores& y, const Scores& f, const Results& out,
                   int n_threads) {
  const bool multinomial = name == "multinomial";
  require(y.ndim() == 1, "y: must be a vector");
  const std::size_t n = y.shape(0);
  require(f.ndim() == (multinomial ? 2 : 1), multinomial ? "f: must be (classes, rows)" : "f: must be a vector");
  require(f.shape(f.ndim() - 1) == n, "f: must have scores for as many rows as y has labels");
  require(n <= 1 || (y.stride(0) == 1 && f.stride(f.ndim() - 1) == 1), "y, f: rows must lie next to each other");
  require(!multinomial || (parameter >= 2.0 && static_cast<double>(f.shape(0)) == parameter),
          "f: must have scores of as many classes as the loss has, at least 2");
  require(out.size() == (quantity == Quantity::kValue ? n : f.size()), "out: wrong size");
  nb::gil_scoped_release release;
  if (multinomial) {
    const ClassScores scores{f.data(), f.stride(0), f.shape(0), n};
    require(MultinomialLoss(scores, y.data(), quantity, out.data()).fill(n_threads),
            "y: must hold codes of classes, whole numbers from 0");
  } else {
    with_loss(name, parameter,
              [&](auto loss) { fill_rows(loss, quantity, y.data(), f.data(), n, out.data(), n_threads); });
  }
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
      .def(nb::new_(&make_matrix), "n_rows"_a, "n_bins"_a, "n_categories"_a)
      .def("fill", &fill<double>, "first_feature"_a, "X"_a.noconvert(), "thresholds"_a.noconvert(), "n_threads"_a)
      .def("fill", &fill<float>, "first_feature"_a, "X"_a.noconvert(), "thresholds"_a.noconvert(), "n_threads"_a,
           "Codes of some neighbouring features from their values; thresholds of one after the other, ascending.")
      .def("codes", &codes_of, "The codes as a (row, feature) array.");

  m.def("histogram", &histogram_of, "matrix"_a, "gradients"_a.noconvert(), "hessians"_a.noconvert().none(),
        "rows"_a.noconvert().none(), "n_threads"_a,
        "Histogram cells of the given rows, the value of one step of each channel, and the bits of the count.");
  nb::class_<Grower>(m, "Grower", "Grows one tree after the other on the rows of a matrix; not for two threads at once.")
      .def(
          "__init__",
          [](Grower* self, const BinnedMatrix& m, int max_depth, int max_leaf_nodes, std::int64_t min_samples_leaf,
             double l2_regularization, double min_split_gain, const std::vector<int>& monotone,
             const std::vector<std::vector<int>>& interactions, int n_threads) {
            new (self) Grower(m,
                              make_rules(m, max_depth, max_leaf_nodes, min_samples_leaf, l2_regularization,
                                         min_split_gain, monotone, interactions),
                              n_threads);
          },
          "matrix"_a, nb::kw_only(), "max_depth"_a, "max_leaf_nodes"_a, "min_samples_leaf"_a, "l2_regularization"_a,
          "min_split_gain"_a, "monotone"_a, "interactions"_a, "n_threads"_a, nb::keep_alive<1, 2>())
      .def("grow", &Grower::grow, nb::kw_only(), "gradients"_a.noconvert(), "hessians"_a.noconvert().none(),
           "repeats"_a.noconvert().none(), "rows"_a.noconvert().none(), "features"_a.noconvert().none(), "node_share"_a,
           "seed"_a, "min_hessian_leaf"_a,
           "A tree for the residuals (target, training row): its nodes, and its values on all rows.");

  nb::class_<Forest>(m, "Forest", "Trees ready to predict.")
      .def(nb::new_(&make_forest), "n_features"_a, "n_columns"_a, "roots"_a.noconvert(), "first_column"_a.noconvert(),
           "feature"_a.noconvert(), "threshold"_a.noconvert(), "left"_a.noconvert(), "missing_left"_a.noconvert(),
           "categories"_a.noconvert(), "category_words"_a.noconvert(), "category_start"_a.noconvert(),
           "value"_a.noconvert())
      .def("predict", &predict<double>, "X"_a.noconvert(), "n_threads"_a)
      .def("predict", &predict<float>, "X"_a.noconvert(), "n_threads"_a,
           "Sum of the trees' values, (row, output).");

  m.def("loss_value", &loss_quantity<Quantity::kValue>, "name"_a, "parameter"_a, "y"_a.noconvert(), "f"_a.noconvert(),
        "out"_a.noconvert(), "n_threads"_a, "The loss of each row. f is (row), or (class, row) for \"multinomial\".");
  m.def("loss_negative_gradient", &loss_quantity<Quantity::kNegativeGradient>, "name"_a, "parameter"_a,
        "y"_a.noconvert(), "f"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a, "-dl/df, in the shape of f.");
  m.def("loss_hessian", &loss_quantity<Quantity::kHessian>, "name"_a, "parameter"_a, "y"_a.noconvert(),
        "f"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a, "The curvature of each row, in the shape of f.");
}
