// Kernels of histograms: rows as integers, and their sums by column and code.
//
// A block adds rows in memory of its own, and then its sums to the histogram. All sums are of integers, so the order in
// which threads and blocks add does not matter.
#pragma once

#include "cuda/block.hpp"
#include "cuda/node_rows.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/portable.hpp"
#include "formulas/row_ring.hpp"

namespace agbm {

// The codes of a group of columns of a row, which a thread reads at once.
struct alignas(kGroupColumns) RowCodes {
  unsigned words[kGroupColumns / 4];
};

// Sets the histograms of the smaller nodes of families to zero.
AGBM_INLINE inline void clear_histograms(const Family* families, long long n_families, Int64* histograms,
                                         long long size) {
  for (long long i = first_item(); i < n_families * size; i += n_workers()) {
    const Int64 slot = families[i / size].small_slot;
    if (slot >= 0) histograms[slot * size + i % size] = 0;
  }
}

// Adds to an integer of two halves: shared memory adds 32 bits in one instruction, but 64 bits in a loop.
AGBM_INLINE inline void add_halves(unsigned* low, unsigned* high, Int64 x) {
  const unsigned x_low = static_cast<unsigned>(x);
  const unsigned before = atomicAdd(low, x_low);
  const unsigned x_high = static_cast<unsigned>(x >> 32) + (before + x_low < before ? 1u : 0u);
  if (x_high != 0) atomicAdd(high, x_high);
}

}  // namespace agbm

// Writes the integers of up to four channels of each row, (row of the matrix, channel): round(x * scale), shifted and with
// a count of one in the last channel, times the repeats of the row (null: 1). A scale of zero is for a channel of counts
// alone. ring_*: see RowRing.
extern "C" __global__ void agbm_pack(const double* x0, const double* x1, const double* x2, const double* x3,
                                     const double* scales, long long n_here, long long first_channel,
                                     long long n_channels, long long count_bits, const agbm::Int64* repeats,
                                     agbm::Int64* packed, long long n_rows, long long ring_begin, long long ring_end,
                                     long long ring_first) {
  const double* const x[agbm::kChannelsAtOnce] = {x0, x1, x2, x3};
  const agbm::RowRing ring{ring_begin, ring_end, ring_first};
  for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
    const agbm::Int64 times = repeats == nullptr ? 1 : repeats[i];
    for (int k = 0; k < n_here; ++k) {
      const long long channel = first_channel + k;
      const bool last = channel == n_channels - 1;
      packed[ring.row(i) * n_channels + channel] =
          agbm::packed_number(x[k][i], scales[channel], last ? static_cast<int>(count_bits) : 0, last) * times;
    }
  }
}

// The largest |x| of each of n_vectors vectors, which are given by their addresses, as bits, which have the order of the
// numbers; NaN is above all. `negative`: whether an x is below zero.
extern "C" __global__ void agbm_largest(const agbm::Int64* vectors, long long n_vectors, long long n_rows,
                                        unsigned long long* largest, unsigned long long* negative) {
  __shared__ unsigned long long found, below;
  for (long long k = 0; k < n_vectors; ++k) {
    const double* x = reinterpret_cast<const double*>(vectors[k]);
    if (threadIdx.x == 0) found = below = 0;
    __syncthreads();
    unsigned long long most = 0, any = 0;
    for (long long i = agbm::first_item(); i < n_rows; i += agbm::n_workers()) {
      const double number = x[i];
      const unsigned long long bits = agbm::bit_cast<agbm::UInt64>(agbm::absolute(number));
      most = bits > most ? bits : most;
      any |= number < 0.0 ? 1 : 0;
    }
    for (int step = agbm::kWarp / 2; step > 0; step /= 2) {
      const unsigned long long other = __shfl_down_sync(agbm::kWholeWarp, most, step);
      most = other > most ? other : most;
      any |= __shfl_down_sync(agbm::kWholeWarp, any, step);
    }
    if (agbm::lane() == 0) {
      atomicMax(&found, most);
      atomicMax(&below, any);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicMax(largest + k, found);
      atomicMax(negative + k, below);
    }
    __syncthreads();
  }
}

// The rows of a new tree: those chosen, or the first n of vectors (null), ascending. The counters and the histogram of the
// root are set to zero.
extern "C" __global__ void agbm_first_rows(const unsigned* chosen, unsigned* rows, long long n, long long ring_begin,
                                           long long ring_end, long long ring_first, agbm::Int64* begin,
                                           agbm::Int64* end, agbm::Int64* counters, long long n_counters,
                                           agbm::Int64* histogram, long long size) {
  const agbm::RowRing ring{ring_begin, ring_end, ring_first};
  for (long long i = agbm::first_item(); i < n_counters; i += agbm::n_workers()) counters[i] = 0;
  for (long long i = agbm::first_item(); i < size; i += agbm::n_workers()) histogram[i] = 0;
  for (long long i = agbm::first_item(); i < n; i += agbm::n_workers()) {
    rows[i] = chosen == nullptr ? static_cast<unsigned>(ring.ascending(i, n)) : chosen[i];
  }
  if (agbm::first_item() == 0) {
    begin[0] = 0;
    end[0] = n;
  }
}

// The histograms (cell, channel) of the smaller nodes of families. The grid is (part of the rows, group of columns, group
// of channels). columns: first_cell of each column, with the total at the end. If
// cells have a channel more than rows, it is for the count, which is in the low bits of the last channel of rows.
extern "C" __global__ void agbm_histograms(const agbm::Family* families, long long n_families, const agbm::Int64* begin,
                                           const agbm::Int64* end, const unsigned* rows, const unsigned char* codes,
                                           long long n_rows, long long n_columns, const int* first_cell,
                                           const agbm::Int64* packed, long long n_channels, long long channels_at_once,
                                           long long n_cell_channels, long long count_bits, agbm::Int64* histograms,
                                           long long size, long long n_parts) {
  using agbm::Int64;
  __shared__ Int64 first[agbm::kMostNodes + 1];
  AGBM_DYNAMIC_SHARED(unsigned, shared);
  const long long n_groups = (n_columns + agbm::kGroupColumns - 1) / agbm::kGroupColumns;
  const long long part = blockIdx.x % n_parts, group = blockIdx.x / n_parts % n_groups;
  const int first_channel = static_cast<int>(blockIdx.x / n_parts / n_groups * channels_at_once);
  const int channels = static_cast<int>(agbm::smaller<long long>(channels_at_once, n_channels - first_channel));
  const int first_column = static_cast<int>(group * agbm::kGroupColumns);
  const int width = static_cast<int>(agbm::smaller<long long>(agbm::kGroupColumns, n_columns - first_column));
  const int base = first_cell[first_column], n_cells = first_cell[first_column + width] - base;
  unsigned *low = shared, *high = shared + n_cells * channels;  // (channel, cell)
  int at[agbm::kGroupColumns];
  for (int j = 0; j < agbm::kGroupColumns; ++j) at[j] = first_cell[first_column + (j < width ? j : 0)] - base;
  const agbm::RowCodes* group_codes = reinterpret_cast<const agbm::RowCodes*>(codes) + group * n_rows;

  for (int i = threadIdx.x; i < 2 * n_cells * channels; i += blockDim.x) shared[i] = 0;
  const agbm::RowShare share(
      {begin, end}, n_families, [&](long long i) { return families[i].small; }, first, part, n_parts);
  share.for_each([&](long long family, Int64 from, Int64 to) {
    const Int64 start = begin[families[family].small];
    for (Int64 place = from + threadIdx.x; place < to; place += blockDim.x) {
      const unsigned row = rows[start + place];
      const agbm::RowCodes of_row = group_codes[row];
      Int64 value[agbm::kChannelsAtOnce];
      for (int c = 0; c < agbm::kChannelsAtOnce; ++c) {
        value[c] = c < channels ? packed[static_cast<long long>(row) * n_channels + first_channel + c] : 0;
      }
      AGBM_UNROLL
      for (int j = 0; j < agbm::kGroupColumns; ++j) {
        if (j >= width) continue;
        const int cell = at[j] + static_cast<int>(of_row.words[j / 4] >> j % 4 * 8 & 255);
        AGBM_UNROLL
        for (int c = 0; c < agbm::kChannelsAtOnce; ++c) {
          if (c < channels) agbm::add_halves(low + c * n_cells + cell, high + c * n_cells + cell, value[c]);
        }
      }
    }
    __syncthreads();
    Int64* out = agbm::HistogramSlots{histograms, size, n_cell_channels}.cells(families[family].small_slot, base);
    for (int i = threadIdx.x; i < n_cells * channels; i += blockDim.x) {
      if ((low[i] | high[i]) == 0) continue;
      const int channel = first_channel + i / n_cells;
      const Int64 sum = static_cast<Int64>(static_cast<agbm::UInt64>(high[i]) << 32 | low[i]);
      Int64* const cell = out + static_cast<Int64>(i % n_cells) * n_cell_channels + channel;
      if (channel == n_channels - 1 && n_channels < n_cell_channels) {
        const agbm::CountedSum separated = agbm::CountedSum::of(sum, static_cast<int>(count_bits));
        agbm::add(cell, separated.value);
        agbm::add(cell + 1, separated.count);
      } else {
        agbm::add(cell, sum);
      }
      low[i] = high[i] = 0;
    }
    __syncthreads();
  });
}

// Sums of the root: those of the cells of the first column.
extern "C" __global__ void agbm_totals(const agbm::Int64* histogram, long long n_cells, long long n_channels,
                                       agbm::Int64* total) {
  for (int c = 0; c < n_channels; ++c) {
    agbm::Int64 sum = 0;
    for (long long cell = threadIdx.x; cell < n_cells; cell += blockDim.x) sum += histogram[cell * n_channels + c];
    sum = agbm::block_sum(sum);
    if (threadIdx.x == 0) total[c] = sum;
  }
}
