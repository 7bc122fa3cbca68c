// What the growth of a tree needs of the rows of its nodes: the best splits, and sums.
//
// Where the rows and their histograms are is not known here: in this process, in others, or on a device.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "formulas/histogram_layout.hpp"
#include "formulas/split_rules.hpp"
#include "tree/quantise.hpp"
#include "tree/split.hpp"

namespace agbm {

// The words in which a record of histogram_layout.hpp is sent.
template <class Record>
using WordsOf = std::array<std::int64_t, sizeof(Record) / sizeof(std::int64_t)>;

template <class Record>
void append_words(std::vector<std::int64_t>& words, const Record& record) {
  const auto added = std::bit_cast<WordsOf<Record>>(record);
  words.insert(words.end(), added.begin(), added.end());
}

template <class Record>
Record record_from(const std::int64_t* words) {
  WordsOf<Record> read;
  std::copy_n(words, read.size(), read.begin());
  return std::bit_cast<Record>(read);
}

// A node whose histogram is requested, and where to write it.
struct NodeCells {
  std::int32_t node;
  std::int64_t* cells;
};

// The source of sums over rows.
class RowSums {
 public:
  virtual ~RowSums() = default;
  // Before the histograms of a tree: which sums they have.
  virtual void summed_by(const Sketch& sketch) = 0;
  virtual void split(const std::vector<NodeSplit>& splits) = 0;
  virtual void build(const std::vector<NodeCells>& wanted) = 0;
  // See noise_sums().
  virtual std::vector<std::int64_t> noise() = 0;
  // (leaf, residual or hessian), finer than those of the histograms.
  virtual std::vector<std::int64_t> leaf_sums(const std::vector<std::int32_t>& leaves) = 0;
  // (leaf, output); see LeafQuantiles.
  virtual std::vector<double> leaf_quantiles(const std::vector<std::int32_t>& leaves) = 0;
};

// Two children of a node, of which the larger may be split. The histogram of the smaller is built from its rows, that of
// the larger is the difference to the parent's.
struct Siblings {
  std::int32_t parent, small, large;
  bool small_too;  // whether the smaller may be split as well
};

// A node whose best split is wanted.
struct Candidate {
  std::int32_t node;
  const std::vector<int>* features;  // that it may be split on, ordered by column
  const std::int64_t* total;         // sums of its rows, per channel
  Bounds bounds;
  Split best;  // at first none, with the gain that a split must exceed
};

// A message takes longer than the search for a few nodes.
constexpr std::size_t kNodesOfMessage = 8;

class NodeSearch {
 public:
  virtual ~NodeSearch() = default;
  // How many nodes best-first growth splits at once. If several, the numbers of nodes differ from those of the tree.
  virtual std::size_t nodes_at_once() const { return 1; }
  // Begins a tree and returns the sums of its root. Both arguments stay valid until the next tree.
  virtual std::vector<std::int64_t> start(const TreeInputs& inputs, const Channels& channels) = 0;
  // Sends the rows of nodes to their children.
  virtual void split(const std::vector<NodeSplit>& splits) = 0;
  // Sums of the left child of a node that was split by the best split found for it; `total`: those of the node.
  virtual std::vector<std::int64_t> left_total(std::int32_t node, std::int32_t left, const Split& split,
                                               const std::int64_t* total) = 0;
  // Sets the best splits of candidates: of the root, or of the children of some nodes that were split.
  virtual void search(const std::vector<Siblings>& families, std::vector<Candidate>& candidates) = 0;
  // The node will not be split, or its children will not be.
  virtual void forget(std::int32_t node) = 0;
  // Before start(); see RowSums.
  virtual std::vector<std::int64_t> noise(const TreeInputs& inputs) = 0;
  virtual std::vector<std::int64_t> leaf_sums(const std::vector<std::int32_t>& leaves) = 0;
  virtual std::vector<double> leaf_quantiles(const std::vector<std::int32_t>& leaves) = 0;
};

}  // namespace agbm
