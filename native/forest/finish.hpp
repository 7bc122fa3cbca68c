// From the sums of trees to predictions: start scores and inverse links.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/parallel.hpp"
#include "forest/predict.hpp"
#include "formulas/elementary.hpp"
#include "formulas/portable.hpp"

namespace agbm {

// Inverse links of losses: of single scores, or of the scores of all classes.
enum class Link { kIdentity, kExp, kSigmoid, kSigmoidOfDouble, kSoftmax };

// The result for a single score.
AGBM_INLINE inline double inverse_link(Link link, double f) {
  switch (link) {
    case Link::kExp: return bounded_exp(f);
    case Link::kSigmoid: return sigmoid(f);
    case Link::kSigmoidOfDouble: return sigmoid(2.0 * f);
    default: return f;
  }
}

// The probabilities of the classes of a row, from its scores.
inline void softmax(double* scores, std::size_t n) {
  const double largest = *std::max_element(scores, scores + n);
  double sum = 0.0;
  for (std::size_t k = 0; k < n; ++k) sum += scores[k] = bounded_exp(scores[k] - largest);
  for (std::size_t k = 0; k < n; ++k) scores[k] /= sum;
}

// Predictions of a forest for rows, (row, column), as in Forest::add_predictions. `start`: one number per output. If a
// result has two columns and the forest has one output, these are the probabilities of two classes.
template <class T>
void predict_rows(const Forest& forest, const double* start, Link link, const T* x, std::size_t n_rows,
                  std::ptrdiff_t row_stride, std::ptrdiff_t feature_stride, std::size_t n_columns, double* out,
                  int n_threads) {
  const std::size_t n_outputs = forest.n_columns();
  const bool both = n_columns > n_outputs;
  double of_one_row = 0.0;
  std::vector<double> of_rows(both && n_rows > 1 ? n_rows : 0);
  double* const sums = !both ? out : n_rows > 1 ? of_rows.data() : &of_one_row;
  std::fill_n(sums, n_rows * n_outputs, 0.0);
  forest.add_predictions(x, n_rows, row_stride, feature_stride, sums, n_threads);
  parallel_rows(n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      double* const scores = sums + i * n_outputs;
      for (std::size_t k = 0; k < n_outputs; ++k) scores[k] += start[k];
      if (link == Link::kSoftmax) {
        softmax(scores, n_outputs);
      } else if (both) {
        const double second = inverse_link(link, *scores);
        out[2 * i] = 1.0 - second;
        out[2 * i + 1] = second;
      } else {
        for (std::size_t k = 0; k < n_outputs; ++k) scores[k] = inverse_link(link, scores[k]);
      }
    }
  });
}

}  // namespace agbm
