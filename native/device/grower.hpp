// Growth of trees on rows of a device.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/growers.hpp"
#include "bindings/python_arrays.hpp"
#include "bindings/tree_inputs.hpp"
#include "bins/layout.hpp"
#include "device/rows.hpp"
#include "tree/grow.hpp"
#include "tree/node_search.hpp"

namespace agbm {

// The search for splits on a device. A search is one message, an array of 64-bit words, and one reply; splits of nodes
// are sent with the next message.
class DeviceSearch : public NodeSearch {
 public:
  DeviceSearch(const BinnedMatrix& matrix, const GrowthRules& rules) : matrix_(matrix), rules_(rules) {}

  // host: the Python object that computes leaf quantiles.
  void begin(DeviceRows& rows, const nb::object& host) {
    rows_ = &rows;
    host_ = host;
  }
  void end() { host_ = nb::none(); }

  std::vector<std::int64_t> start(const TreeInputs& inputs, const Channels& channels) override {
    inputs_ = &inputs;
    channels_ = &channels;
    splits_.clear();
    left_totals_.clear();
    slots_.assign(1, 0);
    free_slots_.clear();
    n_slots_ = 1;
    return rows_->start(channels, rules_);
  }

  void split(const std::vector<NodeSplit>& splits) override {
    for (const NodeSplit& s : splits) {
      splits_.insert(splits_.end(), {s.node, s.left, s.feature});
      for (std::uint64_t word : s.codes.words) splits_.push_back(static_cast<std::int64_t>(word));
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
      message.words.insert(message.words.end(), {pair.small, slots_[pair.small], slots_[pair.large],
                                                 number_of[pair.large], pair.small_too ? number_of[pair.small] : -1});
    }
    if (families.empty()) message.words.insert(message.words.end(), {-1, -1, slots_[0], 0, -1});  // the root
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

  std::vector<std::int64_t> noise() override {
    std::vector<int> exponents;
    for (int group = 0; group < inputs_->n_hessians; ++group) {
      exponents.push_back(inputs_->hessian_noise_exponent(group));
    }
    for (int k = 0; k < inputs_->n_residuals; ++k) exponents.push_back(inputs_->residual_noise_exponent(k));
    return rows_->noise(exponents);
  }

  std::vector<std::int64_t> leaf_sums(const std::vector<std::int32_t>& leaves) override {
    std::vector<int> exponents;
    for (int k = 0; k < inputs_->n_sums(); ++k) exponents.push_back(inputs_->leaf_exponent(k));
    return rows_->leaf_sums(std::exchange(splits_, {}), slots_.size(), leaves, exponents);
  }

  // All splits were sent with the request for the leaf sums.
  std::vector<double> leaf_quantiles(const std::vector<std::int32_t>& leaves) override {
    const std::size_t n_leaves = leaves.size(), n_outputs = inputs_->quantiles.n_outputs;
    nb::gil_scoped_acquire gil;
    const nb::object given = host_.attr("leaf_quantiles")(to_numpy(std::vector<std::int32_t>(leaves), n_leaves));
    const auto found = nb::cast<Vector<double>>(given);
    require(found.size() == n_leaves * n_outputs, "leaf_quantiles: wrong size");
    return {found.data(), found.data() + found.size()};
  }

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
    const std::size_t n_words = DeviceRows::kRecordWords + channels_->n();
    left_totals_.resize(std::max(left_totals_.size(), slots_.size()));
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::int64_t* record = reply.data() + i * n_words;
      require(record[1] >= -1 && record[1] < matrix_.n_features, "reply: no such feature");
      if (record[1] < 0) continue;
      Split& best = candidates[i].best;
      best.gain = std::bit_cast<double>(record[0]);
      best.feature = static_cast<int>(record[1]);
      best.bin = static_cast<int>(record[2]);
      best.missing_left = record[3] != 0;
      for (int w = 0; w < 4; ++w) best.left.words[w] = static_cast<std::uint64_t>(record[4 + w]);
      left_totals_[candidates[i].node].assign(record + DeviceRows::kRecordWords, record + n_words);
    }
  }

  const BinnedMatrix& matrix_;
  const GrowthRules rules_;
  DeviceRows* rows_ = nullptr;  // while a tree is being grown
  nb::object host_ = nb::none();
  const TreeInputs* inputs_ = nullptr;  // of the tree that is being grown
  const Channels* channels_ = nullptr;
  std::vector<std::int64_t> splits_;                    // not yet sent
  std::vector<std::vector<std::int64_t>> left_totals_;  // per node with a split
  std::vector<std::int32_t> slots_;                     // per node: that of its histogram, if it keeps one
  std::vector<std::int32_t> free_slots_;
  std::int32_t n_slots_ = 0;
};

// Grows trees on the rows of a device. Its matrix has no rows, but the same features.
class DeviceGrower : GrowerBase {
 public:
  DeviceGrower(const BinnedMatrix& m, const Vector<double>& thresholds, const GrowthRules& rules, int n_threads)
      : GrowerBase(m, thresholds, n_threads), search_(m, rules), grower_(m, rules, search_) {}

  // The parts of a tree for the residuals of the device; its values (value, row) on all rows are written to `values`.
  nb::tuple grow(DeviceRows& rows, const nb::object& host, Address stream, const std::vector<Address>& residuals,
                 const std::vector<Address>& hessians, Address repeats, std::int64_t n_repeated, Address chosen,
                 std::int64_t n_chosen, std::int64_t n_train, const Ring& ring, int n_quantiles, Address values,
                 const std::optional<Vector<std::uint8_t>>& features, double node_share, std::uint64_t seed,
                 double min_hessian_leaf, const std::vector<double>& l2_regularization) {
    require(!residuals.empty() && n_chosen > 0, "residuals: must not be empty, and a tree must have rows");
    const FeatureSample sample = make_sample(features, node_share, seed);
    const nb::object memory = host.attr("memory");
    rows.begin(memory, stream, {n_train, as_ring(ring), residuals, hessians, repeats, chosen, n_chosen});
    search_.begin(rows, host);
    try {
      nb::gil_scoped_release release;
      const TreeInputs inputs = inputs_of_others(n_repeated, rows.largest(), static_cast<int>(residuals.size()),
                                                 n_quantiles, min_hessian_leaf, l2_regularization);
      grower_.grow(inputs, sample, InterruptCheck{});
      rows.values(grower_.tree(), values);
    } catch (...) {
      search_.end();
      rows.end();
      throw;
    }
    search_.end();
    rows.end();
    return parts_of(grower_.tree());
  }

 private:
  DeviceSearch search_;
  TreeGrower grower_;
};

}  // namespace agbm
