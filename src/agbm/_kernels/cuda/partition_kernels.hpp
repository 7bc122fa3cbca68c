// Kernels that send the rows of nodes to their children, and that read the leaves of rows.
//
// Rows of a node are not kept in order: all that is computed from them is exact, whatever their order.
#pragma once

#include "cuda/block.hpp"
#include "cuda/histogram_kernels.hpp"
#include "cuda/node_rows.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/portable.hpp"
#include "formulas/row_ring.hpp"

namespace agbm {

constexpr int kRowsAtOnce = 8;  // per thread

}  // namespace agbm

// Writes the rows of nodes that are split to `sorted`: those that go left from the begin of the node's range on, the
// others up to its end. counters: (split, 2), the numbers of both so far.
extern "C" __global__ void agbm_partition(const agbm::NodeSplit* splits, long long n_splits, const agbm::Int64* begin,
                                          const agbm::Int64* end, const unsigned* rows, const unsigned char* codes,
                                          long long n_rows, unsigned* sorted, agbm::Int64* counters) {
  using agbm::Int64;
  __shared__ Int64 first[agbm::kMostNodes + 1];
  __shared__ Int64 left_at, right_at;
  const agbm::RowShare share(
      {begin, end}, n_splits, [&](long long i) { return splits[i].node; }, first, blockIdx.x, gridDim.x);
  const long long at_once = static_cast<long long>(blockDim.x) * agbm::kRowsAtOnce;
  share.for_each([&](long long number, Int64 from, Int64 to) {
    const agbm::NodeSplit& split = splits[number];
    const int column = static_cast<int>(split.feature);
    const Int64 start = begin[split.node], stop = end[split.node];
    for (Int64 base = from; base < to; base += at_once) {
      // A thread has neighbouring rows, which stay neighbours: they are in the same sectors of memory.
      const Int64 mine = base + static_cast<Int64>(threadIdx.x) * agbm::kRowsAtOnce;
      unsigned row[agbm::kRowsAtOnce];
      bool left[agbm::kRowsAtOnce];
      Int64 n_left = 0, n_here = 0;
      AGBM_UNROLL
      for (int k = 0; k < agbm::kRowsAtOnce; ++k) {
        const Int64 place = mine + k;
        left[k] = false;
        if (place >= to) continue;
        row[k] = rows[start + place];
        left[k] = split.codes.has(agbm::code_of(codes, n_rows, row[k], column));
        n_left += left[k];
        ++n_here;
      }
      // Both numbers in one prefix: they are below 2^31.
      const Int64 both = agbm::block_prefix(n_left << 32 | n_here), lefts = both >> 32, all = both & 0xffffffff;
      if (threadIdx.x == blockDim.x - 1) {
        left_at = agbm::add_and_get(counters + 2 * number, lefts);
        right_at = agbm::add_and_get(counters + 2 * number + 1, all - lefts);
      }
      __syncthreads();
      Int64 to_left = start + left_at + lefts - n_left, to_right = stop - right_at - (all - lefts) + (n_here - n_left);
      AGBM_UNROLL
      for (int k = 0; k < agbm::kRowsAtOnce; ++k) {
        const Int64 place = mine + k;
        if (place >= to) continue;
        if (left[k]) {
          sorted[to_left++] = row[k];
        } else {
          sorted[--to_right] = row[k];
        }
      }
      __syncthreads();
    }
  });
}

// Copies the rows of split nodes back, and sets the ranges of the children, the counters to zero for the next splits, and
// the histograms of the smaller nodes of families to zero.
extern "C" __global__ void agbm_settle(const agbm::NodeSplit* splits, long long n_splits, agbm::Int64* begin,
                                       agbm::Int64* end, const unsigned* sorted, unsigned* rows, agbm::Int64* counters,
                                       const agbm::Family* families, long long n_families, agbm::Int64* histograms,
                                       long long size) {
  using agbm::Int64;
  agbm::clear_histograms(families, n_families, histograms, size);
  __shared__ Int64 first[agbm::kMostNodes + 1];
  const agbm::RowShare share(
      {begin, end}, n_splits, [&](long long i) { return splits[i].node; }, first, blockIdx.x, gridDim.x);
  share.for_each([&](long long number, Int64 from, Int64 to) {
    const Int64 start = begin[splits[number].node];
    for (Int64 place = from + threadIdx.x; place < to; place += blockDim.x) rows[start + place] = sorted[start + place];
  });
  if (blockIdx.x > 0) return;
  for (long long i = threadIdx.x; i < n_splits; i += blockDim.x) {
    const Int64 node = splits[i].node, left = splits[i].left;
    begin[left] = begin[node];
    end[left] = begin[left + 1] = begin[node] + counters[2 * i];
    end[left + 1] = end[node];
    counters[2 * i] = counters[2 * i + 1] = 0;
  }
}

// Sums over the rows of leaves, added to (leaf, number): of round(x * scale), counting repeats (null: 1), for n_numbers
// vectors x, which are given by their addresses, with their scales. ring_*: see RowRing.
extern "C" __global__ void agbm_leaf_sums(const agbm::Int64* leaves, long long n_leaves, const agbm::Int64* begin,
                                          const agbm::Int64* end, const unsigned* rows, const agbm::Int64* vectors,
                                          const double* scales, const agbm::Int64* repeats, long long ring_begin,
                                          long long ring_end, long long ring_first, long long n_numbers,
                                          agbm::Int64* sums) {
  using agbm::Int64;
  const agbm::RowRing ring{ring_begin, ring_end, ring_first};
  __shared__ Int64 first[agbm::kMostNodes + 1];
  const agbm::RowShare share(
      {begin, end}, n_leaves, [&](long long i) { return leaves[i]; }, first, blockIdx.x, gridDim.x);
  share.for_each([&](long long leaf, Int64 from, Int64 to) {
    const Int64 start = begin[leaves[leaf]];
    for (long long number = 0; number < n_numbers; ++number) {
      const double* x = reinterpret_cast<const double*>(vectors[number]);
      const double scale = scales[number];
      Int64 sum = 0;
      for (Int64 place = from + threadIdx.x; place < to; place += blockDim.x) {
        const Int64 at = ring.position(rows[start + place]);
        sum += agbm::round_scaled(x[at], scale) * (repeats == nullptr ? 1 : repeats[at]);
      }
      sum = agbm::block_sum(sum);
      if (threadIdx.x == 0 && sum != 0) agbm::add(sums + leaf * n_numbers + number, sum);
    }
  });
}

// The weight of the rows of each leaf whose distances begin with the known bits, by the `width` bits that follow, added to
// (leaf, next bits); see TreeRows::tally. steps: weights in whole steps; null: 1.
extern "C" __global__ void agbm_tally(const agbm::Int64* leaves, long long n_leaves, const agbm::Int64* begin,
                                      const agbm::Int64* end, const unsigned* rows, const double* distance,
                                      const agbm::Int64* steps, long long ring_begin, long long ring_end,
                                      long long ring_first, const agbm::UInt64* known, long long shift, long long width,
                                      agbm::Int64* tallies) {
  using agbm::Int64;
  const agbm::RowRing ring{ring_begin, ring_end, ring_first};
  __shared__ Int64 first[agbm::kMostNodes + 1];
  const agbm::RowShare share(
      {begin, end}, n_leaves, [&](long long i) { return leaves[i]; }, first, blockIdx.x, gridDim.x);
  const agbm::UInt64 mask = (agbm::UInt64{1} << width) - 1;
  share.for_each([&](long long leaf, Int64 from, Int64 to) {
    const Int64 start = begin[leaves[leaf]];
    for (Int64 place = from + threadIdx.x; place < to; place += blockDim.x) {
      const Int64 at = ring.position(rows[start + place]);
      const agbm::UInt64 bits = agbm::ordered_bits(distance[at]);
      const bool begins_so = shift + width == 64 || bits >> (shift + width) == known[leaf];
      if (begins_so)
        agbm::add(tallies + (leaf << width) + static_cast<Int64>(bits >> shift & mask),
                  steps == nullptr ? 1 : steps[at]);
    }
  });
}

// Sum of round(x * scale)^power over all rows, counting repeats (null: 1), added to a number.
extern "C" __global__ void agbm_sum_of_powers(const double* x, double scale, long long power,
                                              const agbm::Int64* repeats, long long n_rows, agbm::Int64* out) {
  agbm::Int64 sum = 0;
  for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
    const agbm::Int64 value = agbm::round_scaled(x[i], scale);
    sum += (power == 2 ? value * value : value) * (repeats == nullptr ? 1 : repeats[i]);
  }
  sum = agbm::block_sum(sum);
  if (threadIdx.x == 0) agbm::add(out, sum);
}

// Values (column, position) of trees on binned rows; every column has the values of one tree. roots and first_column: per
// tree. ring_*: see RowRing.
extern "C" __global__ void agbm_tree_values(const agbm::BinnedNode* nodes, const double* value, long long n_values,
                                            const int* roots, const int* first_column, long long n_trees,
                                            const unsigned char* codes, long long n_rows, long long ring_begin,
                                            long long ring_end, long long ring_first, double* out) {
  const agbm::RowRing ring{ring_begin, ring_end, ring_first};
  for (long long row = agbm::first_item(); row < n_rows; row += agbm::n_workers()) {
    for (long long tree = 0; tree < n_trees; ++tree) {
      long long node = roots[tree];
      while (nodes[node].feature >= 0) {
        const int code = agbm::code_of(codes, n_rows, row, static_cast<int>(nodes[node].feature));
        node = nodes[node].left + (nodes[node].codes.has(code) ? 0 : 1);
      }
      for (long long k = 0; k < n_values; ++k) {
        out[(first_column[tree] + k) * n_rows + ring.position(row)] = value[node * n_values + k];
      }
    }
  }
}
