// Kernels of exact sums over the rows of functions (output, row); see exact_digits.hpp.
//
// A warp adds 256 numbers at a time, eight per lane, to the digits of its block in shared memory; blocks add theirs to
// those of the sum. A sum has kSlots integers: its digits, and the numbers of infinite, negative infinite and NaN terms.
#pragma once

#include "cuda/block.hpp"
#include "formulas/exact_digits.hpp"
#include "formulas/loss_rows.hpp"
#include "formulas/portable.hpp"

namespace agbm {

constexpr int kPositiveInfinite = ExactDigits::kDigits;
constexpr int kNegativeInfinite = kPositiveInfinite + 1;
constexpr int kNotANumber = kNegativeInfinite + 1;
constexpr int kSlots = kNotANumber + 1;

constexpr int kPerLane = 8;
static_assert(kPerLane <= ExactDigits::kMostAdditions);

AGBM_INLINE inline Int32 warp_largest(Int32 x) {
  for (int flipped = kWarp / 2; flipped > 0; flipped /= 2) x = larger(x, __shfl_xor_sync(kWholeWarp, x, flipped));
  return x;
}

AGBM_INLINE inline void add_to_slot(UInt64* slots, int slot, Int64 number) {
  if (number != 0) atomicAdd(slots + slot, static_cast<UInt64>(number));
}

// The number of quanta of all lanes, added by the first one.
AGBM_INLINE inline void add_quanta_of_warp(UInt64* slots, double sum, double start, int quantum) {
  const Int64 count = warp_sum(ExactDigits::quanta(sum, start));
  if (lane() != 0) return;
  ExactDigits::add_quanta(count, quantum, [=](int digit, Int64 number) { add_to_slot(slots, digit, number); });
}

// For numbers that are too large to be split, or not finite. This is slow, but such a run has diverged.
AGBM_LONG inline void add_one(UInt64* slots, double v) {
  if (is_finite(v)) {
    ExactDigits::add_number(v, [=](int digit, Int64 number) { add_to_slot(slots, digit, number); });
  } else {
    add_to_slot(slots, v > 0.0 ? kPositiveInfinite : v < 0.0 ? kNegativeInfinite : kNotANumber, 1);
  }
}

// Adds the numbers of all lanes of a warp, which are overwritten.
AGBM_INLINE inline void add_numbers_of_warp(UInt64* slots, double* values) {
  bool left = true;
  while (left) {
    Int32 upper = 0;
    AGBM_UNROLL
    for (int j = 0; j < kPerLane; ++j) {
      upper = larger(upper, static_cast<Int32>(bit_cast<UInt64>(values[j]) >> 32 & 0x7fffffff));
    }
    const int exponent = ExactDigits::exponent_above(warp_largest(upper));
    if (exponent > ExactDigits::kMaxExponent) {
      AGBM_UNROLL
      for (int j = 0; j < kPerLane; ++j) add_one(slots, values[j]);
      return;
    }
    const int high_quantum = larger(exponent, ExactDigits::kMinExponent) - ExactDigits::kHighBits;
    const int low_quantum = high_quantum - ExactDigits::kLowBits;
    const double high_start = ExactDigits::start(high_quantum), low_start = ExactDigits::start(low_quantum);
    double high = high_start, low = low_start;
    bool mine = false;
    AGBM_UNROLL
    for (int j = 0; j < kPerLane; ++j) {
      ExactDigits::cut_from(values[j], high);
      ExactDigits::cut_from(values[j], low);
      mine = mine || values[j] != 0.0;
    }
    add_quanta_of_warp(slots, high, high_start, high_quantum);
    add_quanta_of_warp(slots, low, low_start, low_quantum);
    left = __any_sync(kWholeWarp, mine);
  }
}

// Adds K weighted sums (weight null: 1) to those in `sums`, (sum, slot). fill(output, row, numbers) writes K numbers.
// Blocks must consist of whole warps.
template <int K, class Fill>
AGBM_INLINE inline void add_rows(const double* weight, long long n_outputs, long long n_rows, UInt64* sums,
                                 const Fill& fill) {
  __shared__ UInt64 slots[K * kSlots];
  for (int s = static_cast<int>(threadIdx.x); s < K * kSlots; s += static_cast<int>(blockDim.x)) slots[s] = 0;
  __syncthreads();
  constexpr int width = kPerLane * kWarp;
  const long long n_groups = (n_rows + width - 1) / width;
  for (long long o = 0; o < n_outputs; ++o) {
    for (long long group = first_item() / kWarp; group < n_groups; group += n_workers() / kWarp) {
      double values[K][kPerLane], rests[K][kPerLane];
      AGBM_UNROLL
      for (int j = 0; j < kPerLane; ++j) {
        const long long i = group * width + j * kWarp + lane();
        double numbers[K] = {};
        if (i < n_rows) fill(o, i, numbers);
        const double w = weight != nullptr && i < n_rows ? weight[i] : 1.0;
        AGBM_UNROLL
        for (int k = 0; k < K; ++k) {
          const ExactProduct product = exact_product(numbers[k], w);
          values[k][j] = weight == nullptr ? numbers[k] : product.rounded;
          rests[k][j] = product.rest;
        }
      }
      AGBM_UNROLL
      for (int k = 0; k < K; ++k) {
        add_numbers_of_warp(slots + k * kSlots, values[k]);
        if (weight != nullptr) add_numbers_of_warp(slots + k * kSlots, rests[k]);
      }
    }
  }
  __syncthreads();
  for (int s = static_cast<int>(threadIdx.x); s < K * kSlots; s += static_cast<int>(blockDim.x)) {
    add_to_slot(sums, s, static_cast<Int64>(slots[s]));
  }
}

AGBM_LONG inline double loss_value(LossKind kind, double parameter, double y, double f) {
  double found = 0.0;
  with_loss(kind, parameter, [&](const auto& loss) { found = loss.value(y, f); });
  return found;
}

}  // namespace agbm

// Adds the weighted sum of x.
extern "C" __global__ void agbm_exact_sum(const double* x, long long x_stride, const double* weight, agbm::UInt64* sums,
                                          long long n_outputs, long long n_rows) {
  agbm::add_rows<1>(weight, n_outputs, n_rows, sums,
                    [=](long long k, long long i, double* numbers) { numbers[0] = x[k * x_stride + i]; });
}

// Adds the weighted sums of x x, x y and y y.
extern "C" __global__ void agbm_inner_products(const double* x, long long x_stride, const double* y, long long y_stride,
                                               const double* weight, agbm::UInt64* sums, long long n_outputs,
                                               long long n_rows) {
  agbm::add_rows<3>(weight, n_outputs, n_rows, sums, [=](long long k, long long i, double* numbers) {
    const double u = x[k * x_stride + i], v = y[k * y_stride + i];
    numbers[0] = u * u;
    numbers[1] = u * v;
    numbers[2] = v * v;
  });
}

// Adds the weighted sum of the losses of all outputs, for losses with one score per row.
extern "C" __global__ void agbm_loss_sum(long long kind, double parameter, const double* y, long long y_stride,
                                         const double* f, long long f_stride, const double* weight, agbm::UInt64* sums,
                                         long long n_outputs, long long n_rows) {
  agbm::add_rows<1>(weight, n_outputs, n_rows, sums, [=](long long k, long long i, double* numbers) {
    numbers[0] =
        agbm::loss_value(static_cast<agbm::LossKind>(kind), parameter, y[k * y_stride + i], f[k * f_stride + i]);
  });
}
