// Contributions of features to a prediction, relative to background rows: interventional Shapley values of trees
// (Lundberg et al., "From local explanations to global understanding with explainable AI for trees", 2020).
//
// If only the features in S are known, the others have the values of a background row. For one leaf with value v, each
// feature on its path then belongs to one of four kinds. If both rows meet all conditions of the path on it, it does not
// matter, and if neither does, the leaf is not reached for any S. If only the row does, S must contain it (p of the
// features), and if only the background row does, S must not (q of them). Shapley's sum is then
//
//   v w(p - 1, q)  for each of the p,  and  -v w(p, q - 1)  for each of the q,  where  w(a, c) = a! c! / (a + c + 1)!
//
// So a row matters by its pattern: a bit for each feature on the path, set where the row fails. The q features are the
// bits of the row's pattern, the p features those of the background row's, and the two must have no bit in common.
// Background rows are counted by pattern, once per leaf. What a row adds then depends on its pattern alone, and if there
// are more rows than patterns, it comes from a table of all patterns, so the number of background rows hardly matters.
// Otherwise the counts are added up for every row.
//
// Most of the time goes into looking up tables. So the leaves of a small subtree, a part of the tree, have one table,
// whose codes have the pattern of the path to its root and a bit for each of its inner nodes: whether the row goes left.
//
// Counts are added up as integers for each p, and then multiplied by w in the order of p. So table and row have the same
// bits, and what is computed for a row does not depend on the other rows.
//
// Interactions are v / 2 times w(p - 2, q) for two of the p, -w(p - 1, q - 1) for one of each kind, and w(p, q - 2) for
// two of the q.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "forest/arrays.hpp"
#include "forest/predict.hpp"
#include "forest/walks.hpp"
#include "formulas/shapley.hpp"

namespace agbm {

// w(a, c), divided by the number of background rows.
class OrderWeights {
 public:
  explicit OrderWeights(std::size_t n_rows) : n_rows_(static_cast<double>(n_rows)) {}

  // Makes all w(a, c) with a + c < n.
  void extend(std::size_t n) {
    if (n <= rows_.size()) return;
    rows_.resize(n);
    for (std::size_t c = 0; c < n; ++c) {
      double w = 1.0 / static_cast<double>(c + 1);
      rows_[c].resize(n - c);
      for (std::size_t a = 0; a < n - c; ++a) {
        if (a > 0) w = w * static_cast<double>(a) / static_cast<double>(a + c + 1);
        rows_[c][a] = w / n_rows_;
      }
    }
  }
  const double* of(std::size_t c) const { return rows_[c].data(); }

 private:
  double n_rows_;
  std::vector<std::vector<double>> rows_;  // (c, a)
};

// Computes the values of features, or of features and their pairs, for the rows of one call.
template <bool with_pairs>
class BackgroundValues {
 public:
  // There is at least one background row.
  template <class T>
  BackgroundValues(const Forest& forest, const TableRows<T>& background);

  // Adds to out what ShapleyValues::add does, with the mean prediction of the background rows as the expected one.
  template <class T>
  void add(const TableRows<T>& x, double* out, int n_threads);

 private:
  static constexpr std::size_t kMaxGroups = 8;         // per block of rows
  static constexpr std::size_t kMaxNumbers = 1 << 21;  // of a batch of trees (16 MB)
  static constexpr std::size_t kMaxShared = 1 << 13;   // of a table that several leaves share (64 kB)
  static constexpr std::size_t kMostTabled = 10;       // bits of the codes of a table
  static constexpr std::size_t kMostCounted = 12;      // bits of patterns that are counted in an array

  using Word = std::uint64_t;

  // Entries of an array of a tree.
  struct Range {
    std::size_t begin = 0, end = 0;
    std::size_t size() const { return end - begin; }
  };

  // A turn of a path, between the root of a part and a leaf. Rows that turn the other way have the bit in their patterns.
  struct Turn {
    std::size_t decision;  // bit of codes that is set for rows that go left
    bool left;
    std::size_t bit;
  };

  struct Leaf {
    std::int32_t node;
    std::size_t n_features;  // on the path
    Range turns, places;
    Range ends = {};                // of the patterns of background rows with 0, 1, ... bits
    std::size_t first_pattern = 0;  // of background rows
    std::int64_t n_reached = 0;     // background rows
  };

  // A subtree. If it has several leaves, codes have one word.
  struct Part {
    Range edges;          // below its root
    std::size_t level;    // of its root
    std::size_t n_above;  // features on the path to its root
    std::size_t n_bits;   // of codes
    Range leaves;
    Range places = {};  // those of all leaves, different and in ascending order
    bool has_table = false;
    std::vector<double> table = {};  // (place, code) of one leaf, without its values; (value, place, code) of several

    bool is_leaf() const { return leaves.size() == 1; }
    std::size_t n_codes() const { return std::size_t{1} << n_bits; }
  };

  struct Tree {
    Walk walk;
    std::size_t n_words = 1;           // per pattern
    std::vector<std::size_t> bit;      // (edge): the position of its feature among those of the path
    std::vector<std::ptrdiff_t> part;  // (edge): the part that begins below it; kNone, or kWithin one
    std::vector<Part> parts;
    std::vector<Leaf> leaves;
    std::vector<Turn> turns;
    std::vector<std::int32_t> places;       // of leaves: those of the features of the path, then those of their pairs
    std::vector<std::size_t> shared;        // for each of these, its number among the places of the part
    std::vector<std::int32_t> part_places;  // of parts
    std::vector<Word> patterns;             // (pattern, word) of background rows
    std::vector<std::int64_t> counts;       // (pattern), of background rows
    std::vector<std::size_t> ends;          // of leaves
  };
  static constexpr std::ptrdiff_t kNone = -1, kWithin = -2;

  // The patterns of groups of rows at every level of a walk, and their codes in one part.
  struct Patterns {
    std::vector<Group<std::int64_t>> goes_left;  // (level, group)
    std::vector<Group<Word>> of;                 // (level, word, group)
    std::vector<Group<Word>> codes;              // (word, group)

    void resize(const Tree& tree, std::size_t n_groups) {
      const std::size_t n_levels = static_cast<std::size_t>(tree.walk.depth) + 1;
      goes_left.resize(std::max(goes_left.size(), n_levels * n_groups));
      of.resize(std::max(of.size(), n_levels * tree.n_words * n_groups));
      codes.resize(std::max(codes.size(), tree.n_words * n_groups));
      std::fill_n(of.begin(), tree.n_words * n_groups, Group<Word>{});
    }
  };

  // Memory for counting background rows at a leaf.
  struct Counting {
    std::vector<std::pair<Word, std::int64_t>> codes;  // those that occur in a part, and their rows
    std::vector<std::int64_t> all;                     // (pattern)
    std::vector<std::int64_t> within;                  // see fill_table()
    std::vector<Word> patterns;                        // those that occur
    std::vector<std::int64_t> counts;
    std::vector<std::size_t> n_bits, next;
    std::vector<double> table;
  };

  // What the background rows of a leaf add for one pattern. Numbers are zero between calls.
  struct Sums {
    std::vector<Word> pattern;
    std::vector<double> value;         // of each feature of the path, then of pairs
    std::vector<std::int64_t> hits;    // the same: background rows that fail there
    std::vector<std::size_t> changed;  // values
    std::vector<Word> any;             // bits of the background rows that count
    std::vector<std::size_t> bits, failed;
    std::vector<double> total;  // (value, place) of a part
  };

  static std::size_t pair_of(std::size_t i, std::size_t j, std::size_t n) {  // i < j
    return n + j * (j - 1) / 2 + i;
  }
  static std::size_t n_places_of(std::size_t n_features) {
    return n_features + (with_pairs ? n_features * (n_features - 1) / 2 : 0);
  }
  const double* values_of(const Leaf& leaf) const {
    return &a_.values[static_cast<std::size_t>(leaf.node) * n_values_];
  }
  // The pattern of a row at a leaf of a part, from its code.
  AGBM_INLINE static Word pattern_of(const Tree& tree, const Part& part, const Leaf& leaf, Word code) {
    Word pattern = code & ((Word{1} << part.n_above) - 1);
    for (std::size_t k = leaf.turns.begin; k < leaf.turns.end; ++k) {
      const Turn& turn = tree.turns[k];
      pattern |= Word{(code >> turn.decision & 1) != static_cast<Word>(turn.left)} << turn.bit;
    }
    return pattern;
  }

  Tree tree_of(std::size_t number, std::size_t n_rows);
  void plan(Tree& tree) const;
  void add_leaf(Tree& tree, const std::vector<std::size_t>& path, const std::vector<std::int32_t>& features,
                const std::vector<std::size_t>& decision) const;
  void share_places(Tree& tree, Part& part) const;
  std::size_t size_of(const Tree& tree) const;

  void count_background(Tree& tree) const;
  void count_codes(const Part& part, const std::vector<Group<Word>>& codes, Counting& found) const;
  void count(Tree& tree, const Part& part, Leaf& leaf, const std::vector<Group<Word>>& codes, Counting& found) const;
  void count_long(const std::vector<Group<Word>>& codes, std::size_t n_words, Counting& found) const;
  void keep_counts(Tree& tree, Leaf& leaf, Counting& found) const;
  void fill_table(const Leaf& leaf, Counting& found) const;
  void add_to_table(const Tree& tree, Part& part, const Leaf& leaf, const std::vector<double>& table) const;
  void add_expected(const Tree& tree);

  template <class T>
  void run(const std::vector<Tree>& batch, const RowBlocks<T>& rows, const Places& places, int n_threads) const;
  template <class Use>
  AGBM_INLINE void for_each_part(const Tree& tree, const Group<double>* x, std::size_t n_groups, Patterns& patterns,
                                 const Use& use) const;
  AGBM_INLINE void step(const Tree& tree, std::size_t e, const Group<double>* x, std::size_t n_groups,
                        Patterns& patterns) const;
  AGBM_INLINE void find_codes(const Tree& tree, const Part& part, const Group<double>* x, std::size_t n_groups,
                              Patterns& patterns) const;
  AGBM_INLINE void add_from_table(const Tree& tree, const Part& part, const Group<Word>& codes, Group<double>* out,
                                  std::size_t n_places) const;
  void add_rows(const Tree& tree, const Part& part, const std::vector<Group<Word>>& codes, std::size_t n_rows,
                Group<double>* out, const Places& places, Sums& sums) const;
  void add_pattern(const Tree& tree, const Leaf& leaf, Sums& sums) const;

  const Forest& forest_;
  const ForestArrays& a_;
  const std::size_t n_values_, n_features_;
  const std::size_t n_, n_groups_;  // background rows, and groups of them
  std::optional<FeaturePairs> pairs_;
  OrderWeights weights_;
  std::vector<Group<double>> x_;  // background rows: (group, feature)
  std::vector<double> expected_;  // per column
};

template <bool with_pairs>
template <class T>
BackgroundValues<with_pairs>::BackgroundValues(const Forest& forest, const TableRows<T>& background)
    : forest_(forest),
      a_(forest.arrays()),
      n_values_(static_cast<std::size_t>(a_.n_values)),
      n_features_(static_cast<std::size_t>(a_.n_features)),
      n_(background.n),
      n_groups_((background.n + kGroup - 1) / kGroup),
      weights_(background.n),
      x_(n_groups_ * n_features_),
      expected_(a_.n_columns, 0.0) {
  if constexpr (with_pairs) pairs_.emplace(forest);
  for (std::size_t i = 0; i < n_; ++i) {
    const T* x = background.x + static_cast<std::ptrdiff_t>(i) * background.row_stride;
    for (std::size_t f = 0; f < n_features_; ++f, x += background.feature_stride) {
      x_[(i / kGroup) * n_features_ + f].of[i % kGroup] = static_cast<double>(*x);
    }
  }
}

template <bool with_pairs>
template <class T>
void BackgroundValues<with_pairs>::add(const TableRows<T>& x, double* out, int n_threads) {
  const FeaturePairs* pairs = pairs_ ? &*pairs_ : nullptr;
  const Places places(a_, pairs);
  const RowBlocks<T> rows(x, places, out, kMaxGroups);
  std::vector<Tree> batch;
  std::size_t n_numbers = 0;
  for (std::size_t number = 0; number < a_.roots.size(); ++number) {
    batch.push_back(tree_of(number, x.n));
    n_numbers += size_of(batch.back());
    if (n_numbers < kMaxNumbers && number + 1 < a_.roots.size()) continue;
    parallel_for(batch.size(), n_threads, [&](std::size_t k) { count_background(batch[k]); });
    for (const Tree& tree : batch) add_expected(tree);
    run(batch, rows, places, n_threads);
    batch.clear();
    n_numbers = 0;
  }
  finish(places, pairs, expected_, x.n, out, n_threads);
}

template <bool with_pairs>
typename BackgroundValues<with_pairs>::Tree BackgroundValues<with_pairs>::tree_of(std::size_t number,
                                                                                  std::size_t n_rows) {
  Tree tree;
  tree.walk = walk_of(forest_, number);
  const std::size_t most_features = static_cast<std::size_t>(tree.walk.most_features);
  weights_.extend(most_features);
  tree.n_words = std::max<std::size_t>(most_features + 63, 64) / 64;
  if (tree.walk.edges.empty()) {
    tree.parts.push_back({{}, 0, 0, 0, {0, 1}});
    tree.leaves.push_back({a_.roots[number], 0, {}, {}});
  } else {
    plan(tree);
  }
  for (Part& part : tree.parts) {
    part.has_table = part.n_bits <= kMostTabled && n_rows >= part.n_codes();
    share_places(tree, part);
  }
  return tree;
}

// Divides a tree into parts, the largest whose tables are small enough.
template <bool with_pairs>
void BackgroundValues<with_pairs>::plan(Tree& tree) const {
  const std::vector<ShapleyEdge>& edges = tree.walk.edges;
  std::vector<std::size_t> n_inner(edges.size(), 0);  // nodes below an edge that are not leaves
  for (std::size_t e = edges.size(); e-- > 0;) {
    if (edges[e].leaf < 0) ++n_inner[e];
    if (edges[e].level > 1) n_inner[edges[e].parent] += n_inner[e];
  }
  const auto begin_part = [&](std::size_t first, std::size_t n, std::size_t level, std::size_t n_above) {
    const std::size_t n_bits = n_above + n, n_leaves = tree.leaves.size();
    const bool fits = n_bits <= kMostTabled && n_values_ * n_places_of(n_bits) << n_bits <= kMaxShared;
    if (n > 0 && !fits) return false;
    tree.parts.push_back({{first, first + 2 * n}, level, n_above, n_bits, {n_leaves, n_leaves + n + 1}});
    return true;
  };
  tree.bit.resize(edges.size());
  tree.part.assign(edges.size(), kNone);
  begin_part(0, edges.size() / 2, 0, 0);
  std::vector<std::int32_t> features;                                                       // of the path
  std::vector<std::size_t> n_at(tree.walk.depth + 1, 0), decision(tree.walk.depth + 1, 0);  // per level
  std::size_t n_decisions = 0;                                                              // of the part
  tree.walk.for_each_edge([&](std::size_t e, const std::vector<std::size_t>& path) {
    const ShapleyEdge& edge = edges[e];
    features.resize(n_at[edge.level - 1]);
    tree.bit[e] = edge.above > 0 ? tree.bit[path[edge.above]] : features.size();
    if (edge.above == 0) features.push_back(edge.feature);
    n_at[edge.level] = features.size();
    if (!tree.parts.empty() && e < tree.parts.back().edges.end) {
      tree.part[e] = kWithin;
      if (edge.left) decision[edge.level] = tree.parts.back().n_above + n_decisions++;
    } else if (begin_part(e + 1, n_inner[e], static_cast<std::size_t>(edge.level), features.size())) {
      tree.part[e] = static_cast<std::ptrdiff_t>(tree.parts.size()) - 1;
      n_decisions = 0;
    }
    if (edge.leaf >= 0) add_leaf(tree, path, features, decision);
  });
}

// Adds the leaf at the end of a path to the last part.
template <bool with_pairs>
void BackgroundValues<with_pairs>::add_leaf(Tree& tree, const std::vector<std::size_t>& path,
                                            const std::vector<std::int32_t>& features,
                                            const std::vector<std::size_t>& decision) const {
  const Range turns{tree.turns.size(), tree.turns.size() + path.size() - 1 - tree.parts.back().level};
  const Range places{tree.places.size(), tree.places.size() + n_places_of(features.size())};
  for (std::size_t level = tree.parts.back().level + 1; level < path.size(); ++level) {
    tree.turns.push_back({decision[level], tree.walk.edges[path[level]].left, tree.bit[path[level]]});
  }
  tree.places.insert(tree.places.end(), features.begin(), features.end());
  for (std::size_t j = 0; with_pairs && j < features.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      tree.places.push_back(a_.n_features + pairs_->number_of(features[i], features[j]));
    }
  }
  tree.leaves.push_back({tree.walk.edges[path.back()].leaf, features.size(), turns, places});
}

template <bool with_pairs>
void BackgroundValues<with_pairs>::share_places(Tree& tree, Part& part) const {
  part.places.begin = tree.part_places.size();
  const Range of_leaves{tree.leaves[part.leaves.begin].places.begin, tree.leaves[part.leaves.end - 1].places.end};
  const auto first = tree.places.begin() + of_leaves.begin, last = tree.places.begin() + of_leaves.end;
  tree.part_places.insert(tree.part_places.end(), first, last);
  const auto begin = tree.part_places.begin() + part.places.begin;
  std::sort(begin, tree.part_places.end());
  tree.part_places.erase(std::unique(begin, tree.part_places.end()), tree.part_places.end());
  part.places.end = tree.part_places.size();
  for (auto place = first; place < last; ++place) {
    tree.shared.push_back(std::lower_bound(begin, tree.part_places.end(), *place) - begin);
  }
}

// How many numbers a tree keeps, about.
template <bool with_pairs>
std::size_t BackgroundValues<with_pairs>::size_of(const Tree& tree) const {
  std::size_t n = 2 * tree.places.size() + 8 * tree.walk.edges.size();
  for (const Part& part : tree.parts) {
    if (part.has_table) {
      n += part.places.size() * part.n_codes() * (part.is_leaf() ? 1 : n_values_);
      continue;
    }
    for (std::size_t leaf = part.leaves.begin; leaf < part.leaves.end; ++leaf) {
      const std::size_t n_features = tree.leaves[leaf].n_features;
      n += (n_features < 64 ? std::min(n_, std::size_t{1} << n_features) : n_) * (tree.n_words + 1);
    }
  }
  return n;
}

// Counts the background rows of all leaves by pattern, and fills the tables.
template <bool with_pairs>
void BackgroundValues<with_pairs>::count_background(Tree& tree) const {
  Patterns patterns;
  patterns.resize(tree, n_groups_);
  Counting found;
  for_each_part(tree, x_.data(), n_groups_, patterns, [&](std::size_t number) {
    Part& part = tree.parts[number];
    const std::size_t n_tables = part.has_table ? (part.is_leaf() ? 1 : n_values_) : 0;
    if (part.has_table) part.table.assign(n_tables * part.places.size() * part.n_codes(), 0.0);
    if (part.n_bits <= kMostCounted) count_codes(part, patterns.codes, found);
    for (std::size_t leaf = part.leaves.begin; leaf < part.leaves.end; ++leaf) {
      count(tree, part, tree.leaves[leaf], patterns.codes, found);
      if (part.has_table) add_to_table(tree, part, tree.leaves[leaf], found.table);
    }
  });
}

template <bool with_pairs>
void BackgroundValues<with_pairs>::count_codes(const Part& part, const std::vector<Group<Word>>& codes,
                                               Counting& found) const {
  found.all.assign(part.n_codes(), 0);
  for (std::size_t i = 0; i < n_; ++i) ++found.all[codes[i / kGroup].of[i % kGroup]];
  found.codes.clear();
  for (std::size_t code = 0; code < found.all.size(); ++code) {
    if (found.all[code] > 0) found.codes.push_back({code, found.all[code]});
  }
}

template <bool with_pairs>
void BackgroundValues<with_pairs>::count(Tree& tree, const Part& part, Leaf& leaf,
                                         const std::vector<Group<Word>>& codes, Counting& found) const {
  found.patterns.clear();
  found.counts.clear();
  if (leaf.n_features > kMostCounted) {
    count_long(codes, tree.n_words, found);
    const Word* first = found.patterns.data();
    if (std::all_of(first, first + tree.n_words, [](Word word) { return word == 0; })) leaf.n_reached = found.counts[0];
    return keep_counts(tree, leaf, found);
  }
  found.all.assign(std::size_t{1} << leaf.n_features, 0);
  for (const auto& [code, n] : found.codes) found.all[pattern_of(tree, part, leaf, code)] += n;
  leaf.n_reached = found.all[0];
  if (part.has_table) return fill_table(leaf, found);
  for (std::size_t pattern = 0; pattern < found.all.size(); ++pattern) {
    if (found.all[pattern] == 0) continue;
    found.patterns.push_back(pattern);
    found.patterns.resize(found.patterns.size() + tree.n_words - 1, 0);
    found.counts.push_back(found.all[pattern]);
  }
  keep_counts(tree, leaf, found);
}

// Patterns that are too long for an array. Their leaves are parts by themselves, so codes are patterns.
template <bool with_pairs>
void BackgroundValues<with_pairs>::count_long(const std::vector<Group<Word>>& codes, std::size_t n_words,
                                              Counting& found) const {
  std::vector<std::vector<Word>> rows(n_, std::vector<Word>(n_words));
  for (std::size_t i = 0; i < n_; ++i) {
    for (std::size_t word = 0; word < n_words; ++word) {
      rows[i][word] = codes[word * n_groups_ + i / kGroup].of[i % kGroup];
    }
  }
  std::sort(rows.begin(), rows.end());
  for (std::size_t i = 0; i < n_; ++i) {
    if (i > 0 && rows[i] == rows[i - 1]) {
      ++found.counts.back();
    } else {
      found.patterns.insert(found.patterns.end(), rows[i].begin(), rows[i].end());
      found.counts.push_back(1);
    }
  }
}

// Keeps the counts of a leaf, those of the patterns with the fewest bits first.
template <bool with_pairs>
void BackgroundValues<with_pairs>::keep_counts(Tree& tree, Leaf& leaf, Counting& found) const {
  const std::size_t n_words = tree.n_words, n = found.counts.size();
  found.n_bits.assign(n, 0);
  for (std::size_t k = 0; k < n * n_words; ++k) found.n_bits[k / n_words] += std::popcount(found.patterns[k]);
  found.next.assign(*std::max_element(found.n_bits.begin(), found.n_bits.end()) + 2, 0);
  for (std::size_t n_bits : found.n_bits) ++found.next[n_bits + 1];
  for (std::size_t p = 1; p < found.next.size(); ++p) found.next[p] += found.next[p - 1];
  leaf.ends = {tree.ends.size(), tree.ends.size() + found.next.size() - 1};
  tree.ends.insert(tree.ends.end(), found.next.begin() + 1, found.next.end());
  leaf.first_pattern = tree.counts.size();
  tree.counts.resize(leaf.first_pattern + n);
  tree.patterns.resize((leaf.first_pattern + n) * n_words);
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t to = leaf.first_pattern + found.next[found.n_bits[k]]++;
    tree.counts[to] = found.counts[k];
    std::copy_n(&found.patterns[k * n_words], n_words, &tree.patterns[to * n_words]);
  }
}

// Fills the table of a leaf from the counts of all patterns of background rows.
template <bool with_pairs>
void BackgroundValues<with_pairs>::fill_table(const Leaf& leaf, Counting& found) const {
  const std::size_t n = leaf.n_features, n_patterns = found.all.size(), side = n + 1;
  // (set of features, p): background rows that fail for p features, all of them in the set
  std::vector<std::int64_t>& within = found.within;
  within.assign(n_patterns * side, 0);
  for (std::size_t pattern = 0; pattern < n_patterns; ++pattern) {
    within[pattern * side + std::popcount(pattern)] = found.all[pattern];
  }
  for (std::size_t bit = 1; bit < n_patterns; bit *= 2) {
    for (std::size_t set = 0; set < n_patterns; ++set) {
      if ((set & bit) == 0) continue;
      for (std::size_t p = 0; p <= n; ++p) within[set * side + p] += within[(set ^ bit) * side + p];
    }
  }
  std::vector<double>& table = found.table;
  table.resize(leaf.places.size() * n_patterns);
  for (std::size_t pattern = 0; pattern < n_patterns; ++pattern) {
    const std::size_t set = n_patterns - 1 - pattern, q = static_cast<std::size_t>(std::popcount(pattern));
    const auto sum = [&](std::size_t first, std::size_t c, const auto& hits) {
      const double* w = weights_.of(c);
      double total = 0.0;
      for (std::size_t p = first; p <= n - q; ++p) total += static_cast<double>(hits(p)) * w[p - first];
      return total;
    };
    const auto all = [&](std::size_t p) { return within[set * side + p]; };
    const auto failing = [&](std::size_t i) {
      return [&, without = set ^ std::size_t{1} << i](std::size_t p) { return all(p) - within[without * side + p]; };
    };
    const auto fails = [&](std::size_t i) { return (pattern >> i & 1) != 0; };
    for (std::size_t j = 0; j < n; ++j) {
      table[j * n_patterns + pattern] = fails(j) ? -sum(0, q - 1, all) : sum(1, q, failing(j));
      for (std::size_t i = 0; with_pairs && i < j; ++i) {
        double& value = table[pair_of(i, j, n) * n_patterns + pattern];
        if (fails(i) && fails(j)) {
          value = sum(0, q - 2, all);
        } else if (fails(i) || fails(j)) {
          value = -sum(1, q - 1, failing(fails(i) ? j : i));
        } else {
          const std::size_t without = set ^ std::size_t{1} << i ^ std::size_t{1} << j;
          value = sum(
              2, q, [&](std::size_t p) { return failing(i)(p) + failing(j)(p) - all(p) + within[without * side + p]; });
        }
      }
    }
  }
}

template <bool with_pairs>
void BackgroundValues<with_pairs>::add_to_table(const Tree& tree, Part& part, const Leaf& leaf,
                                                const std::vector<double>& table) const {
  const std::size_t n_codes = part.n_codes(), n_patterns = std::size_t{1} << leaf.n_features;
  for (std::size_t code = 0; code < n_codes; ++code) {
    const Word pattern = pattern_of(tree, part, leaf, code);
    for (std::size_t v = 0; v < leaf.places.size(); ++v) {
      const double value = table[v * n_patterns + pattern];
      double* to = &part.table[tree.shared[leaf.places.begin + v] * n_codes + code];
      if (part.is_leaf()) {
        *to = value;
        continue;
      }
      for (std::size_t k = 0; k < n_values_; ++k) to[k * part.places.size() * n_codes] += values_of(leaf)[k] * value;
    }
  }
}

template <bool with_pairs>
void BackgroundValues<with_pairs>::add_expected(const Tree& tree) {
  for (const Leaf& leaf : tree.leaves) {
    const double share = static_cast<double>(leaf.n_reached) / static_cast<double>(n_);
    for (std::size_t k = 0; k < n_values_; ++k) expected_[tree.walk.first_column + k] += share * values_of(leaf)[k];
  }
}

template <bool with_pairs>
template <class T>
void BackgroundValues<with_pairs>::run(const std::vector<Tree>& batch, const RowBlocks<T>& rows, const Places& places,
                                       int n_threads) const {
  const std::size_t n_tasks = 4 * static_cast<std::size_t>(std::max(n_threads, 1)), n_places = places.of.size();
  rows.run(n_tasks, n_threads, [&](RowBlock& block, std::size_t n_rows, std::size_t) {
    const std::size_t n_groups = (n_rows + kGroup - 1) / kGroup;
    Patterns patterns;
    Sums sums;
    for (const Tree& tree : batch) {
      patterns.resize(tree, n_groups);
      Group<double>* out = &block.out[tree.walk.first_column * n_places];
      vectorised([&]() AGBM_INLINE {
        for_each_part(tree, block.x.data(), n_groups, patterns, [&](std::size_t number) AGBM_INLINE {
          const Part& part = tree.parts[number];
          if (!part.has_table) return add_rows(tree, part, patterns.codes, n_rows, out, places, sums);
          for (std::size_t g = 0; g < n_groups; ++g) {
            add_from_table(tree, part, patterns.codes[g], out + g * places.n_columns * n_places, n_places);
          }
        });
      });
    }
  });
}

// Calls use(part) for all parts, after their codes were found.
template <bool with_pairs>
template <class Use>
AGBM_INLINE inline void BackgroundValues<with_pairs>::for_each_part(const Tree& tree, const Group<double>* x,
                                                                    std::size_t n_groups, Patterns& patterns,
                                                                    const Use& use) const {
  const bool is_part = tree.parts[0].level == 0;
  for (std::size_t e = 0; is_part ? e < 1 : e < tree.walk.edges.size(); ++e) {
    if (!is_part && tree.part[e] == kWithin) continue;
    if (!is_part) step(tree, e, x, n_groups, patterns);
    const std::ptrdiff_t number = is_part ? 0 : tree.part[e];
    if (number == kNone) continue;
    find_codes(tree, tree.parts[number], x, n_groups, patterns);
    use(static_cast<std::size_t>(number));
  }
}

// Finds the patterns of all groups at the lower end of an edge.
template <bool with_pairs>
AGBM_INLINE inline void BackgroundValues<with_pairs>::step(const Tree& tree, std::size_t e, const Group<double>* x,
                                                           std::size_t n_groups, Patterns& patterns) const {
  const ShapleyEdge& edge = tree.walk.edges[e];
  const std::size_t level = static_cast<std::size_t>(edge.level), n_words = tree.n_words;
  const std::int64_t turned = edge.left ? -1 : 0;
  for (std::size_t g = 0; g < n_groups; ++g) {
    Group<std::int64_t>& goes_left = patterns.goes_left[level * n_groups + g];
    if (edge.left) decide(a_, edge, x[g * n_features_ + edge.feature], goes_left);
    for (std::size_t word = 0; word < n_words; ++word) {
      const Group<Word>& before = patterns.of[((level - 1) * n_words + word) * n_groups + g];
      Group<Word>& after = patterns.of[(level * n_words + word) * n_groups + g];
      const Word bit = tree.bit[e] / 64 == word ? Word{1} << tree.bit[e] % 64 : 0;
      for (std::size_t i = 0; i < kGroup; ++i) {
        after.of[i] = before.of[i] | (static_cast<Word>(goes_left.of[i] ^ turned) & bit);
      }
    }
  }
}

// Finds the codes of all groups in a part, from the patterns at its root.
template <bool with_pairs>
AGBM_INLINE inline void BackgroundValues<with_pairs>::find_codes(const Tree& tree, const Part& part,
                                                                 const Group<double>* x, std::size_t n_groups,
                                                                 Patterns& patterns) const {
  const std::size_t n = tree.n_words * n_groups;
  std::copy_n(patterns.of.begin() + static_cast<std::ptrdiff_t>(part.level * n), n, patterns.codes.begin());
  Word bit = Word{1} << part.n_above % 64;
  for (std::size_t e = part.edges.begin; e < part.edges.end; ++e) {
    const ShapleyEdge& edge = tree.walk.edges[e];
    if (!edge.left) continue;
    for (std::size_t g = 0; g < n_groups; ++g) {
      Group<std::int64_t> goes_left;
      decide(a_, edge, x[g * n_features_ + edge.feature], goes_left);
      Group<Word>& codes = patterns.codes[g];
      for (std::size_t i = 0; i < kGroup; ++i) codes.of[i] |= static_cast<Word>(goes_left.of[i]) & bit;
    }
    bit <<= 1;
  }
}

template <bool with_pairs>
AGBM_INLINE inline void BackgroundValues<with_pairs>::add_from_table(const Tree& tree, const Part& part,
                                                                     const Group<Word>& codes, Group<double>* out,
                                                                     std::size_t n_places) const {
  const double* __restrict table = part.table.data();
  const std::int32_t* const begin = tree.part_places.data() + part.places.begin;
  const std::int32_t* const end = tree.part_places.data() + part.places.end;
  if (!part.is_leaf()) {
    for (std::size_t k = 0; k < n_values_; ++k, out += n_places) {
      for (const std::int32_t* place = begin; place < end; ++place, table += part.n_codes()) {
        Group<double>& __restrict to = out[*place];
        for (std::size_t i = 0; i < kGroup; ++i) to.of[i] += table[codes.of[i]];
      }
    }
    return;
  }
  const double* __restrict values = values_of(tree.leaves[part.leaves.begin]);
  for (const std::int32_t* place = begin; place < end; ++place, table += part.n_codes()) {
    Group<double> found;
    for (std::size_t i = 0; i < kGroup; ++i) found.of[i] = table[codes.of[i]];
    for (std::size_t k = 0; k < n_values_; ++k) {
      Group<double>& __restrict to = out[k * n_places + *place];
      for (std::size_t i = 0; i < kGroup; ++i) to.of[i] += values[k] * found.of[i];
    }
  }
}

template <bool with_pairs>
void BackgroundValues<with_pairs>::add_rows(const Tree& tree, const Part& part, const std::vector<Group<Word>>& codes,
                                            std::size_t n_rows, Group<double>* out, const Places& places,
                                            Sums& sums) const {
  const std::size_t n_words = tree.n_words, n_groups = (n_rows + kGroup - 1) / kGroup, n = part.places.size();
  sums.pattern.resize(n_words);
  sums.total.assign(n_values_ * n, 0.0);
  for (std::size_t row = 0; row < n_rows; ++row) {
    const std::size_t group = row / kGroup, i = row % kGroup;
    for (std::size_t number = part.leaves.begin; number < part.leaves.end; ++number) {
      const Leaf& leaf = tree.leaves[number];
      for (std::size_t word = 0; word < n_words; ++word) sums.pattern[word] = codes[word * n_groups + group].of[i];
      if (!part.is_leaf()) sums.pattern[0] = pattern_of(tree, part, leaf, codes[group].of[i]);
      add_pattern(tree, leaf, sums);
      for (std::size_t v : sums.changed) {
        double* total = &sums.total[tree.shared[leaf.places.begin + v]];
        for (std::size_t k = 0; k < n_values_; ++k) total[k * n] += values_of(leaf)[k] * sums.value[v];
        sums.value[v] = 0.0;
      }
    }
    for (std::size_t k = 0; k < n_values_; ++k) {
      Group<double>* to = out + group * places.n_columns * places.of.size() + k * places.of.size();
      for (std::size_t place = 0; place < n; ++place) {
        to[tree.part_places[part.places.begin + place]].of[i] += std::exchange(sums.total[k * n + place], 0.0);
      }
    }
  }
}

// Adds up what one pattern of a row gives.
template <bool with_pairs>
void BackgroundValues<with_pairs>::add_pattern(const Tree& tree, const Leaf& leaf, Sums& sums) const {
  const std::size_t n = leaf.n_features, n_words = tree.n_words;
  const Word* pattern = sums.pattern.data();
  sums.value.resize(std::max(sums.value.size(), leaf.places.size()), 0.0);
  sums.hits.resize(sums.value.size(), 0);
  sums.changed.clear();
  const auto bits_of = [&](const Word* words, std::vector<std::size_t>& bits) {
    bits.clear();
    for (std::size_t word = 0; word < n_words; ++word) {
      for (Word left = words[word]; left != 0; left &= left - 1) bits.push_back(64 * word + std::countr_zero(left));
    }
  };
  const auto add = [&](std::size_t v, double value) {
    if (sums.value[v] == 0.0) sums.changed.push_back(v);
    sums.value[v] += value;
  };
  std::vector<std::size_t>& failed = sums.failed;
  bits_of(pattern, failed);
  const std::size_t q = failed.size();
  double of_failed = 0.0, of_two_failed = 0.0;
  std::size_t k = leaf.first_pattern;
  for (std::size_t p = 0; p < leaf.ends.size(); ++p) {
    std::int64_t n_rows = 0;
    sums.any.assign(n_words, 0);
    for (const std::size_t end = leaf.first_pattern + tree.ends[leaf.ends.begin + p]; k < end; ++k) {
      const Word* of_background = &tree.patterns[k * n_words];
      Word common = 0;
      for (std::size_t word = 0; word < n_words; ++word) common |= of_background[word] & pattern[word];
      if (common != 0) continue;
      const std::int64_t count = tree.counts[k];
      n_rows += count;
      bits_of(of_background, sums.bits);
      for (std::size_t b = 0; b < sums.bits.size(); ++b) {
        sums.hits[sums.bits[b]] += count;
        for (std::size_t c = 0; with_pairs && c < b; ++c) sums.hits[pair_of(sums.bits[c], sums.bits[b], n)] += count;
      }
      for (std::size_t word = 0; word < n_words; ++word) sums.any[word] |= of_background[word];
    }
    if (n_rows == 0) continue;
    if (q >= 1) of_failed -= static_cast<double>(n_rows) * weights_.of(q - 1)[p];
    if (with_pairs && q >= 2) of_two_failed += static_cast<double>(n_rows) * weights_.of(q - 2)[p];
    bits_of(sums.any.data(), sums.bits);
    for (std::size_t b = 0; b < sums.bits.size(); ++b) {
      const std::size_t j = sums.bits[b];
      const double hits = static_cast<double>(sums.hits[j]);
      add(j, hits * weights_.of(q)[p - 1]);
      sums.hits[j] = 0;
      if constexpr (with_pairs) {
        for (std::size_t i : failed) add(pair_of(std::min(i, j), std::max(i, j), n), -hits * weights_.of(q - 1)[p - 1]);
        for (std::size_t c = 0; c < b; ++c) {
          const std::size_t pair = pair_of(sums.bits[c], j, n);
          if (p >= 2) add(pair, static_cast<double>(sums.hits[pair]) * weights_.of(q)[p - 2]);
          sums.hits[pair] = 0;
        }
      }
    }
  }
  for (std::size_t b = 0; b < q; ++b) {
    add(failed[b], of_failed);
    for (std::size_t c = 0; with_pairs && c < b; ++c) add(pair_of(failed[c], failed[b], n), of_two_failed);
  }
}

}  // namespace agbm
