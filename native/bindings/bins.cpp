// Bindings of binned matrices and of the thresholds between bins.
#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "bindings/tree_inputs.hpp"
#include "bins/columns.hpp"
#include "bins/encode.hpp"
#include "bins/matrix.hpp"
#include "bins/row_digest.hpp"
#include "bins/sparse.hpp"
#include "bins/thresholds.hpp"
#include "tree/tree.hpp"

namespace agbm {
namespace {

void require_matrix(std::size_t n_rows, const std::vector<int>& n_bins) {
  require(n_rows < (std::size_t{1} << 32), "n_rows: must be at most 2^32 - 1");
  require(!n_bins.empty(), "n_bins: must not be empty");
  for (int n : n_bins) require(n >= 1 && n <= kMaxValueBins, "n_bins: must be from 1 to 255 for each feature");
}

// Calls make(), which may create files in a folder.
template <class Make>
BinnedMatrix made_in(const std::string& folder, const Make& make) {
  try {
    nb::gil_scoped_release release;
    return make();
  } catch (const std::system_error& error) {  // from the file system of the folder
    errno = error.code().value();
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, folder.c_str());
    throw nb::python_error();
  }
}

BinnedMatrix make_matrix(std::size_t n_rows, const std::vector<int>& n_bins, const std::vector<int>& n_categories,
                         const std::string& folder, const std::vector<int>& without) {
  require_matrix(n_rows, n_bins);
  require(n_categories.size() == n_bins.size(), "n_categories: must have one entry for each feature");
  for (int n : n_categories) require(n >= 0, "n_categories: must not be negative");
  return made_in(folder, [&] {
    BinnedMatrix m;
    lay_out(m, n_rows, n_bins, n_categories, ColumnPlan::of_own(static_cast<int>(n_bins.size()), without), folder);
    return m;
  });
}

template <class T>
Dense<T> as_dense(const Matrix<T>& x) {
  return {x.data(), x.shape(1), x.stride(0), x.stride(1)};
}

nb::tuple as_arrays(Thresholds&& found) {
  const std::size_t n_values = found.values.size(), n_features = found.counts.size();
  return nb::make_tuple(to_numpy(std::move(found.values), n_values), to_numpy(std::move(found.counts), n_features));
}

// The kernel sorts and counts in 32 bits.
void require_bins(std::size_t n_rows, int max_bins) {
  require(n_rows < (std::size_t{1} << 32), "X: must have at most 2^32 - 1 rows");
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
  return as_arrays(std::move(found));
}

// Checks that `start` cuts a vector of that size into parts.
void require_parts(const Vector<std::int64_t>& start, std::size_t size) {
  require(start.size() > 0 && start.data()[0] == 0, "start: must start with 0");
  for (std::size_t i = 1; i < start.size(); ++i)
    require(start.data()[i - 1] <= start.data()[i], "start: must not decrease");
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
  return as_arrays(std::move(found));
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
    require(m.places[f].used() && !m.places[f].shared(), "X: features must have their own columns");
  }
  require_thresholds(std::span(m.n_bins).subspan(first_feature, n_columns), thresholds);
  nb::gil_scoped_release release;
  bin_columns(m, first_feature, thresholds.data(), as_dense(x), x.shape(0), rows ? rows->data() : nullptr, n_threads);
}

LeafRows make_leaf(std::size_t n_rows, std::int64_t min_samples_leaf, std::size_t n_train,
                   const std::optional<Vector<std::int64_t>>& repeats) {
  require(n_train <= n_rows && min_samples_leaf >= 0, "n_train, min_samples_leaf: out of range");
  require(!repeats || repeats->size() == n_train, "repeats: must have one entry for each training row");
  return {min_samples_leaf, n_train, repeats ? repeats->data() : nullptr};
}

void require_features(const BinnedMatrix& m, const std::vector<int>& features) {
  for (const int f : features) require(f >= 0 && f < m.n_features, "features: no such feature");
}

void leave_out(BinnedMatrix& m, int n_threads, std::int64_t min_samples_leaf, std::size_t n_train,
               const std::optional<Vector<std::int64_t>>& repeats) {
  require(!m.has_shared_columns() && m.n_own == 0 && m.min_samples_leaf == 0,
          "matrix: features must have their own columns, and none may have been left out before");
  const LeafRows leaf = make_leaf(m.n_rows, min_samples_leaf, n_train, repeats);
  nb::gil_scoped_release release;
  leave_features_out(m, leaf, n_threads);
}

BinnedMatrix with_features(const BinnedMatrix& m, const std::vector<int>& features, const std::vector<int>& n_bins,
                           const std::vector<int>& n_categories, const std::string& folder) {
  require_features(m, features);
  require(n_bins.size() == features.size() && n_categories.size() == features.size(),
          "n_bins, n_categories: must have one entry for each feature");
  for (std::size_t i = 0; i < features.size(); ++i) {
    require(!m.places[features[i]].used(), "features: must not have columns");
    require(n_bins[i] >= 1 && n_bins[i] <= kMaxValueBins && n_categories[i] >= 0, "n_bins: must be from 1 to 255");
  }
  require(m.n_own == 0, "matrix: must not have features of its own");
  return made_in(folder, [&] { return with_own_features(m, features, n_bins, n_categories, folder); });
}

template <class T>
BinnedMatrix make_sparse(const Vector<T>& values, const Vector<Row>& rows, const Vector<std::int64_t>& start,
                         std::size_t n_rows, const std::vector<int>& n_bins, const Vector<double>& thresholds,
                         int n_threads, std::int64_t min_samples_leaf, std::size_t n_train,
                         const std::optional<Vector<std::int64_t>>& repeats) {
  require_matrix(n_rows, n_bins);
  require(start.size() == n_bins.size() + 1, "start: must have one more entry than there are features");
  require_parts(start, values.size());
  require(rows.size() == values.size(), "rows: must have one entry for each value");
  for (std::size_t f = 0; f < n_bins.size(); ++f) {
    for (std::int64_t i = start.data()[f]; i < start.data()[f + 1]; ++i) {
      require(rows.data()[i] < n_rows, "rows: no such row");
      require(i == start.data()[f] || rows.data()[i - 1] < rows.data()[i], "rows: must be ascending within a feature");
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

// The codes column by column. No features may share a column.
nb::ndarray<nb::numpy, std::uint8_t> all_columns(const BinnedMatrix& m) {
  require(std::all_of(m.places.begin(), m.places.end(), [](auto& p) { return p.used() && !p.shared(); }),
          "matrix: features must have their own columns");
  std::vector<std::uint8_t> out(m.n_rows * m.n_features);
  for (int f = 0; f < m.n_features; ++f) {
    std::copy_n(m.column(m.places[f].column), m.n_rows, out.data() + m.n_rows * static_cast<std::size_t>(f));
  }
  return to_numpy(std::move(out), m.n_columns(), m.n_rows);
}

// Copies codes in the form of all_columns() into neighbouring rows of a matrix.
void put_columns(BinnedMatrix& m, const RowMajor<std::uint8_t>& codes, std::size_t first_row) {
  const std::size_t n = codes.shape(1);
  require(codes.shape(0) == m.n_columns() && m.n_own == 0 && m.n_columns() == static_cast<std::size_t>(m.n_features),
          "codes: must have a row for each feature");
  require(first_row <= m.n_rows && n <= m.n_rows - first_row, "first_row: no such rows");
  for (int f = 0; f < m.n_features; ++f) {
    const std::uint8_t* column = codes.data() + f * n;
    require(std::all_of(column, column + n, [&](std::uint8_t code) { return code <= m.n_bins[f]; }),
            "codes: no such bin");
    std::copy_n(column, n, m.column(f) + first_row);
    copy_to_group(m, f, first_row, first_row + n);
  }
}

void take(BinnedMatrix& m, const BinnedMatrix& from, const std::vector<int>& features, const Vector<Row>& rows,
          int n_threads) {
  require(from.n_features == m.n_features, "from: must have the same features");
  for (const int f : features) {
    require(f >= 0 && f < m.n_features, "features: no such feature");
    require(from.n_bins[f] == m.n_bins[f], "features: must have the same bins in both matrices");
    for (const BinnedMatrix* matrix : {&from, static_cast<const BinnedMatrix*>(&m)}) {
      require(matrix->places[f].used() && !matrix->places[f].shared(), "features: must have their own columns");
    }
  }
  require(rows.size() == m.n_rows, "rows: must have one entry for each row of the matrix");
  require(std::all_of(rows.data(), rows.data() + rows.size(), [&](Row row) { return row < from.n_rows; }),
          "rows: no such row");
  nb::gil_scoped_release release;
  take_rows(m, from, features, rows.data(), n_threads);
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
    const TreeWalk walk(m, all, roots.data()[t]);
    walk.values(0, m.n_rows, values + first_column.data()[t] * m.n_rows, m.n_rows, n_threads);
  }
  return out;
}

void bind_matrix(nb::module_& m) {
  nb::class_<BinnedMatrix>(m, "BinnedMatrix", "A matrix of bin codes, one byte per value.")
      .def_ro("n_rows", &BinnedMatrix::n_rows)
      .def_ro("n_features", &BinnedMatrix::n_features)
      .def_ro("n_bins", &BinnedMatrix::n_bins)
      .def(nb::new_(&make_matrix), "n_rows"_a, "n_bins"_a, "n_categories"_a, "folder"_a = "",
           "without"_a = std::vector<int>(),
           "A matrix of zeros, in memory or in files of a folder, which are deleted with the matrix. Features of "
           "`without` have no columns.")
      .def("fill", &fill<double>, "first_feature"_a, "X"_a.noconvert(), "thresholds"_a.noconvert(), "n_threads"_a,
           "rows"_a.noconvert().none() = nb::none())
      .def(
          "fill", &fill<float>, "first_feature"_a, "X"_a.noconvert(), "thresholds"_a.noconvert(), "n_threads"_a,
          "rows"_a.noconvert().none() = nb::none(),
          "Encode the values of neighbouring features; thresholds are those of one feature after the other, ascending. "
          "Row i of X is row rows[i] of the matrix, or row i if rows is None.")
      .def("values", &values_on_codes, "roots"_a.noconvert(), "first_column"_a.noconvert(), "nodes"_a.noconvert(),
           "left_codes"_a.noconvert(), "value"_a.noconvert(), "n_columns"_a, "n_threads"_a,
           "Values of the trees of a forest on all rows, (column, row); left_codes are the codes that go left in each "
           "node.")
      .def("leave_out", &leave_out, "n_threads"_a, "min_samples_leaf"_a, "n_train"_a,
           "repeats"_a.noconvert().none() = nb::none(),
           "Remove features that cannot split the first n_train rows, repeated as given, into two parts of at least "
           "min_samples_leaf rows, and let features that mostly have one bin share columns.")
      .def("with_features", &with_features, "features"_a, "n_bins"_a, "n_categories"_a, "folder"_a = "",
           "A matrix that shares the codes of this one, with columns of its own for features that have none here.")
      .def_static("from_sparse", &make_sparse<double>, "values"_a.noconvert(), "rows"_a.noconvert(),
                  "start"_a.noconvert(), "n_rows"_a, "n_bins"_a, "thresholds"_a.noconvert(), "n_threads"_a,
                  "min_samples_leaf"_a = 0, "n_train"_a = 0, "repeats"_a.noconvert().none() = nb::none())
      .def_static(
          "from_sparse", &make_sparse<float>, "values"_a.noconvert(), "rows"_a.noconvert(), "start"_a.noconvert(),
          "n_rows"_a, "n_bins"_a, "thresholds"_a.noconvert(), "n_threads"_a, "min_samples_leaf"_a = 0, "n_train"_a = 0,
          "repeats"_a.noconvert().none() = nb::none(),
          "A matrix from the columns of a sparse one, in which no row occurs twice. Features may share columns; those "
          "that leave_out would remove have none.")
      .def_prop_ro("n_columns", &BinnedMatrix::n_columns)
      .def("codes", &all_codes, "The bins as a (row, feature) array.")
      .def("columns", &all_columns, "The codes as a (feature, row) array.")
      .def("take", &take, "source"_a, "features"_a, "rows"_a.noconvert(), "n_threads"_a,
           "Copy features from another matrix in which they have the same bins: row i is its row rows[i].")
      .def("put", &put_columns, "codes"_a.noconvert(), "first_row"_a,
           "Set the codes of rows from first_row on, given in the form of columns().");
}

void bind_thresholds(nb::module_& m) {
  m.def("thresholds", &thresholds_of<double>, "X"_a.noconvert(), "rows"_a.noconvert().none(), "max_bins"_a,
        "n_threads"_a);
  m.def("thresholds", &thresholds_of<float>, "X"_a.noconvert(), "rows"_a.noconvert().none(), "max_bins"_a,
        "n_threads"_a, "Thresholds of one feature after the other, from the given rows, and their number per feature.");
  m.def("sparse_thresholds", &sparse_thresholds_of<double>, "values"_a.noconvert(), "start"_a.noconvert(), "n_rows"_a,
        "max_bins"_a, "n_threads"_a);
  m.def("sparse_thresholds", &sparse_thresholds_of<float>, "values"_a.noconvert(), "start"_a.noconvert(), "n_rows"_a,
        "max_bins"_a, "n_threads"_a,
        "The same for a sparse matrix, given column by column, without duplicate entries.");
}

using Sums = nb::ndarray<std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

DigestSums digest_sums(std::size_t n_rows, std::uint64_t first, int shift, std::size_t first_column, const Sums& blocks,
                       const Sums& columns) {
  require(shift >= 0 && shift < 63 && first < (std::uint64_t{1} << 62), "shift, first: too large");
  const DigestSums sums{first, shift, first_column, blocks.data(), columns.data(), columns.size()};
  require(n_rows == 0 || sums.block_of(n_rows - 1) < blocks.size(), "blocks: must have an entry for each block");
  require(columns.size() > 0, "columns: must not be empty");
  return sums;
}

template <class T>
void digest_rows(const Matrix<T>& x, std::uint64_t first, int shift, std::size_t first_column, const Sums& blocks,
                 const Sums& columns, int n_threads) {
  const DigestSums sums = digest_sums(x.shape(0), first, shift, first_column, blocks, columns);
  const Dense<T> dense = as_dense(x);
  nb::gil_scoped_release release;
  digest_dense(dense, x.shape(0), sums, n_threads);
}

template <class T>
void digest_sparse_rows(const Vector<T>& values, const Vector<std::int64_t>& indices, const Vector<std::int64_t>& start,
                        std::uint64_t first, int shift, const Sums& blocks, const Sums& columns, int n_threads) {
  require(start.size() > 0 && values.size() == indices.size(), "values, indices, start: wrong sizes");
  const std::size_t n_rows = start.size() - 1;
  require(start.data()[0] == 0 && static_cast<std::size_t>(start.data()[n_rows]) == values.size() &&
              std::is_sorted(start.data(), start.data() + n_rows + 1),
          "start: must increase from 0 to the number of values");
  for (std::size_t i = 0; i < indices.size(); ++i) require(indices.data()[i] >= 0, "indices: must not be negative");
  const DigestSums sums = digest_sums(n_rows, first, shift, 0, blocks, columns);
  nb::gil_scoped_release release;
  digest_sparse(values.data(), indices.data(), start.data(), n_rows, sums, n_threads);
}

template <class T>
nb::ndarray<nb::numpy, std::uint64_t> row_keys_of(const Matrix<T>& x, int n_threads) {
  const Dense<T> dense = as_dense(x);
  std::vector<std::uint64_t> keys(x.shape(0));
  {
    nb::gil_scoped_release release;
    row_keys(dense, keys.size(), keys.data(), n_threads);
  }
  const std::size_t n = keys.size();
  return to_numpy(std::move(keys), n);
}

template <class T>
void bind_digests_of(nb::module_& m) {
  m.def("row_keys", &row_keys_of<T>, "X"_a.noconvert(), "n_threads"_a, "Keys that are equal for rows of equal values.");
  m.def("digest_rows", &digest_rows<T>, "X"_a.noconvert(), "first"_a, "shift"_a, "first_column"_a,
        "blocks"_a.noconvert(), "columns"_a.noconvert(), "n_threads"_a,
        "Add the hashes of cells to the sums of blocks of 2^shift rows and of columns; see row_digest.hpp.");
  m.def("digest_sparse_rows", &digest_sparse_rows<T>, "values"_a.noconvert(), "indices"_a.noconvert(),
        "start"_a.noconvert(), "first"_a, "shift"_a, "blocks"_a.noconvert(), "columns"_a.noconvert(), "n_threads"_a,
        "The same for compressed sparse rows without duplicate entries.");
}

}  // namespace

void bind_bins(nb::module_& m) {
  bind_matrix(m);
  bind_thresholds(m);
  bind_digests_of<double>(m);
  bind_digests_of<float>(m);
}

}  // namespace agbm
