// The trees of a forest as arrays, and the checks of everything that predictions rely on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tree/tree.hpp"

namespace agbm {

// Limits of every forest, so that a stored one cannot demand more memory or time than its size justifies.
constexpr int kMaxFeatures = 1 << 24;
constexpr int kMaxDepth = 4096;
constexpr std::size_t kMaxNodes = (std::size_t{1} << 31) - 2;

struct ForestNode {
  double threshold;         // values at or below go left
  std::int32_t feature;     // -1: leaf
  std::int32_t left;        // within the whole forest
  std::int32_t categories;  // number of the set of categories that go left; -1: the threshold decides
  bool missing_left;
};

// A set of categories, which are numbered from 0. A value outside its range is treated as missing.
struct CategorySet {
  const std::uint64_t* words;  // one bit per category
  std::int64_t n_words;

  std::int64_t size() const { return 64 * n_words; }
  bool has(std::int64_t category) const { return words[category / 64] >> (category % 64) & 1; }
  bool has(double x, bool missing) const {
    return x >= 0.0 && x < static_cast<double>(size()) ? has(static_cast<std::int64_t>(x)) : missing;
  }
};

// The trees of a forest, one after the other. Children of a node are left and left + 1, both after their parent, so a
// walk always ends. The values of a tree are added to neighbouring columns of the prediction, in the order of the
// trees.
struct ForestArrays {
  int n_features = 0;
  int n_columns = 0;
  int n_values = 0;  // per leaf
  std::vector<std::int32_t> roots;
  std::vector<std::int32_t> first_column;  // per tree
  std::vector<ForestNode> nodes;
  std::vector<std::uint64_t> category_words;  // of all sets
  std::vector<std::int64_t> category_start;   // first word of each set; the last entry is the total
  std::vector<double> values;                 // (node, value)
  std::vector<double> counts;                 // training rows of each node

  std::int64_t n_sets() const { return static_cast<std::int64_t>(category_start.size()) - 1; }
  CategorySet set_of(const ForestNode& node) const {
    const std::int64_t begin = category_start[node.categories], end = category_start[node.categories + 1];
    return {category_words.data() + begin, end - begin};
  }

  // Takes nodes and counts from stored records. Fields that are not needed later are only checked.
  void take_nodes(std::span<const std::uint8_t> records);

  // Checks everything that predictions rely on; they check nothing.
  void validate() const;

 private:
  void validate_node(std::size_t i) const;
  void validate_shape() const;
};

inline std::invalid_argument bad_node(const char* what, std::size_t i, const std::string& why) {
  return std::invalid_argument(std::string(what) + ": node " + std::to_string(i) + " " + why);
}

inline void ForestArrays::take_nodes(std::span<const std::uint8_t> records) {
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

inline void ForestArrays::validate() const {
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

inline void ForestArrays::validate_node(std::size_t i) const {
  const ForestNode& node = nodes[i];
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
inline void ForestArrays::validate_shape() const {
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

}  // namespace agbm
