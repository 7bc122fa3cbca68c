// Rows of a table in shared memory.
#pragma once

#include "formulas/portable.hpp"

namespace agbm {

// A table of numbers in any memory order. Strides are in numbers.
template <class T>
struct Table {
  const T* numbers;
  long long row_stride, column_stride;

  AGBM_INLINE const T* row(long long i) const { return numbers + i * row_stride; }
  AGBM_INLINE bool row_major() const { return absolute(column_stride) < absolute(row_stride); }

 private:
  AGBM_INLINE static long long absolute(long long stride) { return stride < 0 ? -stride : stride; }
};

// Loads that a thread starts before it waits for the first of them.
constexpr int kLoads = 4;

// Copies columns column_of(0), ..., column_of(n_columns - 1) of rows row_of(0), ..., row_of(n_rows - 1) to
// tile[column * blockDim.x + row]; there are at most blockDim.x rows, a multiple of 4. Threads that then read one row
// each never access the same bank of shared memory, whichever columns they read.
//
// Neighbouring threads copy neighbouring numbers: of a column, or 4 of a row. With more of a row, the writes to
// shared memory, which are all to one bank, would take longer.
template <class T, class RowOf, class ColumnOf>
AGBM_INLINE inline void copy_to_tile(const Table<T>& table, int n_rows, const RowOf& row_of, int n_columns,
                                     const ColumnOf& column_of, T* tile) {
  const int side_by_side = table.row_major() ? 4 : 1;
  const int thread = static_cast<int>(threadIdx.x), n_threads = static_cast<int>(blockDim.x);
  for (int row = thread / side_by_side; row < n_rows; row += n_threads / side_by_side) {
    const T* from = table.row(row_of(row));
    for (int first = thread % side_by_side; first < n_columns; first += kLoads * side_by_side) {
      T loaded[kLoads];
      for (int k = 0; k < kLoads; ++k) {
        const int column = smaller(first + k * side_by_side, n_columns - 1);  // a branch would wait for the last load
        loaded[k] = from[column_of(column) * table.column_stride];
      }
      for (int k = 0; k < kLoads; ++k) {
        const int column = first + k * side_by_side;
        if (column < n_columns) tile[column * n_threads + row] = loaded[k];
      }
    }
  }
}

}  // namespace agbm
