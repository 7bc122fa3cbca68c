// Bindings of the losses and metrics of rankings.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "bindings.hpp"
#include "python_arrays.hpp"
#include "ranking.hpp"
#include "ranking_value.hpp"

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

RankedRows checked_rows(const Vector<double>& relevance, const Vector<double>& query, const Vector<double>& score) {
  const std::size_t n = relevance.size();
  require(query.size() == n && score.size() == n, "relevance, query, score: must have as many entries");
  require(n < std::numeric_limits<std::uint32_t>::max(), "relevance: too many rows");
  const RankedRows rows{relevance.data(), query.data(), score.data(), n};
  for (std::size_t i = 0; i < n; ++i) {
    require(rows.relevance[i] >= 0.0 && rows.relevance[i] - rows.relevance[i] == 0.0,
            "relevance: must be finite and not negative");
    require(rows.query[i] - rows.query[i] == 0.0, "query: must be finite");
  }
  return rows;
}

RankingRules rules_of(const std::string& name, std::size_t cut, std::size_t truncation, bool exponential_gain) {
  return {kind_of(name), cut, truncation, exponential_gain};
}

void ranking_value(const std::string& name, std::size_t cut, bool exponential_gain, const Vector<double>& relevance,
                   const Vector<double>& query, const Vector<double>& score, const Results& out, int n_threads) {
  const RankingRules rules = rules_of(name, cut, cut, exponential_gain);
  const RankedRows rows = checked_rows(relevance, query, score);
  require(out.size() == rows.n, "out: wrong size");
  nb::gil_scoped_release release;
  const Queries queries(rows);
  if (rules.kind == RankingKind::kPairwise) {
    PairSums(rows, queries, rules).fill_losses(out.data(), n_threads);
  } else {
    RankingValues(rows, queries, rules).fill_values(out.data(), n_threads);
  }
}

void ranking_derivatives(const std::string& name, std::size_t cut, std::size_t truncation, bool exponential_gain,
                         const Vector<double>& relevance, const Vector<double>& query, const Vector<double>& score,
                         const Results& residual, const Results& hessian, int n_threads) {
  const RankingRules rules = rules_of(name, cut, truncation, exponential_gain);
  const RankedRows rows = checked_rows(relevance, query, score);
  require(residual.size() == rows.n && hessian.size() == rows.n, "residual, hessian: wrong size");
  nb::gil_scoped_release release;
  const Queries queries(rows);
  if (rules.kind == RankingKind::kListwise) {
    RankingValues(rows, queries, rules).fill_listwise(residual.data(), hessian.data(), n_threads);
  } else {
    PairSums(rows, queries, rules).fill(residual.data(), hessian.data(), n_threads);
  }
}

void ranking_marks(bool pairs, const Vector<double>& relevance, const Vector<double>& query, const Results& out) {
  const RankedRows rows = checked_rows(relevance, query, relevance);
  require(out.size() == rows.n, "out: wrong size");
  nb::gil_scoped_release release;
  mark_queries(rows, Queries(rows), pairs, out.data());
}

}  // namespace

void bind_ranking(nb::module_& m) {
  m.def("ranking_value", &ranking_value, "name"_a, "cut"_a, "exponential_gain"_a, "relevance"_a.noconvert(),
        "query"_a.noconvert(), "score"_a.noconvert(), "out"_a.noconvert(), "n_threads"_a,
        "The loss of each query at its first row, and zero at the others.");
  m.def("ranking_derivatives", &ranking_derivatives, "name"_a, "cut"_a, "truncation"_a, "exponential_gain"_a,
        "relevance"_a.noconvert(), "query"_a.noconvert(), "score"_a.noconvert(), "residual"_a.noconvert(),
        "hessian"_a.noconvert(), "n_threads"_a, "The negative gradient and the hessian of each row.");
  m.def("ranking_marks", &ranking_marks, "pairs"_a, "relevance"_a.noconvert(), "query"_a.noconvert(),
        "out"_a.noconvert(), "1 at the first row of each query that counts, and zero at the others.");
}

}  // namespace agbm
