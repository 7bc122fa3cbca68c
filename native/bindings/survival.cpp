// Bindings of the losses of survival analysis. Labels are (2, row): lower and upper bounds of times.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "survival/concordance.hpp"
#include "survival/cox.hpp"
#include "survival/lifetime.hpp"

namespace agbm {
namespace {

using Rows = nb::ndarray<const double, nb::ndim<2>, nb::device::cpu>;

Quantity quantity_of(const std::string& name) {
  if (name == "value") return Quantity::kValue;
  if (name == "negative_gradient") return Quantity::kNegativeGradient;
  require(name == "hessian", "quantity: must be value, negative_gradient or hessian");
  return Quantity::kHessian;
}

void check_rows(const Rows& y, const Rows& f) {
  require(y.shape(0) == 2, "y: must be (2, rows)");
  require(f.shape(1) == y.shape(1), "f: must have scores for as many rows as y has labels");
  require(y.shape(1) <= 1 || (y.stride(1) == 1 && f.stride(1) == 1), "y, f: rows must be contiguous");
}

void check_results(const Results& out, Quantity quantity, const Rows& f) {
  require(out.size() == (quantity == Quantity::kValue ? f.shape(1) : f.size()), "out: wrong size");
}

void lifetimes(const std::string& errors, double log_scale, const std::string& name, const Rows& y, const Rows& f,
               const Results& out, int n_threads) {
  const Quantity quantity = quantity_of(name);
  check_rows(y, f);
  check_results(out, quantity, f);
  require(f.shape(0) == 1 || f.shape(0) == 2, "f: must have one or two scores");
  require(errors == "normal" || errors == "logistic" || errors == "extreme", "errors: no such distribution");
  nb::gil_scoped_release release;
  const auto fill = [&](auto of) {
    fill_lifetimes<decltype(of)>(quantity, y.data(), y.data() + y.stride(0), f.data(), f.stride(0), f.shape(0),
                                 log_scale, f.shape(1), out.data(), n_threads);
  };
  if (errors == "normal") fill(NormalErrors{});
  if (errors == "logistic") fill(LogisticErrors{});
  if (errors == "extreme") fill(ExtremeErrors{});
}

void hazards(const Vector<double>& edges, const std::string& name, const Rows& y, const Rows& f, const Results& out,
             int n_threads) {
  const Quantity quantity = quantity_of(name);
  check_rows(y, f);
  check_results(out, quantity, f);
  require(edges.size() >= 1 && f.shape(0) == edges.size() + 1, "f: must have one score, and one per interval");
  nb::gil_scoped_release release;
  fill_hazards(quantity, y.data(), y.data() + y.stride(0), f.data(), f.stride(0), edges.data(), edges.size(),
               f.shape(1), out.data(), n_threads);
}

TimeOrder checked_order(const Vector<std::uint32_t>& rows, const Vector<std::uint32_t>& first,
                        const Vector<std::uint32_t>& time_of, std::size_t n) {
  require(rows.size() == n && time_of.size() == n, "rows, time_of: must have one entry per row");
  require(first.size() >= 1, "first: must end with the number of rows");
  const std::size_t n_times = first.size() - 1;
  bool valid = first.data()[0] == 0 && first.data()[n_times] == n;
  for (std::size_t t = 0; t < n_times; ++t) valid = valid && first.data()[t] <= first.data()[t + 1];
  for (std::size_t i = 0; i < n; ++i) valid = valid && rows.data()[i] < n && time_of.data()[i] < n_times;
  require(valid, "rows, first, time_of: out of range");
  return {rows.data(), first.data(), time_of.data(), n_times, n};
}

void cox(const Vector<std::uint32_t>& rows, const Vector<std::uint32_t>& first, const Vector<std::uint32_t>& time_of,
         bool efron, const std::string& name, const Rows& y, const Rows& f, const Weights& weight, const Results& out,
         int n_threads) {
  check_rows(y, f);
  const TimeOrder order = checked_order(rows, first, time_of, y.shape(1));
  const double* w = checked(weight, y.shape(1));
  require(f.shape(0) == 1, "f: must have one score");
  const bool baseline = name == "baseline";
  const Quantity quantity = baseline ? Quantity::kValue : quantity_of(name);
  require(out.size() == (baseline ? order.n_times : order.n_rows), "out: wrong size");
  nb::gil_scoped_release release;
  const CoxLoss loss(order, y.data(), y.data() + y.stride(0), f.data(), w, efron, n_threads);
  if (baseline) {
    loss.hazards(out.data());
  } else {
    loss.fill(quantity, out.data());
  }
}

nb::tuple concordance_of(const Vector<double>& lower, const Vector<double>& upper, const Vector<std::uint32_t>& rank,
                         const Weights& weight, const Vector<std::uint32_t>& starts,
                         const Vector<std::uint32_t>& ends) {
  const std::size_t n = lower.size();
  require(upper.size() == n && rank.size() == n && starts.size() == n, "upper, rank, starts: must have one per row");
  std::size_t n_ranks = 0;
  bool valid = true;
  for (std::size_t i = 0; i < n; ++i) {
    n_ranks = std::max<std::size_t>(n_ranks, rank.data()[i] + std::size_t{1});
    valid = valid && starts.data()[i] < n && rank.data()[i] < n;
  }
  for (std::size_t k = 0; k < ends.size(); ++k) valid = valid && ends.data()[k] < n;
  require(valid, "rank, starts, ends: out of range");
  const double* w = checked(weight, n);
  std::pair<double, double> found;
  {
    nb::gil_scoped_release release;
    const TimedRisks rows{lower.data(), upper.data(), rank.data(), w, n, n_ranks};
    found = concordance(rows, starts.data(), ends.data(), ends.size());
  }
  return nb::make_tuple(found.first, found.second);
}

}  // namespace

void bind_survival(nb::module_& m) {
  m.def("lifetimes", &lifetimes, "errors"_a, "log_scale"_a, "quantity"_a, "y"_a.noconvert(), "f"_a.noconvert(),
        "out"_a.noconvert(), "n_threads"_a,
        "A quantity of accelerated failure times: value (row), negative_gradient or hessian (score, row).");
  m.def("hazards", &hazards, "edges"_a.noconvert(), "quantity"_a, "y"_a.noconvert(), "f"_a.noconvert(),
        "out"_a.noconvert(), "n_threads"_a, "The same for piecewise exponential times.");
  m.def("cox", &cox, "rows"_a.noconvert(), "first"_a.noconvert(), "time_of"_a.noconvert(), "efron"_a, "quantity"_a,
        "y"_a.noconvert(), "f"_a.noconvert(), "weight"_a.noconvert().none(), "out"_a.noconvert(), "n_threads"_a,
        "The same for Cox's partial likelihood; or for each time, the latest first, the increase of the baseline.");
  m.def("concordance", &concordance_of, "lower"_a.noconvert(), "upper"_a.noconvert(), "rank"_a.noconvert(),
        "weight"_a.noconvert().none(), "starts"_a.noconvert(), "ends"_a.noconvert(),
        "The weights of concordant and of comparable pairs of rows.");
}

}  // namespace agbm
