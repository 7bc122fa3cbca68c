// What the loop does with functions, which are vectors over rows: weighted sums of two of them, products, inner products.
#pragma once

#include <cstddef>
#include <vector>

#include "layout.hpp"
#include "parallel.hpp"
#include "simd.hpp"

namespace agbm {

// out = a x + b y, over n rows. Both products and the sum are rounded, as if each were computed alone.
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

// Sums of x x, x y and y y, each product times the weight of its row (null: 1). The order of the additions is fixed by the
// number of rows: eight sums side by side in each piece, then piece after piece.
struct InnerProducts {
  double xx = 0.0, xy = 0.0, yy = 0.0;
};

inline InnerProducts inner_products(const double* x, const double* y, const double* weight, std::size_t n, int n_threads) {
  std::vector<InnerProducts> partial(tasks_for_rows(n));
  parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
    vectorised([&]() AGBM_INLINE {
      Doubles xx = {}, xy = {}, yy = {};
      for (std::size_t i = begin; i < end; i += kLanes) {
        const std::size_t left = end - i;
        const Doubles u = load_some(x + i, left), v = load_some(y + i, left);
        const Doubles w = weight == nullptr ? u : load_some(weight + i, left);
        xx += weight == nullptr ? u * u : u * u * w;
        xy += weight == nullptr ? u * v : u * v * w;
        yy += weight == nullptr ? v * v : v * v * w;
      }
      InnerProducts& sums = partial[begin / kRowsPerTask];
      for (int lane = 0; lane < kLanes; ++lane) {
        sums.xx += xx[lane];
        sums.xy += xy[lane];
        sums.yy += yy[lane];
      }
    });
  });
  InnerProducts total;
  for (const InnerProducts& sums : partial) {
    total.xx += sums.xx;
    total.xy += sums.xy;
    total.yy += sums.yy;
  }
  return total;
}

}  // namespace agbm
