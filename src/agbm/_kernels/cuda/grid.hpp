// Where a thread of a kernel is in the grid.
#pragma once

#include "formulas/portable.hpp"

namespace agbm {

// A loop over n items starts at first_item() and advances by n_workers(): any number of blocks covers all items.
AGBM_INLINE inline long long first_item() { return static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; }
AGBM_INLINE inline long long n_workers() { return static_cast<long long>(gridDim.x) * blockDim.x; }

}  // namespace agbm
