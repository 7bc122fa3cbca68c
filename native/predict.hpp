// Predictions of forests on rows of numbers.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>

#include "coded.hpp"
#include "parallel.hpp"
#include "tree.hpp"

namespace agbm {

// Limits of every forest, so that a stored one cannot demand more memory or time than its size justifies.
constexpr int kMaxFeatures = 1 << 24;
constexpr int kMaxDepth = 4096;
constexpr std::size_t kMaxNodes = (std::size_t{1} << 31) - 2;

// The trees of a forest, one after the other. Children of a node are left and left + 1, both after their parent, so a
// walk always ends. The values of a tree are added to neighbouring columns of the prediction, in the order of the
// trees.
class Forest {
 public:
  struct Node {
    double threshold;         // values at or below go left
    std::int32_t feature;     // -1: leaf
    std::int32_t left;        // within the whole forest
    std::int32_t categories;  // number of the set of categories that go left; -1: the threshold decides
    bool missing_left;
  };

  struct Arrays {
    int n_features = 0;
    int n_columns = 0;
    int n_values = 0;  // per leaf
    std::vector<std::int32_t> roots;
    std::vector<std::int32_t> first_column;  // per tree
    std::vector<Node> nodes;
    std::vector<std::uint64_t> category_words;  // of all sets, one bit per category
    std::vector<std::int64_t> category_start;   // first word of each set; the last entry is the total
    std::vector<double> values;                 // (node, value)
    std::vector<double> counts;                 // training rows of each node

    std::int64_t n_sets() const { return static_cast<std::int64_t>(category_start.size()) - 1; }

    // Takes nodes and counts from stored records. Fields that are not needed later are only checked.
    void take_nodes(std::span<const std::uint8_t> records);

    // Categories are numbered from 0. A value outside the set's range is treated as missing.
    bool has_category(const Node& node, double x) const {
      const std::int64_t begin = category_start[node.categories], end = category_start[node.categories + 1];
      if (!(x >= 0.0 && x < 64.0 * static_cast<double>(end - begin))) return node.missing_left;
      const std::int64_t category = static_cast<std::int64_t>(x);
      return category_words[begin + category / 64] >> (category % 64) & 1;
    }

    // Checks everything that predictions rely on; they check nothing.
    void validate() const;

   private:
    void validate_node(std::size_t i) const;
    void validate_shape() const;
  };

  explicit Forest(Arrays&& arrays) : a_(std::move(arrays)) {
    a_.validate();
    code_trees();
    close_leaves();
  }

  int n_features() const { return a_.n_features; }
  int n_columns() const { return a_.n_columns; }
  const Arrays& arrays() const { return a_; }
  bool is_leaf(std::int32_t node) const { return a_.nodes[node].left == node; }

  // The child that a row goes to from a node; a leaf leads to itself, but reads a feature.
  template <class T>
  std::uint32_t next_node(std::uint32_t at, const T* row, std::ptrdiff_t feature_stride) const {
    const Node& node = a_.nodes[at];
    const double x = static_cast<double>(row[node.feature * feature_stride]);
    if (node.categories >= 0) return static_cast<std::uint32_t>(node.left) + !a_.has_category(node, x);
    return next_of_numbers(a_.nodes.data(), at, x);
  }

  // The same for a node that is not split by categories.
  static std::uint32_t next_of_numbers(const Node* nodes, std::uint32_t at, double x) {
    const Node& node = nodes[at];
    const bool missing = x != x;
    const bool right = !(x <= node.threshold) & !(missing & node.missing_left);
    return static_cast<std::uint32_t>(node.left) + right;
  }

  // out (row, column) += sum over trees. Rows are at x[row * row_stride + feature * feature_stride].
  template <class T>
  void add_predictions(const T* x, std::size_t n_rows, std::ptrdiff_t row_stride, std::ptrdiff_t feature_stride,
                       double* out, int n_threads) const {
    if (n_rows * trees_.size() < kFewestSharedWalks) n_threads = 1;
    const std::size_t n_blocks = (n_rows + kBlockRows - 1) / kBlockRows;
    const std::size_t n_tasks = std::min<std::size_t>(n_blocks, 8 * static_cast<std::size_t>(std::max(n_threads, 1)));
    const std::size_t n_codes = n_rows < kFewestCodedRows ? 0 : 2 * kBlockRows * coded_features_.size();
    std::vector<std::uint8_t> codes(n_tasks * n_codes);
    parallel_for(n_tasks, n_threads, [&](std::size_t task) {
      for (std::size_t b = task * n_blocks / n_tasks; b < (task + 1) * n_blocks / n_tasks; ++b) {
        const std::size_t begin = b * kBlockRows;
        const Block<T> block{x + static_cast<std::ptrdiff_t>(begin) * row_stride, std::min(kBlockRows, n_rows - begin),
                             row_stride, feature_stride, out + begin * a_.n_columns};
        if (block.n_rows < kFewestCodedRows) {
          add_row_by_row(block);
        } else {
          add_tree_by_tree(block, codes.data() + task * n_codes);
        }
      }
    });
  }

 private:
  static constexpr std::size_t kFewestCodedRows = 32;         // fewer are walked sooner than a block is encoded
  static constexpr std::size_t kFewestSharedWalks = 1 << 15;  // fewer take at most 0.2 ms, too little to wake a thread
  static constexpr std::size_t kWalks = 8;                    // side by side, since each mostly waits for memory
  static constexpr std::size_t kJoined = 4;                   // trees that add their values together

  template <class T>
  struct Block {
    const T* x;
    std::size_t n_rows;
    std::ptrdiff_t row_stride, feature_stride;
    double* out;

    const T* row(std::size_t i) const { return x + static_cast<std::ptrdiff_t>(i) * row_stride; }
  };

  // The thresholds of a feature that coded trees use.
  struct CodedFeature {
    int feature;
    CodeTable<float> narrow;
    CodeTable<double> wide;

    const CodeTable<float>& table(float) const { return narrow; }
    const CodeTable<double>& table(double) const { return wide; }
  };

  struct Tree {
    int depth;
    std::size_t first_coded, end_coded;  // nodes; none if the tree is walked
    std::size_t first_value;             // of the coded tree's leaves
  };

  template <class T>
  void add_tree_by_tree(const Block<T>& block, std::uint8_t* codes) const {
    fill_codes(block, codes);
    for (std::size_t tree = 0; tree < trees_.size();) {
      if (!is_coded(tree)) {
        add_walks(block, tree++);
      } else if (can_join(tree)) {
        add_coded<kJoined>(block, tree, codes);
        tree += kJoined;
      } else {
        add_coded<1>(block, tree++, codes);
      }
    }
  }

  bool is_coded(std::size_t tree) const { return trees_[tree].first_coded < trees_[tree].end_coded; }

  // Trees that add single values to the same column do so together: a row's sum is then read and written once.
  bool can_join(std::size_t first) const {
    if (a_.n_values != 1 || first + kJoined > trees_.size()) return false;
    for (std::size_t tree = first; tree < first + kJoined; ++tree) {
      if (!is_coded(tree) || a_.first_column[tree] != a_.first_column[first]) return false;
    }
    return true;
  }

  template <std::size_t kTrees, class T>
  void add_coded(const Block<T>& block, std::size_t first, const std::uint8_t* codes) const {
    alignas(64) Leaves slots[kTrees][kSlots];
    const std::uint8_t* leaves[kTrees];
    const double* values[kTrees];
    for (std::size_t k = 0; k < kTrees; ++k) {
      const Tree& tree = trees_[first + k];
      const CodedNode *begin = coded_nodes_.data() + tree.first_coded, *end = coded_nodes_.data() + tree.end_coded;
      vectorised([&]() AGBM_INLINE { find_leaves(begin, end, codes, slots[k]); });
      leaves[k] = slots[k][end[-1].out];
      values[k] = coded_values_.data() + tree.first_value;
    }
    double* out = block.out + a_.first_column[first];
    for (std::size_t i = 0; i < block.n_rows; ++i, out += a_.n_columns) {
      if (a_.n_values == 1) {
        double sum = *out;
        for (std::size_t k = 0; k < kTrees; ++k) sum += values[k][leaves[k][i]];
        *out = sum;
      } else {
        add_values(values[0] + leaves[0][i] * a_.n_values, out);
      }
    }
  }

  template <class T>
  void fill_codes(const Block<T>& block, std::uint8_t* codes) const {
    T values[kBlockRows] = {};
    for (const CodedFeature& coded : coded_features_) {
      const T* column = block.x + coded.feature * block.feature_stride;
      for (std::size_t i = 0; i < block.n_rows; ++i)
        values[i] = column[static_cast<std::ptrdiff_t>(i) * block.row_stride];
      coded.table(T{}).fill(values, codes);
      codes += 2 * kBlockRows;
    }
  }

  template <class T>
  void add_walks(const Block<T>& block, std::size_t tree) const {
    for (std::size_t first = 0; first < block.n_rows; first += kWalks) {
      const std::size_t n = std::min(kWalks, block.n_rows - first);
      std::uint32_t at[kWalks];
      const T* rows[kWalks];
      for (std::size_t k = 0; k < kWalks; ++k) {
        at[k] = static_cast<std::uint32_t>(a_.roots[tree]);
        rows[k] = block.row(first + std::min(k, n - 1));
      }
      walk(at, rows, block.feature_stride, trees_[tree].depth);
      for (std::size_t k = 0; k < n; ++k) add_leaf(tree, at[k], block.out + (first + k) * a_.n_columns);
    }
  }

  template <class T>
  void add_row_by_row(const Block<T>& block) const {
    for (std::size_t i = 0; i < block.n_rows; ++i) {
      for (std::size_t first = 0; first < trees_.size(); first += kWalks) {
        const std::size_t n = std::min(kWalks, trees_.size() - first);
        std::uint32_t at[kWalks];
        const T* rows[kWalks];
        int depth = 0;
        for (std::size_t k = 0; k < kWalks; ++k) {
          const std::size_t tree = first + std::min(k, n - 1);
          at[k] = static_cast<std::uint32_t>(a_.roots[tree]);
          rows[k] = block.row(i);
          depth = std::max(depth, trees_[tree].depth);
        }
        walk(at, rows, block.feature_stride, depth);
        for (std::size_t k = 0; k < n; ++k) add_leaf(first + k, at[k], block.out + i * a_.n_columns);
      }
    }
  }

  void add_leaf(std::size_t tree, std::uint32_t leaf, double* out) const {
    add_values(&a_.values[static_cast<std::size_t>(leaf) * a_.n_values], out + a_.first_column[tree]);
  }

  void add_values(const double* values, double* out) const {
    for (int k = 0; k < a_.n_values; ++k) out[k] += values[k];
  }

  // Takes as many steps as the deepest tree needs; walks that have reached a leaf stay there.
  template <class T>
  void walk(std::uint32_t (&at)[kWalks], const T* const (&rows)[kWalks], std::ptrdiff_t feature_stride,
            int depth) const {
    if (a_.n_sets() > 0) {
      for (int step = 0; step < depth; ++step) {
        for (std::size_t k = 0; k < kWalks; ++k) at[k] = next_node(at[k], rows[k], feature_stride);
      }
      return;
    }
    const Node* const nodes = a_.nodes.data();
    for (int step = 0; step < depth; ++step) {
#pragma GCC unroll 8
      for (std::size_t k = 0; k < kWalks; ++k) {
        at[k] = next_of_numbers(nodes, at[k], static_cast<double>(rows[k][nodes[at[k]].feature * feature_stride]));
      }
    }
  }

  // Leaves become nodes that send every value to themselves, so that a walk need not check whether it has reached one.
  void close_leaves() {
    std::vector<int> depth(a_.nodes.size(), 0);
    for (std::size_t i = a_.nodes.size(); i-- > 0;) {
      Node& node = a_.nodes[i];
      if (node.feature < 0) {
        node = {std::numeric_limits<double>::infinity(), 0, static_cast<std::int32_t>(i), -1, true};
      } else {
        depth[i] = 1 + std::max(depth[node.left], depth[node.left + 1]);
      }
    }
    for (std::size_t tree = 0; tree < trees_.size(); ++tree) trees_[tree].depth = depth[a_.roots[tree]];
  }

  void code_trees();
  std::vector<std::int32_t> inner_nodes_if_small(std::int32_t root) const;

  // Where the leaves of a node's rows are: in a slot, or all in one leaf.
  struct Place {
    bool is_leaf;
    std::uint8_t number;
  };
  // The thresholds of one feature in the trees that could be coded.
  struct Thresholds {
    std::vector<double> all;  // ascending
    std::uint32_t place = 0;  // among the coded features

    bool fit_in_a_byte() const { return all.size() <= kMaxThresholds; }
  };
  using ThresholdsOfFeatures = std::map<int, Thresholds>;  // only of features in use: a model may declare very many
  Place code_node(std::int32_t node, int first_leaf, const std::vector<std::int32_t>& n_leaves,
                  const ThresholdsOfFeatures& thresholds, std::uint32_t& free_slots);
  std::vector<std::int32_t> leaves_below() const;

  Arrays a_;
  std::vector<Tree> trees_;
  std::vector<CodedFeature> coded_features_;
  std::vector<CodedNode> coded_nodes_;
  std::vector<double> coded_values_;  // (leaf, value) of one coded tree after the other
};

inline std::invalid_argument bad_node(const char* what, std::size_t i, const std::string& why) {
  return std::invalid_argument(std::string(what) + ": node " + std::to_string(i) + " " + why);
}

inline void Forest::Arrays::take_nodes(std::span<const std::uint8_t> records) {
  if (records.size() % sizeof(NodeRecord) != 0) throw std::invalid_argument("nodes: the last node is incomplete");
  nodes.resize(records.size() / sizeof(NodeRecord));
  counts.resize(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    NodeRecord r;
    std::memcpy(&r, records.data() + i * sizeof r, sizeof r);
    if (!std::isfinite(r.gain)) throw bad_node("gain", i, "has a gain that is not finite");
    if (r.count < 0) throw bad_node("count", i, "has a negative number of rows");
    if (r.bin < -1 || r.bin > 255) throw bad_node("bin", i, "has bin " + std::to_string(r.bin));
    if (r.missing_left > 1) throw bad_node("missing_left", i, "must be 0 or 1");
    nodes[i] = {r.threshold, r.feature, r.left, r.categories, r.missing_left != 0};
    counts[i] = static_cast<double>(r.count);
  }
}

inline void Forest::Arrays::validate() const {
  if (n_features < 0 || n_features > kMaxFeatures) {
    throw std::invalid_argument("n_features: " + std::to_string(n_features) + " is not between 0 and " +
                                std::to_string(kMaxFeatures));
  }
  if (nodes.size() > kMaxNodes) throw std::invalid_argument("nodes: there are more than " + std::to_string(kMaxNodes));
  if (n_values < 1 || n_values > n_columns) throw std::invalid_argument("n_values: more than the forest has columns");
  if (values.size() != nodes.size() * static_cast<std::size_t>(n_values)) {
    throw std::invalid_argument("value: must have n_values entries for each node");
  }
  if (!std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); })) {
    throw std::invalid_argument("value: some are not finite");
  }
  if (category_start.empty() || category_start.front() != 0 ||
      category_start.back() != static_cast<std::int64_t>(category_words.size()) ||
      !std::is_sorted(category_start.begin(), category_start.end())) {
    throw std::invalid_argument("category_start: must increase from 0 to the number of words");
  }
  if (first_column.size() != roots.size())
    throw std::invalid_argument("first_column: must have one entry for each root");
  for (std::int32_t first : first_column) {
    if (first < 0 || first > n_columns - n_values) throw std::invalid_argument("first_column: no such column");
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) validate_node(i);
  validate_shape();
}

inline void Forest::Arrays::validate_node(std::size_t i) const {
  const Node& node = nodes[i];
  if (node.feature < -1 || node.feature >= n_features) {
    throw bad_node(
        "feature", i,
        "splits on feature " + std::to_string(node.feature) + ", but the forest has " + std::to_string(n_features));
  }
  if (node.categories < -1 || node.categories >= n_sets()) {
    throw bad_node("categories", i, "has set " + std::to_string(node.categories) + " of " + std::to_string(n_sets()));
  }
  if (node.feature < 0
          ? node.left != -1
          : node.left <= static_cast<std::int64_t>(i) || static_cast<std::size_t>(node.left) + 1 >= nodes.size()) {
    throw bad_node("left", i, "has children out of place");
  }
  if (std::isnan(node.threshold)) throw bad_node("threshold", i, "has a threshold that is NaN");
}

// Every node is a root or has one parent, the nodes of a tree lie between its root and the next one, and none is deeper
// than kMaxDepth.
inline void Forest::Arrays::validate_shape() const {
  std::vector<std::uint16_t> level(nodes.size(), 0);  // 1 for roots; 0: not reached yet
  const auto reach = [&](std::size_t i, int at) {
    if (level[i] != 0) throw bad_node("left", i, "is reached twice: a node must be a root or have one parent");
    if (at > kMaxDepth + 1) throw bad_node("left", i, "is deeper than " + std::to_string(kMaxDepth) + " levels");
    level[i] = static_cast<std::uint16_t>(at);
  };
  for (std::size_t tree = 0; tree < roots.size(); ++tree) {
    const std::size_t end = tree + 1 < roots.size() ? static_cast<std::size_t>(roots[tree + 1]) : nodes.size();
    if (roots[tree] < 0 || static_cast<std::size_t>(roots[tree]) >= end || end > nodes.size()) {
      throw std::invalid_argument("roots: must increase and be numbers of nodes");
    }
    reach(static_cast<std::size_t>(roots[tree]), 1);
    for (std::size_t i = static_cast<std::size_t>(roots[tree]); i < end; ++i) {
      if (level[i] == 0) throw bad_node("left", i, "belongs to no tree");
      if (nodes[i].feature < 0) continue;
      if (static_cast<std::size_t>(nodes[i].left) + 1 >= end) throw bad_node("left", i, "has children in another tree");
      for (std::size_t child : {0, 1}) reach(static_cast<std::size_t>(nodes[i].left) + child, level[i] + 1);
    }
  }
  if (!nodes.empty() && (roots.empty() || roots.front() != 0)) throw bad_node("roots", 0, "belongs to no tree");
}

// The inner nodes of a tree that can be coded; empty for other trees and for a single leaf.
inline std::vector<std::int32_t> Forest::inner_nodes_if_small(std::int32_t root) const {
  std::vector<std::int32_t> inner, open{root};
  while (!open.empty()) {
    const std::int32_t i = open.back();
    open.pop_back();
    const Node& node = a_.nodes[i];
    if (node.feature < 0) continue;
    inner.push_back(i);
    if (inner.size() >= kMaxCodedLeaves || node.categories >= 0) return {};
    open.insert(open.end(), {node.left, node.left + 1});
  }
  return inner;
}

inline std::vector<std::int32_t> Forest::leaves_below() const {
  std::vector<std::int32_t> n(a_.nodes.size(), 1);
  for (std::size_t i = n.size(); i-- > 0;) {
    const Node& node = a_.nodes[i];
    if (node.feature >= 0) n[i] = n[node.left] + n[node.left + 1];
  }
  return n;
}

inline void Forest::code_trees() {
  const std::vector<std::int32_t> n_leaves = leaves_below();
  ThresholdsOfFeatures thresholds;
  std::vector<std::vector<std::int32_t>> inner;
  for (std::int32_t root : a_.roots) {
    inner.push_back(inner_nodes_if_small(root));
    for (std::int32_t i : inner.back()) thresholds[a_.nodes[i].feature].all.push_back(a_.nodes[i].threshold);
  }
  for (auto& [feature, its] : thresholds) {
    std::sort(its.all.begin(), its.all.end());
    its.all.erase(std::unique(its.all.begin(), its.all.end()), its.all.end());
    its.place = static_cast<std::uint32_t>(coded_features_.size());
    if (its.fit_in_a_byte())
      coded_features_.push_back({feature, CodeTable<float>(its.all), CodeTable<double>(its.all)});
  }
  for (std::size_t tree = 0; tree < a_.roots.size(); ++tree) {
    const bool fits = std::all_of(inner[tree].begin(), inner[tree].end(),
                                  [&](std::int32_t i) { return thresholds.at(a_.nodes[i].feature).fit_in_a_byte(); });
    trees_.push_back({0, coded_nodes_.size(), coded_nodes_.size(), coded_values_.size()});
    if (!fits || inner[tree].empty()) continue;
    coded_values_.resize(coded_values_.size() + (inner[tree].size() + 1) * a_.n_values);
    std::uint32_t free_slots = (1u << kSlots) - 1;
    code_node(a_.roots[tree], 0, n_leaves, thresholds, free_slots);
    trees_.back().end_coded = coded_nodes_.size();
  }
}

inline Forest::Place Forest::code_node(std::int32_t i, int first_leaf, const std::vector<std::int32_t>& n_leaves,
                                       const ThresholdsOfFeatures& thresholds, std::uint32_t& free_slots) {
  const Node& node = a_.nodes[i];
  if (node.feature < 0) {
    std::copy_n(&a_.values[static_cast<std::size_t>(i) * a_.n_values], a_.n_values,
                &coded_values_[trees_.back().first_value + static_cast<std::size_t>(first_leaf) * a_.n_values]);
    return {true, static_cast<std::uint8_t>(first_leaf)};
  }
  const int n_left = n_leaves[node.left];
  Place left, right;
  const auto code_left = [&] { left = code_node(node.left, first_leaf, n_leaves, thresholds, free_slots); };
  const auto code_right = [&] {
    right = code_node(node.left + 1, first_leaf + n_left, n_leaves, thresholds, free_slots);
  };
  if (n_left >= n_leaves[node.left + 1]) {
    code_left();
    code_right();
  } else {
    code_right();
    code_left();
  }
  const std::uint8_t out = static_cast<std::uint8_t>(std::countr_zero(free_slots));
  free_slots &= ~(1u << out);
  for (const Place& child : {left, right}) {
    if (!child.is_leaf) free_slots |= 1u << child.number;
  }
  const Thresholds& its = thresholds.at(node.feature);
  const auto code = std::lower_bound(its.all.begin(), its.all.end(), node.threshold) - its.all.begin();
  const CodedNode::Kind kind = left.is_leaf && right.is_leaf ? CodedNode::kTwoLeaves
                               : left.is_leaf                ? CodedNode::kLeftLeaf
                               : right.is_leaf               ? CodedNode::kRightLeaf
                                                             : CodedNode::kNoLeaf;
  const std::size_t column = 2 * its.place + (node.missing_left ? 0 : 1);
  coded_nodes_.push_back({static_cast<std::uint32_t>(column * kBlockRows), static_cast<std::uint8_t>(code), kind,
                          left.number, right.number, out});
  return {false, out};
}

}  // namespace agbm
