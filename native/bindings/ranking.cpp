// Bindings of the losses and metrics of rankings.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "bindings/arrays.hpp"
#include "bindings/module.hpp"
#include "ranking/metrics.hpp"
#include "ranking/pairs.hpp"
#include "ranking/queries.hpp"

namespace agbm {
namespace {

RankingKind kind_of(const std::string& name) {
  if (name == "ndcg") return RankingKind::kNdcg;
  if (name == "map") return RankingKind::kMap;
  if (name == "mrr") return RankingKind::kMrr;
  if (name == "pairwise") return RankingKind::kPairwise;
  if (name == "listwise") return RankingKind::kListwise;
  throw std::invalid_argument("name: no such loss");
}

void check_labels(const Vector<double>& relevance, const Vector<double>& query) {
  const std::size_t n = relevance.size();
  require(query.size() == n, "relevance, query: must have as many entries");
  require(n < std::numeric_limits<std::uint32_t>::max(), "relevance: too many rows");
  for (std::size_t i = 0; i < n; ++i) {
    require(relevance.data()[i] >= 0.0 && relevance.data()[i] - relevance.data()[i] == 0.0,
            "relevance: must be finite and not negative");
    require(query.data()[i] - query.data()[i] == 0.0, "query: must be finite");
  }
}

QueryLabels* make_labels(const std::string& name, std::size_t cut, std::size_t truncation, bool exponential_gain,
                         const Vector<double>& relevance, const Vector<double>& query) {
  const RankingRules rules = {kind_of(name), cut, truncation, exponential_gain};
  check_labels(relevance, query);
  nb::gil_scoped_release release;
  return new QueryLabels(rules, relevance.data(), query.data(), relevance.size());
}

void fill_value(QueryLabels& labels, const Vector<double>& score, const Results& out, int n_threads) {
  const std::size_t n = labels.queries.n_rows();
  require(score.size() == n && out.size() == n, "score, out: wrong size");
  nb::gil_scoped_release release;
  if (labels.rules.kind == RankingKind::kPairwise) {
    PairSums(labels, score.data()).fill_losses(out.data(), n_threads);
  } else {
    RankingValues(labels, score.data()).fill_values(out.data(), n_threads);
  }
}

void fill_derivatives(QueryLabels& labels, const Vector<double>& score, const Results& residual, const Results& hessian,
                      int n_threads) {
  const std::size_t n = labels.queries.n_rows();
  require(score.size() == n && residual.size() == n && hessian.size() == n, "score, residual, hessian: wrong size");
  nb::gil_scoped_release release;
  if (labels.rules.kind == RankingKind::kListwise) {
    RankingValues(labels, score.data()).fill_listwise(residual.data(), hessian.data(), n_threads);
  } else {
    PairSums(labels, score.data()).fill(residual.data(), hessian.data(), n_threads);
  }
}

void ranking_marks(bool pairs, const Vector<double>& relevance, const Vector<double>& query, const Results& out) {
  check_labels(relevance, query);
  require(out.size() == relevance.size(), "out: wrong size");
  nb::gil_scoped_release release;
  mark_queries(relevance.data(), Queries(query.data(), query.size()), pairs, out.data());
}

}  // namespace

void bind_ranking(nb::module_& m) {
  nb::class_<QueryLabels>(m, "QueryLabels", "The labels of queries, prepared for a loss or metric; not thread-safe.")
      .def(nb::new_(&make_labels), "name"_a, "cut"_a, "truncation"_a, "exponential_gain"_a, "relevance"_a.noconvert(),
           "query"_a.noconvert())
      .def("value", &fill_value, "score"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
           "The loss of each query at its first row, and zero at the others.")
      .def("derivatives", &fill_derivatives, "score"_a.noconvert(), "residual"_a.noconvert(), "hessian"_a.noconvert(),
           "n_threads"_a, "The negative gradient and the hessian of each row.");
  m.def("ranking_marks", &ranking_marks, "pairs"_a, "relevance"_a.noconvert(), "query"_a.noconvert(),
        "out"_a.noconvert(), "1 at the first row of each query that counts, and zero at the others.");
}

}  // namespace agbm
