// Kernels that convert values to bin codes.
#pragma once

#include "cuda/tile.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/portable.hpp"

namespace agbm {

// The codes of a row in one group.
struct alignas(16) GroupCodes {
  UInt64 halves[2];
};

// What is needed to find the bins of all columns, those of the last group padded to kGroupColumns.
template <class T>
struct BinSearch {
  const T* trees;  // of each column: the code of missing values, and a search tree of its thresholds
  int n_levels;    // of the trees, which have 2^n_levels - 1 thresholds: children of the one at i are at 2i and 2i + 1
  const long long* category_start;  // of each column, and the end of the last; none for columns with thresholds
  const UInt8* category_codes;      // of each category

  AGBM_INLINE int tree_size() const { return 1 << n_levels; }
};

// The number of thresholds below the value, or the code of missing values.
template <class T>
AGBM_INLINE inline unsigned bin_by_thresholds(const T* tree, int n_levels, T value) {
  unsigned at = 1;
  for (int level = 0; level < n_levels; ++level) at = 2 * at + (tree[at] < value);
  return value == value ? at - (1u << n_levels) : static_cast<unsigned>(tree[0]);
}

// Values that are no categories are missing.
AGBM_INLINE inline unsigned bin_by_category(const UInt8* codes, long long n_categories, unsigned missing,
                                            double value) {
  const bool known = value >= 0.0 && value < static_cast<double>(n_categories);
  return known ? codes[static_cast<long long>(value)] : missing;
}

template <class T>
AGBM_INLINE inline GroupCodes codes_of_row(const BinSearch<T>& search, long long first_column, int n_columns,
                                           const T* trees, const T* values) {
  GroupCodes codes{};
  for (int j = 0; j < n_columns; ++j) {
    const T value = values[j * blockDim.x];
    const T* tree = trees + j * search.tree_size();
    const long long begin = search.category_start[first_column + j];
    const long long n_categories = search.category_start[first_column + j + 1] - begin;
    const UInt64 code = n_categories == 0 ? bin_by_thresholds(tree, search.n_levels, value)
                                          : bin_by_category(search.category_codes + begin, n_categories,
                                                            static_cast<unsigned>(tree[0]), value);
    if (j < kGroupColumns / 2) {
      codes.halves[0] |= code << 8 * j;
    } else {
      codes.halves[1] |= code << 8 * (j - kGroupColumns / 2);
    }
  }
  return codes;
}

// Writes the codes of the rows of the table to out[group * group_stride + row]. The number of blocks is a multiple of
// the number of groups; every block has one group, so that it reads the thresholds only once.
template <class T>
AGBM_INLINE inline void encode(const Table<T>& table, long long n_rows, long long n_columns, const BinSearch<T>& search,
                               GroupCodes* out, long long group_stride) {
  AGBM_DYNAMIC_SHARED(T, trees);
  T* const tile = trees + kGroupColumns * search.tree_size();
  const long long n_groups = (n_columns + kGroupColumns - 1) / kGroupColumns;
  const long long group = blockIdx.x % n_groups, first_column = group * kGroupColumns;
  const int n_here = static_cast<int>(smaller<long long>(kGroupColumns, n_columns - first_column));
  for (int i = static_cast<int>(threadIdx.x); i < n_here * search.tree_size(); i += static_cast<int>(blockDim.x)) {
    trees[i] = search.trees[first_column * search.tree_size() + i];
  }
  const long long step = gridDim.x / n_groups * blockDim.x;
  for (long long first = blockIdx.x / n_groups * blockDim.x; first < n_rows; first += step) {
    const int n_in_tile = static_cast<int>(smaller<long long>(blockDim.x, n_rows - first));
    __syncthreads();  // all codes of the last tile have been found
    copy_to_tile(
        table, n_in_tile, [=](int row) { return first + row; }, n_here,
        [=](int column) { return first_column + column; }, tile);
    __syncthreads();
    const int row = static_cast<int>(threadIdx.x);
    if (row < n_in_tile) {
      out[group * group_stride + first + row] = codes_of_row(search, first_column, n_here, trees, tile + row);
    }
  }
}

}  // namespace agbm

#define AGBM_ENCODE(name, T)                                                                                         \
  extern "C" __global__ void name(const T* numbers, long long row_stride, long long column_stride, long long n_rows, \
                                  long long n_columns, const T* trees, long long n_levels,                           \
                                  const long long* category_start, const unsigned char* category_codes,              \
                                  unsigned char* out, long long group_stride) {                                      \
    agbm::encode<T>({numbers, row_stride, column_stride}, n_rows, n_columns,                                         \
                    {trees, static_cast<int>(n_levels), category_start, category_codes},                             \
                    reinterpret_cast<agbm::GroupCodes*>(out), group_stride);                                         \
  }

AGBM_ENCODE(agbm_encode_float32, float)
AGBM_ENCODE(agbm_encode_float64, double)
