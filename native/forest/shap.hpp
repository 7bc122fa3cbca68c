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
//
// The interaction of two features is the change of the contribution of one that comes with the other. Its integral is
//
//   phi_ij = v / 2  integral over (0, 1) of  (o_i - z_i) (o_j - z_j)  product over k != i, j of  (z_k (1 - t) + o_k t)  dt.
//
// Half of it belongs to each of the two, as in the shap package, and the rest of phi_i to i alone. For these, each edge
// multiplies its (g - g') s by the g of the last edge of every other feature above it: all leaves below share both.
// The two edges below a node have the same features above, so they are added first.
#pragma once

#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

#include "forest/arrays.hpp"
#include "forest/predict.hpp"
#include "forest/walks.hpp"
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

// Computes Shapley values for a forest, which must stay alive: of features, or of features and their pairs. Its passes
// are kept if they fit one batch, and computed again in every call otherwise.
template <bool with_pairs>
class ShapleyValues {
 public:
  explicit ShapleyValues(const Forest& forest) : forest_(forest), a_(forest.arrays()), expected_(a_.n_columns, 0.0) {
    if constexpr (with_pairs) pairs_.emplace(forest);
    for (std::size_t tree = 0; tree < a_.roots.size(); ++tree) {
      const std::int32_t root = a_.roots[tree];
      if (forest_.is_leaf(root)) add_values(root, 1.0, a_.first_column[tree]);
    }
    for_each_batch([&](std::vector<Pass>&& passes) {
      for (const Pass& pass : passes) {
        if (!pass.is_first) continue;
        for (const ShapleyEdge& edge : pass.of->walk.edges) {
          if (edge.leaf >= 0) add_values(edge.leaf, edge.leaf_share, pass.of->walk.first_column);
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
  // row of which nothing is known; with pairs, to out (row, column, feature + 1, feature + 1), which must be zero before,
  // the interactions of each two features. Rows are laid out as in Forest::add_predictions.
  template <class T>
  void add(const T* x, std::size_t n_rows, std::ptrdiff_t row_stride, std::ptrdiff_t feature_stride, double* out,
           int n_threads) const {
    const FeaturePairs* pairs = pairs_ ? &*pairs_ : nullptr;
    const Places places(a_, pairs);
    const RowBlocks<T> rows({x, n_rows, row_stride, feature_stride}, places, out, kMaxGroups);
    if (n_batches_ > 1) {
      for_each_batch([&](std::vector<Pass>&& passes) { run(passes, rows, places, n_threads); });
    } else {
      run(kept_, rows, places, n_threads);
    }
    finish(places, pairs, expected_, n_rows, out, n_threads);
  }

 private:
  static constexpr std::size_t kMaxWeights = 1 << 19;  // per batch (16 MB); a larger pass is a batch by itself
  static constexpr std::size_t kMaxGroups = 8;         // per block
  static constexpr std::size_t kManyLevels = 1000;     // need megabytes per task

  // The last edge on another feature above a node, and the pair of that feature and the node's.
  struct Other {
    std::int32_t edge, pair;
  };

  struct Tree {
    Walk walk;
    int n_points = 0;                                   // quadrature points that are exact for the longest path
    std::vector<Other> others;                          // of one node after the other
    std::vector<std::size_t> begin_others, end_others;  // (edge); those of right edges are used
  };

  // The g of an edge at one point, for rows that are on the path after it, and for others.
  struct Gain {
    double on, off;
  };

  // The walk of a tree for some of its points.
  struct Pass {
    std::shared_ptr<const Tree> of;
    std::vector<ShapleyWeights> weights;  // (edge, point)
    std::vector<Gain> gains;              // (edge, point), with pairs only
    int n_points;
    bool is_first;  // whether it is the first pass of its walk
  };

  // Temporary memory of one task.
  struct Scratch {
    std::vector<Group<double>> products;                  // (level, point)
    std::vector<Group<double>> sums;                      // (level, value, point)
    std::vector<Group<double>> gains;                     // (level, value, point): (g - g') s of both edges of a node
    std::vector<Group<std::int64_t>> goes_left, on_path;  // (level), all bits set or none
  };

  const double* values_of(std::int32_t leaf) const { return &a_.values[static_cast<std::size_t>(leaf) * a_.n_values]; }
  void add_values(std::int32_t leaf, double share, int first_column) {
    for (int k = 0; k < a_.n_values; ++k) expected_[first_column + k] += share * values_of(leaf)[k];
  }

  // Creates the passes of all trees, in their order, and calls use() with one batch after the other.
  template <class Use>
  void for_each_batch(const Use& use) const;
  Tree tree_of(std::size_t number) const;
  static Pass pass_of(const std::shared_ptr<const Tree>& tree, const Quadrature& quadrature, int first_point);

  template <class T>
  void run(const std::vector<Pass>& passes, const RowBlocks<T>& rows, const Places& places, int n_threads) const;

  template <int n_points>
  AGBM_INLINE void take(const Pass& pass, const Group<double>* x, Group<double>* out, std::size_t n_places,
                        Scratch& scratch) const;
  template <int n_points>
  AGBM_INLINE void go_down(const ShapleyEdge& edge, const ShapleyWeights* weights, Scratch& scratch) const;
  template <int n_points>
  AGBM_INLINE void go_up(const ShapleyEdge& edge, const ShapleyWeights* weights, Group<double>* out,
                         std::size_t n_places, Scratch& scratch) const;
  template <int n_points, bool left, bool first_on_feature>
  AGBM_INLINE void add_sums(const ShapleyEdge& edge, const ShapleyWeights* weights, const Group<double>* below,
                            double times, Group<double>* above, Group<double>* gains, Group<double>& out,
                            const Scratch& scratch) const;
  template <int n_points>
  AGBM_INLINE void add_pairs(const Pass& pass, std::size_t e, Group<double>* out, std::size_t n_places,
                             const Scratch& scratch) const;

  const Forest& forest_;
  const ForestArrays& a_;
  std::optional<FeaturePairs> pairs_;
  std::vector<double> expected_;  // per column
  std::vector<Pass> kept_;        // all passes, if they fit one batch
  int n_batches_ = 0;
};

using Contributions = ShapleyValues<false>;
using Interactions = ShapleyValues<true>;

template <bool with_pairs>
typename ShapleyValues<with_pairs>::Arrays ShapleyValues<with_pairs>::arrays() const {
  Arrays found;
  for_each_batch([&](const std::vector<Pass>& passes) {
    for (const Pass& pass : passes) {
      const Walk& walk = pass.of->walk;
      if (pass.is_first) found.edges.insert(found.edges.end(), walk.edges.begin(), walk.edges.end());
      found.passes.push_back({static_cast<std::int64_t>(found.edges.size() - walk.edges.size()),
                              static_cast<std::int64_t>(walk.edges.size()),
                              static_cast<std::int64_t>(found.weights.size()), pass.n_points, walk.first_column});
      found.weights.insert(found.weights.end(), pass.weights.begin(), pass.weights.end());
      found.n_levels = std::max(found.n_levels, walk.depth + 1);
    }
  });
  return found;
}

template <bool with_pairs>
template <class Use>
void ShapleyValues<with_pairs>::for_each_batch(const Use& use) const {
  std::map<int, Quadrature> quadratures;
  std::vector<Pass> batch;
  std::size_t n_weights = 0;
  for (std::size_t number = 0; number < a_.roots.size(); ++number) {
    const auto tree = std::make_shared<const Tree>(tree_of(number));
    for (int first = 0; first < tree->n_points; first += kMaxPoints) {
      const Quadrature& quadrature = quadratures.try_emplace(tree->n_points, tree->n_points).first->second;
      batch.push_back(pass_of(tree, quadrature, first));
      n_weights += batch.back().weights.size();
      if (n_weights < kMaxWeights) continue;
      use(std::exchange(batch, {}));
      n_weights = 0;
    }
  }
  use(std::move(batch));
}

template <bool with_pairs>
typename ShapleyValues<with_pairs>::Tree ShapleyValues<with_pairs>::tree_of(std::size_t number) const {
  Tree tree{walk_of(forest_, number), 0, {}, {}, {}};
  const Walk& walk = tree.walk;
  tree.n_points = (walk.most_features + 1) / 2;
  if constexpr (with_pairs) {
    std::vector<char> passed;
    tree.begin_others.resize(walk.edges.size());
    tree.end_others.resize(walk.edges.size());
    walk.for_each_edge([&](std::size_t e, const std::vector<std::size_t>& path) {
      if (walk.edges[e].left) return;
      tree.begin_others[e] = tree.others.size();
      for_each_other(walk, path, passed, [&](std::size_t other) {
        const std::int32_t pair = pairs_->number_of(walk.edges[e].feature, walk.edges[other].feature);
        tree.others.push_back({static_cast<std::int32_t>(other), pair});
      });
      tree.end_others[e] = tree.others.size();
    });
  }
  return tree;
}

template <bool with_pairs>
typename ShapleyValues<with_pairs>::Pass ShapleyValues<with_pairs>::pass_of(const std::shared_ptr<const Tree>& tree,
                                                                            const Quadrature& quadrature,
                                                                            int first_point) {
  Pass pass{tree, {}, {}, std::min(kMaxPoints, tree->n_points - first_point), first_point == 0};
  pass.weights.reserve(tree->walk.edges.size() * pass.n_points);
  std::vector<double> share_at(tree->walk.depth + 1, 1.0);  // path_share of the edge at each level
  for (const ShapleyEdge& edge : tree->walk.edges) {
    const double z = edge.path_share, z_above = edge.above > 0 ? share_at[edge.above] : 1.0;
    share_at[edge.level] = z;
    for (int q = first_point; q < first_point + pass.n_points; ++q) {
      const double t = quadrature.point[q], u = quadrature.rest[q], weight = quadrature.weight[q];
      const double above = z_above * u + t, on = z * u + t;
      pass.weights.push_back({on / above, z * u / above, weight * (z_above - z) / (on * above), -weight / (u * above)});
      if constexpr (with_pairs) pass.gains.push_back({(1.0 - z) / on, -1.0 / u});
    }
  }
  return pass;
}

template <bool with_pairs>
template <class T>
void ShapleyValues<with_pairs>::run(const std::vector<Pass>& passes, const RowBlocks<T>& rows, const Places& places,
                                    int n_threads) const {
  if (passes.empty() || rows.n_blocks() == 0) return;
  std::size_t n_levels = 0;
  for (const Pass& pass : passes) n_levels = std::max(n_levels, static_cast<std::size_t>(pass.of->walk.depth) + 1);
  const std::size_t tasks_per_thread = n_levels > kManyLevels ? 1 : 4;  // each has memory for all levels
  const std::size_t n_tasks =
      std::min(rows.n_blocks(), tasks_per_thread * static_cast<std::size_t>(std::max(n_threads, 1)));
  std::vector<Scratch> scratches(n_tasks);
  for (Scratch& scratch : scratches) {
    scratch.products.resize(n_levels * kMaxPoints);
    scratch.sums.resize(n_levels * a_.n_values * kMaxPoints);
    if constexpr (with_pairs) scratch.gains.resize(scratch.sums.size());
    scratch.goes_left.resize(n_levels);
    scratch.on_path.resize(n_levels);
  }
  const std::size_t n_features = places.n_features, n_places = places.of.size();
  rows.run(n_tasks, n_threads, [&](RowBlock& block, std::size_t n_rows, std::size_t task) {
    for (const Pass& pass : passes) {
      vectorised([&]() AGBM_INLINE {
        for (std::size_t g = 0; g * kGroup < n_rows; ++g) {
          const Group<double>* x = &block.x[g * n_features];
          Group<double>* out = &block.out[(g * places.n_columns + pass.of->walk.first_column) * n_places];
          switch (pass.n_points) {
            case 1: take<1>(pass, x, out, n_places, scratches[task]); break;
            case 2: take<2>(pass, x, out, n_places, scratches[task]); break;
            case 3: take<3>(pass, x, out, n_places, scratches[task]); break;
            default: take<4>(pass, x, out, n_places, scratches[task]); break;
          }
        }
      });
    }
  });
}

// Walks a group of rows along all edges.
template <bool with_pairs>
template <int n_points>
AGBM_INLINE inline void ShapleyValues<with_pairs>::take(const Pass& pass, const Group<double>* x, Group<double>* out,
                                                        std::size_t n_places, Scratch& scratch) const {
  const std::vector<ShapleyEdge>& edges = pass.of->walk.edges;
  for (std::size_t i = 0; i < kGroup; ++i) scratch.on_path[0].of[i] = -1;
  for (int q = 0; q < n_points; ++q) {
    for (std::size_t i = 0; i < kGroup; ++i) scratch.products[q].of[i] = 1.0;
  }
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const ShapleyEdge& edge = edges[e];
    if (edge.left) decide(a_, edge, x[edge.feature], scratch.goes_left[edge.level]);
    go_down<n_points>(edge, &pass.weights[e * n_points], scratch);
    if (edge.leaf < 0) continue;
    std::size_t done = e;
    for (bool last = false; !last; done = static_cast<std::size_t>(edges[done].parent)) {
      go_up<n_points>(edges[done], &pass.weights[done * n_points], out, n_places, scratch);
      if constexpr (with_pairs) {
        if (!edges[done].left) add_pairs<n_points>(pass, done, out, n_places, scratch);
      }
      last = edges[done].left || edges[done].level == 1;  // after a left edge, its sibling is next
    }
  }
}

// Computes the products at the lower end of an edge, and which rows are still on the path there.
template <bool with_pairs>
template <int n_points>
AGBM_INLINE inline void ShapleyValues<with_pairs>::go_down(const ShapleyEdge& edge,
                                                           const ShapleyWeights* __restrict weights,
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
template <bool with_pairs>
template <int n_points>
AGBM_INLINE inline void ShapleyValues<with_pairs>::go_up(const ShapleyEdge& edge,
                                                         const ShapleyWeights* __restrict weights, Group<double>* out,
                                                         std::size_t n_places, Scratch& scratch) const {
  const std::size_t n_values = static_cast<std::size_t>(a_.n_values), level = static_cast<std::size_t>(edge.level);
  for (std::size_t k = 0; k < n_values; ++k, out += n_places) {
    const bool is_leaf = edge.leaf >= 0;
    const Group<double>* below =
        is_leaf ? &scratch.products[level * n_points] : &scratch.sums[(level * n_values + k) * n_points];
    const double times = is_leaf ? values_of(edge.leaf)[k] : 1.0;
    Group<double>* above = &scratch.sums[((level - 1) * n_values + k) * n_points];
    Group<double>* gains = with_pairs ? &scratch.gains[(level * n_values + k) * n_points] : nullptr;
    const auto add = [&]<bool left, bool first>() AGBM_INLINE {
      add_sums<n_points, left, first>(edge, weights, below, times, above, gains, out[edge.feature], scratch);
    };
    if (edge.above == 0) {
      edge.left ? add.template operator()<true, true>() : add.template operator()<false, true>();
    } else {
      edge.left ? add.template operator()<true, false>() : add.template operator()<false, false>();
    }
  }
}

template <bool with_pairs>
template <int n_points, bool left, bool first_on_feature>
AGBM_INLINE inline void ShapleyValues<with_pairs>::add_sums(
    const ShapleyEdge& edge, const ShapleyWeights* __restrict weights, const Group<double>* __restrict below,
    double times, Group<double>* __restrict above, Group<double>* __restrict gains, Group<double>& __restrict out,
    const Scratch& scratch) const {
  const std::int64_t* __restrict on = scratch.on_path[edge.level].of;
  const std::int64_t* __restrict on_above = scratch.on_path[edge.above].of;
  for (std::size_t i = 0; i < kGroup; ++i) {
    double total = 0.0;
    for (int q = 0; q < n_points; ++q) {
      const double sum = times * below[q].of[i];
      const double gain = sum * weights[q].template gain<first_on_feature>(on[i], on_above[i]);
      total += gain;
      if constexpr (with_pairs) gains[q].of[i] = left ? gain : gains[q].of[i] + gain;
      above[q].of[i] = left ? sum : above[q].of[i] + sum;
    }
    out.of[i] += total;
  }
}

// Adds the interactions of the feature of a node with those above it, after both of its edges.
template <bool with_pairs>
template <int n_points>
AGBM_INLINE inline void ShapleyValues<with_pairs>::add_pairs(const Pass& pass, std::size_t e, Group<double>* out,
                                                             std::size_t n_places, const Scratch& scratch) const {
  const Tree& tree = *pass.of;
  const std::size_t level = static_cast<std::size_t>(tree.walk.edges[e].level);
  const std::size_t n_values = static_cast<std::size_t>(a_.n_values),
                    n_features = static_cast<std::size_t>(a_.n_features);
  const Other* const begin = tree.others.data() + tree.begin_others[e];
  const Other* const end = tree.others.data() + tree.end_others[e];
  for (std::size_t k = 0; k < n_values; ++k, out += n_places) {
    const Group<double>* __restrict gains = &scratch.gains[(level * n_values + k) * n_points];
    Group<double> off;
    for (std::size_t i = 0; i < kGroup; ++i) {
      double total = 0.0;
      for (int q = 0; q < n_points; ++q) total += gains[q].of[i] * pass.gains[q].off;
      off.of[i] = total;
    }
    for (const Other* other = begin; other < end; ++other) {
      const Gain* __restrict of_other = &pass.gains[static_cast<std::size_t>(other->edge) * n_points];
      const std::int64_t* __restrict on = scratch.on_path[tree.walk.edges[other->edge].level].of;
      Group<double>& __restrict to = out[n_features + other->pair];
      for (std::size_t i = 0; i < kGroup; ++i) {
        double total = 0.0;
        for (int q = 0; q < n_points; ++q) total += gains[q].of[i] * of_other[q].on;
        to.of[i] += choose(on[i], total, off.of[i]);
      }
    }
  }
}

}  // namespace agbm
