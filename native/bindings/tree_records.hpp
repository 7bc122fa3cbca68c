// Trees from the arrays in which Python keeps them.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "bindings/python_arrays.hpp"
#include "bins/layout.hpp"
#include "tree/binned_trees.hpp"
#include "tree/tree.hpp"

namespace agbm {

inline void require_thresholds(std::span<const int> n_bins, const Vector<double>& thresholds) {
  std::size_t n = 0;
  for (int bins : n_bins) n += bins - 1;
  require(n == thresholds.size(), "thresholds: must have one entry fewer than bins for each feature");
}

// Trees from the records of their nodes, as bytes, and the codes that go left in each.
inline GrownTree trees_of_records(const BinnedMatrix& m, const Vector<std::uint8_t>& nodes,
                                  const RowMajor<std::uint64_t>& left_codes, const RowMajor<double>& value) {
  const std::size_t n_nodes = value.shape(0);
  require(nodes.size() == n_nodes * sizeof(NodeRecord), "nodes: must have as many records as value has rows");
  require(left_codes.shape(0) == n_nodes && left_codes.shape(1) == 4, "left_codes: must have 4 words for each node");
  GrownTree all;
  all.n_values = static_cast<int>(value.shape(1));
  for (std::size_t i = 0; i < n_nodes; ++i) {
    NodeRecord record;
    std::memcpy(&record, nodes.data() + i * sizeof record, sizeof record);
    const bool is_leaf = record.left < 0;
    require(is_leaf || (record.feature >= 0 && record.feature < m.n_features && m.places[record.feature].used()),
            "nodes: no such feature");
    require(
        is_leaf || (static_cast<std::size_t>(record.left) > i && static_cast<std::size_t>(record.left) + 1 < n_nodes),
        "nodes: children must follow their parents");
    all.add(record.count);
    all.feature[i] = record.feature;
    all.left[i] = record.left;
    std::copy_n(left_codes.data() + 4 * i, 4, all.left_codes[i].words.begin());
  }
  all.value.assign(value.data(), value.data() + value.size());
  return all;
}

}  // namespace agbm
