// Growth of trees on rows of a device. The device has rows and histograms; a Python object launches its kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "grow.hpp"
#include "growers.hpp"
#include "layout.hpp"
#include "node_search.hpp"
#include "python_arrays.hpp"

namespace agbm {

// The search for splits on a device. A search is one message, an array of 64-bit words, and one reply; splits of nodes
// are sent with the next message.
class DeviceSearch : public NodeSearch {
 public:
  DeviceSearch(const BinnedMatrix& matrix, const GrowthRules& rules) : matrix_(matrix), rules_(rules) {}

  void begin(const nb::object& device) { device_ = device; }
  void end() { device_ = nb::none(); }

  std::vector<std::int64_t> start(const TreeInputs& inputs, const Channels& channels) override {
    inputs_ = &inputs;
    channels_ = &channels;
    splits_.clear();
    left_totals_.clear();
    slots_.assign(1, 0);
    free_slots_.clear();
    n_slots_ = 1;
    nb::gil_scoped_acquire gil;
    const auto form = nb::make_tuple(channels.n(), channels.count_bits, rules_.min_samples_leaf,
                                     rules_.min_category_rows(), rules_.min_split_gain);
    return checked(device_.attr("start")(form, channels.exponent), channels.n());
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
    std::vector<std::int64_t> message;
    add_numbers(message);
    message.insert(message.end(), splits_.begin(), splits_.end());
    for (const Siblings& pair : families) {
      slots_[pair.large] = std::exchange(slots_[pair.parent], kNoSlot);
      slots_[pair.small] = acquire_slot();
      message.insert(message.end(), {pair.small, slots_[pair.small], slots_[pair.large], number_of[pair.large],
                                     pair.small_too ? number_of[pair.small] : -1});
    }
    if (families.empty()) message.insert(message.end(), {-1, -1, slots_[0], 0, -1});  // the root
    for (const Candidate& candidate : candidates) message.push_back(slots_[candidate.node]);
    for (const Candidate& candidate : candidates) {
      message.insert(message.end(), candidate.total, candidate.total + channels_->n());
    }
    add_bounds(message, candidates);
    const bool masks = add_masks(message, candidates);
    ask(std::move(message), families.size(), candidates, masks);
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
    nb::gil_scoped_acquire gil;
    return checked(device_.attr("noise")(exponents), exponents.size());
  }

  std::vector<std::int64_t> leaf_sums(const std::vector<std::int32_t>& leaves) override {
    std::vector<int> exponents;
    for (int k = 0; k < inputs_->n_sums(); ++k) exponents.push_back(inputs_->leaf_exponent(k));
    const std::size_t n_leaves = leaves.size(), n_splits = splits_.size() / kSplitWords;
    nb::gil_scoped_acquire gil;
    return checked(device_.attr("leaf_sums")(to_numpy(std::exchange(splits_, {}), n_splits, kSplitWords),
                                             to_numpy(std::vector<std::int32_t>(leaves), n_leaves), exponents),
                   n_leaves * exponents.size());
  }

  std::vector<double> leaf_quantiles(const std::vector<std::int32_t>& leaves) override {
    const std::size_t n_leaves = leaves.size(), n_outputs = inputs_->quantiles.n_outputs;
    nb::gil_scoped_acquire gil;
    const nb::object given = device_.attr("leaf_quantiles")(to_numpy(std::vector<std::int32_t>(leaves), n_leaves));
    const auto found = nb::cast<Vector<double>>(given);
    require(found.size() == n_leaves * n_outputs, "leaf_quantiles: wrong size");
    return {found.data(), found.data() + found.size()};
  }

 private:
  static constexpr std::int32_t kNoSlot = -1;
  // Words of a split in a reply: gain, feature, bin, missing_left, the codes that go left; sums follow.
  static constexpr std::size_t kRecordWords = 8;

  std::int32_t acquire_slot() {
    if (free_slots_.empty()) free_slots_.push_back(n_slots_++);
    const std::int32_t slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
  }

  static std::int64_t word_of(double x) { return std::bit_cast<std::int64_t>(x); }

  void add_numbers(std::vector<std::int64_t>& message) const {
    message.push_back(word_of(channels_->min_hessian_leaf));
    for (double l2 : channels_->l2) message.push_back(word_of(l2));
    for (double unit : channels_->unit) message.push_back(word_of(unit));
    for (int k = 0; k < channels_->n_residuals; ++k) {
      message.push_back(word_of(channels_->noise.empty() ? 0.0 : channels_->noise[k]));
    }
  }

  void add_bounds(std::vector<std::int64_t>& message, const std::vector<Candidate>& candidates) const {
    for (const Candidate& candidate : candidates) {
      for (int i = 0; candidate.bounds.of != nullptr && i < 2 * channels_->n_residuals; ++i) {
        message.push_back(word_of(candidate.bounds.of[i]));
      }
    }
  }

  // The features of the candidates, one bit for each, unless all may use all.
  bool add_masks(std::vector<std::int64_t>& message, const std::vector<Candidate>& candidates) const {
    const std::size_t n_features = matrix_.n_features, n_words = (n_features + 63) / 64;
    if (std::all_of(candidates.begin(), candidates.end(),
                    [&](const Candidate& candidate) { return candidate.features->size() == n_features; })) {
      return false;
    }
    for (const Candidate& candidate : candidates) {
      std::vector<std::uint64_t> words(n_words, 0);
      for (int feature : *candidate.features) words[feature / 64] |= std::uint64_t{1} << feature % 64;
      for (std::uint64_t word : words) message.push_back(static_cast<std::int64_t>(word));
    }
    return true;
  }

  void ask(std::vector<std::int64_t>&& message, std::size_t n_families, std::vector<Candidate>& candidates,
           bool masks) {
    const std::size_t n_words = kRecordWords + channels_->n(), size = message.size();
    const std::size_t n_splits = std::exchange(splits_, {}).size() / kSplitWords;
    std::vector<std::int64_t> reply;
    {
      nb::gil_scoped_acquire gil;
      reply = checked(device_.attr("search")(to_numpy(std::move(message), size), n_splits, n_families,
                                             candidates.size(), n_slots_, candidates[0].bounds.of != nullptr, masks),
                      candidates.size() * n_words);
    }
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
      left_totals_[candidates[i].node].assign(record + kRecordWords, record + n_words);
    }
  }

  static std::vector<std::int64_t> checked(const nb::object& given, std::size_t size) {
    const auto sums = nb::cast<Vector<std::int64_t>>(given);
    require(sums.size() == size, "reply: wrong size");
    return {sums.data(), sums.data() + sums.size()};
  }

  const BinnedMatrix& matrix_;
  const GrowthRules rules_;
  nb::object device_ = nb::none();
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

  nb::tuple grow(const nb::object& device, std::int64_t n_repeated, const std::vector<double>& max, int n_residuals,
                 int n_quantiles, const std::optional<Vector<std::uint8_t>>& features, double node_share,
                 std::uint64_t seed, double min_hessian_leaf, const std::vector<double>& l2_regularization) {
    const TreeInputs inputs =
        inputs_of_others(n_repeated, max, n_residuals, n_quantiles, min_hessian_leaf, l2_regularization);
    const FeatureSample sample = make_sample(features, node_share, seed);
    search_.begin(device);
    try {
      nb::gil_scoped_release release;
      grower_.grow(inputs, sample, InterruptCheck{});
    } catch (...) {
      search_.end();
      throw;
    }
    search_.end();
    return parts_of(grower_.tree());
  }

 private:
  DeviceSearch search_;
  TreeGrower grower_;
};

}  // namespace agbm
