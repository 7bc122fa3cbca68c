// Kernels of arithmetic on functions (output, row). Strides are the distances between outputs, in numbers; rows are
// contiguous. Results are contiguous.
#pragma once

#include "cuda/block.hpp"
#include "formulas/portable.hpp"

// out = a x + b y. Both products and the sum are rounded separately.
extern "C" __global__ void agbm_mix(double a, const double* x, long long x_stride, double b, const double* y,
                                    long long y_stride, double* out, long long n_outputs, long long n_rows) {
  for (long long k = 0; k < n_outputs; ++k) {
    for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
      out[k * n_rows + i] = a * x[k * x_stride + i] + b * y[k * y_stride + i];
    }
  }
}

// out = x y.
extern "C" __global__ void agbm_multiply(const double* x, long long x_stride, const double* y, long long y_stride,
                                         double* out, long long n_outputs, long long n_rows) {
  for (long long k = 0; k < n_outputs; ++k) {
    for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
      out[k * n_rows + i] = x[k * x_stride + i] * y[k * y_stride + i];
    }
  }
}
