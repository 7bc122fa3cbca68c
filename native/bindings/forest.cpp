// Bindings of forests: predictions, the contributions of features to them, and the container of model files.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "bindings/tree_inputs.hpp"
#include "forest/arrays.hpp"
#include "forest/background.hpp"
#include "forest/model_file.hpp"
#include "forest/predict.hpp"
#include "forest/shap.hpp"

namespace agbm {
namespace {

Forest make_forest(int n_features, int n_columns, const Vector<std::int32_t>& roots,
                   const Vector<std::int32_t>& first_column, const Vector<std::uint8_t>& nodes,
                   const Vector<std::uint64_t>& category_words, const Vector<std::int64_t>& category_start,
                   const RowMajor<double>& value) {
  require(value.shape(1) <= static_cast<std::size_t>(std::max(n_columns, 0)),
          "value: more than the forest has columns");
  ForestArrays arrays;
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

// The caller allocates `out`: for one row, NumPy does so in less time than it takes to pass it an array from here.
template <class T>
void predict(const Forest& forest, const Matrix<T>& x, const Results& out, int n_threads) {
  require(static_cast<int>(x.shape(1)) == forest.n_features(), "X: wrong number of features");
  require(out.size() == x.shape(0) * forest.n_columns(), "out: wrong size");
  nb::gil_scoped_release release;
  std::fill_n(out.data(), out.size(), 0.0);
  forest.add_predictions(x.data(), x.shape(0), x.stride(0), x.stride(1), out.data(), n_threads);
}

// Predictions from rows to results in one call; see predict_rows().
class RowPredictor {
 public:
  RowPredictor(const Forest& forest, const Vector<double>& start, const std::string& link, int n_threads)
      : forest_(forest), start_(start.data(), start.data() + start.size()), n_threads_(n_threads) {
    static const std::map<std::string, Link> links = {{"identity", Link::kIdentity},
                                                      {"exp", Link::kExp},
                                                      {"sigmoid", Link::kSigmoid},
                                                      {"sigmoid_of_double", Link::kSigmoidOfDouble},
                                                      {"softmax", Link::kSoftmax}};
    const auto found = links.find(link);
    require(found != links.end(), "link: no such link");
    require(static_cast<int>(start.size()) == forest.n_columns(), "start: must have one entry for each output");
    link_ = found->second;
  }

  template <class T>
  void fill(const Matrix<T>& x, const Results& out) const {
    require(static_cast<int>(x.shape(1)) == forest_.n_features(), "X: wrong number of features");
    const std::size_t n_rows = x.shape(0), n_columns = n_rows > 0 ? out.size() / n_rows : start_.size();
    require(out.size() == n_rows * n_columns && (n_columns == start_.size() || (start_.size() == 1 && n_columns == 2)),
            "out: wrong size");
    nb::gil_scoped_release release;
    predict_rows(forest_, start_.data(), link_, x.data(), n_rows, x.stride(0), x.stride(1), n_columns, out.data(),
                 n_threads_);
  }

 private:
  const Forest& forest_;
  const std::vector<double> start_;
  const int n_threads_;
  Link link_ = Link::kIdentity;
};

template <class T>
nb::ndarray<nb::numpy, std::int32_t> leaf_nodes(const Forest& forest, const Matrix<T>& x, int n_threads) {
  require(static_cast<int>(x.shape(1)) == forest.n_features(), "X: wrong number of features");
  const std::size_t n_trees = forest.arrays().roots.size();
  std::vector<std::int32_t> out(x.shape(0) * n_trees);
  {
    nb::gil_scoped_release release;
    find_leaf_nodes(forest, x.data(), x.shape(0), x.stride(0), x.stride(1), out.data(), n_threads);
  }
  return to_numpy(std::move(out), x.shape(0), n_trees);
}

nb::ndarray<nb::numpy, double> leaf_sums(const Vector<double>& x, const Vector<std::int32_t>& leaf, int n_leaves,
                                         const std::optional<Vector<std::int64_t>>& repeats, int n_threads) {
  const std::size_t n_rows = x.size();
  require(leaf.size() == n_rows && (!repeats || repeats->size() == n_rows),
          "leaf, repeats: must have as many rows as x");
  for (std::size_t i = 0; i < n_rows; ++i) {
    require(leaf.data()[i] >= 0 && leaf.data()[i] < n_leaves, "leaf: must be from 0 to n_leaves - 1");
    require(std::isfinite(x.data()[i]), "x: must be finite");
    require(!repeats || (repeats->data()[i] >= 1 && repeats->data()[i] <= kMostRepeats),
            "repeats: must be from 1 to 2^31");
  }
  std::vector<double> sums;
  {
    nb::gil_scoped_release release;
    sums = sums_of_leaves(x.data(), leaf.data(), repeats ? repeats->data() : nullptr, n_rows,
                          static_cast<std::size_t>(std::max(n_leaves, 0)), n_threads);
  }
  return to_numpy(std::move(sums), sums.size());
}

template <class T>
TableRows<T> rows_of(const Matrix<T>& x) {
  return {x.data(), x.shape(0), x.stride(0), x.stride(1)};
}

std::size_t squared(std::size_t x) { return x * x; }

// The caller allocates `out`, so that NumPy says so if there are too many features.
template <class T>
void interactions(const Interactions& of, const Matrix<T>& x, const Results& out, int n_threads) {
  require(static_cast<int>(x.shape(1)) == of.n_features(), "X: wrong number of features");
  require(out.size() == x.shape(0) * of.n_columns() * squared(x.shape(1) + 1), "out: wrong size");
  nb::gil_scoped_release release;
  std::fill_n(out.data(), out.size(), 0.0);
  of.add(x.data(), x.shape(0), x.stride(0), x.stride(1), out.data(), n_threads);
}

template <class T>
void against(const Forest& forest, const Matrix<T>& x, const Matrix<T>& background, bool pairs, const Results& out,
             int n_threads) {
  require(static_cast<int>(x.shape(1)) == forest.n_features(), "X: wrong number of features");
  require(static_cast<int>(background.shape(1)) == forest.n_features(), "background: wrong number of features");
  require(background.shape(0) > 0 && background.shape(0) < std::size_t{1} << 31,
          "background: must have at least one row and fewer than 2^31");
  const std::size_t n_results = pairs ? squared(x.shape(1) + 1) : x.shape(1) + 1;
  require(out.size() == x.shape(0) * forest.n_columns() * n_results, "out: wrong size");
  nb::gil_scoped_release release;
  std::fill_n(out.data(), out.size(), 0.0);
  if (pairs) {
    BackgroundValues<true>(forest, rows_of(background)).add(rows_of(x), out.data(), n_threads);
  } else {
    BackgroundValues<false>(forest, rows_of(background)).add(rows_of(x), out.data(), n_threads);
  }
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

// The records as bytes (record, byte).
template <class T>
nb::ndarray<nb::numpy, std::uint8_t> as_bytes(const std::vector<T>& records) {
  std::vector<std::uint8_t> bytes(records.size() * sizeof(T));
  if (!records.empty()) std::memcpy(bytes.data(), records.data(), bytes.size());
  return to_numpy(std::move(bytes), records.size(), sizeof(T));
}

nb::tuple passes_of(const Contributions& of) {
  const Contributions::Arrays found = of.arrays();
  std::vector<double> expected = of.expected();
  const std::size_t n_columns = expected.size();
  return nb::make_tuple(as_bytes(found.edges), as_bytes(found.weights), as_bytes(found.passes), found.n_levels,
                        to_numpy(std::move(expected), n_columns));
}

// The table of a model file: its checksum, and (name, type, checksum, offset, count) of every section.
nb::tuple model_file_table(const Vector<std::uint8_t>& file) {
  const ModelFileTable table = read_model_file({file.data(), file.size()});
  nb::list sections;
  for (const Section& s : table.sections) {
    sections.append(nb::make_tuple(s.name, static_cast<std::uint32_t>(s.type), s.checksum, s.offset, s.count));
  }
  return nb::make_tuple(table.checksum, sections);
}

}  // namespace

void bind_forest(nb::module_& m) {
  nb::class_<Forest>(m, "Forest", "Trees prepared for prediction.")
      .def(nb::new_(&make_forest), "n_features"_a, "n_columns"_a, "roots"_a.noconvert(), "first_column"_a.noconvert(),
           "nodes"_a.noconvert(), "category_words"_a.noconvert(), "category_start"_a.noconvert(), "value"_a.noconvert())
      .def("predict", &predict<double>, "X"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a)
      .def("predict", &predict<float>, "X"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
           "Sum of the trees' values, (row, column), into out.")
      .def("leaf_nodes", &leaf_nodes<double>, "X"_a.noconvert(), "n_threads"_a)
      .def("leaf_nodes", &leaf_nodes<float>, "X"_a.noconvert(), "n_threads"_a,
           "The nodes of the leaves that rows reach, (row, tree).");
  nb::class_<RowPredictor>(m, "RowPredictor", "A forest with start scores and an inverse link.")
      .def(nb::init<const Forest&, const Vector<double>&, const std::string&, int>(), "forest"_a, "start"_a.noconvert(),
           "link"_a, "n_threads"_a, nb::keep_alive<1, 2>())
      .def("fill", &RowPredictor::fill<double>, "X"_a.noconvert(), "out"_a.noconvert())
      .def("fill", &RowPredictor::fill<float>, "X"_a.noconvert(), "out"_a.noconvert(),
           "Predictions (row, column), into out. Two columns for one score are the probabilities of two classes.");
  m.def("leaf_sums", &leaf_sums, "x"_a.noconvert(), "leaf"_a.noconvert(), "n_leaves"_a,
        "repeats"_a.noconvert().none() = nb::none(), "n_threads"_a = 1,
        "The sum of x over the rows of each leaf, with the bits of the sums of a tree that is grown.");
  nb::class_<Contributions>(m, "Contributions", "Contributions of each feature to the predictions of a forest.")
      .def(
          "__init__",
          [](Contributions* self, const Forest& forest) {
            nb::gil_scoped_release release;
            new (self) Contributions(forest);
          },
          "forest"_a, nb::keep_alive<1, 2>())
      .def("predict", &contributions<double>, "X"_a.noconvert(), "n_threads"_a)
      .def("predict", &contributions<float>, "X"_a.noconvert(), "n_threads"_a,
           "Shapley values, followed by the expected prediction, (row, output, feature + 1).")
      .def("passes", &passes_of,
           "For kernels of devices: the records of formulas/shapley.hpp, the number of levels, and expected "
           "predictions.");
  nb::class_<Interactions>(m, "Interactions", "Contributions of features and of pairs of them to the predictions.")
      .def(
          "__init__",
          [](Interactions* self, const Forest& forest) {
            nb::gil_scoped_release release;
            new (self) Interactions(forest);
          },
          "forest"_a, nb::keep_alive<1, 2>())
      .def("predict", &interactions<double>, "X"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a)
      .def("predict", &interactions<float>, "X"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
           "Shapley interaction values, with the expected prediction at the end of the diagonal: (row, output, "
           "feature + 1, feature + 1), into out.");
  m.def("contributions_against", &against<double>, "forest"_a, "X"_a.noconvert(), "background"_a.noconvert(),
        "interactions"_a, "out"_a.noconvert(), "n_threads"_a);
  m.def("contributions_against", &against<float>, "forest"_a, "X"_a.noconvert(), "background"_a.noconvert(),
        "interactions"_a, "out"_a.noconvert(), "n_threads"_a,
        "The results of Contributions or Interactions relative to background rows, into out.");
  m.def("model_file_table", &model_file_table, "file"_a.noconvert(),
        "The checksum of a model file's table, and (name, type, checksum, offset, count) of every section.");
  m.attr("MAX_FEATURES") = kMaxFeatures;
  m.attr("MAX_DEPTH") = kMaxDepth;
}

}  // namespace agbm
