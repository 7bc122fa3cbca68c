// The rows of a tree that grows on a device: which node each belongs to, histograms, and the best splits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "device/calls.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/row_ring.hpp"
#include "tree/node_search.hpp"
#include "tree/quantise.hpp"
#include "tree/split.hpp"
#include "tree/tree.hpp"

namespace agbm {

// What stays the same from tree to tree: the table, with addresses on the device; see BinnedRows in Python.
struct DeviceTable {
  int n_processors = 0;
  std::int64_t n_rows = 0;
  int n_features = 0, group_columns = 0;
  std::int64_t n_cells = 0, widest_group = 0;  // cells of a histogram, and of the group of columns with most of them
  std::int64_t first_cells = 0;                // of the first column
  Address codes = 0, first_cell = 0, n_bins = 0, n_categories = 0;
  Address monotone = 0;  // zero: no constraints
};

// Vectors over the training rows, on the device.
struct DeviceInputs {
  std::int64_t n_train = 0;
  RowRing ring;
  std::vector<Address> residuals, hessians;
  Address repeats = 0;  // zero: no row is repeated
  Address chosen = 0;   // the rows of the matrix that the tree is grown on; zero: all that vectors have
  std::int64_t n = 0;   // number of these

  Address residual_or_hessian(std::size_t k) const {
    return k < residuals.size() ? residuals[k] : hessians[k - residuals.size()];
  }
  std::size_t n_sums() const { return residuals.size() + hessians.size(); }
  std::vector<std::int64_t> addresses() const {
    std::vector<std::int64_t> words(residuals.begin(), residuals.end());
    words.insert(words.end(), hessians.begin(), hessians.end());
    return words;
  }
};

// A message of 64-bit words, and where its parts begin.
struct SearchMessage {
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);

  std::vector<std::int64_t> words;
  std::size_t numbers = 0, splits = 0, families = 0, slots = 0, totals = 0, bounds = kAbsent, masks = kAbsent;
  std::size_t n_splits = 0, n_families = 0, n_candidates = 0;
};

// Where a buffer is: on the device, or in memory of the host that is copied from and to the device without a detour.
enum class Place { kDevice, kHost };

// memory(name, n_words, keep, place): the address of a larger buffer, with the words of the smaller one if they are kept.
using DeviceMemory = std::function<Address(const char*, std::size_t, bool, Place)>;

// Rows and histograms of one tree after the other. All memory of the device belongs to the caller, who keeps it.
class DeviceRows {
 public:
  DeviceRows(DriverFunctions functions, const DeviceTable& table) : calls_(std::move(functions)), table_(table) {}

  // Begins a tree, whose memory is valid until end().
  void begin(DeviceMemory memory, Address stream, DeviceInputs&& inputs) {
    memory_ = std::move(memory);
    calls_.set_stream(stream);
    inputs_ = std::move(inputs);
  }
  void end() { memory_ = nullptr; }

  // The largest absolute values of residuals and hessians.
  std::vector<double> largest() {
    const std::size_t n = inputs_.n_sums();
    const Address found = at_least(sums_, 2 * n);
    calls_.clear(found, 2 * n);
    calls_.launch(Kernel::kLargest, blocks_for(inputs_.n_train, kThreads), kThreads, 0, send(inputs_.addresses()), n,
                  inputs_.n_train, found, word(found, n));
    read(found, 2 * n);
    std::vector<double> largest;
    for (std::size_t k = 0; k < n; ++k) {
      largest.push_back(std::bit_cast<double>(reply_[k]));
      const bool is_hessian = k >= inputs_.residuals.size();
      if (!is_hessian && !std::isfinite(largest[k])) throw std::overflow_error("residuals: not finite");
      if (!std::isfinite(largest[k]) || (is_hessian && reply_[n + k] != 0)) {
        throw std::invalid_argument("loss: hessian must give numbers that are finite and not negative.");
      }
    }
    return largest;
  }

  // Begins a tree: its rows as integers, and the histogram of the root. Returns the sums of the root.
  std::vector<std::int64_t> start(const Channels& channels, const Sketch& sketch, const GrowthRules& rules) {
    channels_ = &channels;
    sketch_ = sketch;
    rules_ = &rules;
    form_ = RowForm(channels, inputs_.repeats != 0);
    histogram_words_ = static_cast<std::size_t>(table_.n_cells) * channels.n();
    const std::size_t list_words = (static_cast<std::size_t>(inputs_.n_train) + 1) / 2;  // of 32-bit numbers
    at_least(list_, list_words);
    at_least(sorted_, list_words);
    at_least(begin_, kMostNodes);
    at_least(end_, kMostNodes);
    at_least(counters_, 2 * kMostNodes);
    at_least(histograms_, histogram_words_);
    std::vector<std::int64_t> message;
    append_words(message, Family{0, 0, -1, {-1, -1}});  // the root
    for (int c = 0; c < form_.n; ++c) {
      const bool counts_only = c >= n_summed();
      message.push_back(as_word(counts_only ? 0.0 : std::ldexp(1.0, channels.exponent[c])));
    }
    const Address root = send(message);
    pack(word(root, kFamilyWords));
    calls_.launch(Kernel::kFirstRows, blocks_for(inputs_.n, kThreads), kThreads, 0, inputs_.chosen, list_.address,
                  inputs_.n, inputs_.ring.begin, inputs_.ring.end, inputs_.ring.first, begin_.address, end_.address,
                  counters_.address, 2 * kMostNodes, histograms_.address, histogram_words_);
    build(root, 1);
    const Address total = at_least(sums_, channels.n());
    calls_.launch(Kernel::kTotals, 1, kThreads, 0, histograms_.address, table_.first_cells, channels.n(), total);
    return read(total, channels.n());
  }

  // Splits nodes, builds the histograms of children, and returns the records of the best splits.
  const std::vector<std::int64_t>& search(const SearchMessage& message, std::size_t n_slots, std::size_t n_nodes) {
    const Address sent = send(message.words), families = word(sent, message.families);
    at_least(histograms_, n_slots * histogram_words_, true);
    split(word(sent, message.splits), message.n_splits, n_nodes, families, message.n_families);
    if (message.n_families > 0) build(families, message.n_families);
    scan(message, sent);
    const std::size_t n_words = message.n_candidates * (kRecordWords + channels_->n());
    const Address found = at_least(sums_, n_words);
    calls_.launch(Kernel::kBestSplits, static_cast<std::int64_t>(message.n_candidates), kPlaces, 0,
                  word(sent, message.slots), table_.n_features, rules_->min_split_gain, table_.first_cell,
                  table_.n_bins, histograms_.address, histogram_words_, channels_->n(), records_.address, found);
    return read(found, n_words);
  }

  // Sums of hessians, then of squares of residuals; see noise_sums.
  std::vector<std::int64_t> noise(const std::vector<int>& exponents) {
    const std::size_t n = exponents.size(), n_hessians = inputs_.hessians.size();
    const Address sums = at_least(sums_, n);
    calls_.clear(sums, n);
    for (std::size_t k = 0; k < n; ++k) {
      const bool is_hessian = k < n_hessians;
      calls_.launch(Kernel::kSumOfPowers, blocks_for(inputs_.n_train, kThreads), kThreads, 0,
                    is_hessian ? inputs_.hessians[k] : inputs_.residuals[k - n_hessians], std::ldexp(1.0, exponents[k]),
                    is_hessian ? 1 : 2, inputs_.repeats, inputs_.n_train, word(sums, k));
    }
    return read(sums, n);
  }

  // Sums over the rows of leaves, (leaf, residual or hessian), flat, after some splits.
  std::vector<std::int64_t> leaf_sums(const std::vector<std::int64_t>& splits, std::size_t n_nodes,
                                      const std::vector<std::int32_t>& leaves, const std::vector<int>& exponents) {
    const std::vector<std::int64_t> addresses = inputs_.addresses();
    const std::size_t n_splits = splits.size() / kSplitWords, n = exponents.size();
    std::vector<std::int64_t> message = splits;
    message.insert(message.end(), leaves.begin(), leaves.end());
    message.insert(message.end(), addresses.begin(), addresses.end());
    for (int exponent : exponents) message.push_back(as_word(std::ldexp(1.0, exponent)));
    const Address sent = send(message), nodes = word(sent, splits.size()), vectors = word(nodes, leaves.size());
    split(sent, n_splits, n_nodes, 0, 0);
    const Address sums = at_least(sums_, leaves.size() * n);
    calls_.clear(sums, leaves.size() * n);
    for (std::size_t first = 0; first < leaves.size(); first += kMostNodes) {
      calls_.launch(Kernel::kLeafSums, blocks_over_rows(), kThreads, 0, word(nodes, first),
                    std::min<std::size_t>(kMostNodes, leaves.size() - first), begin_.address, end_.address,
                    list_.address, vectors, word(vectors, n), inputs_.repeats, inputs_.ring.begin, inputs_.ring.end,
                    inputs_.ring.first, n, word(sums, first * n));
    }
    return read(sums, leaves.size() * n);
  }

  // Writes the values (value, row) of a tree on all rows.
  void values(const GrownTree& tree, Address out) {
    std::vector<std::int64_t> message = {0};  // the root, and the first column of the values
    for (std::size_t i = 0; i < tree.n_nodes(); ++i) {
      append_words(message, BinnedNode{tree.left[i], tree.feature[i], tree.left_codes[i]});
    }
    const std::size_t n_words = message.size();
    for (double value : tree.value) message.push_back(as_word(value));
    const Address sent = send(message);
    calls_.launch(Kernel::kTreeValues, blocks_for(table_.n_rows, kThreads), kThreads, 0, word(sent, 1),
                  word(sent, n_words), tree.n_values, sent, sent, 1, table_.codes, table_.n_rows, inputs_.ring.begin,
                  inputs_.ring.end, inputs_.ring.first, out);
  }

  static std::int64_t as_word(double x) { return std::bit_cast<std::int64_t>(x); }

 private:
  static constexpr int kThreads = 256;
  static constexpr int kHistogramThreads = 1024;  // atomics wait long: 512 threads take 7 % longer with 10^7 rows
  // Bytes of shared memory of a block: two blocks of the histogram kernel fit a multiprocessor; scans that need more use
  // other memory.
  static constexpr std::int64_t kHistogramBytes = 100'000, kScanBytes = 48'000;
  // A block of the kernels over the rows of nodes gets about this many rows, or more. With four times as many, five
  // members on 100,000 rows take 7 % longer.
  static constexpr std::int64_t kRowsPerBlock = 1024;

  struct Buffer {
    const char* name;
    Place place = Place::kDevice;
    Address address = 0;
    std::size_t n_words = 0;
  };

  static Address word(Address first, std::size_t number) { return first + number * sizeof(std::int64_t); }

  // The address of a buffer, which is made larger if necessary.
  Address at_least(Buffer& buffer, std::size_t n_words, bool keep = false) {
    if (n_words > buffer.n_words) {
      const std::size_t wanted = std::max(n_words, 2 * buffer.n_words);
      buffer.address = memory_(buffer.name, wanted, keep, buffer.place);
      buffer.n_words = wanted;
    }
    return buffer.address;
  }

  // The device reads a message after the kernels before it, so one buffer is enough for all. A message on the host is
  // read before the next reply, which every second message waits for.
  Address send(const std::vector<std::int64_t>& message) {
    const Address to = at_least(message_, message.size());
    Buffer& sent = sent_[n_sent_++ % 2];
    at_least(sent, message.size());
    std::copy(message.begin(), message.end(), words_of(sent));
    calls_.copy_to_device(to, words_of(sent), message.size());
    return to;
  }

  const std::vector<std::int64_t>& read(Address from, std::size_t n_words) {
    at_least(received_, n_words);
    calls_.copy_to_host(words_of(received_), from, n_words);
    reply_.assign(words_of(received_), words_of(received_) + n_words);
    return reply_;
  }

  // The words of a buffer on the host.
  static std::int64_t* words_of(const Buffer& buffer) { return reinterpret_cast<std::int64_t*>(buffer.address); }

  // Blocks for a loop over n items: enough to occupy the device, and none without an item.
  std::int64_t blocks_for(std::int64_t n, std::int64_t per_block) const {
    return std::max<std::int64_t>(1, std::min<std::int64_t>((n + per_block - 1) / per_block, 8 * table_.n_processors));
  }
  std::int64_t blocks_over_rows() const { return blocks_for(inputs_.n, kRowsPerBlock); }

  // Residuals and hessians that histograms sum.
  int n_summed() const { return channels_->n_residuals + channels_->n_hessians; }

  // Writes the integers of all training rows.
  void pack(Address scales) {
    const int n = form_.n;
    const Address packed = at_least(packed_, static_cast<std::size_t>(inputs_.ring.limit(inputs_.n_train)) * n);
    for (int first = 0; first < n; first += kChannelsAtOnce) {
      Address x[kChannelsAtOnce];
      for (int c = 0; c < kChannelsAtOnce; ++c) {
        const int k = first + c;
        x[c] = inputs_.residual_or_hessian(k < n_summed() ? sketch_.sum(k) : 0);  // counts alone need no numbers
      }
      calls_.launch(Kernel::kPack, blocks_for(inputs_.n_train, kThreads), kThreads, 0, x[0], x[1], x[2], x[3], scales,
                    std::min(kChannelsAtOnce, n - first), first, n, form_.count_bits, inputs_.repeats, packed,
                    inputs_.n_train, inputs_.ring.begin, inputs_.ring.end, inputs_.ring.first);
    }
  }

  // Sends the rows of nodes to their children, and sets the histograms of the smaller nodes of families to zero. None of
  // the nodes is a child of another one: children of a split that has not been sent may not be split. Families are those
  // of splits, so without splits there are none.
  void split(Address splits, std::size_t n_splits, std::size_t n_nodes, Address families, std::size_t n_families) {
    if (n_splits == 0) return;
    at_least(begin_, n_nodes, true);
    at_least(end_, n_nodes, true);
    const auto n_cleared = static_cast<std::int64_t>(n_families * histogram_words_);
    const std::int64_t n_blocks = std::max(blocks_over_rows(), blocks_for(n_cleared, kThreads));
    for (std::size_t first = 0; first < n_splits; first += kMostNodes) {
      const Address some = word(splits, first * kSplitWords);
      const std::size_t n = std::min<std::size_t>(kMostNodes, n_splits - first);
      calls_.launch(Kernel::kPartition, blocks_over_rows(), kThreads, 0, some, n, begin_.address, end_.address,
                    list_.address, table_.codes, table_.n_rows, sorted_.address, counters_.address);
      calls_.launch(Kernel::kSettle, n_blocks, kThreads, 0, some, n, begin_.address, end_.address, sorted_.address,
                    list_.address, counters_.address, families, first == 0 ? n_families : 0, histograms_.address,
                    histogram_words_);
    }
  }

  // The histograms of the first nodes of families.
  void build(Address families, std::size_t n_families) {
    const std::int64_t n_groups = (table_.n_features + table_.group_columns - 1) / table_.group_columns;
    const std::int64_t most = std::max<std::int64_t>(1, kHistogramBytes / (8 * table_.widest_group));
    const std::int64_t at_once = std::min<std::int64_t>({form_.n, kChannelsAtOnce, most});
    const std::int64_t counted = static_cast<std::int64_t>(kCountedRows);
    const std::int64_t least = form_.in_blocks() ? (inputs_.n + counted - 1) / counted : 1;
    const std::int64_t n_parts =
        std::max<std::int64_t>(least, std::min(blocks_over_rows(), 2 * table_.n_processors / n_groups));
    const std::int64_t n_blocks = n_parts * n_groups * ((form_.n + at_once - 1) / at_once);
    calls_.launch(Kernel::kHistograms, n_blocks, kHistogramThreads,
                  static_cast<std::size_t>(8 * table_.widest_group * at_once), families, n_families, begin_.address,
                  end_.address, list_.address, table_.codes, table_.n_rows, table_.n_features, table_.first_cell,
                  packed_.address, form_.n, at_once, form_.n_cell, form_.count_bits, histograms_.address,
                  histogram_words_, n_parts);
  }

  // The best split of each feature of the candidates.
  void scan(const SearchMessage& message, Address sent) {
    const auto part = [&](std::size_t at) { return at == SearchMessage::kAbsent ? 0 : word(sent, at); };
    at_least(records_, message.n_candidates * table_.n_features * kRecordWords);
    const std::size_t n_families = std::max<std::size_t>(1, message.n_families);
    const std::int64_t n_tasks = static_cast<std::int64_t>(n_families) * table_.n_features;
    const std::int64_t scratch_words = channels_->n() * (kPlaces + 1);
    const bool spills = 8 * scratch_words > kScanBytes;
    const std::int64_t n_blocks = spills ? std::min<std::int64_t>(n_tasks, 4 * table_.n_processors) : n_tasks;
    if (spills) at_least(spill_, static_cast<std::size_t>(n_blocks * scratch_words));
    calls_.launch(scan_kernel(), n_blocks, kPlaces, spills ? 0 : static_cast<std::size_t>(8 * scratch_words),
                  part(message.families), n_families, table_.n_features, part(message.totals), part(message.bounds),
                  part(message.masks), (table_.n_features + 63) / 64, table_.first_cell, table_.n_bins,
                  table_.n_categories, table_.monotone, channels_->n_residuals, channels_->n_hessians, channels_->n(),
                  channels_->count_bits, part(message.numbers), rules_->min_samples_leaf, rules_->min_category_rows(),
                  histograms_.address, histogram_words_, spills ? spill_.address : 0, records_.address);
  }

  // The usual numbers of residuals and hessians have kernels of their own.
  Kernel scan_kernel() const {
    const int n = channels_->n_residuals;
    const bool has_hessian = channels_->n_hessians > 0;
    if (n > 2 || channels_->n_hessians > 1 || channels_->counts_alone) {
      return has_hessian ? Kernel::kScanAnyHessian : Kernel::kScanAny;
    }
    if (n == 2) return has_hessian ? Kernel::kScan2Hessian : Kernel::kScan2;
    return has_hessian ? Kernel::kScan1Hessian : Kernel::kScan1;
  }

  DeviceCalls calls_;
  const DeviceTable table_;
  DeviceMemory memory_;
  DeviceInputs inputs_;  // of the tree that is being grown
  const Channels* channels_ = nullptr;
  Sketch sketch_;
  RowForm form_;
  const GrowthRules* rules_ = nullptr;
  std::size_t histogram_words_ = 0;
  std::vector<std::int64_t> reply_;
  Buffer list_{"list"}, sorted_{"sorted"};  // rows by node
  Buffer begin_{"begin"}, end_{"end"};      // per node: where its rows are in the list
  Buffer counters_{"counters"}, packed_{"packed"}, histograms_{"histograms"}, records_{"records"}, spill_{"spill"};
  Buffer message_{"message"}, sums_{"sums"};
  Buffer sent_[2] = {{"sent", Place::kHost}, {"also sent", Place::kHost}}, received_{"received", Place::kHost};
  std::size_t n_sent_ = 0;
};

}  // namespace agbm
