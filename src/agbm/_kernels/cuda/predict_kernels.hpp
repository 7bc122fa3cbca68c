// Kernels that evaluate forests. The sums of a row are those of the CPU: one thread adds the values of all trees to
// each of them, in the order of the trees.
#pragma once

#include "cuda/tile.hpp"
#include "formulas/portable.hpp"

namespace agbm {

// A node in 8 bytes, for float32 tables. Thresholds are rounded down, so that float32 numbers are on the same side.
struct alignas(8) NarrowNode {
  using Number = float;

  float threshold;  // numbers at or below it go left; for categories, the bits are the number of their set
  UInt32 fields;

  AGBM_INLINE bool by_category() const { return fields >> 31; }
  AGBM_INLINE bool missing_left() const { return fields >> 30 & 1; }
  AGBM_INLINE UInt32 column() const { return fields >> 20 & 0x3ff; }
  AGBM_INLINE UInt32 distance() const { return fields & 0xfffff; }  // to the left child; 0 in leaves
  AGBM_INLINE UInt32 set() const { return bit_cast<UInt32>(threshold); }
};

// A node in 16 bytes, for all tables and forests.
struct alignas(16) WideNode {
  using Number = double;

  double threshold;
  UInt32 fields;
  UInt32 to_left;

  AGBM_INLINE bool by_category() const { return fields >> 31; }
  AGBM_INLINE bool missing_left() const { return fields >> 30 & 1; }
  AGBM_INLINE UInt32 column() const { return fields & 0x3fffffff; }
  AGBM_INLINE UInt32 distance() const { return to_left; }
  AGBM_INLINE UInt32 set() const { return static_cast<UInt32>(bit_cast<UInt64>(threshold)); }
};

// Sets of categories, one bit per category.
struct CategorySets {
  const UInt64* words;     // of all sets
  const long long* start;  // first word of each set, and the end of the last

  // Numbers outside of the set's range are treated as missing.
  AGBM_INLINE bool has(UInt32 set, double x, bool missing) const {
    const long long begin = start[set], end = start[set + 1];
    if (!(x >= 0.0 && x < 64.0 * static_cast<double>(end - begin))) return missing;
    const long long category = static_cast<long long>(x);
    return words[begin + category / 64] >> (category % 64) & 1;
  }
};

// The arrays of a forest. The children of a node are neighbours. Leaves send all numbers to themselves.
template <class Node>
struct DeviceForest {
  const Node* nodes;
  const int* roots;   // of each tree
  const int* depths;  // of each tree
  long long n_trees;
  CategorySets sets;
};

// A row in a tile, and a row of a table.
template <class T>
struct TileRow {
  const T* numbers;
  unsigned stride;

  AGBM_INLINE T operator[](UInt32 column) const { return numbers[column * stride]; }
};
template <class T>
struct TableRow {
  const T* numbers;
  long long stride;

  AGBM_INLINE T operator[](UInt32 column) const { return numbers[column * stride]; }
};

// Trees that a thread walks down side by side, since each walk mostly waits for memory.
constexpr int kWalks = 4;

// Goes from nodes to their children; returns whether any of them is not a leaf. Loads come first and rare categories
// last, since no load can be started before a branch that comes before it.
template <class Node, class Row>
AGBM_INLINE inline bool step(const DeviceForest<Node>& forest, const Row& row, UInt32 (&at)[kWalks]) {
  Node nodes[kWalks];
  typename Node::Number x[kWalks];
  bool right[kWalks], any_category = false, moved = false;
  for (int k = 0; k < kWalks; ++k) nodes[k] = forest.nodes[at[k]];
  for (int k = 0; k < kWalks; ++k) x[k] = row[nodes[k].column()];
  for (int k = 0; k < kWalks; ++k) {
    right[k] = !(x[k] <= nodes[k].threshold) & !(nodes[k].missing_left() & (x[k] != x[k]));
    any_category |= nodes[k].by_category();
  }
  if (any_category) {
    for (int k = 0; k < kWalks; ++k) {
      if (nodes[k].by_category()) right[k] = !forest.sets.has(nodes[k].set(), x[k], nodes[k].missing_left());
    }
  }
  for (int k = 0; k < kWalks; ++k) {
    at[k] += nodes[k].distance() + right[k];
    moved |= nodes[k].distance() != 0;
  }
  return moved;
}

// Finds the leaves of a row in up to kWalks trees and calls use(tree, leaf) for each of them, in order.
template <class Node, class Row, class Use>
AGBM_INLINE inline void walk(const DeviceForest<Node>& forest, long long first_tree, const Row& row, const Use& use) {
  UInt32 at[kWalks];
  int depth = 0;
  for (int k = 0; k < kWalks; ++k) {
    const long long tree = smaller(first_tree + k, forest.n_trees - 1);
    at[k] = static_cast<UInt32>(forest.roots[tree]);
    depth = larger(depth, forest.depths[tree]);
  }
  bool moved = true;
  for (int i = 0; i < depth && moved; ++i) moved = step(forest, row, at);
  for (int k = 0; k < kWalks; ++k) {
    if (first_tree + k < forest.n_trees) use(first_tree + k, at[k]);
  }
}

// Calls use_row(row, its numbers) in one thread per row. The numbers of the columns that the forest uses are copied to
// shared memory first, unless there are too many of them: then `columns` is null, and nodes have columns of the table.
template <class T, class UseRow>
AGBM_INLINE inline void for_each_row(const Table<T>& table, long long n_rows, const int* columns, long long n_columns,
                                     const UseRow& use_row) {
  AGBM_DYNAMIC_SHARED(T, tile);
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long first = static_cast<long long>(blockIdx.x) * blockDim.x; first < n_rows; first += step) {
    const long long row = first + threadIdx.x;
    if (columns == nullptr) {
      if (row < n_rows) use_row(row, TableRow<T>{table.row(row), table.column_stride});
      continue;
    }
    __syncthreads();  // nobody reads the last tile
    copy_to_tile(
        table, static_cast<int>(smaller<long long>(blockDim.x, n_rows - first)), [=](int i) { return first + i; },
        static_cast<int>(n_columns), [=](int column) { return columns[column]; }, tile);
    __syncthreads();
    if (row < n_rows) use_row(row, TileRow<T>{tile + threadIdx.x, blockDim.x});
  }
}

// The values of leaves, and where they are added: the values of a tree are added to neighbouring columns of the result,
// from the tree's first column on.
struct LeafValues {
  const double* values;  // (node, value)
  long long n_values;
  const int* first_columns;  // of each tree
};

// out (column, row), which is zero before. If leaves have one value, the trees are ordered by their columns, so that a
// sum is written only once.
template <class Node, class Row>
AGBM_INLINE inline void add_trees(const DeviceForest<Node>& forest, const LeafValues& leaves, const Row& row,
                                  double* out, long long column_stride) {
  double sum = 0.0;
  int column = leaves.first_columns[0];
  for (long long tree = 0; tree < forest.n_trees; tree += kWalks) {
    walk(forest, tree, row, [&](long long of, UInt32 leaf) {
      const int first = leaves.first_columns[of];
      if (leaves.n_values > 1) {
        for (long long k = 0; k < leaves.n_values; ++k) {
          out[(first + k) * column_stride] += leaves.values[leaf * leaves.n_values + k];
        }
        return;
      }
      if (first != column) {
        out[column * column_stride] = sum;
        sum = 0.0;
        column = first;
      }
      sum += leaves.values[leaf];
    });
  }
  if (leaves.n_values == 1) out[column * column_stride] = sum;
}

}  // namespace agbm

#define AGBM_FOREST(Node)                                                                       \
  const agbm::DeviceForest<Node> forest {                                                       \
    static_cast<const Node*>(nodes), roots, depths, n_trees, { category_words, category_start } \
  }

// The sums of the values of all trees, out (column, row), which is zero before; see for_each_row and add_trees.
#define AGBM_PREDICT(name, Node, T)                                                                                  \
  extern "C" __global__ void name(const T* numbers, long long row_stride, long long column_stride, long long n_rows, \
                                  const int* columns, long long n_columns, const void* nodes, const int* roots,      \
                                  const int* depths, long long n_trees, const agbm::UInt64* category_words,          \
                                  const long long* category_start, const double* values, long long n_values,         \
                                  const int* first_columns, double* out) {                                           \
    AGBM_FOREST(Node);                                                                                               \
    const agbm::LeafValues leaves{values, n_values, first_columns};                                                  \
    agbm::for_each_row<T>(                                                                                           \
        {numbers, row_stride, column_stride}, n_rows, columns, n_columns,                                            \
        [&](long long i, const auto& row) { agbm::add_trees(forest, leaves, row, out + i, n_rows); });               \
  }

// The numbers of the leaves that rows reach, out (row, tree); leaf_numbers has one for each node.
#define AGBM_LEAVES(name, Node, T)                                                                                     \
  extern "C" __global__ void name(const T* numbers, long long row_stride, long long column_stride, long long n_rows,   \
                                  const int* columns, long long n_columns, const void* nodes, const int* roots,        \
                                  const int* depths, long long n_trees, const agbm::UInt64* category_words,            \
                                  const long long* category_start, const int* leaf_numbers, int* out) {                \
    AGBM_FOREST(Node);                                                                                                 \
    agbm::for_each_row<T>(                                                                                             \
        {numbers, row_stride, column_stride}, n_rows, columns, n_columns, [&](long long i, const auto& row) {          \
          const auto write = [&](long long tree, agbm::UInt32 leaf) { out[i * n_trees + tree] = leaf_numbers[leaf]; }; \
          for (long long tree = 0; tree < n_trees; tree += agbm::kWalks) {                                             \
            agbm::walk(forest, tree, row, write);                                                                      \
          }                                                                                                            \
        });                                                                                                            \
  }

AGBM_PREDICT(agbm_predict_narrow, agbm::NarrowNode, float)
AGBM_PREDICT(agbm_predict_float32, agbm::WideNode, float)
AGBM_PREDICT(agbm_predict_float64, agbm::WideNode, double)
AGBM_LEAVES(agbm_leaves_narrow, agbm::NarrowNode, float)
AGBM_LEAVES(agbm_leaves_float32, agbm::WideNode, float)
AGBM_LEAVES(agbm_leaves_float64, agbm::WideNode, double)
