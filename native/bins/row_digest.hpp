// Digests of tables: sums of hashes of their cells, one per block of rows and one per column.
//
// Sums modulo 2^64 depend neither on the order of the rows in memory nor on how they are divided among processes. Zeros
// add nothing, so sparse rows have the digests of dense ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "bins/thresholds.hpp"

namespace agbm {

// Where the sums go: row number r belongs to block r >> shift; columns after the last sum are added to it.
struct DigestSums {
  std::uint64_t first;  // number of the first row
  int shift;
  std::size_t first_column;
  std::uint64_t* blocks;
  std::uint64_t* columns;
  std::size_t n_columns;

  std::uint64_t block_of(std::size_t row) const { return (first + row) >> shift; }
  std::size_t column_of(std::size_t column) const { return std::min(first_column + column, n_columns - 1); }
};

// The hash of a value in a row and column, whose keys are hashes of their numbers. All missing values are equal.
inline std::uint64_t hash_of_cell(double value, std::uint64_t row_key, std::uint64_t column_key) {
  const std::uint64_t bits = value != value ? 0x7ff8000000000000 : std::bit_cast<std::uint64_t>(value);
  const std::uint64_t hash = mixed((bits ^ row_key) + column_key);
  return value == 0.0 ? 0 : hash;
}

inline std::uint64_t row_key(std::uint64_t row) { return mixed(2 * row); }
inline std::uint64_t column_key(std::uint64_t column) { return mixed(2 * column + 1); }

constexpr std::size_t kPieceRows = 256;  // such that the cells of a piece stay in a cache

// Calls each(begin, end, columns) for pieces of rows of one block; it adds to the sums of columns and returns the total.
template <class Each>
void digest_tasks(std::size_t n_rows, const DigestSums& sums, int n_threads, const Each& each) {
  struct Task {
    std::vector<std::uint64_t> blocks, columns;
  };
  std::vector<Task> tasks(tasks_for_rows(n_rows));
  parallel_rows(n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    Task& task = tasks[begin / kRowsPerTask];
    task.blocks.assign(sums.block_of(end - 1) - sums.block_of(begin) + 1, 0);
    task.columns.assign(sums.n_columns, 0);
    for (std::size_t row = begin; row < end;) {  // pieces within a block
      const std::uint64_t block = sums.block_of(row);
      const std::uint64_t next = ((block + 1) << sums.shift) - sums.first;
      const std::size_t stop = std::min<std::uint64_t>({end, next, row + kPieceRows});
      task.blocks[block - sums.block_of(begin)] += each(row, stop, task.columns.data());
      row = stop;
    }
  });
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    std::uint64_t* blocks = sums.blocks + sums.block_of(t * kRowsPerTask);
    for (std::size_t i = 0; i < tasks[t].blocks.size(); ++i) blocks[i] += tasks[t].blocks[i];
    for (std::size_t i = 0; i < sums.n_columns; ++i) sums.columns[i] += tasks[t].columns[i];
  }
}

template <class T>
void digest_dense(const Dense<T>& x, std::size_t n_rows, const DigestSums& sums, int n_threads) {
  digest_tasks(n_rows, sums, n_threads, [&](std::size_t begin, std::size_t end, std::uint64_t* columns) {
    std::uint64_t keys[kPieceRows];
    for (std::size_t row = begin; row < end; ++row) keys[row - begin] = row_key(sums.first + row);
    std::uint64_t total = 0;
    for (std::size_t column = 0; column < x.n_columns; ++column) {
      const std::uint64_t key = column_key(sums.first_column + column);
      const T* value = &x.at(begin, column);
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < end - begin; ++i, value += x.row_stride) sum += hash_of_cell(*value, keys[i], key);
      columns[sums.column_of(column)] += sum;
      total += sum;
    }
    return total;
  });
}

// Keys of rows that are equal for rows with equal values.
template <class T>
void row_keys(const Dense<T>& x, std::size_t n_rows, std::uint64_t* keys, int n_threads) {
  parallel_rows(n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    std::fill(keys + begin, keys + end, 0);
    for (std::size_t first = begin; first < end; first += kPieceRows) {
      const std::size_t last = std::min(end, first + kPieceRows);
      for (std::size_t column = 0; column < x.n_columns; ++column) {
        const T* value = &x.at(first, column);
        const std::uint64_t key = column_key(column);
        for (std::size_t row = first; row < last; ++row, value += x.row_stride)
          keys[row] += hash_of_cell(*value, 0, key);
      }
    }
  });
}

// Compressed sparse rows without duplicate entries.
template <class T>
void digest_sparse(const T* values, const std::int64_t* indices, const std::int64_t* start, std::size_t n_rows,
                   const DigestSums& sums, int n_threads) {
  digest_tasks(n_rows, sums, n_threads, [&](std::size_t begin, std::size_t end, std::uint64_t* columns) {
    std::uint64_t total = 0;
    for (std::size_t row = begin; row < end; ++row) {
      const std::uint64_t key = row_key(sums.first + row);
      for (std::int64_t i = start[row]; i < start[row + 1]; ++i) {
        const std::size_t column = indices[i];
        const std::uint64_t hash = hash_of_cell(values[i], key, column_key(sums.first_column + column));
        columns[sums.column_of(column)] += hash;
        total += hash;
      }
    }
    return total;
  });
}

}  // namespace agbm
