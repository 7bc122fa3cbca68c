// Losses and metrics of rankings: the documents of a query are scored together.
//
// The documents of a query are sorted by falling score and, among equal scores, by rising relevance: ties count as the
// worst order. Documents with equal score and relevance form a run; they are interchangeable, and each gets the mean over
// the positions of its run. So results do not depend on the order of rows, and sums run over runs in this order. The work
// on pairs is divided by runs, so that a long query is shared between threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "elementary.hpp"
#include "loss.hpp"
#include "parallel.hpp"
#include "queries.hpp"
#include "simd.hpp"
#include "sorted_query.hpp"

namespace agbm {

enum class RankingKind { kNdcg, kMap, kMrr, kPairwise, kListwise };

struct RankingRules {
  RankingKind kind;
  std::size_t cut;         // positions that the metric sees
  std::size_t truncation;  // the better placed document of a pair must have one of these positions
  bool exponential_gain;   // 2^relevance - 1 instead of the relevance
};

// What the pairs of a run depend on. The weight of a pair, the documents of which are in the runs i and j > i, is
// |gain_i - gain_j| |upper_i (at_i - below_j)|: the change of the metric if the two were exchanged.
struct Runs {
  std::vector<double> score, gain, upper, at, below, count;
  std::vector<double> lambda, hessian;

  // Sums of pairs read up to a vector beyond the last run.
  explicit Runs(std::size_t n)
      : score(n + kLanes),
        gain(n + kLanes),
        upper(n + kLanes),
        at(n + kLanes),
        below(n + kLanes),
        count(n + kLanes),
        lambda(n),
        hessian(n) {}
};

// The runs of all queries, and the sums over their pairs.
class PairSums {
 public:
  PairSums(const RankedRows& rows, const Queries& queries, const RankingRules& rules)
      : rows_(rows),
        queries_(queries),
        rules_(rules),
        runs_(rows.n),
        n_runs_(queries.n()),
        n_top_(queries.n()),
        finite_(queries.n()),
        order_(rows.n) {
    if (rules.kind == RankingKind::kNdcg) discount_ = discounts(queries.longest());
  }

  // For pairs that all count the same, writes the loss of each query to its first row, and zero to the others.
  void fill_losses(double* out, int n_threads) {
    std::fill(out, out + rows_.n, 0.0);
    queries_.for_each<Scratch>(n_threads, [&](std::size_t q, Scratch& scratch) { prepare(q, scratch); });
    const std::vector<Piece> pieces = pieces_of_queries();
    parallel_for(pieces.size(), n_threads, [&](std::size_t p) { add_losses(pieces[p]); });
    for (std::size_t q = 0; q < queries_.n(); ++q) {
      double& sum = out[queries_.documents(q)[0]];
      if (!finite_[q]) sum = std::numeric_limits<double>::quiet_NaN();
      for (std::size_t r = 0; n_top_[q] > 0 && r < n_runs_[q]; ++r) sum += runs_.lambda[queries_.begin[q] + r];
    }
  }

  // Writes the negative gradient and the hessian of each row.
  void fill(double* residual, double* hessian, int n_threads) {
    queries_.for_each<Scratch>(n_threads, [&](std::size_t q, Scratch& scratch) { prepare(q, scratch); });
    const std::vector<Piece> pieces = pieces_of_queries();
    parallel_for(pieces.size(), n_threads, [&](std::size_t p) { add_pairs(pieces[p]); });
    queries_.for_each<Scratch>(n_threads, [&](std::size_t q, Scratch&) { write(q, residual, hessian); });
  }

 private:
  static constexpr std::size_t kRunsPerPiece = 64;
  // Lambdas are divided by the distance of scores, so that pairs whose order is not yet clear count more, as in LightGBM.
  static constexpr double kNear = 0.01;
  static constexpr std::size_t kLongQuery = 1024;  // in runs; longer queries are divided between threads
  struct Scratch {
    SortedQuery sorted;
    std::vector<double> gains;
  };
  struct Piece {
    std::size_t query, first, last;
  };

  bool binary() const { return rules_.kind == RankingKind::kMap || rules_.kind == RankingKind::kMrr; }

  void prepare(std::size_t q, Scratch& scratch) {
    const std::size_t first = queries_.begin[q], n = queries_.size(q);
    SortedQuery& sorted = scratch.sorted;
    n_top_[q] = n_runs_[q] = 0;
    finite_[q] = sorted.sort(rows_, queries_.documents(q), n, binary());
    if (!finite_[q]) return;
    std::copy(sorted.order.begin(), sorted.order.end(), order_.begin() + first);
    const std::size_t n_runs = n_runs_[q] = sorted.n_runs();
    for (std::size_t r = 0; r < n_runs; ++r) {
      runs_.score[first + r] = sorted.score(sorted.begin[r]);
      runs_.gain[first + r] = sorted.relevance(sorted.begin[r]);
      runs_.count[first + r] = static_cast<double>(sorted.begin[r + 1] - sorted.begin[r]);
      runs_.upper[first + r] = runs_.at[first + r] = runs_.below[first + r] = 0.0;
    }
    switch (rules_.kind) {
      case RankingKind::kNdcg: weigh_by_ndcg(first, sorted, scratch.gains); break;
      case RankingKind::kMap: weigh_by_precision(first, sorted); break;
      case RankingKind::kMrr: weigh_by_reciprocal(first, sorted); break;
      default: weigh_all(first, sorted);
    }
    for (std::size_t r = 0; r < n_runs; ++r) {
      if (rules_.kind != RankingKind::kPairwise) {
        const std::size_t begin = sorted.begin[r], end = sorted.begin[r + 1];
        const std::size_t within = std::min(end, std::max(begin, rules_.truncation)) - begin;
        runs_.upper[first + r] *= static_cast<double>(within) / static_cast<double>(end - begin);
      }
      if (runs_.upper[first + r] > 0.0) n_top_[q] = r + 1;
    }
  }

  void weigh_by_ndcg(std::size_t first, const SortedQuery& sorted, std::vector<double>& gains) {
    const std::size_t n = sorted.order.size();
    double largest = 0.0;
    for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, sorted.relevance(i));
    const Gains gain(largest, rules_.exponential_gain);
    gains.clear();
    for (std::size_t i = 0; i < n; ++i) {
      if (sorted.relevance(i) > 0.0) gains.push_back(gain(sorted.relevance(i)));
    }
    const double ideal = ideal_dcg(gains, rules_.cut, discount_);
    for (std::size_t r = 0; ideal > 0.0 && r < sorted.n_runs(); ++r) {
      double sum = 0.0;
      for (std::size_t i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i) sum += discount_[i];
      runs_.at[first + r] = runs_.below[first + r] = sum / runs_.count[first + r];
      runs_.gain[first + r] = gain(runs_.gain[first + r]) / ideal;
      runs_.upper[first + r] = 1.0;
    }
  }

  // If the documents at the positions a < b are exchanged, the average precision changes by |at_a - below_b|.
  void weigh_by_precision(std::size_t first, const SortedQuery& sorted) {
    double n_relevant = 0.0, sum = 0.0, seen = 0.0;
    for (std::size_t r = 0; r < sorted.n_runs(); ++r) n_relevant += runs_.gain[first + r] * runs_.count[first + r];
    for (std::size_t r = 0; n_relevant > 0.0 && r < sorted.n_runs(); ++r) {
      const bool relevant = runs_.gain[first + r] > 0.0;
      double at = 0.0, below = 0.0;
      for (std::size_t i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i) {
        const double position = static_cast<double>(i) + 1.0;
        if (relevant) {
          seen += 1.0;
          sum += 1.0 / position;
        }
        at += (seen + (relevant ? 0.0 : 1.0)) / position - sum;
        below += (seen + (relevant ? 1.0 : 0.0)) / position - sum;
      }
      runs_.at[first + r] = at / runs_.count[first + r];
      runs_.below[first + r] = below / runs_.count[first + r];
      runs_.upper[first + r] = 1.0 / n_relevant;
    }
  }

  // The reciprocal rank changes if an irrelevant document above the first relevant one is exchanged with a relevant one,
  // or the first relevant one with an irrelevant one below; the second relevant document may then become the first.
  void weigh_by_reciprocal(std::size_t first, const SortedQuery& sorted) {
    std::size_t leading = 0;  // the run of the first relevant document
    while (leading < sorted.n_runs() && runs_.gain[first + leading] == 0.0) ++leading;
    if (leading == sorted.n_runs()) return;
    const double place = static_cast<double>(sorted.begin[leading]) + 1.0;
    double second = sorted.begin[leading + 1] - sorted.begin[leading] > 1 ? place + 1.0 : 0.0;
    for (std::size_t r = 0; r < sorted.n_runs(); ++r) {
      const bool relevant = runs_.gain[first + r] > 0.0;
      double sum = 0.0;
      for (std::size_t i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i) sum += 1.0 / (static_cast<double>(i) + 1.0);
      const double mean = sum / runs_.count[first + r];
      if (r > leading && relevant && second == 0.0) second = static_cast<double>(sorted.begin[r]) + 1.0;
      runs_.below[first + r] = relevant ? 1.0 / place : (second > 0.0 ? 1.0 / second : mean);
      if (r < leading) {
        runs_.at[first + r] = mean;
        runs_.upper[first + r] = 1.0;
      } else if (r == leading) {
        runs_.at[first + r] = 1.0 / place;
        runs_.upper[first + r] = 1.0 / runs_.count[first + r];
      }
    }
  }

  // All pairs of different relevance count the same.
  void weigh_all(std::size_t first, const SortedQuery& sorted) {
    const double pairs = pairs_of_different_relevance(sorted);
    for (std::size_t r = 0; r < sorted.n_runs(); ++r) {
      runs_.upper[first + r] = pairs > 0.0 ? 1.0 / pairs : 0.0;
      runs_.at[first + r] = 1.0;
    }
  }

 public:
  static double pairs_of_different_relevance(const SortedQuery& sorted) {
    std::vector<double> relevance(sorted.order.size());
    for (std::size_t i = 0; i < relevance.size(); ++i) relevance[i] = sorted.relevance(i);
    std::sort(relevance.begin(), relevance.end());
    double pairs = 0.0;
    std::size_t first = 0;
    for (std::size_t i = 0; i < relevance.size(); ++i) {
      if (relevance[i] != relevance[first]) first = i;
      pairs += static_cast<double>(first);
    }
    return pairs;
  }

 private:
  std::vector<Piece> pieces_of_queries() const {
    std::vector<Piece> pieces;
    for (std::size_t q = 0; q < queries_.n(); ++q) {
      const std::size_t step = n_runs_[q] > kLongQuery ? kRunsPerPiece : kLongQuery;
      for (std::size_t r = 0; n_top_[q] > 0 && r < n_runs_[q]; r += step) {
        pieces.push_back({q, r, std::min(n_runs_[q], r + step)});
      }
    }
    return pieces;
  }

  void add_pairs(const Piece& piece) {
    const bool is_long = n_runs_[piece.query] > kLongQuery;
    if (rules_.kind == RankingKind::kPairwise) {
      return is_long ? add_pairs_of<false>(piece) : add_pairs_of_query<false>(piece.query);
    }
    is_long ? add_pairs_of<true>(piece) : add_pairs_of_query<true>(piece.query);
  }

  // The pairs of run i with all that follow it. Arrays are separate arguments, so that compilers see that they are.
  template <bool lambdas>
  AGBM_INLINE static void pull_others(std::size_t i, std::size_t n, const double* __restrict score,
                                      const double* __restrict gain, const double* __restrict upper,
                                      const double* __restrict at, const double* __restrict below,
                                      const double* __restrict count, const double* __restrict place,
                                      double* __restrict lambda, double* __restrict hessian,
                                      double* __restrict own_lambda, double* __restrict own_hessian) {
    const double own_score = score[i], own_gain = gain[i], own_upper = upper[i], own_at = at[i], own_below = below[i],
                 own_count = count[i], own_place = place[i];
    const std::size_t begin = i + 1, end = begin + (n - begin + kLanes - 1) / kLanes * kLanes;
    for (std::size_t j = begin; j < end; ++j) {
      const double difference = own_gain - gain[j], step = own_score - score[j];
      const double rho = 1.0 / (1.0 + bounded_exp(std::copysign(1.0, difference) * step));
      const std::uint64_t earlier = std::bit_cast<std::uint64_t>(own_place - place[j]) >> 63;
      const double is_above = std::bit_cast<double>((0 - earlier) & kOneBits);  // 1 or 0, without a branch
      const double above = own_upper * (own_at - below[j]), under = upper[j] * (at[j] - own_below);
      const double change = std::fabs(is_above * above + (1.0 - is_above) * under);
      const double weight = (lambdas ? difference : sign_of(difference)) * change;
      const double pull = lambdas ? weight * rho / (kNear + std::fabs(step)) : weight * rho;
      const double curvature = std::fabs(pull) * (1.0 - rho);
      lambda[j] -= own_count * pull;
      hessian[j] += own_count * curvature;
      own_lambda[j] = count[j] * pull;
      own_hessian[j] = count[j] * curvature;
    }
    Doubles pulls = {}, curvatures = {};
    for (std::size_t j = begin; j < end; j += kLanes) {
      pulls += load_some(own_lambda + j, kLanes);
      curvatures += load_some(own_hessian + j, kLanes);
    }
    lambda[i] += Sums::total(pulls);
    hessian[i] += Sums::total(curvatures);
  }

  // The pairs of a short query, each of which is visited once. Most documents have the least gain, and those of the same
  // gain make no pairs, so the others come first here, and only they are compared with all that follow.
  template <bool lambdas>
  void add_pairs_of_query(std::size_t q) {
    const std::size_t first = queries_.begin[q], n = n_runs_[q], width = n + kLanes;
    const double least = *std::min_element(&runs_.gain[first], &runs_.gain[first] + n);
    std::vector<std::size_t> runs;
    for (const bool of_least : {false, true}) {
      for (std::size_t r = 0; r < n; ++r) {
        if ((runs_.gain[first + r] == least) == of_least) runs.push_back(r);
      }
    }
    std::vector<double> numbers(11 * width);  // zero beyond the end
    double* columns[11];
    for (std::size_t c = 0; c < 11; ++c) columns[c] = numbers.data() + c * width;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t r = first + runs[i];
      const double of_run[] = {runs_.score[r],
                               runs_.gain[r],
                               runs_.upper[r],
                               runs_.at[r],
                               runs_.below[r],
                               runs_.count[r],
                               static_cast<double>(runs[i])};
      for (std::size_t c = 0; c < 7; ++c) columns[c][i] = of_run[c];
    }
    vectorised([&]() AGBM_INLINE {
      for (std::size_t i = 0; i < n && columns[1][i] > least; ++i) {
        pull_others<lambdas>(i, n, columns[0], columns[1], columns[2], columns[3], columns[4], columns[5], columns[6],
                             columns[7], columns[8], columns[9], columns[10]);
      }
    });
    for (std::size_t i = 0; i < n; ++i) {
      runs_.lambda[first + runs[i]] = columns[7][i];
      runs_.hessian[first + runs[i]] = columns[8][i];
    }
  }

  // Each run of a piece of a long query adds the pairs that it is in: those with one of the first positions.
  template <bool lambdas>
  void add_pairs_of(const Piece& piece) {
    const std::size_t first = queries_.begin[piece.query], n = n_runs_[piece.query], n_top = n_top_[piece.query];
    vectorised([&]() AGBM_INLINE {
      const double* __restrict score = &runs_.score[first];
      const double* __restrict gain = &runs_.gain[first];
      const double* __restrict upper = &runs_.upper[first];
      const double* __restrict at = &runs_.at[first];
      const double* __restrict below = &runs_.below[first];
      const double* __restrict count = &runs_.count[first];
      for (std::size_t i = piece.first; i < piece.last; ++i) {
        Sums sums;
        const double own_score = score[i], own_gain = gain[i], own_upper = upper[i], own_at = at[i],
                     own_below = below[i];
        // The pull between run i and run j, of whose exchange the metric changes by `change`.
        const auto pull_of = [&](std::size_t j, double change, double& pull, double& curvature) AGBM_INLINE {
          const double difference = own_gain - gain[j], step = own_score - score[j];
          const double rho = 1.0 / (1.0 + bounded_exp(std::copysign(1.0, difference) * step));
          const double weight = count[j] * (lambdas ? difference : sign_of(difference)) * std::fabs(change);
          pull = lambdas ? weight * rho / (kNear + std::fabs(step)) : weight * rho;
          curvature = std::fabs(pull) * (1.0 - rho);
        };
        sums.over(0, std::min(i, n_top), [&](std::size_t j, double& pull, double& curvature) AGBM_INLINE {
          pull_of(j, upper[j] * (at[j] - own_below), pull, curvature);
        });
        if (own_upper > 0.0) {
          sums.over(i + 1, n, [&](std::size_t j, double& pull, double& curvature) AGBM_INLINE {
            pull_of(j, own_upper * (own_at - below[j]), pull, curvature);
          });
        }
        runs_.lambda[first + i] = sums.total(sums.first);
        runs_.hessian[first + i] = sums.total(sums.second);
      }
    });
  }

  void add_losses(const Piece& piece) {
    const std::size_t first = queries_.begin[piece.query];
    vectorised([&]() AGBM_INLINE {
      const double* __restrict score = &runs_.score[first];
      const double* __restrict gain = &runs_.gain[first];
      const double* __restrict count = &runs_.count[first];
      for (std::size_t i = piece.first; i < piece.last; ++i) {
        Sums sums;
        const double own_score = score[i], own_gain = gain[i];
        sums.over(0, i, [&](std::size_t j, double& loss, double& unused) AGBM_INLINE {
          const double difference = gain[j] - own_gain;
          const double margin = std::copysign(1.0, difference) * (score[j] - own_score);
          const double of_pair = at_least(-margin, 0.0) + log_1_plus(bounded_exp(-std::fabs(margin)));
          loss = count[j] * std::fabs(sign_of(difference)) * of_pair;
          unused = 0.0;
        });
        runs_.lambda[first + i] = sums.total(sums.first) * count[i] * runs_.upper[first + i];
      }
    });
  }

  // Two sums over runs. The terms are computed in blocks, so that this can be vectorised, and added in a fixed number of
  // lanes, so that their bits do not depend on the width of vectors.
  struct Sums {
    static constexpr std::size_t kBlock = 128;
    Doubles first = {}, second = {};

    template <class Terms>
    AGBM_INLINE void over(std::size_t begin, std::size_t end, const Terms& terms) {
      alignas(64) double a[kBlock], b[kBlock];
      for (; begin < end; begin += kBlock) {
        const std::size_t n = std::min(kBlock, end - begin);
        // Whole vectors, for which arrays are longer than they need to be.
        const std::size_t padded = (n + kLanes - 1) / kLanes * kLanes;
        for (std::size_t k = 0; k < padded; ++k) {
          double x, y;
          terms(begin + k, x, y);
          a[k] = k >= n ? 0.0 : x;
          b[k] = k >= n ? 0.0 : y;
        }
        for (std::size_t k = 0; k < padded; k += kLanes) {
          first += load_some(a + k, kLanes);
          second += load_some(b + k, kLanes);
        }
      }
    }
    AGBM_INLINE static double total(const Doubles& v) {
      return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
    }
  };

  void write(std::size_t q, double* residual, double* hessian) {
    const std::size_t first = queries_.begin[q], n = queries_.size(q);
    if (!finite_[q]) {
      for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t row = queries_.documents(q)[i];
        residual[row] = hessian[row] = std::numeric_limits<double>::quiet_NaN();
      }
      return;
    }
    double factor = 1.0;
    if (rules_.kind != RankingKind::kPairwise &&
        n_top_[q] > 0) {  // queries with many pairs count less than by their sums
      double sum = 0.0;
      for (std::size_t r = 0; r < n_runs_[q]; ++r) sum += std::fabs(runs_.lambda[first + r]) * runs_.count[first + r];
      if (sum > 0.0) factor = positive_log(1.0 + sum) / (positive_log(2.0) * sum);
    }
    std::size_t i = 0;
    for (std::size_t r = 0; r < n_runs_[q]; ++r) {
      const bool pairs = n_top_[q] > 0;
      const double pull = pairs ? runs_.lambda[first + r] * factor : 0.0;
      const double curvature = for_steps(pairs ? runs_.hessian[first + r] * factor : 0.0, pull);
      const std::size_t end = i + static_cast<std::size_t>(runs_.count[first + r]);
      for (; i < end; ++i) {
        residual[order_[first + i]] = pull;
        hessian[order_[first + i]] = curvature;
      }
    }
  }

  const RankedRows& rows_;
  const Queries& queries_;
  const RankingRules rules_;
  Runs runs_;
  std::vector<std::size_t> n_runs_, n_top_;
  std::vector<char> finite_;
  std::vector<std::uint32_t> order_;
  std::vector<double> discount_;
};

}  // namespace agbm
