// Arithmetic of the boosting loop on functions, which are vectors over rows: linear combinations, products,
// exponentials, logarithms, and sums and inner products over rows.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include "base/exact_sum.hpp"
#include "base/parallel.hpp"
#include "base/simd.hpp"
#include "formulas/elementary.hpp"

namespace agbm {

// out = a x + b y, over n rows. Both products and the sum are rounded separately.
inline void mix(double a, const double* x, double b, const double* y, double* out, std::size_t n, int n_threads) {
  parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
    vectorised([&]() AGBM_INLINE {
      double* __restrict to = out;
      for (std::size_t i = begin; i < end; ++i) to[i] = a * x[i] + b * y[i];
    });
  });
}

// out = x y, row by row.
inline void multiply(const double* x, const double* y, double* out, std::size_t n, int n_threads) {
  parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
    vectorised([&]() AGBM_INLINE {
      double* __restrict to = out;
      for (std::size_t i = begin; i < end; ++i) to[i] = x[i] * y[i];
    });
  });
}

// out = exp(x), with x clipped to [-700, 700].
inline void exp_of(const double* x, double* out, std::size_t n, int n_threads) {
  parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
    vectorised([&]() AGBM_INLINE {
      double* __restrict to = out;
      for (std::size_t i = begin; i < end; ++i) to[i] = bounded_exp(x[i]);
    });
  });
}

// out = sigmoid(x).
inline void sigmoid_of(const double* x, double* out, std::size_t n, int n_threads) {
  parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
    vectorised([&]() AGBM_INLINE {
      double* __restrict to = out;
      for (std::size_t i = begin; i < end; ++i) to[i] = sigmoid(x[i]);
    });
  });
}

// log(x) for any x. Numbers that do not occur in training (zero, subnormal, infinite, negative) are left to std::log.
inline double any_log(double x) { return std::isnormal(x) && x > 0.0 ? positive_log(x) : std::log(x); }

// out = log(x).
inline void log_of(const double* x, double* out, std::size_t n, int n_threads) {
  parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = any_log(x[i]);
  });
}

// The weighted sum of x (weight null: 1).
inline ExactSum sum_vector(const double* x, const double* weight, std::size_t n, int n_threads) {
  return sum_exactly<1>(weight, n, n_threads, [=](std::size_t first, std::size_t width, auto& values) AGBM_INLINE {
    std::copy_n(x + first, width, values[0]);
  })[0];
}

// The weighted sums of x x, x y and y y (weight null: 1).
inline std::array<ExactSum, 3> inner_products(const double* x, const double* y, const double* weight, std::size_t n,
                                              int n_threads) {
  return sum_exactly<3>(weight, n, n_threads, [=](std::size_t first, std::size_t width, auto& values) AGBM_INLINE {
    double* __restrict xx = values[0];
    double* __restrict xy = values[1];
    double* __restrict yy = values[2];
    for (std::size_t i = 0; i < width; ++i) {
      const double u = x[first + i], v = y[first + i];
      xx[i] = u * u;
      xy[i] = u * v;
      yy[i] = v * v;
    }
  });
}

}  // namespace agbm
