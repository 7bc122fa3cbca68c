// Bindings of the losses.
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "losses/loss.hpp"

namespace agbm {
namespace {

using Scores = nb::ndarray<const double, nb::device::cpu>;

#define AGBM_LOSS_NAME(name, made) {#name, LossKind::name},
const std::map<std::string, LossKind> kLosses = {AGBM_LOSSES(AGBM_LOSS_NAME)};
#undef AGBM_LOSS_NAME

#define AGBM_DISTRIBUTION_NAME(name, made) {#name, DistributionKind::name},
const std::map<std::string, DistributionKind> kDistributions = {AGBM_DISTRIBUTIONS(AGBM_DISTRIBUTION_NAME)};
#undef AGBM_DISTRIBUTION_NAME

LossKind loss_of(const std::string& name) {
  const auto found = kLosses.find(name);
  require(found != kLosses.end(), "name: no such loss");
  return found->second;
}

// Labels and scores of losses with one score per row: (row) or (output, row).
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
    require(x.shape(x.ndim() - 1) <= 1 || x.stride(x.ndim() - 1) == 1, "y, f: rows must be contiguous");
  }
  static const double* of_output(const Scores& x, std::size_t k) {
    return x.data() + (x.ndim() == 2 ? static_cast<std::ptrdiff_t>(k) * x.stride(0) : 0);
  }
};

// y are codes of classes, a vector, or shares of the classes (class, row).
void require_classes(bool shares, double n_classes, const Scores& y, const Scores& f) {
  require(y.ndim() == (shares ? 2 : 1), shares ? "y: must be (classes, rows)" : "y: must be a vector");
  require(f.ndim() == 2, "f: must be (classes, rows)");
  require(f.shape(1) == y.shape(y.ndim() - 1), "f: must have scores for as many rows as y has labels");
  require(!shares || f.shape(0) == y.shape(0), "f: must have scores of as many classes as y has shares");
  LabelledRows::require_together(y);
  LabelledRows::require_together(f);
  require(n_classes >= 2.0 && static_cast<double>(f.shape(0)) == n_classes,
          "f: must have scores of as many classes as the loss has, at least 2");
}

void fill_classes(const ClassResults& out, bool shares, const Scores& y, const Scores& f, int n_threads) {
  nb::gil_scoped_release release;
  const ClassScores scores{f.data(), f.stride(0), f.shape(0), f.shape(1)};
  const ClassLabels labels{y.data(), shares, shares ? y.stride(0) : 0};
  require(MultinomialRows(scores, labels, out).fill(n_threads), "y: must be class codes, integers from 0");
}

bool is_multinomial(const std::string& name) { return name == "multinomial" || name == "shares_of_classes"; }

void multinomial_quantity(Quantity quantity, const std::string& name, double n_classes, const Scores& y,
                          const Scores& f, const Results& out, int n_threads) {
  const bool shares = name != "multinomial";
  require_classes(shares, n_classes, y, f);
  require(out.size() == (quantity == Quantity::kValue ? f.shape(1) : f.size()), "out: wrong size");
  ClassResults results;
  (quantity == Quantity::kValue              ? results.value
   : quantity == Quantity::kNegativeGradient ? results.negative_gradient
                                             : results.hessian) = out.data();
  fill_classes(results, shares, y, f, n_threads);
}

// Negative gradient and hessian together.
void multinomial_derivatives(const std::string& name, double n_classes, const Scores& y, const Scores& f,
                             const Results& negative_gradient, const Results& hessian, int n_threads) {
  const bool shares = name != "multinomial";
  require_classes(shares, n_classes, y, f);
  require(negative_gradient.size() == f.size(), "negative_gradient: wrong size");
  require(hessian.size() == f.size(), "hessian: wrong size");
  fill_classes({nullptr, negative_gradient.data(), hessian.data()}, shares, y, f, n_threads);
}

// y is a vector, f is (score, row).
template <class Distribution>
void distribution_quantity(const Distribution& distribution, Quantity quantity, const Scores& y, const Scores& f,
                           const Results& out, int n_threads) {
  require(y.ndim() == 1, "y: must be a vector");
  require(f.ndim() == 2 && f.shape(0) == static_cast<std::size_t>(Distribution::kScores),
          "f: must be (scores, rows), with as many scores as the distribution has");
  require(f.shape(1) == y.shape(0), "f: must have scores for as many rows as y has labels");
  LabelledRows::require_together(y);
  LabelledRows::require_together(f);
  require(out.size() == (quantity == Quantity::kValue ? f.shape(1) : f.size()), "out: wrong size");
  nb::gil_scoped_release release;
  fill_scores(distribution, quantity, y.data(), f.data(), f.stride(0), f.shape(1), out.data(), n_threads);
}

// The numbers of losses and distributions, for the kernels of a GPU.
nb::dict kinds() {
  nb::dict found;
  for (const auto& [name, kind] : kLosses) found[name.c_str()] = nb::make_tuple("loss", static_cast<int>(kind));
  for (const auto& [name, kind] : kDistributions) {
    found[name.c_str()] = nb::make_tuple("distribution", static_cast<int>(kind));
  }
  found["multinomial"] = nb::make_tuple("multinomial", 0);
  found["shares_of_classes"] = nb::make_tuple("multinomial", 1);
  return found;
}

// Writes one quantity of every row to `out`, a NumPy array, which is in large pages if it is large; this saves more
// time than some losses take.
template <Quantity quantity>
void loss_quantity(const std::string& name, double parameter, const Scores& y, const Scores& f, const Results& out,
                   int n_threads) {
  if (is_multinomial(name)) return multinomial_quantity(quantity, name, parameter, y, f, out, n_threads);
  if (const auto found = kDistributions.find(name); found != kDistributions.end()) {
    return with_distribution(found->second, parameter, [&](const auto& distribution) {
      distribution_quantity(distribution, quantity, y, f, out, n_threads);
    });
  }
  const LossKind kind = loss_of(name);
  const LabelledRows rows(y, f);
  require(out.size() == y.size(), "out: wrong size");
  nb::gil_scoped_release release;
  with_loss(kind, parameter, [&](const auto& loss) {
    for (std::size_t k = 0; k < rows.n_outputs; ++k) {
      fill_rows(loss, quantity, rows.of_output(y, k), rows.of_output(f, k), rows.n_rows, out.data() + k * rows.n_rows,
                n_threads);
    }
  });
}

// Both derivatives. Distributions have a pass for each.
void loss_derivatives(const std::string& name, double parameter, const Scores& y, const Scores& f,
                      const Results& negative_gradient, const Results& hessian, int n_threads) {
  if (is_multinomial(name)) {
    return multinomial_derivatives(name, parameter, y, f, negative_gradient, hessian, n_threads);
  }
  const auto found = kLosses.find(name);
  if (found == kLosses.end()) {
    loss_quantity<Quantity::kNegativeGradient>(name, parameter, y, f, negative_gradient, n_threads);
    return loss_quantity<Quantity::kHessian>(name, parameter, y, f, hessian, n_threads);
  }
  const LabelledRows rows(y, f);
  require(negative_gradient.size() == y.size(), "negative_gradient: wrong size");
  require(hessian.size() == y.size(), "hessian: wrong size");
  nb::gil_scoped_release release;
  with_loss(found->second, parameter, [&](const auto& loss) {
    for (std::size_t k = 0; k < rows.n_outputs; ++k) {
      fill_both_derivatives(loss, rows.of_output(y, k), rows.of_output(f, k), rows.n_rows,
                            negative_gradient.data() + k * rows.n_rows, hessian.data() + k * rows.n_rows, n_threads);
    }
  });
}

ExactSum exact_loss(const std::string& name, double parameter, const Scores& y, const Scores& f, const Weights& weight,
                    int n_threads) {
  const LossKind kind = loss_of(name);
  const LabelledRows rows(y, f);
  const double* w = checked(weight, rows.n_rows);
  nb::gil_scoped_release release;
  ExactSum total;
  with_loss(kind, parameter, [&](const auto& loss) {
    for (std::size_t k = 0; k < rows.n_outputs; ++k) {
      total.add(sum_rows(loss, rows.of_output(y, k), rows.of_output(f, k), w, rows.n_rows, n_threads));
    }
  });
  return total;
}

nb::tuple loss_sum(const std::string& name, double parameter, const Scores& y, const Scores& f, const Weights& weight,
                   int n_threads) {
  return to_python(exact_loss(name, parameter, y, f, weight, n_threads));
}

double loss_mean(const std::string& name, double parameter, const Scores& y, const Scores& f, int n_threads) {
  const std::size_t n_rows = y.shape(y.ndim() - 1);
  require(n_rows > 0, "y: no rows");
  return exact_loss(name, parameter, y, f, std::nullopt, n_threads).divided_by(n_rows);
}

}  // namespace

void bind_losses(nb::module_& m) {
  m.def("loss_kinds", &kinds, "For each name of a loss, its family and its number in the kernels of this family.");
  m.def("loss_value", &loss_quantity<Quantity::kValue>, "name"_a, "parameter"_a, "y"_a.noconvert(), "f"_a.noconvert(),
        "out"_a.noconvert(), "n_threads"_a,
        "The loss of each row. y and f are (row) or (output, row); for \"multinomial\" and distributions, f is (score, "
        "row), and for \"shares_of_classes\" y as well.");
  m.def("loss_sum", &loss_sum, "name"_a, "parameter"_a, "y"_a.noconvert(), "f"_a.noconvert(),
        "weight"_a.noconvert().none(), "n_threads"_a, "The sum of the losses of all rows, times their weights.");
  m.def("loss_mean", &loss_mean, "name"_a, "parameter"_a, "y"_a.noconvert(), "f"_a.noconvert(), "n_threads"_a,
        "The exact sum of the losses of all rows divided by their number, rounded once.");
  m.def("loss_negative_gradient", &loss_quantity<Quantity::kNegativeGradient>, "name"_a, "parameter"_a,
        "y"_a.noconvert(), "f"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a, "-dl/df, in the shape of f.");
  m.def("loss_hessian", &loss_quantity<Quantity::kHessian>, "name"_a, "parameter"_a, "y"_a.noconvert(),
        "f"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a, "The curvature of each row, in the shape of f.");
  m.def("loss_derivatives", &loss_derivatives, "name"_a, "parameter"_a, "y"_a.noconvert(), "f"_a.noconvert(),
        "negative_gradient"_a.noconvert(), "hessian"_a.noconvert(), "n_threads"_a,
        "loss_negative_gradient and loss_hessian together.");
}

}  // namespace agbm
