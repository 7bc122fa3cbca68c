// Evaluation of small trees on blocks of rows, without walking down the trees.
//
// Each value of a block is first encoded as a byte: the number of the forest's thresholds below it, or the number of its
// category. A node is then evaluated for many rows at once by comparing bytes, or by looking them up in a set of 32
// bytes. This evaluates all nodes instead of those on one path, but is still much faster: there are no branches and no
// data-dependent addresses, and one instruction handles 16 to 64 rows. Bytes are exact, so the result does not depend
// on the vector width.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/simd.hpp"
#include "forest/forest_arrays.hpp"

namespace agbm {

constexpr std::size_t kBlockRows = 256;  // codes and leaves of a block stay in the L1 cache
constexpr int kMaxCodedLeaves = 256;     // the number of a leaf is a byte

// A column of codes has this many thresholds: a code is a byte, and 255 is above all of them. A feature with more
// thresholds has several columns, each for the next ones.
constexpr std::size_t kColumnThresholds = 255;
constexpr std::size_t kMaxThresholds = 0xffff;  // per feature

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
  // Each column has two codes per value. In the first kBlockRows codes, missing values are below all thresholds; in the
  // second kBlockRows codes, they are above all of them.
  static constexpr std::size_t kColumnBytes = 2 * kBlockRows;

  explicit CodeTable(const std::vector<double>& ascending)
      : n_columns_((ascending.size() + kColumnThresholds - 1) / kColumnThresholds),
        last_cell_(static_cast<T>(std::max<std::size_t>(512, std::bit_ceil(2 * ascending.size())) - 1)) {
    for (double t : ascending) thresholds_.push_back(round_down<T>(t));
    low_ = *std::find_if(thresholds_.begin(), thresholds_.end() - 1, [](T t) { return std::isfinite(t); });
    const T high = *std::find_if(thresholds_.rbegin(), thresholds_.rend() - 1, [](T t) { return std::isfinite(t); });
    const T scale = (last_cell_ + 1) / (high - low_);
    scale_ = std::isfinite(scale) ? scale : T{0};
    std::vector<unsigned> count(static_cast<std::size_t>(last_cell_) + 1);
    for (T t : thresholds_) ++count[cell(t)];
    unsigned before = 0;
    for (unsigned in_cell : count) {
      first_.push_back(static_cast<std::uint16_t>(before));
      before += in_cell;
    }
    n_steps_ = std::bit_width(*std::max_element(count.begin(), count.end()));
    thresholds_.resize(thresholds_.size() + (std::size_t{1} << n_steps_), std::numeric_limits<T>::infinity());
  }

  std::size_t n_columns() const { return n_columns_; }

  // Writes the columns of a block, one after the other.
  void fill(const T* __restrict values, std::uint8_t* __restrict codes) const {
    if (n_columns_ == 1) {
      count_below(values, codes);
      return mark_missing(values, codes);
    }
    std::uint16_t counts[kBlockRows];
    count_below(values, counts);
    for (std::size_t column = 0; column < n_columns_; ++column, codes += kColumnBytes) {
      const int before = static_cast<int>(column * kColumnThresholds);
      for (std::size_t i = 0; i < kBlockRows; ++i) {
        codes[i] = static_cast<std::uint8_t>(std::clamp(counts[i] - before, 0, int{kColumnThresholds}));
      }
      mark_missing(values, codes);
    }
  }

 private:
  template <class Count>
  void count_below(const T* __restrict values, Count* __restrict counts) const {
    std::int32_t cells[kBlockRows];
    for (std::size_t i = 0; i < kBlockRows; ++i) cells[i] = cell(values[i]);
    for (std::size_t i = 0; i < kBlockRows; ++i) counts[i] = static_cast<Count>(first_[cells[i]]);
    for (unsigned half = 1u << n_steps_ >> 1; half > 0; half /= 2) {
      const T* middle = thresholds_.data() + half - 1;
      for (std::size_t i = 0; i < kBlockRows; ++i) counts[i] += half * (middle[counts[i]] < values[i]);
    }
  }

  static void mark_missing(const T* __restrict values, std::uint8_t* __restrict codes) {
    for (std::size_t i = 0; i < kBlockRows; ++i) {
      codes[kBlockRows + i] = values[i] == values[i] ? codes[i] : std::uint8_t{255};
    }
  }

  // Monotone in the value, so thresholds in lower cells are below it and those in higher cells above. NaN: 0.
  std::int32_t cell(T value) const {
    const T steps = (value - low_) * scale_;
    return static_cast<std::int32_t>(std::min(std::max(T{0}, steps), last_cell_));
  }

  std::size_t n_columns_;
  T last_cell_, low_, scale_;
  int n_steps_;
  std::vector<T> thresholds_;         // padded, so that a search needs no bounds check
  std::vector<std::uint16_t> first_;  // number of thresholds below each cell
};

// A set of categories as 32 bytes, in which the last category stands for all values that are none of the others.
using ByteSet = std::array<std::uint8_t, 32>;
constexpr int kMaxByteCategories = 255;

// Codes of categories: their numbers, and the largest code for all other values.
template <class T, class Code>
void number_categories(const T* __restrict values, Code* __restrict codes) {
  constexpr T most = std::numeric_limits<Code>::max();
  for (std::size_t i = 0; i < kBlockRows; ++i) {
    codes[i] = values[i] >= T{0} && values[i] < most ? static_cast<Code>(values[i]) : static_cast<Code>(most);
  }
}

// Writes 1 or 255 for the rows whose categories are not in a set, and 0 for the others.
inline void find_others_plain(const ByteSet& set, const std::uint8_t* codes, std::uint8_t* out) {
  for (std::size_t i = 0; i < kBlockRows; ++i) out[i] = ~set[codes[i] / 8] >> codes[i] % 8 & 1;
}

#if defined(__aarch64__)
inline void find_others(const ByteSet& set, const std::uint8_t* codes, std::uint8_t* out) {
  const uint8x16x2_t bytes = {vld1q_u8(set.data()), vld1q_u8(set.data() + 16)};
  for (std::size_t i = 0; i < kBlockRows; i += 16) {
    const uint8x16_t code = vld1q_u8(codes + i);
    const uint8x16_t bit = vshlq_u8(vdupq_n_u8(1), vreinterpretq_s8_u8(vandq_u8(code, vdupq_n_u8(7))));
    vst1q_u8(out + i, vceqzq_u8(vandq_u8(vqtbl2q_u8(bytes, vshrq_n_u8(code, 3)), bit)));
  }
}
#elif defined(__x86_64__)
__attribute__((target("avx2"))) inline void find_others_avx2(const ByteSet& set, const std::uint8_t* codes,
                                                             std::uint8_t* out) {
  const auto both = [](const void* from) __attribute__((target("avx2"))) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(from)));
  };
  constexpr std::uint8_t powers[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const __m256i low = both(set.data()), high = both(set.data() + 16), bits = both(powers);
  for (std::size_t i = 0; i < kBlockRows; i += 32) {
    const __m256i code = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i));
    const __m256i place = _mm256_and_si256(_mm256_srli_epi16(code, 3), _mm256_set1_epi8(31));
    const __m256i byte = _mm256_blendv_epi8(_mm256_shuffle_epi8(low, place), _mm256_shuffle_epi8(high, place),
                                            _mm256_cmpgt_epi8(place, _mm256_set1_epi8(15)));
    const __m256i bit = _mm256_shuffle_epi8(bits, _mm256_and_si256(code, _mm256_set1_epi8(7)));
    const __m256i none = _mm256_cmpeq_epi8(_mm256_and_si256(byte, bit), _mm256_setzero_si256());
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), none);
  }
}
inline void find_others(const ByteSet& set, const std::uint8_t* codes, std::uint8_t* out) {
  widest_instructions() == Instructions::kPlain ? find_others_plain(set, codes, out)
                                                : find_others_avx2(set, codes, out);
}
#else
inline void find_others(const ByteSet& set, const std::uint8_t* codes, std::uint8_t* out) {
  find_others_plain(set, codes, out);
}
#endif

// The same for a set of any size, whose codes have two bytes; `missing` says whether values outside its range are in it.
inline void find_others(const CategorySet& set, bool missing, const std::uint16_t* codes, std::uint8_t* out) {
  const std::int64_t size = set.size();
  for (std::size_t i = 0; i < kBlockRows; ++i) out[i] = !(codes[i] < size ? set.has(codes[i]) : missing);
}

// An inner node, which is evaluated for all rows of a block: it finds the leaf below it that each row reaches.
struct CodedNode {
  enum Kind : std::uint8_t { kTwoLeaves, kLeftLeaf, kRightLeaf, kNoLeaf };
  std::uint32_t column;    // offset of the codes of its feature, or the number of its set of categories
  std::uint8_t threshold;  // rows with larger codes go right; 0 for categories
  Kind kind;               // which children are leaves
  std::uint8_t left;       // the leaf, or the slot with the leaves that rows reach below this child
  std::uint8_t right;
  std::uint8_t out;  // slot of the result
  bool by_categories;
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
AGBM_INLINE inline void choose_of_four(const CodedNode* node, const std::uint8_t* __restrict c0,
                                       const std::uint8_t* __restrict c1, const std::uint8_t* __restrict c2,
                                       std::uint8_t* __restrict out) {
  const std::uint8_t t0 = node[0].threshold, t1 = node[1].threshold, t2 = node[2].threshold;
  const std::uint8_t left = node[0].left, right = node[1].left;
  for (std::size_t i = 0; i < kBlockRows; ++i) {
    const std::uint8_t l = left + (c0[i] > t0), r = right + (c1[i] > t1);
    out[i] = c2[i] > t2 ? r : l;
  }
}

// Finds the leaf that each row reaches; the result is in the slot of the last node. codes_of(node, other): the codes of a
// node, which may be written to `other`.
template <class CodesOf>
AGBM_INLINE inline void find_leaves(const CodedNode* node, const CodedNode* end, const CodesOf& codes_of,
                                    Leaves* slots) {
  Leaves others[3];
  for (; node != end; ++node) {
    const std::uint8_t* codes = codes_of(*node, others[0]);
    const std::uint8_t threshold = node->threshold;
    std::uint8_t* out = slots[node->out];
    switch (node->kind) {
      case CodedNode::kTwoLeaves:
        if (end - node > 2 && node[1].kind == CodedNode::kTwoLeaves && node[2].kind == CodedNode::kNoLeaf) {
          choose_of_four(node, codes, codes_of(node[1], others[1]), codes_of(node[2], others[2]), slots[node[2].out]);
          node += 2;
        } else {
          choose(codes, threshold, node->left, node->right, out);
        }
        break;
      case CodedNode::kLeftLeaf: choose(codes, threshold, node->left, slots[node->right], out); break;
      case CodedNode::kRightLeaf: choose(codes, threshold, slots[node->left], node->right, out); break;
      case CodedNode::kNoLeaf: choose(codes, threshold, slots[node->left], slots[node->right], out); break;
    }
  }
}

}  // namespace agbm
