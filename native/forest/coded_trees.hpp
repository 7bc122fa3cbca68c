// The trees of a forest that are evaluated on blocks of codes; see coded.hpp.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/simd.hpp"
#include "forest/coded.hpp"
#include "forest/forest_arrays.hpp"

namespace agbm {

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
