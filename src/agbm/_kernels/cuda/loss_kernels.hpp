// Kernels of the built-in losses: one quantity of every row, in the layout of vector_kernels.hpp.
#pragma once

#include "cuda/block.hpp"
#include "formulas/distribution_rows.hpp"
#include "formulas/loss_rows.hpp"
#include "formulas/portable.hpp"

// Losses with one score per row: labels, scores and results are (output, row).
extern "C" __global__ void agbm_loss_rows(long long kind, long long quantity, double parameter, const double* y,
                                          long long y_stride, const double* f, long long f_stride, double* out,
                                          long long n_outputs, long long n_rows) {
  using agbm::Quantity;
  const Quantity wanted = static_cast<Quantity>(quantity);
  agbm::with_loss(static_cast<agbm::LossKind>(kind), parameter, [&](const auto& loss) {
    for (long long k = 0; k < n_outputs; ++k) {
      for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
        const double label = y[k * y_stride + i], score = f[k * f_stride + i];
        out[k * n_rows + i] = wanted == Quantity::kValue              ? loss.value(label, score)
                              : wanted == Quantity::kNegativeGradient ? loss.negative_gradient(label, score)
                                                                      : loss.hessian(label, score);
      }
    }
  });
}

// Distributions: labels are (row), scores (score, row), values (row), derivatives (score, row).
extern "C" __global__ void agbm_distribution_rows(long long kind, long long quantity, double parameter, const double* y,
                                                  long long, const double* f, long long f_stride, double* out,
                                                  long long n_scores, long long n_rows) {
  using agbm::Quantity;
  const Quantity wanted = static_cast<Quantity>(quantity);
  agbm::with_distribution(static_cast<agbm::DistributionKind>(kind), parameter, [&](const auto& distribution) {
    constexpr int kScores = agbm::kScoresOf<decltype(distribution)>;
    if (n_scores != kScores) return;
    for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
      agbm::ScoresOf<kScores> scores;
      for (int k = 0; k < kScores; ++k) scores[k] = f[k * f_stride + i];
      if (wanted == Quantity::kValue) {
        out[i] = distribution.value(y[i], scores);
        continue;
      }
      const agbm::ScoresOf<kScores> found = wanted == Quantity::kNegativeGradient
                                                ? distribution.negative_gradient(y[i], scores)
                                                : distribution.hessian(y[i], scores);
      for (int k = 0; k < kScores; ++k) out[k * n_rows + i] = found[k];
    }
  });
}

// The multinomial loss: labels are codes (row), or shares (class, row) if `shares` is not 0; scores are (class, row),
// values (row), derivatives (class, row).
extern "C" __global__ void agbm_multinomial_rows(long long shares, long long quantity, double, const double* y,
                                                 long long y_stride, const double* f, long long f_stride, double* out,
                                                 long long n_classes, long long n_rows) {
  using agbm::MultinomialLoss;
  using agbm::Quantity;
  const Quantity wanted = static_cast<Quantity>(quantity);
  const MultinomialLoss loss = MultinomialLoss::of_classes(static_cast<double>(n_classes));
  for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
    double largest = f[i], sum = 0.0, distance = 0.0;
    for (long long k = 1; k < n_classes; ++k) largest = agbm::at_least(largest, f[k * f_stride + i]);
    for (long long k = 0; k < n_classes; ++k) {
      const double score = f[k * f_stride + i];
      sum += MultinomialLoss::exp_below(score, largest);
      if (shares != 0) {
        distance += y[k * y_stride + i] * (largest - score);
      } else if (y[i] == static_cast<double>(k)) {
        distance = largest - score;
      }
    }
    if (wanted == Quantity::kValue) {
      out[i] = MultinomialLoss::value(distance, sum);
      continue;
    }
    const double factor = (wanted == Quantity::kNegativeGradient ? -1.0 : 1.0) / sum;
    for (long long k = 0; k < n_classes; ++k) {
      const double e = MultinomialLoss::exp_below(f[k * f_stride + i], largest);
      const double share = shares != 0 ? y[k * y_stride + i] : y[i] == static_cast<double>(k) ? 1.0 : 0.0;
      out[k * n_rows + i] = wanted == Quantity::kNegativeGradient ? MultinomialLoss::negative_gradient(share, e, factor)
                                                                  : loss.hessian(share, e, factor);
    }
  }
}
