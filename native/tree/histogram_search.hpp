// The search for splits in histograms in memory.
//
// Sums over rows come from RowSums: over the rows of this process, or over those of many, added up. If the rows are in
// this process, nodes with few of them keep no histogram: it is built group by group when the node is scanned, in a
// buffer that stays in the cache. The sums, and therefore the splits, are the same.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "bins/matrix.hpp"
#include "tree/histogram.hpp"
#include "tree/node_search.hpp"
#include "tree/quantise.hpp"
#include "tree/rows.hpp"
#include "tree/split.hpp"

namespace agbm {

// Buffers are kept from tree to tree.
class HistogramSearch : public NodeSearch {
 public:
  // The matrix may have no rows: only the layout of its columns matters. If the rows are in this process, `here` is the
  // same object as `sums`; otherwise it is null.
  HistogramSearch(const BinnedMatrix& matrix, const GrowthRules& rules, RowSums& sums, const TreeRows* here,
                  int n_threads)
      : matrix_(matrix),
        rules_(rules),
        n_threads_(n_threads),
        sums_(sums),
        here_(here),
        has_shared_columns_(matrix.has_shared_columns()),
        used_cells_(matrix.n_columns(), 0) {
    for (int f = 0; f < matrix.n_features; ++f) {
      const FeaturePlace& place = matrix.places[f];
      if (!place.used()) continue;
      const auto n_codes = static_cast<std::size_t>(place.n_codes(matrix.n_bins[f]));
      used_cells_[place.column] = std::max(used_cells_[place.column], n_codes);
    }
    std::size_t n_additions = 0;
    for (const ColumnGroup& group : matrix.groups) {
      most_group_cells_ = std::max(most_group_cells_, matrix.n_cells(group));
      n_additions += matrix.n_additions(group);
    }
    const std::size_t n_used = std::accumulate(used_cells_.begin(), used_cells_.end(), std::size_t{0});
    const std::size_t as_many = n_used * matrix.n_rows / std::max<std::size_t>(1, n_additions);
    few_rows_ = std::max(as_many, std::min(kFewRows, 2 * as_many));
  }

  std::size_t nodes_at_once() const override { return here_ == nullptr ? kNodesOfMessage : 1; }

  std::vector<std::int64_t> start(const TreeInputs& inputs, const Channels& channels) override {
    channels_ = &channels;
    sums_.summed_by(inputs.sketch);
    slots_.assign(1, kNoSlot);
    free_slots_.clear();
    for (std::size_t slot = histograms_.size(); slot-- > 0;) free_slots_.push_back(static_cast<std::int32_t>(slot));
    if (!few_rows(0)) {
      slots_[0] = acquire_slot();
      sums_.build({{0, histogram(0)}});
    }
    const bool in_cells = slots_[0] != kNoSlot && !matrix_.groups.empty() && matrix_.groups[0].sparse < 0;
    return in_cells ? totals_of_cells() : here_->totals(0);
  }

  void split(const std::vector<NodeSplit>& splits) override {
    sums_.split(splits);
    for (const NodeSplit& s : splits) slots_.resize(std::max<std::size_t>(slots_.size(), s.left + 2), kNoSlot);
  }

  std::vector<std::int64_t> left_total(std::int32_t node, std::int32_t left, const Split& split,
                                       const std::int64_t* of_node) override {
    if (slots_[node] == kNoSlot) return here_->totals(left);
    const int channels = channels_->n();
    std::vector<std::int64_t> total(channels, 0), scratch(cells_of_feature());
    const std::size_t offset = matrix_.cell_offset[matrix_.places[split.feature].column];
    const std::int64_t* cells = bins_of(split.feature, histogram(node) + offset * channels, of_node, scratch.data());
    for (int bin = 0; bin <= matrix_.n_bins[split.feature]; ++bin) {
      if (!split.left.has(bin)) continue;
      for (int c = 0; c < channels; ++c) total[c] += cells[bin * channels + c];
    }
    return total;
  }

  void search(const std::vector<Siblings>& families, std::vector<Candidate>& candidates) override {
    build_histograms(families);
    find_splits(candidates);
  }

  void forget(std::int32_t node) override {
    if (slots_[node] != kNoSlot) free_slots_.push_back(std::exchange(slots_[node], kNoSlot));
  }

  std::vector<std::int64_t> noise(const TreeInputs&) override { return sums_.noise(); }
  std::vector<std::int64_t> leaf_sums(const std::vector<std::int32_t>& leaves) override {
    return sums_.leaf_sums(leaves);
  }
  std::vector<double> leaf_quantiles(const std::vector<std::int32_t>& leaves) override {
    return sums_.leaf_quantiles(leaves);
  }

 private:
  static constexpr std::int32_t kNoSlot = -1;
  // Adding rows costs no more than subtracting a sibling's cells and reading the result again later, if their additions
  // are at most as many as the cells; in sparse matrices, that may be any number of rows. Up to this many rows, it costs
  // no more with twice as many additions either, since the cells stay in the cache.
  static constexpr std::size_t kFewRows = 512;

  static constexpr std::size_t kScanSteps = 4;  // that scanning a cell takes, see threads_for()

  // Features of one candidate that are scanned by one task.
  struct Scan {
    std::size_t candidate;
    const int *begin, *end;
    Split best;
  };

  std::size_t cell_count() const { return matrix_.n_cells() * channels_->n(); }
  std::int64_t* histogram(std::int32_t node) { return histograms_[slots_[node]].data(); }

  std::int32_t acquire_slot() {
    if (free_slots_.empty()) {
      free_slots_.push_back(static_cast<std::int32_t>(histograms_.size()));
      histograms_.emplace_back();
    }
    const std::int32_t slot = free_slots_.back();
    free_slots_.pop_back();
    histograms_[slot].resize(cell_count());
    return slot;
  }

  // Whether the rows of a node are in this process and too few for it to keep a histogram.
  bool few_rows(std::int32_t node) const { return here_ != nullptr && here_->size(node) <= few_rows_; }

  // The cells of any column of a dense group add up to the sums of the root.
  std::vector<std::int64_t> totals_of_cells() {
    std::vector<std::int64_t> total(channels_->n(), 0);
    const std::int64_t* cells = histogram(0);
    for (std::size_t i = 0; i < matrix_.cell_offset[1] * total.size(); ++i) total[i % total.size()] += cells[i];
    return total;
  }

  void build_histograms(const std::vector<Siblings>& families) {
    std::vector<NodeCells> to_build;
    std::vector<Siblings> built;
    for (const Siblings& pair : families) {
      if (few_rows(pair.large) && few_rows(pair.small)) {
        forget(pair.parent);
        continue;
      }
      slots_[pair.large] = std::exchange(slots_[pair.parent], kNoSlot);  // reduced below
      slots_[pair.small] = acquire_slot();
      to_build.push_back({pair.small, histogram(pair.small)});
      built.push_back(pair);
    }
    sums_.build(to_build);
    subtract_small(built);
    for (const Siblings& pair : built) {
      if (!pair.small_too) forget(pair.small);
    }
  }

  void subtract_small(const std::vector<Siblings>& pairs) {
    const std::size_t n_groups = matrix_.groups.size(), channels = channels_->n();
    parallel_for(pairs.size() * n_groups, threads_for(pairs.size() * cell_count(), n_threads_), [&](std::size_t task) {
      const Siblings& pair = pairs[task / n_groups];
      const ColumnGroup& group = matrix_.groups[task % n_groups];
      for (int column = group.first_column; column < group.first_column + group.width; ++column) {
        const std::size_t first = matrix_.cell_offset[column] * channels;
        subtract(histogram(pair.large) + first, histogram(pair.small) + first, used_cells_[column] * channels);
      }
    });
  }

  void find_splits(std::vector<Candidate>& candidates) {
    plan_scans(candidates);
    const int n_threads = threads_for(kScanSteps * candidates.size() * cell_count(), n_threads_);
    parallel_for(scans_.size(), n_threads, [&](std::size_t i) {
      const Candidate& candidate = candidates[scans_[i].candidate];
      slots_[candidate.node] == kNoSlot ? scan_rows(scans_[i], candidate) : scan_histogram(scans_[i], candidate);
    });
    for (const Scan& scan : scans_) {
      Split& best = candidates[scan.candidate].best;
      if (scan.best.better_than(best)) best = scan.best;
    }
  }

  // Each scan covers some features of a node, as many as are worth a task, in whole groups of columns.
  void plan_scans(const std::vector<Candidate>& candidates) {
    constexpr std::size_t enough_cells = 2048;
    scans_.clear();
    for (std::size_t number = 0; number < candidates.size(); ++number) {
      const std::vector<int>& features = *candidates[number].features;
      for (std::size_t begin = 0, end = 0; begin < features.size(); begin = end) {
        std::size_t n_cells = 0;
        for (int group = -1; end < features.size(); ++end) {
          if (matrix_.group_of_feature(features[end]) != group && n_cells >= enough_cells) break;
          group = matrix_.group_of_feature(features[end]);
          n_cells += (matrix_.n_bins[features[end]] + 1) * channels_->n();
        }
        scans_.push_back({number, features.data() + begin, features.data() + end, candidates[number].best});
      }
    }
  }

  void scan_histogram(Scan& scan, const Candidate& candidate) {
    std::vector<std::int64_t> scratch(scratch_size());
    const std::int64_t* cells = histogram(candidate.node);
    for (const int* feature = scan.begin; feature < scan.end; ++feature) {
      const std::size_t offset = matrix_.cell_offset[matrix_.places[*feature].column];
      scan_feature(scan.best, candidate, *feature, cells + offset * channels_->n(), scratch.data());
    }
  }

  // Builds the histogram of one group after the other in a buffer, and scans it at once.
  void scan_rows(Scan& scan, const Candidate& candidate) {
    std::vector<std::int64_t> scratch(scratch_size());
    const LargeArray<std::int64_t> cells = large_array<std::int64_t>(most_group_cells_ * channels_->n());
    for (const int* feature = scan.begin; feature < scan.end;) {
      const int g = matrix_.group_of_feature(*feature);
      const ColumnGroup& group = matrix_.groups[g];
      here_->build_group(group, candidate.node, cells.get());
      for (; feature < scan.end && matrix_.group_of_feature(*feature) == g; ++feature) {
        const std::size_t offset =
            matrix_.cell_offset[matrix_.places[*feature].column] - matrix_.cell_offset[group.first_column];
        scan_feature(scan.best, candidate, *feature, cells.get() + offset * channels_->n(), scratch.data());
      }
    }
  }

  // cells: those of the feature's column.
  void scan_feature(Split& best, const Candidate& candidate, int feature, const std::int64_t* cells,
                    std::int64_t* scratch) const {
    if (too_few_others(feature, cells)) return;
    improve_split(best, *channels_, rules_,
                  {feature, bins_of(feature, cells, candidate.total, scratch + 3 * channels_->n()),
                   matrix_.n_bins[feature], matrix_.n_categories[feature], candidate.total, scratch, candidate.bounds});
  }

  // Whether a sparse feature is nonzero in so few rows of a node that the side of a split without zero cannot have
  // enough rows. This is the case for most features in most nodes.
  bool too_few_others(int feature, const std::int64_t* cells) const {
    const FeaturePlace& place = matrix_.places[feature];
    if (!place.shared()) return false;
    const int channels = channels_->n();
    const std::int64_t* last = cells + place.first_code * channels + channels - 1;
    std::int64_t n = 0;
    for (int i = 0; i < matrix_.n_bins[feature]; ++i) n += channels_->count_in(last[i * channels]);
    return n < rules_.min_samples_leaf;
  }
  std::size_t cells_of_feature() const { return has_shared_columns_ ? kWideCells * std::size_t(channels_->n()) : 0; }
  std::size_t scratch_size() const { return 3 * static_cast<std::size_t>(channels_->n()) + cells_of_feature(); }

  // The cells of a feature's bins in order, from those of its column. If the column is shared, the rows in which the
  // feature is zero are those of the node that are in none of its other bins.
  const std::int64_t* bins_of(int feature, const std::int64_t* cells, const std::int64_t* total,
                              std::int64_t* scratch) const {
    const FeaturePlace& place = matrix_.places[feature];
    if (!place.shared()) return cells;
    const int channels = channels_->n();
    std::int64_t* zero = scratch + place.zero_bin * channels;
    std::copy_n(total, channels, zero);
    for (int bin = 0; bin <= matrix_.n_bins[feature]; ++bin) {
      if (bin == place.zero_bin) continue;
      for (int c = 0; c < channels; ++c) {
        const std::int64_t value = cells[place.code(bin) * channels + c];
        scratch[bin * channels + c] = value;
        zero[c] -= value;
      }
    }
    return scratch;
  }

  const BinnedMatrix& matrix_;
  const GrowthRules rules_;
  const int n_threads_;
  RowSums& sums_;
  const TreeRows* here_;
  const Channels* channels_ = nullptr;                 // of the tree that is being grown
  std::vector<std::int32_t> slots_;                    // per node: that of its histogram, if it keeps one
  std::vector<LargeVector<std::int64_t>> histograms_;  // by slot
  std::vector<std::int32_t> free_slots_;
  std::vector<Scan> scans_;
  const bool has_shared_columns_;
  std::vector<std::size_t> used_cells_;  // per column; a narrow one may have as many cells as the wide ones next to it
  std::size_t most_group_cells_ = 0;
  std::size_t few_rows_ = kFewRows;
};

}  // namespace agbm
