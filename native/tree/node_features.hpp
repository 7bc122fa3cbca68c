// The features that each node of a tree may be split on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <vector>

#include "bins/layout.hpp"

namespace agbm {

// The features that a tree may use (null: all), and the share of them that each node may be split on.
struct FeatureSample {
  const std::uint8_t* features = nullptr;
  double node_share = 1.0;
  std::uint64_t seed = 0;
};

// A hash of a number (the finaliser of splitmix64), for random choices that depend on the numbers of nodes and features
// alone, not on the order in which they are made.
inline std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

class NodeFeatures {
 public:
  // interactions: groups of features that may be used together on one path; empty: all may.
  NodeFeatures(const BinnedMatrix& matrix, const std::vector<std::vector<int>>& interactions)
      : matrix_(matrix), interactions_(interactions), has_shared_columns_(matrix.has_shared_columns()) {
    for (int f = 0; f < matrix.n_features; ++f) {
      if (matrix.places[f].used()) all_.push_back(f);
    }
    sort_by_column(all_);
  }

  // Begins a tree with its root.
  void start(const FeatureSample& sample) {
    sample_ = sample;
    chosen_.clear();
    groups_.clear();
    if (interactions_.empty()) return;
    groups_.emplace_back(interactions_.size());
    std::iota(groups_[0].begin(), groups_[0].end(), 0);
  }

  // Adds the two children of a node that is split on a feature: only the groups that have it remain.
  void add_children(std::int32_t parent, int feature) {
    if (groups_.empty()) return;
    std::vector<int> remaining;
    for (int group : groups_[parent]) {
      const std::vector<int>& features = interactions_[group];
      if (std::find(features.begin(), features.end(), feature) != features.end()) remaining.push_back(group);
    }
    groups_.push_back(remaining);
    groups_.push_back(remaining);
  }

  // Ordered by column. Valid until forget() is called.
  const std::vector<int>& of(std::int32_t node) {
    if (groups_.empty() && sample_.features == nullptr && sample_.node_share >= 1.0) return all_;
    chosen_.push_back(choose(node));
    return chosen_.back();
  }
  void forget() { chosen_.clear(); }

 private:
  std::vector<int> choose(std::int32_t node) const {
    std::vector<std::uint8_t> allowed(matrix_.n_features, groups_.empty() ? 1 : 0);
    if (!groups_.empty()) {
      for (int group : groups_[node]) {
        for (int feature : interactions_[group]) allowed[feature] = 1;
      }
    }
    std::vector<int> features;
    for (int f = 0; f < matrix_.n_features; ++f) {
      if (allowed[f] && (sample_.features == nullptr || sample_.features[f])) features.push_back(f);
    }
    if (sample_.node_share < 1.0 && !features.empty()) sample_share(features, node);
    // Unused features are removed only now: the sample is drawn among all features.
    features.erase(std::remove_if(features.begin(), features.end(), [&](int f) { return !matrix_.places[f].used(); }),
                   features.end());
    std::sort(features.begin(), features.end());
    sort_by_column(features);
    return features;
  }

  void sample_share(std::vector<int>& features, std::int32_t node) const {
    const std::uint64_t seed = mixed(sample_.seed + mixed(static_cast<std::uint64_t>(node)));
    const auto draw = [&](int feature) { return mixed(seed + static_cast<std::uint64_t>(feature)); };
    const double share = sample_.node_share * static_cast<double>(features.size());
    const auto end = features.begin() + std::max<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(share));
    // The features with the smallest random draws, all of which differ.
    std::nth_element(features.begin(), end - 1, features.end(), [&](int a, int b) { return draw(a) < draw(b); });
    features.erase(end, features.end());
  }

  // Features of one group of columns follow each other, so that its histogram is built once.
  void sort_by_column(std::vector<int>& features) const {
    if (!has_shared_columns_) return;  // they are in this order already
    std::stable_sort(features.begin(), features.end(),
                     [&](int a, int b) { return matrix_.places[a].column < matrix_.places[b].column; });
  }

  const BinnedMatrix& matrix_;
  const std::vector<std::vector<int>>& interactions_;
  const bool has_shared_columns_;
  FeatureSample sample_;
  std::vector<int> all_;                  // features that are used
  std::vector<std::vector<int>> groups_;  // that are still allowed in each node; empty without interactions
  std::deque<std::vector<int>> chosen_;   // features of single nodes that may not use all
};

}  // namespace agbm
