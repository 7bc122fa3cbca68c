// Bindings of arithmetic on vectors, of exact sums and of reused memory.
#include "base/vectors.hpp"

#include <array>
#include <cstddef>

#include "base/parallel.hpp"
#include "bindings/arrays.hpp"
#include "bindings/module.hpp"

namespace agbm {
namespace {

using Rows2d = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;

void check_rows(const Rows2d& x, std::size_t n_outputs, std::size_t n_rows) {
  require(x.shape(0) == n_outputs && x.shape(1) == n_rows, "x, y, out: must have the same shape");
  require(n_rows <= 1 || x.stride(1) == 1, "x, y: rows must be contiguous");
}

// Calls each(x, y, out) for the rows of every output, with the GIL released.
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

// Writes a function of each number to `out`.
template <void (*function)(const double*, double*, std::size_t, int)>
void elementwise(const Numbers& x, const Results& out, int n_threads) {
  require(out.size() == x.size(), "out: wrong size");
  nb::gil_scoped_release release;
  function(x.data(), out.data(), x.size(), n_threads);
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

std::array<ExactSum, 3> exact_products(const Rows2d& x, const Rows2d& y, const Weights& weight, int n_threads) {
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
  return total;
}

nb::tuple products_of(const Rows2d& x, const Rows2d& y, const Weights& weight, int n_threads) {
  const std::array<ExactSum, 3> total = exact_products(x, y, weight, n_threads);
  return nb::make_tuple(to_python(total[0]), to_python(total[1]), to_python(total[2]));
}

nb::tuple rounded_products_of(const Rows2d& x, const Rows2d& y, const Weights& weight, int n_threads) {
  const std::array<ExactSum, 3> total = exact_products(x, y, weight, n_threads);
  return nb::make_tuple(total[0].rounded(), total[1].rounded(), total[2].rounded());
}

void bind_memory(nb::module_& m) {
  m.attr("REUSED_NUMBERS") = ReusedMemory::kWorthIt;
  m.def("empty", &empty, "shape"_a, "An uninitialised array. Within a run, its memory is reused after it is deleted.");
  m.def(
      "choose_threads", [](std::size_t pool) { ThreadPools::chosen() = pool; }, "pool"_a,
      "From now on, kernels that are called by this thread share a pool of threads only with others of this number.");
  m.def(
      "begin_run", [] { ReusedMemory::instance().begin_run(); }, "From now on, the memory of deleted arrays is kept.");
  m.def("end_run", [] { ReusedMemory::instance().end_run(); }, "The last run to end frees the memory that was kept.");
}

}  // namespace

void bind_vectors(nb::module_& m) {
  bind_memory(m);
  m.def("mix", &mix_functions, "a"_a, "x"_a.noconvert(), "b"_a, "y"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "a x + b y of functions (output, row), into out.");
  m.def("multiply", &multiply_functions, "x"_a.noconvert(), "y"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "x times y, row by row, of functions (output, row), into out.");
  m.def("exp", &elementwise<exp_of>, "x"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "The exponentials of numbers, clipped to [-700, 700], into out: the same bits on every platform.");
  m.def("log", &elementwise<log_of>, "x"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "The logarithms of numbers, into out: the same bits on every platform.");
  m.def("sigmoid", &elementwise<sigmoid_of>, "x"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "The logistic function of numbers, into out: the same bits on every platform.");
  m.def("exact_sum", &sum_of, "x"_a.noconvert(), "weight"_a.noconvert().none(), "n_threads"_a,
        "The sum of a function (output, row), with weights of rows.");
  m.def("inner_products", &products_of, "x"_a.noconvert(), "y"_a.noconvert(), "weight"_a.noconvert().none(),
        "n_threads"_a, "<x, x>, <x, y> and <y, y> of functions (output, row), with weights of rows.");
  m.def("rounded_inner_products", &rounded_products_of, "x"_a.noconvert(), "y"_a.noconvert(),
        "weight"_a.noconvert().none(), "n_threads"_a, "The same sums, each rounded to the nearest double.");
}

}  // namespace agbm
