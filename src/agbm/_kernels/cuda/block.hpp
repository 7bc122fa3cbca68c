// Where a thread of a kernel is in the grid, and sums and prefixes over the threads of a block.
#pragma once

#include "formulas/portable.hpp"

namespace agbm {

// A loop over n items starts at first_item() and advances by n_workers(): any number of blocks covers all items.
AGBM_INLINE inline long long first_item() { return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; }
AGBM_INLINE inline long long n_workers() { return static_cast<long long>(gridDim.x) * blockDim.x; }

// All threads of the block must call the following functions.

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

AGBM_INLINE inline int lane() { return threadIdx.x % kWarp; }
AGBM_INLINE inline int warp() { return threadIdx.x / kWarp; }
AGBM_INLINE inline int n_warps() { return blockDim.x / kWarp; }

AGBM_INLINE inline long long warp_sum(long long x) {
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_down_sync(kWholeWarp, x, step);
  return x;  // in lane 0
}

// The sum over the block, in thread 0.
AGBM_INLINE inline long long block_sum(long long x) {
  __shared__ long long of_warps[kWarp];
  x = warp_sum(x);
  if (lane() == 0) of_warps[warp()] = x;
  __syncthreads();
  if (warp() == 0) x = warp_sum(lane() < n_warps() ? of_warps[lane()] : 0);
  __syncthreads();
  return x;
}

AGBM_INLINE inline long long warp_prefix(long long x) {
  for (int step = 1; step < kWarp; step *= 2) {
    const long long before = __shfl_up_sync(kWholeWarp, x, step);
    if (lane() >= step) x += before;
  }
  return x;
}

// The sum over this thread and those before it.
AGBM_INLINE inline long long block_prefix(long long x) {
  __shared__ long long of_warps[kWarp];
  x = warp_prefix(x);
  if (lane() == kWarp - 1) of_warps[warp()] = x;
  __syncthreads();
  if (warp() == 0) {
    const long long sum = warp_prefix(lane() < n_warps() ? of_warps[lane()] : 0);
    of_warps[lane()] = sum;
  }
  __syncthreads();
  if (warp() > 0) x += of_warps[warp() - 1];
  __syncthreads();
  return x;
}

// Adds to a number that other threads add to as well; returns what it was before.
AGBM_INLINE inline Int64 add_and_get(Int64* to, Int64 x) {
  return static_cast<Int64>(atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(x)));
}
AGBM_INLINE inline void add(Int64* to, Int64 x) { add_and_get(to, x); }

}  // namespace agbm
