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
#include <map>
#include <span>
#include <utility>
#include <vector>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/simd.hpp"
#include "forest/arrays.hpp"

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
      for (std::size_t i = 0; i < kBlockRows; ++i)
        counts[i] += half * AGBM_WITHOUT_BRANCH(middle[counts[i]] < values[i]);
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

// The trees of a forest that are evaluated on blocks of codes.
class CodedTrees {
 public:
  // Trees are left out that have more than kMaxCodedLeaves leaves, or a feature with more thresholds or categories than
  // codes can number.
  explicit CodedTrees(const ForestArrays& forest);

  std::size_t n_bytes() const { return n_bytes_; }  // of the codes of a block
  bool has(std::size_t tree) const { return trees_[tree].first < trees_[tree].end; }
  // The values of leaves, (leaf, value).
  const double* values(std::size_t tree) const { return values_.data() + trees_[tree].first_value; }

  // Writes the codes of a block. column_of(feature): kBlockRows numbers of type T.
  template <class T, class ColumnOf>
  void fill(const ColumnOf& column_of, std::uint8_t* codes) const {
    for (const Numbers& numbers : numbers_) numbers.table(T{}).fill(column_of(numbers.feature), codes + numbers.column);
    for (const Categories& categories : categories_) {
      const T* values = column_of(categories.feature);
      if (categories.in_bytes) {
        number_categories(values, codes + categories.column);
      } else {
        number_categories(values, reinterpret_cast<std::uint16_t*>(codes + categories.column));
      }
    }
  }

  // The leaf that each row of a block reaches in a tree.
  const std::uint8_t* leaves(std::size_t tree, const std::uint8_t* codes, Leaves* slots) const {
    const CodedNode *begin = nodes_.data() + trees_[tree].first, *end = nodes_.data() + trees_[tree].end;
    const auto column_of = [&](const CodedNode& node, std::uint8_t*) AGBM_INLINE { return codes + node.column; };
    const auto side_of = [&](const CodedNode& node, std::uint8_t* other) AGBM_INLINE {
      return node.by_categories ? find_other_side(sets_[node.column], codes, other) : codes + node.column;
    };
    if (trees_[tree].has_categories) {
      vectorised([&]() AGBM_INLINE { find_leaves(begin, end, side_of, slots); });
    } else {
      vectorised([&]() AGBM_INLINE { find_leaves(begin, end, column_of, slots); });
    }
    return slots[end[-1].out];
  }

 private:
  struct Tree {
    std::size_t first, end;   // nodes; none if the tree is left out
    std::size_t first_value;  // of its leaves
    bool has_categories = false;
  };

  // The thresholds of a feature.
  struct Numbers {
    int feature;
    std::size_t column;  // offset of its codes
    CodeTable<float> narrow;
    CodeTable<double> wide;

    const CodeTable<float>& table(float) const { return narrow; }
    const CodeTable<double>& table(double) const { return wide; }
  };

  struct Categories {
    int feature;
    std::size_t column;
    bool in_bytes;
  };

  // A set of categories: the number of a ByteSet, or a larger set.
  struct Set {
    std::size_t column;  // offset of the codes
    std::size_t bytes;
    CategorySet words;
    bool missing;
  };

  // Where the leaves of a node's rows are: in a slot, or all in one leaf.
  struct Place {
    bool is_leaf;
    std::uint8_t number;
  };

  class Builder;

  // If the codes of a block need more, no tree is coded.
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 24;

  const std::uint8_t* find_other_side(const Set& set, const std::uint8_t* codes, std::uint8_t* other) const {
    if (set.words.words == nullptr) {
      find_others(byte_sets_[set.bytes], codes + set.column, other);
    } else {
      find_others(set.words, set.missing, reinterpret_cast<const std::uint16_t*>(codes + set.column), other);
    }
    return other;
  }

  std::size_t n_bytes_ = 0;
  std::vector<Tree> trees_;
  std::vector<Numbers> numbers_;
  std::vector<Categories> categories_;
  std::vector<CodedNode> nodes_;
  std::vector<Set> sets_;
  std::vector<ByteSet> byte_sets_;
  std::vector<double> values_;  // of one tree after the other
};

class CodedTrees::Builder {
 public:
  Builder(const ForestArrays& forest, CodedTrees& to) : a_(forest), to_(to), n_leaves_(forest.nodes.size(), 1) {
    for (std::size_t i = n_leaves_.size(); i-- > 0;) {
      const ForestNode& node = a_.nodes[i];
      if (node.feature >= 0) n_leaves_[i] = n_leaves_[node.left] + n_leaves_[node.left + 1];
    }
  }

  void build() {
    for (std::size_t tree = 0; tree < a_.roots.size(); ++tree) {
      for (const ForestNode& node : inner_nodes(tree)) {
        node.categories < 0 ? thresholds_[node.feature].all.push_back(node.threshold)
                            : add_set(sizes_[node.feature], node);
      }
    }
    lay_out_columns();
    for (std::size_t tree = 0; tree < a_.roots.size(); ++tree) {
      to_.trees_.push_back({to_.nodes_.size(), to_.nodes_.size(), to_.values_.size()});
      if (!can_be_coded(tree)) continue;
      to_.values_.resize(to_.values_.size() + static_cast<std::size_t>(n_leaves_[a_.roots[tree]]) * a_.n_values);
      std::uint32_t free_slots = (1u << kSlots) - 1;
      add_node(a_.roots[tree], 0, free_slots);
      to_.trees_.back().end = to_.nodes_.size();
    }
  }

 private:
  // The thresholds of one feature.
  struct Thresholds {
    std::vector<double> all;  // ascending, once they are laid out
    std::size_t column = 0;   // offset of the codes
  };
  // The sets of categories of one feature.
  struct Sizes {
    std::int64_t largest = 0;
    bool in_bytes = true;
    std::size_t column = 0;
  };

  // The inner nodes of a tree if it has few enough leaves: all nodes but its leaves lie between its root and the next.
  std::vector<ForestNode> inner_nodes(std::size_t tree) const {
    std::vector<ForestNode> inner;
    if (n_leaves_[a_.roots[tree]] > kMaxCodedLeaves) return inner;
    const std::size_t end = tree + 1 < a_.roots.size() ? a_.roots[tree + 1] : a_.nodes.size();
    std::copy_if(a_.nodes.begin() + a_.roots[tree], a_.nodes.begin() + static_cast<std::ptrdiff_t>(end),
                 std::back_inserter(inner), [](const ForestNode& node) { return node.feature >= 0; });
    return inner;
  }

  // The largest code stands for values that are no category, so if a set says something else of it, codes need two bytes.
  void add_set(Sizes& sizes, const ForestNode& node) const {
    const CategorySet set = a_.set_of(node);
    sizes.largest = std::max(sizes.largest, set.size());
    sizes.in_bytes &= set.size() <= kMaxByteCategories ||
                      (set.size() == kMaxByteCategories + 1 && set.has(kMaxByteCategories) == node.missing_left);
  }

  bool fits(const Thresholds& thresholds) const { return thresholds.all.size() <= kMaxThresholds; }
  bool fits(const Sizes& sizes) const { return sizes.largest <= std::numeric_limits<std::uint16_t>::max(); }

  bool can_be_coded(std::size_t tree) const {
    const std::vector<ForestNode> inner = inner_nodes(tree);
    return !inner.empty() && to_.n_bytes_ > 0 && std::all_of(inner.begin(), inner.end(), [&](const ForestNode& node) {
      return node.categories < 0 ? fits(thresholds_.at(node.feature)) : fits(sizes_.at(node.feature));
    });
  }

  void lay_out_columns() {
    for (auto& [feature, its] : thresholds_) {
      std::sort(its.all.begin(), its.all.end());
      its.all.erase(std::unique(its.all.begin(), its.all.end()), its.all.end());
      its.column = to_.n_bytes_;
      if (!fits(its)) continue;
      to_.numbers_.push_back({feature, its.column, CodeTable<float>(its.all), CodeTable<double>(its.all)});
      to_.n_bytes_ += to_.numbers_.back().narrow.n_columns() * CodeTable<float>::kColumnBytes;
    }
    for (auto& [feature, its] : sizes_) {
      its.column = to_.n_bytes_;
      if (!fits(its)) continue;
      to_.categories_.push_back({feature, its.column, its.in_bytes});
      to_.n_bytes_ += kBlockRows * (its.in_bytes ? 1 : sizeof(std::uint16_t));
    }
    if (to_.n_bytes_ <= kMaxBytes) return;
    to_.n_bytes_ = 0;
    to_.numbers_.clear();
    to_.categories_.clear();
  }

  // Adds the nodes of a subtree, whose leaves are numbered from first_leaf on, children first.
  Place add_node(std::int32_t i, int first_leaf, std::uint32_t& free_slots) {
    const ForestNode& node = a_.nodes[i];
    if (node.feature < 0) {
      std::copy_n(&a_.values[static_cast<std::size_t>(i) * a_.n_values], a_.n_values,
                  &to_.values_[to_.trees_.back().first_value + static_cast<std::size_t>(first_leaf) * a_.n_values]);
      return {true, static_cast<std::uint8_t>(first_leaf)};
    }
    const int n_left = n_leaves_[node.left];
    Place left, right;
    const auto add_left = [&] { left = add_node(node.left, first_leaf, free_slots); };
    const auto add_right = [&] { right = add_node(node.left + 1, first_leaf + n_left, free_slots); };
    if (n_left >= n_leaves_[node.left + 1]) {
      add_left();
      add_right();
    } else {
      add_right();
      add_left();
    }
    CodedNode coded = node.categories < 0 ? by_threshold(node) : by_categories(node);
    coded.out = static_cast<std::uint8_t>(std::countr_zero(free_slots));
    free_slots &= ~(1u << coded.out);
    for (const Place& child : {left, right}) {
      if (!child.is_leaf) free_slots |= 1u << child.number;
    }
    coded.kind = left.is_leaf && right.is_leaf ? CodedNode::kTwoLeaves
                 : left.is_leaf                ? CodedNode::kLeftLeaf
                 : right.is_leaf               ? CodedNode::kRightLeaf
                                               : CodedNode::kNoLeaf;
    coded.left = left.number;
    coded.right = right.number;
    to_.nodes_.push_back(coded);
    return {false, coded.out};
  }

  CodedNode by_threshold(const ForestNode& node) const {
    const Thresholds& its = thresholds_.at(node.feature);
    const auto code =
        static_cast<std::size_t>(std::lower_bound(its.all.begin(), its.all.end(), node.threshold) - its.all.begin());
    const std::size_t column = its.column + code / kColumnThresholds * CodeTable<float>::kColumnBytes;
    return {static_cast<std::uint32_t>(column + (node.missing_left ? 0 : kBlockRows)),
            static_cast<std::uint8_t>(code % kColumnThresholds),
            {},
            0,
            0,
            0,
            false};
  }

  CodedNode by_categories(const ForestNode& node) {
    const Sizes& its = sizes_.at(node.feature);
    const CategorySet set = a_.set_of(node);
    to_.trees_.back().has_categories = true;
    to_.sets_.push_back(
        {its.column, to_.byte_sets_.size(), its.in_bytes ? CategorySet{nullptr, 0} : set, node.missing_left});
    if (its.in_bytes) {
      ByteSet bytes{};
      for (int category = 0; category <= kMaxByteCategories; ++category) {
        const bool in = category < set.size() ? set.has(std::int64_t{category}) : node.missing_left;
        bytes[category / 8] |= static_cast<std::uint8_t>(in << category % 8);
      }
      to_.byte_sets_.push_back(bytes);
    }
    return {static_cast<std::uint32_t>(to_.sets_.size() - 1), 0, {}, 0, 0, 0, true};
  }

  const ForestArrays& a_;
  CodedTrees& to_;
  std::vector<std::int32_t> n_leaves_;    // below each node
  std::map<int, Thresholds> thresholds_;  // only of features in use: a model may declare very many
  std::map<int, Sizes> sizes_;
};

inline CodedTrees::CodedTrees(const ForestArrays& forest) { Builder(forest, *this).build(); }

}  // namespace agbm
