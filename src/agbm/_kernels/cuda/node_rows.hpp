// The rows of nodes, as lists one after the other, which the blocks of a kernel share out.
#pragma once

#include "cuda/block.hpp"
#include "formulas/portable.hpp"

namespace agbm {

struct NodeRanges {
  const Int64 *begin, *end;  // per node: where its rows are in the list of all
};

// Some nodes, of which each block gets an equal part of all rows. All threads of a block must make it and call it.
class RowShare {
 public:
  // node_of(i): the number of the i-th of n nodes; `first` has n + 1 entries in memory that the block shares.
  template <class NodeOf>
  __device__ RowShare(const NodeRanges& ranges, long long n, const NodeOf& node_of, Int64* first, long long part,
                      long long n_parts)
      : n_(n), first_(first) {
    Int64 before = 0;
    for (long long base = 0; base < n; base += blockDim.x) {
      const long long i = base + threadIdx.x;
      const Int64 size = i < n ? ranges.end[node_of(i)] - ranges.begin[node_of(i)] : 0;
      const Int64 sum = block_prefix(size);
      if (i < n) first_[i + 1] = before + sum;
      __syncthreads();
      before = first_[smaller<long long>(n, base + blockDim.x)];
    }
    if (threadIdx.x == 0) first_[0] = 0;
    __syncthreads();
    const Int64 total = first_[n];
    begin_ = total * part / n_parts;
    end_ = total * (part + 1) / n_parts;
  }

  // Calls body(i, from, to) for each node that has rows in the part: these are the rows from begin + from to begin + to.
  template <class Body>
  __device__ void for_each(const Body& body) const {
    if (begin_ >= end_) return;
    long long low = 0, high = n_;  // first_[low] <= begin_ < first_[high]
    while (high - low > 1) {
      const long long middle = (low + high) / 2;
      (first_[middle] <= begin_ ? low : high) = middle;
    }
    for (long long i = low; i < n_ && first_[i] < end_; ++i) {
      const Int64 from = larger(begin_, first_[i]), to = smaller(end_, first_[i + 1]);
      if (from < to) body(i, from - first_[i], to - first_[i]);
    }
  }

 private:
  const long long n_;
  Int64* first_;
  Int64 begin_, end_;
};

}  // namespace agbm
