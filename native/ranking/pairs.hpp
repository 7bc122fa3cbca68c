// Losses of pairs of documents. The work is divided by runs, so that a long query is shared between threads.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/parallel.hpp"
#include "base/simd.hpp"
#include "formulas/elementary.hpp"
#include "formulas/loss_rows.hpp"
#include "ranking/queries.hpp"

namespace agbm {

// The runs of a query in their order. The weight of a pair, the documents of which are in the runs i and j > i, is
// |gain_i - gain_j| |upper_i (at_i - below_j)|: the change of the metric if the two were exchanged.
class Runs {
 public:
  std::vector<double> score, gain, upper, at, below, count;
  std::vector<double> lambda, hessian;  // sums over the pairs of a document of each run
  std::size_t n = 0, n_top = 0;         // pairs need one of the first n_top runs: upper is zero after them

  void set(const SortedQuery& sorted, const QueryLabels& labels, std::size_t q) {
    const RankingRules& rules = labels.rules;
    n = sorted.n_runs();
    // Sums of pairs read up to a vector beyond the last run.
    for (auto* column : {&score, &gain, &upper, &at, &below, &count, &lambda, &hessian}) column->resize(n + kLanes);
    for (std::size_t r = 0; r < n; ++r) {
      score[r] = sorted.score(sorted.begin[r]);
      gain[r] = sorted.relevance(sorted.begin[r]);
      count[r] = static_cast<double>(sorted.begin[r + 1] - sorted.begin[r]);
      upper[r] = at[r] = below[r] = lambda[r] = hessian[r] = 0.0;
    }
    switch (rules.kind) {
      case RankingKind::kNdcg: weigh_by_ndcg(sorted, labels, labels.norm[q]); break;
      case RankingKind::kMap: weigh_by_precision(sorted); break;
      case RankingKind::kMrr: weigh_by_reciprocal(sorted); break;
      default: weigh_all(labels.norm[q]);
    }
    if (rules.kind != RankingKind::kPairwise) truncate(sorted, rules.truncation);
    n_top = n;
    while (n_top > 0 && upper[n_top - 1] == 0.0) --n_top;
  }

 private:
  void truncate(const SortedQuery& sorted, std::size_t truncation) {
    for (std::size_t r = 0; r < n; ++r) {
      const std::size_t begin = sorted.begin[r], end = sorted.begin[r + 1];
      if (end <= truncation) continue;
      const std::size_t within = std::max(begin, truncation) - begin;
      upper[r] *= static_cast<double>(within) / static_cast<double>(end - begin);
    }
  }

  void weigh_by_ndcg(const SortedQuery& sorted, const QueryLabels& labels, double ideal) {
    for (std::size_t r = 0; ideal > 0.0 && r < n; ++r) {
      double sum = 0.0;
      for (std::size_t i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i) sum += labels.discount[i];
      at[r] = below[r] = sum / count[r];
      gain[r] = labels.gain[sorted.row(sorted.begin[r])] / ideal;
      upper[r] = 1.0;
    }
  }

  // If the documents at the positions a < b are exchanged, the average precision changes by |at_a - below_b|.
  void weigh_by_precision(const SortedQuery& sorted) {
    double n_relevant = 0.0, sum = 0.0, seen = 0.0;
    for (std::size_t r = 0; r < n; ++r) n_relevant += gain[r] * count[r];
    for (std::size_t r = 0; n_relevant > 0.0 && r < n; ++r) {
      const bool relevant = gain[r] > 0.0;
      double sum_at = 0.0, sum_below = 0.0;
      for (std::size_t i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i) {
        const double position = static_cast<double>(i) + 1.0;
        if (relevant) {
          seen += 1.0;
          sum += 1.0 / position;
        }
        sum_at += (seen + (relevant ? 0.0 : 1.0)) / position - sum;
        sum_below += (seen + (relevant ? 1.0 : 0.0)) / position - sum;
      }
      at[r] = sum_at / count[r];
      below[r] = sum_below / count[r];
      upper[r] = 1.0 / n_relevant;
    }
  }

  // The reciprocal rank changes if an irrelevant document above the first relevant one is exchanged with a relevant one,
  // or the first relevant one with an irrelevant one below; the second relevant document may then become the first.
  void weigh_by_reciprocal(const SortedQuery& sorted) {
    std::size_t leading = 0;  // the run of the first relevant document
    while (leading < n && gain[leading] == 0.0) ++leading;
    if (leading == n) return;
    const double place = static_cast<double>(sorted.begin[leading]) + 1.0;
    double second = sorted.begin[leading + 1] - sorted.begin[leading] > 1 ? place + 1.0 : 0.0;
    for (std::size_t r = 0; r < n; ++r) {
      const bool relevant = gain[r] > 0.0;
      double sum = 0.0;
      for (std::size_t i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i) sum += 1.0 / (static_cast<double>(i) + 1.0);
      const double mean = sum / count[r];
      if (r > leading && relevant && second == 0.0) second = static_cast<double>(sorted.begin[r]) + 1.0;
      below[r] = relevant ? 1.0 / place : (second > 0.0 ? 1.0 / second : mean);
      if (r < leading) {
        at[r] = mean;
        upper[r] = 1.0;
      } else if (r == leading) {
        at[r] = 1.0 / place;
        upper[r] = 1.0 / count[r];
      }
    }
  }

  // All pairs of different relevance count the same.
  void weigh_all(double pairs) {
    for (std::size_t r = 0; r < n; ++r) {
      upper[r] = pairs > 0.0 ? 1.0 / pairs : 0.0;
      at[r] = 1.0;
    }
  }
};

// The sums over the pairs of each query.
class PairSums {
 public:
  PairSums(QueryLabels& labels, const double* score) : labels_(labels), queries_(labels.queries), score_(score) {}

  // For pairs that all count the same, writes the loss of each query to its first row, and zero to the others.
  void fill_losses(double* out, int n_threads) {
    std::fill(out, out + queries_.n_rows(), 0.0);
    const auto add = [&](Scratch& scratch, const Piece& piece) { add_losses(scratch.runs, piece); };
    for_each_query(n_threads, add, [&](std::size_t q, const Scratch& scratch) {
      double& sum = out[queries_.first(q)];
      if (!scratch.finite) sum = std::numeric_limits<double>::quiet_NaN();
      for (std::size_t r = 0; scratch.finite && r < scratch.runs.n; ++r) sum += scratch.runs.lambda[r];
    });
  }

  // Writes the negative gradient and the hessian of each row.
  void fill(double* residual, double* hessian, int n_threads) {
    const auto add = [&](Scratch& scratch, const Piece& piece) {
      labels_.rules.kind == RankingKind::kPairwise ? add_pairs<false>(scratch, piece) : add_pairs<true>(scratch, piece);
    };
    for_each_query(n_threads, add,
                   [&](std::size_t q, const Scratch& scratch) { write(q, scratch, residual, hessian); });
  }

 private:
  static constexpr std::size_t kRunsPerPiece = 64;
  // Lambdas are divided by the distance of scores, so that pairs whose order is not yet clear count more, as in LightGBM.
  static constexpr double kNear = 0.01;
  static constexpr std::size_t kLongQuery = 1024;  // in documents; longer queries are divided between threads
  static constexpr double kWide = 600.0;           // the exponentials of scores that differ by less do not vanish

  // Columns of a query in the order in which its pairs are visited.
  struct Columns {
    std::vector<std::size_t> run;
    std::vector<double> score, gain, upper, at, below, count, place, power, lambda, hessian, own_lambda, own_hessian;

    void resize(std::size_t n) {
      for (auto* column :
           {&score, &gain, &upper, &at, &below, &count, &place, &power, &lambda, &hessian, &own_lambda, &own_hessian}) {
        column->resize(n + kLanes);
        std::fill(column->begin() + n, column->end(), 0.0);
      }
    }
  };
  struct Scratch {
    SortedQuery sorted;
    Runs runs;
    Columns columns;
    bool finite;
  };
  struct Piece {
    std::size_t first, last;
  };

  bool is_long(std::size_t q) const { return queries_.size(q) > kLongQuery; }

  // Calls add(scratch, piece) for the runs of each query, in pieces if it is long, and then write(query, scratch).
  template <class Add, class Write>
  void for_each_query(int n_threads, const Add& add, const Write& write) {
    queries_.for_each<Scratch>(n_threads, [&](std::size_t q, Scratch& scratch) {
      if (is_long(q)) return;
      prepare(q, scratch);
      if (scratch.runs.n_top > 0) add(scratch, Piece{0, scratch.runs.n});
      write(q, scratch);
    });
    Scratch scratch;
    for (std::size_t q = 0; q < queries_.n(); ++q) {
      if (!is_long(q)) continue;
      prepare(q, scratch);
      const std::size_t n = scratch.runs.n_top > 0 ? scratch.runs.n : 0;
      parallel_for((n + kRunsPerPiece - 1) / kRunsPerPiece, n_threads, [&](std::size_t p) {
        add(scratch, Piece{p * kRunsPerPiece, std::min(n, (p + 1) * kRunsPerPiece)});
      });
      write(q, scratch);
    }
  }

  void prepare(std::size_t q, Scratch& scratch) const {
    scratch.finite = scratch.sorted.sort(labels_, q, score_);
    if (scratch.finite) {
      scratch.runs.set(scratch.sorted, labels_, q);
    } else {
      scratch.runs.n = scratch.runs.n_top = 0;
    }
  }

  template <bool lambdas>
  static void add_pairs(Scratch& scratch, const Piece& piece) {
    const Runs& runs = scratch.runs;
    const bool is_whole = piece.last - piece.first == runs.n;
    if (is_whole && runs.score[0] - runs.score[runs.n - 1] < kWide) {
      add_pairs_of_query<lambdas>(scratch.runs, scratch.columns);
    } else {
      add_pairs_of<lambdas>(scratch.runs, piece);
    }
  }

  // a if the sign of x is negative, otherwise b; bits, because compilers turn a comparison into a branch here.
  AGBM_INLINE static double where_negative(double x, double a, double b) {
    const std::uint64_t mask = 0 - (std::bit_cast<std::uint64_t>(x) >> 63);
    return std::bit_cast<double>((std::bit_cast<std::uint64_t>(a) & mask) | (std::bit_cast<std::uint64_t>(b) & ~mask));
  }

  // The pairs of run i with those from begin to end. Arrays are separate arguments, so that compilers see that they are.
  template <bool lambdas>
  AGBM_INLINE static void pull_others(std::size_t i, std::size_t begin, std::size_t end, const double* __restrict score,
                                      const double* __restrict gain, const double* __restrict upper,
                                      const double* __restrict at, const double* __restrict below,
                                      const double* __restrict count, const double* __restrict place,
                                      const double* __restrict power, double* __restrict lambda,
                                      double* __restrict hessian, double* __restrict own_lambda,
                                      double* __restrict own_hessian) {
    const double own_score = score[i], own_gain = gain[i], own_upper = upper[i], own_at = at[i], own_below = below[i],
                 own_count = count[i], own_place = place[i], own_power = power[i];
    const std::size_t whole = begin + (end - begin + kLanes - 1) / kLanes * kLanes;
    for (std::size_t j = begin; j < whole; ++j) {
      const double difference = own_gain - gain[j], step = own_score - score[j];
      const double above = own_upper * (own_at - below[j]), under = upper[j] * (at[j] - own_below);
      const double change = std::fabs(where_negative(own_place - place[j], above, under));
      const double weight = (lambdas ? difference : sign_of(difference)) * change;
      // rho = 1 / (1 + exp(score of the better one - score of the worse one)), and both quotients by one division.
      const double worse = where_negative(difference, own_power, power[j]);
      const double distance = lambdas ? kNear + std::fabs(step) : 1.0;
      const double share = worse / ((own_power + power[j]) * distance);
      const double pull = weight * share;
      const double curvature = std::fabs(pull) * (1.0 - share * distance);
      lambda[j] -= own_count * pull;
      hessian[j] += own_count * curvature;
      own_lambda[j] = count[j] * pull;
      own_hessian[j] = count[j] * curvature;
    }
    Doubles pulls = {}, curvatures = {};
    for (std::size_t j = begin; j < whole; j += kLanes) {
      pulls += load_some(own_lambda + j, kLanes);
      curvatures += load_some(own_hessian + j, kLanes);
    }
    lambda[i] += Sums::total(pulls);
    hessian[i] += Sums::total(curvatures);
  }

  // The pairs of a query whose scores are not far apart, each of which is visited once. Most documents have the least
  // gain, and those of the same gain make no pairs, so the others come first here, and only they are compared with those
  // that follow. Those that are not among the first runs make pairs only with documents of the least gain that are.
  template <bool lambdas>
  static void add_pairs_of_query(Runs& runs, Columns& to) {
    const std::size_t n = runs.n;
    const double least = *std::min_element(runs.gain.begin(), runs.gain.begin() + n);
    to.resize(n);
    to.run.clear();
    for (std::size_t r = 0; r < n; ++r) {
      if (runs.gain[r] != least) to.run.push_back(r);
    }
    const std::size_t n_others = to.run.size();
    std::size_t end_of_top = n_others;  // of the least gain and among the first runs
    for (std::size_t r = 0; r < n; ++r) {
      if (runs.gain[r] == least) to.run.push_back(r);
      if (runs.gain[r] == least && r < runs.n_top) ++end_of_top;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t r = to.run[i];
      to.score[i] = runs.score[r];
      to.gain[i] = runs.gain[r];
      to.upper[i] = runs.upper[r];
      to.at[i] = runs.at[r];
      to.below[i] = runs.below[r];
      to.count[i] = runs.count[r];
      to.place[i] = static_cast<double>(r);
      to.lambda[i] = to.hessian[i] = 0.0;
    }
    vectorised([&]() AGBM_INLINE {
      double* __restrict power = to.power.data();
      const double* __restrict score = to.score.data();
      const double largest = runs.score[0];
      for (std::size_t i = 0; i < n; ++i) power[i] = bounded_exp(score[i] - largest);
      for (std::size_t i = 0; i < n_others; ++i) {
        const bool is_top = to.run[i] < runs.n_top;
        pull_others<lambdas>(i, is_top ? i + 1 : n_others, is_top ? n : end_of_top, score, to.gain.data(),
                             to.upper.data(), to.at.data(), to.below.data(), to.count.data(), to.place.data(), power,
                             to.lambda.data(), to.hessian.data(), to.own_lambda.data(), to.own_hessian.data());
      }
    });
    for (std::size_t i = 0; i < n; ++i) {
      runs.lambda[to.run[i]] = to.lambda[i];
      runs.hessian[to.run[i]] = to.hessian[i];
    }
  }

  // Each run of a piece adds the pairs that it is in: those with one of the first runs.
  template <bool lambdas>
  static void add_pairs_of(Runs& runs, const Piece& piece) {
    vectorised([&]() AGBM_INLINE {
      const double* __restrict score = runs.score.data();
      const double* __restrict gain = runs.gain.data();
      const double* __restrict upper = runs.upper.data();
      const double* __restrict at = runs.at.data();
      const double* __restrict below = runs.below.data();
      const double* __restrict count = runs.count.data();
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
        sums.over(0, std::min(i, runs.n_top), [&](std::size_t j, double& pull, double& curvature) AGBM_INLINE {
          pull_of(j, upper[j] * (at[j] - own_below), pull, curvature);
        });
        if (own_upper > 0.0) {
          sums.over(i + 1, runs.n, [&](std::size_t j, double& pull, double& curvature) AGBM_INLINE {
            pull_of(j, own_upper * (own_at - below[j]), pull, curvature);
          });
        }
        runs.lambda[i] = sums.total(sums.first);
        runs.hessian[i] = sums.total(sums.second);
      }
    });
  }

  static void add_losses(Runs& runs, const Piece& piece) {
    vectorised([&]() AGBM_INLINE {
      const double* __restrict score = runs.score.data();
      const double* __restrict gain = runs.gain.data();
      const double* __restrict count = runs.count.data();
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
        runs.lambda[i] = sums.total(sums.first) * count[i] * runs.upper[i];
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

  void write(std::size_t q, const Scratch& scratch, double* residual, double* hessian) const {
    if (!scratch.finite) {
      for (std::size_t i = 0; i < queries_.size(q); ++i) {
        const std::uint32_t row = queries_.documents(q)[i];
        residual[row] = hessian[row] = std::numeric_limits<double>::quiet_NaN();
      }
      return;
    }
    const Runs& runs = scratch.runs;
    double factor = 1.0;
    if (labels_.rules.kind != RankingKind::kPairwise) {  // queries with many pairs count less than by their sums
      double sum = 0.0;
      for (std::size_t r = 0; r < runs.n; ++r) sum += std::fabs(runs.lambda[r]) * runs.count[r];
      if (sum > 0.0) factor = positive_log(1.0 + sum) / (positive_log(2.0) * sum);
    }
    const SortedQuery& sorted = scratch.sorted;
    for (std::size_t r = 0; r < runs.n; ++r) {
      const double pull = runs.lambda[r] * factor, curvature = for_steps(runs.hessian[r] * factor, pull);
      for (std::size_t i = sorted.begin[r]; i < sorted.begin[r + 1]; ++i) {
        residual[sorted.row(i)] = pull;
        hessian[sorted.row(i)] = curvature;
      }
    }
  }

  QueryLabels& labels_;
  const Queries& queries_;
  const double* score_;
};

}  // namespace agbm
