// The search for splits of nodes whose rows are on a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "bins/matrix.hpp"
#include "device/rows.hpp"
#include "formulas/histogram_layout.hpp"
#include "tree/node_search.hpp"
#include "tree/quantise.hpp"
#include "tree/split.hpp"

namespace agbm {

// Leaf quantiles, (leaf, output), flat; see LeafQuantiles.
using QuantilesOfLeaves = std::function<std::vector<double>(const std::vector<std::int32_t>&)>;

// The search for splits on a device. A search is one message, an array of 64-bit words, and one reply; splits of nodes
// are sent with the next message.
class DeviceSearch : public NodeSearch {
 public:
  DeviceSearch(const BinnedMatrix& matrix, const GrowthRules& rules) : matrix_(matrix), rules_(rules) {}

  void begin(DeviceRows& rows, QuantilesOfLeaves quantiles) {
    rows_ = &rows;
    quantiles_ = std::move(quantiles);
  }
  void end() { quantiles_ = nullptr; }

  std::size_t nodes_at_once() const override { return kNodesOfMessage; }

  std::vector<std::int64_t> start(const TreeInputs& inputs, const Channels& channels) override {
    inputs_ = &inputs;
    channels_ = &channels;
    splits_.clear();
    left_totals_.clear();
    slots_.assign(1, 0);
    free_slots_.clear();
    n_slots_ = 1;
    return rows_->start(channels, inputs.sketch, rules_);
  }

  void split(const std::vector<NodeSplit>& splits) override {
    for (const NodeSplit& s : splits) {
      append_words(splits_, s);
      slots_.resize(std::max<std::size_t>(slots_.size(), s.left + 2), kNoSlot);
    }
  }

  std::vector<std::int64_t> left_total(std::int32_t node, std::int32_t, const Split&, const std::int64_t*) override {
    return left_totals_[node];
  }

  void search(const std::vector<Siblings>& families, std::vector<Candidate>& candidates) override {
    if (candidates.empty()) return;
    std::vector<std::int32_t> number_of(slots_.size(), -1);  // per node: its number among the candidates
    for (std::size_t i = 0; i < candidates.size(); ++i) number_of[candidates[i].node] = static_cast<std::int32_t>(i);
    SearchMessage message;
    message.n_splits = splits_.size() / kSplitWords;
    message.n_families = families.size();
    message.n_candidates = candidates.size();
    add_numbers(message);
    message.splits = message.words.size();
    message.words.insert(message.words.end(), splits_.begin(), splits_.end());
    splits_.clear();
    message.families = message.words.size();
    for (const Siblings& pair : families) {
      slots_[pair.large] = std::exchange(slots_[pair.parent], kNoSlot);
      slots_[pair.small] = acquire_slot();
      append_words(message.words, Family{pair.small,
                                         slots_[pair.small],
                                         slots_[pair.large],
                                         {number_of[pair.large], pair.small_too ? number_of[pair.small] : -1}});
    }
    if (families.empty()) append_words(message.words, Family{-1, -1, slots_[0], {0, -1}});  // the root
    message.slots = message.words.size();
    for (const Candidate& candidate : candidates) message.words.push_back(slots_[candidate.node]);
    message.totals = message.words.size();
    for (const Candidate& candidate : candidates) {
      message.words.insert(message.words.end(), candidate.total, candidate.total + channels_->n());
    }
    add_bounds(message, candidates);
    add_masks(message, candidates);
    take(rows_->search(message, n_slots_, slots_.size()), candidates);
    for (const Siblings& pair : families) {
      if (!pair.small_too) forget(pair.small);
    }
  }

  void forget(std::int32_t node) override {
    if (slots_[node] != kNoSlot) free_slots_.push_back(std::exchange(slots_[node], kNoSlot));
  }

  std::vector<std::int64_t> noise(const TreeInputs& inputs) override {
    std::vector<int> exponents;
    for (int group = 0; group < inputs.n_hessians; ++group) exponents.push_back(inputs.hessian_noise_exponent(group));
    for (int k = 0; k < inputs.n_residuals; ++k) exponents.push_back(inputs.residual_noise_exponent(k));
    return rows_->noise(exponents);
  }

  std::vector<std::int64_t> leaf_sums(const std::vector<std::int32_t>& leaves) override {
    std::vector<int> exponents;
    for (int k = 0; k < inputs_->n_sums(); ++k) exponents.push_back(inputs_->leaf_exponent(k));
    return rows_->leaf_sums(std::exchange(splits_, {}), slots_.size(), leaves, exponents);
  }

  // All splits were sent with the request for the leaf sums.
  std::vector<double> leaf_quantiles(const std::vector<std::int32_t>& leaves) override { return quantiles_(leaves); }

 private:
  static constexpr std::int32_t kNoSlot = -1;

  std::int32_t acquire_slot() {
    if (free_slots_.empty()) free_slots_.push_back(n_slots_++);
    const std::int32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  void add_numbers(SearchMessage& message) const {
    message.words.push_back(DeviceRows::as_word(channels_->min_hessian_leaf));
    message.words.push_back(DeviceRows::as_word(channels_->l1));
    for (double l2 : channels_->l2) message.words.push_back(DeviceRows::as_word(l2));
    for (double unit : channels_->unit) message.words.push_back(DeviceRows::as_word(unit));
    for (int k = 0; k < channels_->n_residuals; ++k) {
      message.words.push_back(DeviceRows::as_word(channels_->noise.empty() ? 0.0 : channels_->noise[k]));
    }
  }

  void add_bounds(SearchMessage& message, const std::vector<Candidate>& candidates) const {
    if (candidates[0].bounds.of == nullptr) return;
    message.bounds = message.words.size();
    for (const Candidate& candidate : candidates) {
      for (int i = 0; i < 2 * channels_->n_residuals; ++i) {
        message.words.push_back(DeviceRows::as_word(candidate.bounds.of[i]));
      }
    }
  }

  // The features of the candidates, one bit for each, unless all may use all.
  void add_masks(SearchMessage& message, const std::vector<Candidate>& candidates) const {
    const std::size_t n_features = matrix_.n_features, n_words = (n_features + 63) / 64;
    if (std::all_of(candidates.begin(), candidates.end(),
                    [&](const Candidate& candidate) { return candidate.features->size() == n_features; })) {
      return;
    }
    message.masks = message.words.size();
    for (const Candidate& candidate : candidates) {
      std::vector<std::uint64_t> words(n_words, 0);
      for (int feature : *candidate.features) words[feature / 64] |= std::uint64_t{1} << feature % 64;
      for (std::uint64_t word : words) message.words.push_back(static_cast<std::int64_t>(word));
    }
  }

  // Takes the best splits from a reply.
  void take(const std::vector<std::int64_t>& reply, std::vector<Candidate>& candidates) {
    const std::size_t n_words = kRecordWords + channels_->n();
    left_totals_.resize(std::max(left_totals_.size(), slots_.size()));
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::int64_t* words = reply.data() + i * n_words;
      const auto record = record_from<SplitRecord>(words);
      if (record.feature >= matrix_.n_features || record.feature < -1) {
        throw std::invalid_argument("reply: no such feature");
      }
      if (record.feature < 0) continue;
      candidates[i].best = {record.gain, static_cast<int>(record.feature), static_cast<int>(record.bin),
                            record.missing_left != 0, record.left};
      left_totals_[candidates[i].node].assign(words + kRecordWords, words + n_words);
    }
  }

  const BinnedMatrix& matrix_;
  const GrowthRules rules_;
  DeviceRows* rows_ = nullptr;  // while a tree is being grown
  QuantilesOfLeaves quantiles_;
  const TreeInputs* inputs_ = nullptr;  // of the tree that is being grown
  const Channels* channels_ = nullptr;
  std::vector<std::int64_t> splits_;                    // not yet sent
  std::vector<std::vector<std::int64_t>> left_totals_;  // per node with a split
  std::vector<std::int32_t> slots_;                     // per node: that of its histogram, if it keeps one
  std::vector<std::int32_t> free_slots_;
  std::int32_t n_slots_ = 0;
};

}  // namespace agbm
