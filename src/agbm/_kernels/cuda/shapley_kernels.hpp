// Kernels of contributions of features. A thread takes all walks of a row, with the operations of native/forest/shap.hpp
// in their order, so it has the same bits.
#pragma once

#include "cuda/block.hpp"
#include "cuda/predict_kernels.hpp"
#include "cuda/tile.hpp"
#include "formulas/portable.hpp"
#include "formulas/shapley.hpp"

namespace agbm {

// The passes of a forest, and the values of its leaves (node, value).
struct ShapleyForest {
  const ShapleyEdge* edges;
  const ShapleyWeights* weights;
  const ShapleyPass* passes;
  long long n_passes;
  CategorySets sets;
  const double* values;
  long long n_values;
};

// The memory of a thread. Neighbouring threads have neighbouring numbers.
template <class T>
struct OfThread {
  T* first;
  long long n_threads;

  AGBM_INLINE T& operator[](long long i) const { return first[i * n_threads]; }
};

// The walks of one row.
template <class T>
class ShapleyRow {
 public:
  AGBM_INLINE ShapleyRow(const ShapleyForest& forest, long long n_levels, double* numbers, Int64* flags)
      : forest_(forest),
        products_{numbers + first_item(), n_workers()},
        sums_{numbers + n_levels * kMaxPoints * n_workers() + first_item(), n_workers()},
        goes_left_{flags + first_item(), n_workers()},
        on_path_{flags + n_levels * n_workers() + first_item(), n_workers()} {}

  // Adds the contributions of a row to out[(column * (n_features + 1) + feature) * stride].
  AGBM_INLINE void add(const TableRow<T>& row, long long n_features, double* out, long long stride) const {
    for (long long p = 0; p < forest_.n_passes; ++p) {
      const ShapleyPass& pass = forest_.passes[p];
      take(pass, row, out + pass.first_column * (n_features + 1) * stride, n_features + 1, stride);
    }
  }

 private:
  AGBM_INLINE void take(const ShapleyPass& pass, const TableRow<T>& row, double* out, long long n_places,
                        long long stride) const {
    const ShapleyEdge* edges = forest_.edges + pass.first_edge;
    const ShapleyWeights* weights = forest_.weights + pass.first_weight;
    const int n_points = pass.n_points;
    on_path_[0] = -1;
    for (int q = 0; q < n_points; ++q) products_[q] = 1.0;
    for (long long e = 0; e < pass.n_edges; ++e) {
      const ShapleyEdge& edge = edges[e];
      if (edge.left) goes_left_[edge.level] = decide(edge, static_cast<double>(row[edge.feature])) ? -1 : 0;
      go_down(edge, weights + e * n_points, n_points);
      if (edge.leaf < 0) continue;
      long long done = e;
      for (bool last = false; !last; done = edges[done].parent) {
        go_up(edges[done], weights + done * n_points, n_points, out, n_places, stride);
        last = edges[done].left || edges[done].level == 1;  // after a left edge, its sibling is next
      }
    }
  }

  AGBM_INLINE bool decide(const ShapleyEdge& edge, double x) const {
    if (edge.categories >= 0) return forest_.sets.has(edge.categories, x, edge.missing_left);
    return x <= edge.threshold || (edge.missing_left && x != x);
  }

  AGBM_INLINE void go_down(const ShapleyEdge& edge, const ShapleyWeights* weights, int n_points) const {
    const Int64 on_above = on_path_[edge.above], turned = edge.left ? 0 : -1;
    const Int64 on = (goes_left_[edge.level] ^ turned) & on_above;
    on_path_[edge.level] = on;
    for (int q = 0; q < n_points; ++q) {
      const double factor = edge.above == 0 ? weights[q].template factor<true>(on, on_above, edge.share)
                                            : weights[q].template factor<false>(on, on_above, edge.share);
      products_[edge.level * kMaxPoints + q] = products_[(edge.level - 1) * kMaxPoints + q] * factor;
    }
  }

  AGBM_INLINE void go_up(const ShapleyEdge& edge, const ShapleyWeights* weights, int n_points, double* out,
                         long long n_places, long long stride) const {
    const Int64 on = on_path_[edge.level], on_above = on_path_[edge.above];
    for (long long k = 0; k < forest_.n_values; ++k) {
      const double times = edge.leaf >= 0 ? forest_.values[edge.leaf * forest_.n_values + k] : 1.0;
      double total = 0.0;
      for (int q = 0; q < n_points; ++q) {
        const double below = edge.leaf >= 0 ? products_[edge.level * kMaxPoints + q] : sums_[place(edge.level, k, q)];
        const double gain = edge.above == 0 ? weights[q].template gain<true>(on, on_above)
                                            : weights[q].template gain<false>(on, on_above);
        const double sum = times * below;
        total += sum * gain;
        double& above = sums_[place(edge.level - 1, k, q)];
        above = edge.left ? sum : above + sum;
      }
      out[(k * n_places + edge.feature) * stride] += total;
    }
  }

  AGBM_INLINE long long place(long long level, long long value, int point) const {
    return (level * forest_.n_values + value) * kMaxPoints + point;
  }

  const ShapleyForest& forest_;
  const OfThread<double> products_, sums_;     // (level, point) and (level, value, point)
  const OfThread<Int64> goes_left_, on_path_;  // (level), all bits set or none
};

}  // namespace agbm

// Contributions, out (column, feature + 1, row), which is zero before; the last ones of a column are `expected`. Memory
// of each thread: numbers (level, points, 1 + value) and flags (2, level).
#define AGBM_SHAPLEY(name, T)                                                                                       \
  extern "C" __global__ void name(const T* table, long long row_stride, long long column_stride, long long n_rows,  \
                                  long long n_features, const void* edges, const void* weights, const void* passes, \
                                  long long n_passes, const agbm::UInt64* category_words,                           \
                                  const long long* category_start, const double* values, long long n_values,        \
                                  const double* expected, long long n_columns, long long n_levels, double* numbers, \
                                  agbm::Int64* flags, double* out) {                                                \
    const agbm::ShapleyForest forest{static_cast<const agbm::ShapleyEdge*>(edges),                                  \
                                     static_cast<const agbm::ShapleyWeights*>(weights),                             \
                                     static_cast<const agbm::ShapleyPass*>(passes),                                 \
                                     n_passes,                                                                      \
                                     {category_words, category_start},                                              \
                                     values,                                                                        \
                                     n_values};                                                                     \
    const agbm::ShapleyRow<T> walks(forest, n_levels, numbers, flags);                                              \
    for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {                                    \
      walks.add({table + i * row_stride, column_stride}, n_features, out + i, n_rows);                              \
      for (long long c = 0; c < n_columns; ++c) out[((c + 1) * (n_features + 1) - 1) * n_rows + i] = expected[c];   \
    }                                                                                                               \
  }

AGBM_SHAPLEY(agbm_contributions_float32, float)
AGBM_SHAPLEY(agbm_contributions_float64, double)
