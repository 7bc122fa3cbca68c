// Walks of groups of rows along all edges of a tree, which Shapley values are computed on; see shap.hpp and
// background.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "forest/arrays.hpp"
#include "forest/predict.hpp"
#include "formulas/shapley.hpp"

namespace agbm {

constexpr std::size_t kGroup = 32;  // rows that take a walk together; compilers unroll shorter loops

// One number per row of a group. Aligned, so that vectors do not cross cache lines.
template <class T>
struct alignas(64) Group {
  T of[kGroup];
};

// The edges of a tree in depth-first order: the left edge of a node, everything below it, then the right edge.
struct Walk {
  std::vector<ShapleyEdge> edges;
  int first_column = 0;
  int depth = 0;
  int most_features = 0;  // on a path

  // Calls use(e, path) for every edge e; path[level] is the edge to that level, up to e.
  template <class Use>
  void for_each_edge(const Use& use) const {
    std::vector<std::size_t> path{0};  // the entry for the root is not used
    for (std::size_t e = 0; e < edges.size(); ++e) {
      path.resize(edges[e].level);
      path.push_back(e);
      use(e, path);
    }
  }
};

// The two edges below a node at the end of a path. If the node has no training rows, each has a share of 1/2.
inline std::pair<ShapleyEdge, ShapleyEdge> edges_below(const ForestArrays& a, std::int32_t i, const Walk& walk,
                                                       const std::vector<std::size_t>& path) {
  const ForestNode& node = a.nodes[i];
  const double n_left = a.counts[node.left], n_right = a.counts[node.left + 1], n = n_left + n_right;
  const auto edge = [&](double count, bool left) {
    const double share = n > 0.0 ? count / n : 0.5;
    const auto level = static_cast<std::int32_t>(path.size());
    std::int32_t above = level - 1;
    while (above > 0 && walk.edges[path[above]].feature != node.feature) --above;
    const double share_above = above > 0 ? walk.edges[path[above]].path_share : 1.0;
    return ShapleyEdge{node.threshold,
                       share,
                       share_above * share,
                       0.0,
                       node.feature,
                       level,
                       above,
                       static_cast<std::int32_t>(path.back()),
                       i,
                       -1,
                       node.categories,
                       left,
                       node.missing_left};
  };
  return {edge(n_left, true), edge(n_right, false)};
}

inline Walk walk_of(const Forest& forest, std::size_t tree) {
  const ForestArrays& a = forest.arrays();
  Walk walk;
  walk.first_column = a.first_column[tree];
  const std::int32_t root = a.roots[tree];
  if (forest.is_leaf(root)) return walk;
  std::vector<std::size_t> path{0};  // the edge at each level; the entry for the root is not used
  struct Open {
    ShapleyEdge edge;
    int n_features;  // on the path
    double share;    // of the tree's training rows
  };
  std::vector<Open> open;
  const auto open_children = [&](std::int32_t node, int n_features, double share) {
    const auto [left, right] = edges_below(a, node, walk, path);
    for (const ShapleyEdge& edge : {right, left}) {
      open.push_back({edge, n_features + (edge.above == 0 ? 1 : 0), share * edge.share});
    }
  };
  open_children(root, 0, 1.0);
  while (!open.empty()) {
    auto [edge, n_features, share] = open.back();
    open.pop_back();
    const std::int32_t child = a.nodes[edge.node].left + (edge.left ? 0 : 1);
    const bool is_leaf = forest.is_leaf(child);
    if (is_leaf) edge.leaf = child, edge.leaf_share = share;
    path.resize(edge.level);
    path.push_back(walk.edges.size());
    walk.edges.push_back(edge);
    walk.depth = std::max(walk.depth, edge.level);
    walk.most_features = std::max(walk.most_features, n_features);
    if (!is_leaf) open_children(child, n_features, share);
  }
  return walk;
}

// Decides which rows go left at the node above an edge.
AGBM_INLINE inline void decide(const ForestArrays& a, const ShapleyEdge& edge, const Group<double>& x,
                               Group<std::int64_t>& goes_left) {
  const double threshold = edge.threshold;
  if (edge.categories >= 0) {
    const ForestNode& node = a.nodes[edge.node];
    const CategorySet set = a.set_of(node);
    for (std::size_t i = 0; i < kGroup; ++i) goes_left.of[i] = set.has(x.of[i], node.missing_left) ? -1 : 0;
  } else if (edge.missing_left) {
    for (std::size_t i = 0; i < kGroup; ++i) {
      goes_left.of[i] = (x.of[i] <= threshold ? -1 : 0) | (x.of[i] != x.of[i] ? -1 : 0);
    }
  } else {
    for (std::size_t i = 0; i < kGroup; ++i) goes_left.of[i] = x.of[i] <= threshold ? -1 : 0;
  }
}

// The last edges on the other features of a path, from its end up. Edge e of the path ends below a split on `feature`.
template <class Use>
void for_each_other(const Walk& walk, const std::vector<std::size_t>& path, std::vector<char>& passed, const Use& use) {
  passed.assign(path.size(), 0);  // levels of edges whose feature has a later one
  const std::int32_t feature = walk.edges[path.back()].feature;
  for (std::size_t level = path.size() - 2; level > 0; --level) {
    const ShapleyEdge& edge = walk.edges[path[level]];
    if (!passed[level] && edge.feature != feature) use(path[level]);
    passed[edge.above] = 1;
  }
}

// The pairs of features that are on a path together, in ascending order. Tables may have far more pairs than these.
class FeaturePairs {
 public:
  explicit FeaturePairs(const Forest& forest) : n_features_(static_cast<std::uint64_t>(forest.n_features())) {
    std::vector<char> passed;
    for (std::size_t tree = 0; tree < forest.arrays().roots.size(); ++tree) {
      const Walk walk = walk_of(forest, tree);
      std::vector<std::uint64_t> keys;
      walk.for_each_edge([&](std::size_t e, const std::vector<std::size_t>& path) {
        if (!walk.edges[e].left) return;
        for_each_other(walk, path, passed, [&](std::size_t other) {
          keys.push_back(key_of(walk.edges[e].feature, walk.edges[other].feature));
        });
      });
      keep_different(keys);
      keys_.insert(keys_.end(), keys.begin(), keys.end());
    }
    keep_different(keys_);
  }

  std::size_t size() const { return keys_.size(); }
  std::int32_t number_of(std::int32_t a, std::int32_t b) const {
    return static_cast<std::int32_t>(std::lower_bound(keys_.begin(), keys_.end(), key_of(a, b)) - keys_.begin());
  }
  // The features of a pair, the smaller one first.
  std::pair<std::size_t, std::size_t> operator[](std::size_t pair) const {
    return {keys_[pair] / n_features_, keys_[pair] % n_features_};
  }

 private:
  std::uint64_t key_of(std::int32_t a, std::int32_t b) const {
    return static_cast<std::uint64_t>(std::min(a, b)) * n_features_ + static_cast<std::uint64_t>(std::max(a, b));
  }
  static void keep_different(std::vector<std::uint64_t>& keys) {
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  }

  std::uint64_t n_features_;
  std::vector<std::uint64_t> keys_;
};

// Rows as in Forest::add_predictions.
template <class T>
struct TableRows {
  const T* x;
  std::size_t n;
  std::ptrdiff_t row_stride, feature_stride;
};

// Where the values of features and pairs of features are among the results of a row and column. With pairs, these are a
// matrix of all features and the base value: values of features on the diagonal, pairs above it.
struct Places {
  std::size_t n_features, n_columns, n_results;  // per row and column
  std::vector<std::size_t> of;                   // each feature, then each pair

  Places(const ForestArrays& a, const FeaturePairs* pairs)
      : n_features(static_cast<std::size_t>(a.n_features)), n_columns(static_cast<std::size_t>(a.n_columns)) {
    const std::size_t side = n_features + 1;
    n_results = pairs == nullptr ? side : side * side;
    for (std::size_t f = 0; f < n_features; ++f) of.push_back(pairs == nullptr ? f : f * side + f);
    for (std::size_t pair = 0; pairs != nullptr && pair < pairs->size(); ++pair) {
      const auto [a, b] = (*pairs)[pair];
      of.push_back(a * side + b);
    }
  }
};

// The rows of one task, in groups.
struct RowBlock {
  std::vector<Group<double>> x;    // (group, feature)
  std::vector<Group<double>> out;  // (group, column, place): what has been added up so far
};

// Calls take(block, n_rows, task) for blocks of rows, with the results so far in the block, and writes these back.
// Results are (row, column, result).
template <class T>
class RowBlocks {
 public:
  RowBlocks(const TableRows<T>& rows, const Places& places, double* out, std::size_t most_groups)
      : rows_(rows), places_(places), out_(out) {
    const std::size_t bytes = (places.n_features + places.n_columns * places.of.size()) * sizeof(Group<double>);
    n_groups_ = std::clamp<std::size_t>(kMaxBytes / std::max<std::size_t>(bytes, 1), 1, most_groups);
    n_blocks_ = (rows.n + n_groups_ * kGroup - 1) / (n_groups_ * kGroup);
  }

  std::size_t n_groups() const { return n_groups_; }
  std::size_t n_blocks() const { return n_blocks_; }

  template <class Take>
  void run(std::size_t n_tasks, int n_threads, const Take& take) const {
    n_tasks = std::min(n_tasks, n_blocks_);
    std::vector<RowBlock> blocks(n_tasks);
    for (RowBlock& block : blocks) {
      block.x.resize(n_groups_ * places_.n_features);
      block.out.resize(n_groups_ * places_.n_columns * places_.of.size());
    }
    parallel_for(n_tasks, n_threads, [&](std::size_t task) {
      RowBlock& block = blocks[task];
      for (std::size_t b = task * n_blocks_ / n_tasks; b < (task + 1) * n_blocks_ / n_tasks; ++b) {
        const std::size_t begin = b * n_groups_ * kGroup, end = std::min(rows_.n, begin + n_groups_ * kGroup);
        fill(begin, end, block);
        take(block, end - begin, task);
        write(begin, end, block);
      }
    });
  }

 private:
  static constexpr std::size_t kMaxBytes = 256 << 10;  // per block, to stay in the L2 cache

  // The last group may have fewer rows.
  void fill(std::size_t begin, std::size_t end, RowBlock& block) const {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t group = (i - begin) / kGroup, place = (i - begin) % kGroup, n_places = places_.of.size();
      const T* x = rows_.x + static_cast<std::ptrdiff_t>(i) * rows_.row_stride;
      for (std::size_t f = 0; f < places_.n_features; ++f, x += rows_.feature_stride) {
        block.x[group * places_.n_features + f].of[place] = static_cast<double>(*x);
      }
      for (std::size_t c = 0; c < places_.n_columns; ++c) {
        const double* from = out_ + (i * places_.n_columns + c) * places_.n_results;
        Group<double>* to = &block.out[(group * places_.n_columns + c) * n_places];
        for (std::size_t k = 0; k < n_places; ++k) to[k].of[place] = from[places_.of[k]];
      }
    }
  }

  void write(std::size_t begin, std::size_t end, const RowBlock& block) const {
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t group = (i - begin) / kGroup, place = (i - begin) % kGroup, n_places = places_.of.size();
      for (std::size_t c = 0; c < places_.n_columns; ++c) {
        const Group<double>* from = &block.out[(group * places_.n_columns + c) * n_places];
        double* to = out_ + (i * places_.n_columns + c) * places_.n_results;
        for (std::size_t k = 0; k < n_places; ++k) to[places_.of[k]] = from[k].of[place];
      }
    }
  }

  const TableRows<T> rows_;
  const Places& places_;
  double* const out_;
  std::size_t n_groups_, n_blocks_;
};

// Adds the expected prediction of each column to the base value of every row. If there are pairs, halves their values,
// writes them on both sides of the diagonal and subtracts them from the values of the features.
inline void finish(const Places& places, const FeaturePairs* pairs, const std::vector<double>& expected,
                   std::size_t n_rows, double* out, int n_threads) {
  const std::size_t side = places.n_features + 1;
  parallel_for(n_rows, pairs == nullptr ? 1 : n_threads, [&](std::size_t i) {
    for (std::size_t c = 0; c < places.n_columns; ++c) {
      double* of = out + (i * places.n_columns + c) * places.n_results;
      of[places.n_results - 1] += expected[c];
      for (std::size_t pair = 0; pairs != nullptr && pair < pairs->size(); ++pair) {
        const auto [a, b] = (*pairs)[pair];
        const double half = 0.5 * of[a * side + b];
        of[a * side + b] = of[b * side + a] = half;
        of[a * side + a] -= half;
        of[b * side + b] -= half;
      }
    }
  });
}

}  // namespace agbm
