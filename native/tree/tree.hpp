// The layout of trees: while they grow, and as Python stores them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace agbm {

// A set of bins of one feature, including that of missing values.
struct CodeSet {
  std::array<std::uint64_t, 4> words{};

  bool has(int code) const { return words[code >> 6] >> (code & 63) & 1; }
  void add(int code) { words[code >> 6] |= std::uint64_t{1} << (code & 63); }
  static CodeSet up_to(int code) {
    CodeSet set;
    for (int w = 0; w < 4; ++w) {
      const int n = std::clamp(code + 1 - 64 * w, 0, 64);
      set.words[w] = n == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << n) - 1;
    }
    return set;
  }
};

// Children of node i are left[i] and left[i] + 1; a leaf has feature -1.
struct GrownTree {
  int n_values = 0;  // per leaf: one for each residual that the tree is grown on
  std::vector<std::int32_t> feature;
  std::vector<std::int32_t> bin;
  std::vector<std::uint8_t> missing_left;
  std::vector<CodeSet> left_codes;
  std::vector<std::int32_t> left;
  std::vector<double> gain;
  std::vector<std::int64_t> count;
  std::vector<double> value;  // (node, value); zero in inner nodes

  std::size_t n_nodes() const { return feature.size(); }
  std::vector<std::int32_t> leaves() const {
    std::vector<std::int32_t> found;
    for (std::size_t node = 0; node < n_nodes(); ++node) {
      if (left[node] < 0) found.push_back(static_cast<std::int32_t>(node));
    }
    return found;
  }
  std::int32_t add(std::int64_t rows) {
    feature.push_back(-1);
    bin.push_back(0);
    missing_left.push_back(0);
    left_codes.push_back({});
    left.push_back(-1);
    gain.push_back(0.0);
    count.push_back(rows);
    value.insert(value.end(), n_values, 0.0);
    return static_cast<std::int32_t>(n_nodes()) - 1;
  }
};

// A node of a tree as Python stores it: one record of an array (NODE in forest.py).
struct NodeRecord {
  double threshold;  // values at or below go left
  double gain;
  std::int64_t count;       // training rows
  std::int32_t feature;     // -1: leaf
  std::int32_t bin;         // of the threshold
  std::int32_t left;        // child, followed by the other one; -1: leaf
  std::int32_t categories;  // number of the set of categories that go left; -1: the threshold decides
  std::uint8_t missing_left;
  std::uint8_t unused[7] = {};
};

}  // namespace agbm
