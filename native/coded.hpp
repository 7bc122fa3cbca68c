// Evaluation of small trees on blocks of rows, without walking down the trees.
//
// A forest usually has few distinct thresholds per feature. Each value of a block is first encoded as a byte, the
// number of thresholds below it. A node is then evaluated for many rows at once by comparing bytes. This evaluates all
// nodes instead of those on one path, but is still much faster: there are no branches and no data-dependent addresses,
// and one instruction handles 16 to 64 rows. Comparing bytes is exact, so the result does not depend on the vector
// width.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "simd.hpp"

namespace agbm {

constexpr std::size_t kBlockRows = 256;      // codes and leaves of a block stay in the L1 cache
constexpr int kMaxCodedLeaves = 256;         // the number of a leaf is a byte
constexpr std::size_t kMaxThresholds = 255;  // per feature: a code is a byte, and 255 is above all thresholds

// The largest number of type T that is not above the threshold. A value of type T is above both of them or neither.
template <class T>
T round_down(double threshold) {
  constexpr double most = std::numeric_limits<T>::max();
  if (std::isinf(threshold)) return static_cast<T>(threshold);
  if (threshold > most) return std::numeric_limits<T>::max();
  if (threshold < -most) return -std::numeric_limits<T>::infinity();
  const T nearest = static_cast<T>(threshold);
  return nearest > threshold ? std::nextafter(nearest, -std::numeric_limits<T>::infinity()) : nearest;
}

// Counts the thresholds below each value. The range of the thresholds is divided into cells of equal width, and only
// the thresholds within the cell of a value are searched; for most distributions, this takes two comparisons.
template <class T>
class CodeTable {
 public:
  explicit CodeTable(const std::vector<double>& ascending) {
    for (double t : ascending) thresholds_.push_back(round_down<T>(t));
    low_ = *std::find_if(thresholds_.begin(), thresholds_.end() - 1, [](T t) { return std::isfinite(t); });
    const T high = *std::find_if(thresholds_.rbegin(), thresholds_.rend() - 1, [](T t) { return std::isfinite(t); });
    const T scale = static_cast<T>(kCells) / (high - low_);
    scale_ = std::isfinite(scale) ? scale : T{0};
    std::vector<unsigned> count(kCells);
    for (T t : thresholds_) ++count[cell(t)];
    unsigned before = 0;
    for (int c = 0; c < kCells; ++c) {
      first_.push_back(static_cast<std::uint8_t>(before));
      before += count[c];
    }
    n_steps_ = std::bit_width(*std::max_element(count.begin(), count.end()));
    thresholds_.resize(thresholds_.size() + (std::size_t{1} << n_steps_), std::numeric_limits<T>::infinity());
  }

  // Writes two codes per value. In the first kBlockRows codes, missing values are below all thresholds; in the second
  // kBlockRows codes, they are above all of them.
  void fill(const T* __restrict values, std::uint8_t* __restrict codes) const {
    std::int32_t cells[kBlockRows];
    for (std::size_t i = 0; i < kBlockRows; ++i) cells[i] = cell(values[i]);
    for (std::size_t i = 0; i < kBlockRows; ++i) codes[i] = first_[cells[i]];
    for (unsigned half = 1u << n_steps_ >> 1; half > 0; half /= 2) {
      const T* middle = thresholds_.data() + half - 1;
      for (std::size_t i = 0; i < kBlockRows; ++i) codes[i] += half * (middle[codes[i]] < values[i]);
    }
    for (std::size_t i = 0; i < kBlockRows; ++i) {
      codes[kBlockRows + i] = values[i] == values[i] ? codes[i] : std::uint8_t{255};
    }
  }

 private:
  static constexpr int kCells = 512;

  // Monotone in the value, so thresholds in lower cells are below it and those in higher cells above. NaN: 0.
  std::int32_t cell(T value) const {
    const T steps = (value - low_) * scale_;
    return static_cast<std::int32_t>(std::min(std::max(T{0}, steps), T{kCells - 1}));
  }

  T low_, scale_;
  int n_steps_;
  std::vector<T> thresholds_;        // padded, so that a search needs no bounds check
  std::vector<std::uint8_t> first_;  // number of thresholds below each cell
};

// An inner node, which is evaluated for all rows of a block: it finds the leaf below it that each row reaches.
struct CodedNode {
  enum Kind : std::uint8_t { kTwoLeaves, kLeftLeaf, kRightLeaf, kNoLeaf };
  std::uint32_t column;    // offset of the codes of its feature
  std::uint8_t threshold;  // rows with larger codes go right
  Kind kind;               // which children are leaves
  std::uint8_t left;       // the leaf, or the slot with the leaves that rows reach below this child
  std::uint8_t right;
  std::uint8_t out;  // slot of the result
};

// Maximum number of results whose parent has not been evaluated yet. The child with more leaves is evaluated first, so
// there are at most log2(leaves) + 2.
constexpr int kSlots = 11;
using Leaves = std::uint8_t[kBlockRows];

AGBM_INLINE inline std::uint8_t leaf_at(std::uint8_t leaf, std::size_t) { return leaf; }
AGBM_INLINE inline std::uint8_t leaf_at(const std::uint8_t* leaves, std::size_t i) { return leaves[i]; }

template <class Left, class Right>
AGBM_INLINE inline void choose(const std::uint8_t* __restrict codes, std::uint8_t threshold, Left left, Right right,
                               std::uint8_t* __restrict out) {
  for (std::size_t i = 0; i < kBlockRows; ++i) {
    const std::uint8_t l = leaf_at(left, i), r = leaf_at(right, i);
    out[i] = codes[i] > threshold ? r : l;
  }
}

// Evaluates three nodes with four leaves at once, so that half of the nodes of a tree need no memory for their results.
AGBM_INLINE inline void choose_of_four(const CodedNode* node, const std::uint8_t* __restrict codes,
                                       std::uint8_t* __restrict out) {
  const std::uint8_t *c0 = codes + node[0].column, *c1 = codes + node[1].column, *c2 = codes + node[2].column;
  const std::uint8_t t0 = node[0].threshold, t1 = node[1].threshold, t2 = node[2].threshold;
  const std::uint8_t left = node[0].left, right = node[1].left;
  for (std::size_t i = 0; i < kBlockRows; ++i) {
    const std::uint8_t l = left + (c0[i] > t0), r = right + (c1[i] > t1);
    out[i] = c2[i] > t2 ? r : l;
  }
}

// Finds the leaf that each row reaches; the result is in the slot of the last node.
AGBM_INLINE inline void find_leaves(const CodedNode* node, const CodedNode* end, const std::uint8_t* codes,
                                    Leaves* slots) {
  for (; node != end; ++node) {
    const std::uint8_t* column = codes + node->column;
    const std::uint8_t threshold = node->threshold;
    std::uint8_t* out = slots[node->out];
    switch (node->kind) {
      case CodedNode::kTwoLeaves:
        if (end - node > 2 && node[1].kind == CodedNode::kTwoLeaves && node[2].kind == CodedNode::kNoLeaf) {
          choose_of_four(node, codes, slots[node[2].out]);
          node += 2;
        } else {
          choose(column, threshold, node->left, node->right, out);
        }
        break;
      case CodedNode::kLeftLeaf: choose(column, threshold, node->left, slots[node->right], out); break;
      case CodedNode::kRightLeaf: choose(column, threshold, slots[node->left], node->right, out); break;
      case CodedNode::kNoLeaf: choose(column, threshold, slots[node->left], slots[node->right], out); break;
    }
  }
}

}  // namespace agbm
