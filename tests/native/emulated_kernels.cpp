// The kernels for GPUs, compiled for the CPU, and kernels that test the emulation itself.
#include "cuda_emulation.hpp"
// After the emulation, which defines what kernels need.
#include "cuda/agbm.cu"

AGBM_EMULATE(agbm_best_splits)
AGBM_EMULATE(agbm_contributions_float32)
AGBM_EMULATE(agbm_contributions_float64)
AGBM_EMULATE(agbm_distribution_rows)
AGBM_EMULATE(agbm_encode_float32)
AGBM_EMULATE(agbm_encode_float64)
AGBM_EMULATE(agbm_exact_sum)
AGBM_EMULATE(agbm_first_rows)
AGBM_EMULATE(agbm_histograms)
AGBM_EMULATE(agbm_inner_products)
AGBM_EMULATE(agbm_largest)
AGBM_EMULATE(agbm_leaf_sums)
AGBM_EMULATE(agbm_leaves_float32)
AGBM_EMULATE(agbm_leaves_float64)
AGBM_EMULATE(agbm_leaves_narrow)
AGBM_EMULATE(agbm_loss_rows)
AGBM_EMULATE(agbm_loss_sum)
AGBM_EMULATE(agbm_mix)
AGBM_EMULATE(agbm_most_probable)
AGBM_EMULATE(agbm_predicted_values)
AGBM_EMULATE(agbm_scores)
AGBM_EMULATE(agbm_softmax)
AGBM_EMULATE(agbm_two_probabilities)
AGBM_EMULATE(agbm_multinomial_rows)
AGBM_EMULATE(agbm_multiply)
AGBM_EMULATE(agbm_pack)
AGBM_EMULATE(agbm_partition)
AGBM_EMULATE(agbm_predict_float32)
AGBM_EMULATE(agbm_predict_float64)
AGBM_EMULATE(agbm_predict_narrow)
AGBM_EMULATE(agbm_scan_1)
AGBM_EMULATE(agbm_scan_1_hessian)
AGBM_EMULATE(agbm_scan_2)
AGBM_EMULATE(agbm_scan_2_hessian)
AGBM_EMULATE(agbm_scan_any)
AGBM_EMULATE(agbm_scan_any_hessian)
AGBM_EMULATE(agbm_settle)
AGBM_EMULATE(agbm_sum_of_powers)
AGBM_EMULATE(agbm_tally)
AGBM_EMULATE(agbm_totals)
AGBM_EMULATE(agbm_tree_values)

// The sums of all numbers up to each one, for each block of numbers: a scan within warps and one over the warps.
__global__ void test_block_scan(const long long* x, long long* out, long long n) {
  __shared__ long long of_warps[32];
  const long long i = agbm::first_item();
  const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
  long long sum = i < n ? x[i] : 0;
  for (int distance = 1; distance < 32; distance *= 2) {
    const long long below = __shfl_up_sync(0xffffffff, sum, distance);
    if (lane >= distance) sum += below;
  }
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  for (int before = 0; before < warp; ++before) sum += of_warps[before];
  if (i < n) out[i] = sum;
}
AGBM_EMULATE(test_block_scan)

// Every way for threads to learn of each other's numbers; each warp writes one row of eight results.
__global__ void test_warps(const double* x, long long* out) {
  const unsigned all = 0xffffffff;
  const double mine = x[threadIdx.x];
  double largest = mine;
  for (int flipped = 16; flipped > 0; flipped /= 2) {
    const double other = __shfl_xor_sync(all, largest, flipped);
    largest = other > largest ? other : largest;
  }
  const unsigned positive = __ballot_sync(all, mine > 0.0);
  const int any = __any_sync(all, mine == 7.0), every = __all_sync(all, mine > -100.0);
  const double fourth = __shfl_sync(all, mine, 3), next = __shfl_down_sync(all, mine, 1);
  const int n_positive = __syncthreads_count(mine > 0.0), seven = __syncthreads_or(mine == 7.0);
  if (threadIdx.x % 32 != 31) return;
  long long* row = out + threadIdx.x / 32 * 8;
  row[0] = static_cast<long long>(largest);
  row[1] = __popc(positive);
  row[2] = any;
  row[3] = every;
  row[4] = static_cast<long long>(fourth);
  row[5] = static_cast<long long>(next);
  row[6] = n_positive;
  row[7] = seven;
}
AGBM_EMULATE(test_warps)

// A histogram in dynamic shared memory, added to that of all blocks.
__global__ void test_histogram(const int* x, long long n, unsigned long long* out, long long n_cells) {
  AGBM_DYNAMIC_SHARED(unsigned, cells);
  for (unsigned c = threadIdx.x; c < n_cells; c += blockDim.x) cells[c] = 0;
  __syncthreads();
  for (long long i = agbm::first_item(); i < n; i += agbm::n_workers()) atomicAdd(cells + __ldg(x + i), 1u);
  __syncthreads();
  for (unsigned c = threadIdx.x; c < n_cells; c += blockDim.x) atomicAdd(out + c, cells[c]);
}
AGBM_EMULATE(test_histogram)

// Mistakes that the emulation must find.
__global__ void test_neighbours(const double* x, double* out, long long with_barrier) {
  __shared__ double of_block[64];
  of_block[threadIdx.x] = x[threadIdx.x];
  if (with_barrier != 0) __syncthreads();
  out[threadIdx.x] = of_block[(threadIdx.x + 32) % 64];
}
AGBM_EMULATE(test_neighbours)

__global__ void test_barrier_for_some(long long n) {
  if (threadIdx.x < n) __syncthreads();
  __shfl_sync(0xffffffff, 0, 0);
}
AGBM_EMULATE(test_barrier_for_some)

__global__ void test_write(double* out, long long place) { out[place] = 1.0; }
AGBM_EMULATE(test_write)

__global__ void test_shared_write(long long place) {
  AGBM_DYNAMIC_SHARED(unsigned char, bytes);
  bytes[place] = 1;
}
AGBM_EMULATE(test_shared_write)
