// What contributions of features are computed from: the edges of trees, and their factors at quadrature points; see
// native/forest/shap.hpp.
#pragma once

#include "formulas/portable.hpp"

namespace agbm {

// Points per pass: on the CPU, their products stay in the L1 cache.
constexpr int kMaxPoints = 4;

// The edge from a node to one of its children.
struct ShapleyEdge {
  double threshold;
  double share;       // of the node's training rows
  double path_share;  // product of the shares of all edges on this feature, from the root down to this one
  double leaf_share;  // of all training rows; 0 if the child is not a leaf
  Int32 feature;
  Int32 level;   // of the child; that of the root is 0
  Int32 above;   // level of the previous edge on the same feature; 0: none
  Int32 parent;  // the edge to the node; 0 for edges from the root
  Int32 node;
  Int32 leaf;        // the child if it is a leaf, else -1
  Int32 categories;  // number of the set of categories that go left; -1: the threshold decides
  bool left, missing_left;
};

// Returns `yes` if all bits of `which` are set, `no` if none is. Compilers can vectorise loops over it.
AGBM_INLINE inline double choose(Int64 which, double yes, double no) {
  return bit_cast<double>((which & bit_cast<Int64>(yes)) | (~which & bit_cast<Int64>(no)));
}

// Factors of an edge at one point, for rows that are still on the path after this edge (they meet all conditions on the
// feature so far) and for rows that leave it here (this is the first condition on the feature that they do not meet).
// All bits of `on` and `on_above` are set for rows that are on the path after this edge and after the previous one on
// its feature, and none for others.
struct ShapleyWeights {
  double factor_on, factor_off;
  double gain_on, gain_off;

  // Of the product p.
  template <bool first_on_feature>
  AGBM_INLINE double factor(Int64 on, Int64 on_above, double share) const {
    return choose(on, factor_on, first_on_feature ? factor_off : choose(on_above, factor_off, share));
  }

  // Of the sum s.
  template <bool first_on_feature>
  AGBM_INLINE double gain(Int64 on, Int64 on_above) const {
    return choose(on, gain_on, first_on_feature ? gain_off : choose(on_above, gain_off, 0.0));
  }
};

// A tree for some of its points, as a range of edges and weights (edge, point).
struct ShapleyPass {
  Int64 first_edge, n_edges, first_weight;
  Int32 n_points, first_column;
};

static_assert(sizeof(ShapleyEdge) == 64 && sizeof(ShapleyWeights) == 32 && sizeof(ShapleyPass) == 32);

}  // namespace agbm
