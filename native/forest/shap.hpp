// Contributions of features to a prediction: path-dependent Shapley values of trees (Lundberg et al., "From local
// explanations to global understanding with explainable AI for trees", 2020).
//
// If only the features in S are known, a walk takes both edges of a node that splits on another feature, each weighted
// by the share of the node's training rows that went there. For one leaf with value v, each feature k on its path then
// contributes an independent factor. If k is known, the factor is o_k: 1 if the row meets all conditions of the path on
// k, and 0 otherwise. If k is unknown, the factor is z_k, the product of the shares of its edges. The weights of
// Shapley's sum over all S are integrals of t^|S| (1 - t)^(d - 1 - |S|), so
//
//   phi_j = v  integral over (0, 1) of  (o_j - z_j)  product over k != j of  (z_k (1 - t) + o_k t)  dt,
//
// where d is the number of features on the path. The integrand is a polynomial of degree d - 1, for which a quadrature
// with d / 2 points is exact. All factors, points and weights are positive, so there is no cancellation, however long
// the path is.
//
// Leaves share factors, so a tree is walked once per quadrature point. On the way down, the walk multiplies the factors
// into a product p; on the way up, it adds the products p v of the leaves to a sum s. Each edge adds (g - g') s to its
// feature, where g = (o - z) / (z (1 - t) + o t) for the path down to this edge, and g' is the same for the previous
// edge on the same feature, which counted these leaves as well. This is Linear TreeSHAP (Yu et al., 2022) at quadrature
// points. An edge has at most three cases: the row has left the path above this edge, leaves it at this edge, or stays
// on it. The factors of these cases are computed once for all rows, and a group of rows takes the walk together, in
// vectors.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <utility>
#include <vector>

#include "forest/arrays.hpp"
#include "forest/predict.hpp"
#include "formulas/shapley.hpp"

namespace agbm {

// Gauss-Legendre points and weights: exact integrals over (0, 1) of polynomials up to degree 2 n - 1.
struct Quadrature {
  std::vector<double> point, rest, weight;  // rest: 1 - point, accurate even if it is small

  explicit Quadrature(int n) : point(n), rest(n), weight(n) {
    for (int i = 0; i < (n + 1) / 2; ++i) {
      double angle = std::numbers::pi * (4.0 * i + 3.0) / (4.0 * n + 2.0), slope = 1.0;
      for (int step = 0; step < 8; ++step) {  // Newton steps; the initial angle is accurate to 1 / n^2
        const auto [low, high] = sine_and_cosine(angle / 2.0);
        const auto [last, before] = legendre(n, low);
        slope = n * (before - (1.0 - 2.0 * low * low) * last) / (2.0 * low * high);
        if (step < 7) angle += last / slope;
      }
      const auto [low, high] = sine_and_cosine(angle / 2.0);
      rest[i] = point[n - 1 - i] = low * low;
      point[i] = rest[n - 1 - i] = high * high;
      weight[i] = weight[n - 1 - i] = 1.0 / (slope * slope);
    }
  }

 private:
  // sin(x) and cos(x) by their series, for x up to about pi / 4. The C libraries of other machines, and compilers that
  // call one function for both, have other last bits.
  static std::pair<double, double> sine_and_cosine(double x) {
    const double square = x * x;
    double sine = 1.0, cosine = 1.0;
    for (int k = 20; k > 0; k -= 2) {
      sine = 1.0 - square * sine / (k * (k + 1.0));
      cosine = 1.0 - square * cosine / (k * (k - 1.0));
    }
    return {x * sine, cosine};
  }

  // Legendre polynomials of degree n and n - 1 at x = cos(angle), given low = sin(angle / 2). They are computed from
  // their differences, which are accurate even if x is near 1.
  static std::pair<double, double> legendre(int n, double low) {
    const double below_one = 2.0 * low * low;
    double value = 1.0, change = 0.0, before = 1.0;
    for (int k = 0; k < n; ++k) {
      change = (k * change - (2.0 * k + 1.0) * below_one * value) / (k + 1.0);
      before = value;
      value += change;
    }
    return {value, before};
  }
};

// Computes the contributions for a forest, which must stay alive. Its passes are kept if they fit one batch, and
// computed again in every call otherwise.
class Contributions {
 public:
  explicit Contributions(const Forest& forest) : forest_(forest), a_(forest.arrays()), expected_(a_.n_columns, 0.0) {
    for (std::size_t tree = 0; tree < a_.roots.size(); ++tree) {
      const std::int32_t root = a_.roots[tree];
      if (forest_.is_leaf(root)) add_values(root, 1.0, a_.first_column[tree]);
    }
    for_each_batch([&](std::vector<Pass>&& passes) {
      for (const Pass& pass : passes) {
        if (!pass.is_first) continue;
        for (const ShapleyEdge& edge : pass.walk->edges) {
          if (edge.leaf >= 0) add_values(edge.leaf, edge.leaf_share, pass.walk->first_column);
        }
      }
      if (n_batches_++ == 0) kept_ = std::move(passes);
    });
    if (n_batches_ > 1) kept_ = {};
  }

  int n_features() const { return a_.n_features; }
  int n_columns() const { return a_.n_columns; }

  // The passes of all trees, one after the other, as kernels of devices take them.
  struct Arrays {
    std::vector<ShapleyEdge> edges;
    std::vector<ShapleyWeights> weights;
    std::vector<ShapleyPass> passes;
    int n_levels = 1;
  };
  Arrays arrays() const;
  const std::vector<double>& expected() const { return expected_; }

  // Adds to out (row, column, feature + 1) the contributions of each feature, followed by the expected prediction of a
  // row of which nothing is known. Rows are laid out as in Forest::add_predictions.
  template <class T>
  void add(const T* x, std::size_t n_rows, std::ptrdiff_t row_stride, std::ptrdiff_t feature_stride, double* out,
           int n_threads) const {
    const Rows<T> rows{x, n_rows, row_stride, feature_stride, out};
    if (n_batches_ > 1) {
      for_each_batch([&](std::vector<Pass>&& passes) { run(passes, rows, n_threads); });
    } else {
      run(kept_, rows, n_threads);
    }
    for (std::size_t i = 0; i < n_rows; ++i) {
      for (int c = 0; c < a_.n_columns; ++c) out[(i * a_.n_columns + c + 1) * (a_.n_features + 1) - 1] += expected_[c];
    }
  }

 private:
  static constexpr std::size_t kGroup = 32;            // rows that take a walk together; compilers unroll shorter loops
  static constexpr std::size_t kMaxWeights = 1 << 19;  // per batch (16 MB); a larger pass is a batch by itself
  static constexpr std::size_t kMaxBlockBytes = 256 << 10;  // per block of rows, to stay in the L2 cache
  static constexpr std::size_t kMaxGroups = 8;              // per block
  static constexpr std::size_t kManyLevels = 1000;          // need megabytes per task

  // The edges of a tree in depth-first order: the left edge of a node, everything below it, then the right edge.
  struct Walk {
    std::vector<ShapleyEdge> edges;
    int first_column;
    int depth = 0;
    int n_points = 0;  // quadrature points that are exact for the longest path
  };

  // A walk for some of its points.
  struct Pass {
    std::shared_ptr<const Walk> walk;
    std::vector<ShapleyWeights> weights;  // (edge, point)
    int n_points;
    bool is_first;  // whether it is the first pass of its walk
  };

  template <class T>
  struct Rows {
    const T* x;
    std::size_t n;
    std::ptrdiff_t row_stride, feature_stride;
    double* out;
  };

  // One number per row of a group. Aligned, so that vectors do not cross cache lines.
  template <class T>
  struct alignas(64) Group {
    T of[kGroup];
  };

  // Temporary memory of one task.
  struct Scratch {
    std::vector<Group<double>> x;                         // (group, feature)
    std::vector<Group<double>> out;                       // (group, column, feature)
    std::vector<Group<double>> products;                  // (level, point)
    std::vector<Group<double>> sums;                      // (level, value, point)
    std::vector<Group<std::int64_t>> goes_left, on_path;  // (level), all bits set or none
  };

  const double* values_of(std::int32_t leaf) const { return &a_.values[static_cast<std::size_t>(leaf) * a_.n_values]; }
  void add_values(std::int32_t leaf, double share, int first_column) {
    for (int k = 0; k < a_.n_values; ++k) expected_[first_column + k] += share * values_of(leaf)[k];
  }

  // Creates the passes of all trees, in their order, and calls use() with one batch after the other.
  template <class Use>
  void for_each_batch(const Use& use) const;
  Walk walk_of(std::size_t tree) const;
  std::pair<ShapleyEdge, ShapleyEdge> edges_of(std::int32_t node, const Walk& walk,
                                               const std::vector<std::size_t>& path) const;
  static Pass pass_of(const std::shared_ptr<const Walk>& walk, const Quadrature& quadrature, int first_point);

  template <class T>
  void run(const std::vector<Pass>& passes, const Rows<T>& rows, int n_threads) const;
  template <class T>
  void fill(const Rows<T>& rows, std::size_t begin, std::size_t end, Scratch& scratch) const;
  template <class T>
  void write(const Rows<T>& rows, std::size_t begin, std::size_t end, const Scratch& scratch) const;

  template <int n_points>
  AGBM_INLINE void take(const Pass& pass, const Group<double>* x, Group<double>* out, Scratch& scratch) const;
  AGBM_INLINE void decide(const ShapleyEdge& edge, const Group<double>& x, Group<std::int64_t>& goes_left) const;
  template <int n_points>
  AGBM_INLINE void go_down(const ShapleyEdge& edge, const ShapleyWeights* weights, Scratch& scratch) const;
  template <int n_points>
  AGBM_INLINE void go_up(const ShapleyEdge& edge, const ShapleyWeights* weights, Group<double>* out,
                         Scratch& scratch) const;
  template <int n_points, bool left, bool first_on_feature>
  AGBM_INLINE void add_sums(const ShapleyEdge& edge, const ShapleyWeights* weights, const Group<double>* below,
                            double times, Group<double>* above, Group<double>& out, const Scratch& scratch) const;

  const Forest& forest_;
  const ForestArrays& a_;
  std::vector<double> expected_;  // per column
  std::vector<Pass> kept_;        // all passes, if they fit one batch
  int n_batches_ = 0;
};

inline Contributions::Arrays Contributions::arrays() const {
  Arrays found;
  for_each_batch([&](const std::vector<Pass>& passes) {
    for (const Pass& pass : passes) {
      const std::vector<ShapleyEdge>& edges = pass.walk->edges;
      if (pass.is_first) found.edges.insert(found.edges.end(), edges.begin(), edges.end());
      found.passes.push_back({static_cast<std::int64_t>(found.edges.size() - edges.size()),
                              static_cast<std::int64_t>(edges.size()), static_cast<std::int64_t>(found.weights.size()),
                              pass.n_points, pass.walk->first_column});
      found.weights.insert(found.weights.end(), pass.weights.begin(), pass.weights.end());
      found.n_levels = std::max(found.n_levels, pass.walk->depth + 1);
    }
  });
  return found;
}

template <class Use>
void Contributions::for_each_batch(const Use& use) const {
  std::map<int, Quadrature> quadratures;
  std::vector<Pass> batch;
  std::size_t n_weights = 0;
  for (std::size_t tree = 0; tree < a_.roots.size(); ++tree) {
    const auto walk = std::make_shared<const Walk>(walk_of(tree));
    for (int first = 0; first < walk->n_points; first += kMaxPoints) {
      const Quadrature& quadrature = quadratures.try_emplace(walk->n_points, walk->n_points).first->second;
      batch.push_back(pass_of(walk, quadrature, first));
      n_weights += batch.back().weights.size();
      if (n_weights < kMaxWeights) continue;
      use(std::exchange(batch, {}));
      n_weights = 0;
    }
  }
  use(std::move(batch));
}

inline Contributions::Walk Contributions::walk_of(std::size_t tree) const {
  Walk walk;
  walk.first_column = a_.first_column[tree];
  const std::int32_t root = a_.roots[tree];
  if (forest_.is_leaf(root)) return walk;
  std::vector<std::size_t> path{0};  // the edge at each level; the entry for the root is not used
  struct Open {
    ShapleyEdge edge;
    int n_features;  // on the path
    double share;    // of the tree's training rows
  };
  std::vector<Open> open;
  int most_features = 0;
  const auto open_children = [&](std::int32_t node, int n_features, double share) {
    const auto [left, right] = edges_of(node, walk, path);
    for (const ShapleyEdge& edge : {right, left}) {
      open.push_back({edge, n_features + (edge.above == 0 ? 1 : 0), share * edge.share});
    }
  };
  open_children(root, 0, 1.0);
  while (!open.empty()) {
    auto [edge, n_features, share] = open.back();
    open.pop_back();
    const std::int32_t child = a_.nodes[edge.node].left + (edge.left ? 0 : 1);
    const bool is_leaf = forest_.is_leaf(child);
    if (is_leaf) edge.leaf = child, edge.leaf_share = share;
    path.resize(edge.level);
    path.push_back(walk.edges.size());
    walk.edges.push_back(edge);
    walk.depth = std::max(walk.depth, edge.level);
    most_features = std::max(most_features, n_features);
    if (!is_leaf) open_children(child, n_features, share);
  }
  walk.n_points = (most_features + 1) / 2;
  return walk;
}

// The two edges below the node at the end of the path. If the node has no training rows, each has a share of 1/2.
inline std::pair<ShapleyEdge, ShapleyEdge> Contributions::edges_of(std::int32_t i, const Walk& walk,
                                                                   const std::vector<std::size_t>& path) const {
  const ForestNode& node = a_.nodes[i];
  const double n_left = a_.counts[node.left], n_right = a_.counts[node.left + 1], n = n_left + n_right;
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

inline Contributions::Pass Contributions::pass_of(const std::shared_ptr<const Walk>& walk, const Quadrature& quadrature,
                                                  int first_point) {
  Pass pass{walk, {}, std::min(kMaxPoints, walk->n_points - first_point), first_point == 0};
  pass.weights.reserve(walk->edges.size() * pass.n_points);
  std::vector<double> share_at(walk->depth + 1, 1.0);  // path_share of the edge at each level
  for (const ShapleyEdge& edge : walk->edges) {
    const double z = edge.path_share, z_above = edge.above > 0 ? share_at[edge.above] : 1.0;
    share_at[edge.level] = z;
    for (int q = first_point; q < first_point + pass.n_points; ++q) {
      const double t = quadrature.point[q], u = quadrature.rest[q], weight = quadrature.weight[q];
      const double above = z_above * u + t, on = z * u + t;
      pass.weights.push_back({on / above, z * u / above, weight * (z_above - z) / (on * above), -weight / (u * above)});
    }
  }
  return pass;
}

template <class T>
void Contributions::run(const std::vector<Pass>& passes, const Rows<T>& rows, int n_threads) const {
  if (passes.empty() || rows.n == 0) return;
  const std::size_t x_size = static_cast<std::size_t>(a_.n_features), out_size = x_size * a_.n_columns;
  const std::size_t group_bytes = (x_size + out_size) * sizeof(Group<double>);
  const std::size_t n_groups = std::clamp<std::size_t>(kMaxBlockBytes / group_bytes, 1, kMaxGroups);
  const std::size_t n_blocks = (rows.n + n_groups * kGroup - 1) / (n_groups * kGroup);
  std::size_t n_levels = 0;
  for (const Pass& pass : passes) n_levels = std::max(n_levels, static_cast<std::size_t>(pass.walk->depth) + 1);
  const std::size_t tasks_per_thread = n_levels > kManyLevels ? 1 : 4;  // each has memory for all levels
  const std::size_t n_tasks = std::min(n_blocks, tasks_per_thread * static_cast<std::size_t>(std::max(n_threads, 1)));
  std::vector<Scratch> scratches(n_tasks);
  for (Scratch& scratch : scratches) {
    scratch.x.resize(n_groups * x_size);
    scratch.out.resize(n_groups * out_size);
    scratch.products.resize(n_levels * kMaxPoints);
    scratch.sums.resize(n_levels * a_.n_values * kMaxPoints);
    scratch.goes_left.resize(n_levels);
    scratch.on_path.resize(n_levels);
  }
  parallel_for(n_tasks, n_threads, [&](std::size_t task) {
    Scratch& scratch = scratches[task];
    for (std::size_t b = task * n_blocks / n_tasks; b < (task + 1) * n_blocks / n_tasks; ++b) {
      const std::size_t begin = b * n_groups * kGroup, end = std::min(rows.n, begin + n_groups * kGroup);
      fill(rows, begin, end, scratch);
      for (const Pass& pass : passes) {
        vectorised([&]() AGBM_INLINE {
          for (std::size_t g = 0; begin + g * kGroup < end; ++g) {
            const Group<double>* x = &scratch.x[g * x_size];
            Group<double>* out = &scratch.out[g * out_size + pass.walk->first_column * x_size];
            switch (pass.n_points) {
              case 1: take<1>(pass, x, out, scratch); break;
              case 2: take<2>(pass, x, out, scratch); break;
              case 3: take<3>(pass, x, out, scratch); break;
              default: take<4>(pass, x, out, scratch); break;
            }
          }
        });
      }
      write(rows, begin, end, scratch);
    }
  });
}

// Copies the values of a block of rows, and their contributions so far, to the scratch memory. The last group may have
// fewer rows.
template <class T>
void Contributions::fill(const Rows<T>& rows, std::size_t begin, std::size_t end, Scratch& scratch) const {
  const std::size_t n_features = static_cast<std::size_t>(a_.n_features),
                    n_columns = static_cast<std::size_t>(a_.n_columns);
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t group = (i - begin) / kGroup, place = (i - begin) % kGroup;
    const T* x = rows.x + static_cast<std::ptrdiff_t>(i) * rows.row_stride;
    for (std::size_t f = 0; f < n_features; ++f, x += rows.feature_stride) {
      scratch.x[group * n_features + f].of[place] = static_cast<double>(*x);
    }
    for (std::size_t c = 0; c < n_columns; ++c) {
      const double* from = rows.out + (i * n_columns + c) * (n_features + 1);
      Group<double>* to = &scratch.out[(group * n_columns + c) * n_features];
      for (std::size_t f = 0; f < n_features; ++f) to[f].of[place] = from[f];
    }
  }
}

template <class T>
void Contributions::write(const Rows<T>& rows, std::size_t begin, std::size_t end, const Scratch& scratch) const {
  const std::size_t n_features = static_cast<std::size_t>(a_.n_features),
                    n_columns = static_cast<std::size_t>(a_.n_columns);
  for (std::size_t i = begin; i < end; ++i) {
    const std::size_t group = (i - begin) / kGroup, place = (i - begin) % kGroup;
    for (std::size_t c = 0; c < n_columns; ++c) {
      const Group<double>* from = &scratch.out[(group * n_columns + c) * n_features];
      double* to = rows.out + (i * n_columns + c) * (n_features + 1);
      for (std::size_t f = 0; f < n_features; ++f) to[f] = from[f].of[place];
    }
  }
}

// Walks a group of rows along all edges.
template <int n_points>
AGBM_INLINE inline void Contributions::take(const Pass& pass, const Group<double>* x, Group<double>* out,
                                            Scratch& scratch) const {
  const std::vector<ShapleyEdge>& edges = pass.walk->edges;
  for (std::size_t i = 0; i < kGroup; ++i) scratch.on_path[0].of[i] = -1;
  for (int q = 0; q < n_points; ++q) {
    for (std::size_t i = 0; i < kGroup; ++i) scratch.products[q].of[i] = 1.0;
  }
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const ShapleyEdge& edge = edges[e];
    if (edge.left) decide(edge, x[edge.feature], scratch.goes_left[edge.level]);
    go_down<n_points>(edge, &pass.weights[e * n_points], scratch);
    if (edge.leaf < 0) continue;
    std::size_t done = e;
    for (bool last = false; !last; done = static_cast<std::size_t>(edges[done].parent)) {
      go_up<n_points>(edges[done], &pass.weights[done * n_points], out, scratch);
      last = edges[done].left || edges[done].level == 1;  // after a left edge, its sibling is next
    }
  }
}

// Decides which rows go left at the node above an edge.
AGBM_INLINE inline void Contributions::decide(const ShapleyEdge& edge, const Group<double>& x,
                                              Group<std::int64_t>& goes_left) const {
  const double threshold = edge.threshold;
  if (edge.categories >= 0) {
    const ForestNode& node = a_.nodes[edge.node];
    const CategorySet set = a_.set_of(node);
    for (std::size_t i = 0; i < kGroup; ++i) goes_left.of[i] = set.has(x.of[i], node.missing_left) ? -1 : 0;
  } else if (edge.missing_left) {
    for (std::size_t i = 0; i < kGroup; ++i) {
      goes_left.of[i] = (x.of[i] <= threshold ? -1 : 0) | (x.of[i] != x.of[i] ? -1 : 0);
    }
  } else {
    for (std::size_t i = 0; i < kGroup; ++i) goes_left.of[i] = x.of[i] <= threshold ? -1 : 0;
  }
}

// Computes the products at the lower end of an edge, and which rows are still on the path there.
template <int n_points>
AGBM_INLINE inline void Contributions::go_down(const ShapleyEdge& edge, const ShapleyWeights* __restrict weights,
                                               Scratch& scratch) const {
  const std::int64_t* __restrict goes_left = scratch.goes_left[edge.level].of;
  const std::int64_t* __restrict on_above = scratch.on_path[edge.above].of;
  std::int64_t* __restrict on = scratch.on_path[edge.level].of;
  const Group<double>* __restrict before = &scratch.products[(edge.level - 1) * n_points];
  Group<double>* __restrict after = &scratch.products[edge.level * n_points];
  const std::int64_t turned = edge.left ? 0 : -1;
  const double share = edge.share;
  for (std::size_t i = 0; i < kGroup; ++i) on[i] = (goes_left[i] ^ turned) & on_above[i];
  for (int q = 0; q < n_points; ++q) {
    const ShapleyWeights of_point = weights[q];
    if (edge.above == 0) {
      for (std::size_t i = 0; i < kGroup; ++i) {
        after[q].of[i] = before[q].of[i] * of_point.factor<true>(on[i], on_above[i], share);
      }
    } else {
      for (std::size_t i = 0; i < kGroup; ++i) {
        after[q].of[i] = before[q].of[i] * of_point.factor<false>(on[i], on_above[i], share);
      }
    }
  }
}

// Adds the sums below an edge to its feature and to the sums at its upper end.
template <int n_points>
AGBM_INLINE inline void Contributions::go_up(const ShapleyEdge& edge, const ShapleyWeights* __restrict weights,
                                             Group<double>* out, Scratch& scratch) const {
  const std::size_t n_values = static_cast<std::size_t>(a_.n_values), level = static_cast<std::size_t>(edge.level);
  for (std::size_t k = 0; k < n_values; ++k, out += a_.n_features) {
    const bool is_leaf = edge.leaf >= 0;
    const Group<double>* below =
        is_leaf ? &scratch.products[level * n_points] : &scratch.sums[(level * n_values + k) * n_points];
    const double times = is_leaf ? values_of(edge.leaf)[k] : 1.0;
    Group<double>* above = &scratch.sums[((level - 1) * n_values + k) * n_points];
    const auto add = [&]<bool left, bool first>() AGBM_INLINE {
      add_sums<n_points, left, first>(edge, weights, below, times, above, out[edge.feature], scratch);
    };
    if (edge.above == 0) {
      edge.left ? add.template operator()<true, true>() : add.template operator()<false, true>();
    } else {
      edge.left ? add.template operator()<true, false>() : add.template operator()<false, false>();
    }
  }
}

template <int n_points, bool left, bool first_on_feature>
AGBM_INLINE inline void Contributions::add_sums(const ShapleyEdge& edge, const ShapleyWeights* __restrict weights,
                                                const Group<double>* __restrict below, double times,
                                                Group<double>* __restrict above, Group<double>& __restrict out,
                                                const Scratch& scratch) const {
  const std::int64_t* __restrict on = scratch.on_path[edge.level].of;
  const std::int64_t* __restrict on_above = scratch.on_path[edge.above].of;
  for (std::size_t i = 0; i < kGroup; ++i) {
    double total = 0.0;
    for (int q = 0; q < n_points; ++q) {
      const double sum = times * below[q].of[i];
      total += sum * weights[q].template gain<first_on_feature>(on[i], on_above[i]);
      above[q].of[i] = left ? sum : above[q].of[i] + sum;
    }
    out.of[i] += total;
  }
}

}  // namespace agbm
