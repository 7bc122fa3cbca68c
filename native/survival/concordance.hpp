// Harrell's concordance: of all pairs of rows of which one certainly has its event first, how many have the higher risk
// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace agbm {

// Sums over the first k entries of a vector that changes (Fenwick, 1994).
class PrefixSums {
 public:
  explicit PrefixSums(std::size_t n) : sums_(n + 1, 0.0) {}

  void add(std::size_t k, double x) {
    for (std::size_t i = k + 1; i < sums_.size(); i += i & (~i + 1)) sums_[i] += x;
  }
  double before(std::size_t k) const {
    double total = 0.0;
    for (std::size_t i = k; i > 0; i -= i & (~i + 1)) total += sums_[i];
    return total;
  }

 private:
  std::vector<double> sums_;
};

struct TimedRisks {
  const double *lower, *upper;
  const std::uint32_t* rank;  // of the risk of each row, from 0
  const double* weight;       // null: 1
  std::size_t n_rows, n_ranks;
};

// The weights of the concordant pairs, of which ties of risk are half, and of all comparable pairs. A pair is comparable
// if the upper bound of one time is below the lower bound of the other, or equal to it unless both are events.
// `starts` are the rows by lower bound, and `ends` those with an upper bound by it; the latest first, and of equal lower
// bounds those that are not events first.
inline std::pair<double, double> concordance(const TimedRisks& rows, const std::uint32_t* starts,
                                             const std::uint32_t* ends, std::size_t n_ends) {
  PrefixSums later(rows.n_ranks);
  const auto weight = [&](std::size_t i) { return rows.weight == nullptr ? 1.0 : rows.weight[i]; };
  double concordant = 0.0, comparable = 0.0;
  std::size_t next = 0;
  for (std::size_t k = 0; k < n_ends; ++k) {
    const std::size_t i = ends[k];
    const double end = rows.upper[i];
    for (; next < rows.n_rows; ++next) {
      const std::size_t j = starts[next];
      if (rows.lower[j] < end || (rows.lower[j] == end && rows.upper[j] == end)) break;
      later.add(rows.rank[j], weight(j));
    }
    const double below = later.before(rows.rank[i]), tied = later.before(rows.rank[i] + 1) - below;
    concordant += weight(i) * (below + 0.5 * tied);
    comparable += weight(i) * later.before(rows.n_ranks);
  }
  return {concordant, comparable};
}

}  // namespace agbm
