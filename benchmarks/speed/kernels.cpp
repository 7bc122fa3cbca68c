// The native kernels compared with the limits of the machine, which are measured first: copying memory, and adding
// 64-bit integers to scattered cells that stay in the L1 cache. Prints a table; writes JSON to the file given.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/hash.hpp"
#include "base/vectors.hpp"
#include "bins/encode.hpp"
#include "forest/predict.hpp"
#include "tree/histogram.hpp"
#include "tree/quantise.hpp"
#include "tree/rows.hpp"
#include "tree/split.hpp"
#include "tree/tree.hpp"

namespace agbm {
namespace {

constexpr std::size_t kRows = 500'000;
constexpr int kFeatures = 28;
constexpr int kRepeats = 15;

// The shortest time of a call in seconds: what the machine can do if nothing else is running, for limits and kernels.
template <class Work>
double seconds_of(const Work& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kRepeats; ++i) {
    const auto began = std::chrono::steady_clock::now();
    work();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
  return least;
}

double uniform(std::uint64_t i) { return static_cast<double>(mixed(i) >> 11) * 0x1p-53; }

// Bytes copied per second, counting those read and those written.
double copy_limit(int threads) {
  constexpr std::size_t piece = std::size_t{1} << 22, pieces = 64;
  std::vector<char> from(piece * pieces, 1), to(piece * pieces);
  const double seconds = seconds_of([&] {
    parallel_for(pieces, threads, [&](std::size_t p) { std::memcpy(&to[p * piece], &from[p * piece], piece); });
  });
  return 2.0 * piece * pieces / seconds;
}

// Additions per second to Width x 256 cells per thread.
template <int Width>
double scatter_limit(int threads) {
  constexpr std::size_t rows = 256, passes = 2000;
  std::vector<std::uint8_t> codes(rows * Width);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(mixed(i));
  std::vector<std::vector<std::int64_t>> cells(threads, std::vector<std::int64_t>(Width * 256));
  const double seconds = seconds_of([&] {
    parallel_for(threads, threads, [&](std::size_t t) {
      std::int64_t* mine = cells[t].data();
      for (std::size_t i = 0; i < rows * passes; ++i) {
        const std::uint8_t* code = &codes[i % rows * Width];
#pragma GCC unroll 28
        for (int j = 0; j < Width; ++j) mine[j * 256 + code[j]] += static_cast<std::int64_t>(i);
      }
    });
  });
  return static_cast<double>(threads * rows * passes * Width) / seconds;
}

// The work of one kernel: bytes that it must read and write, and integers added to histogram cells. If a cell has two
// of them, one instruction adds both, so the ratio to the limit, which adds one at a time, can exceed 1.
struct Measured {
  std::string kernel;
  int threads;
  double seconds, bytes, adds;
};

struct Limits {
  int threads;
  double copy = 0.0, scatter14 = 0.0, scatter28 = 0.0;

  // The best so far: measured before and after the kernels, in case the machine is busy at one of the two.
  void measure() {
    copy = std::max(copy, copy_limit(threads));
    scatter14 = std::max(scatter14, scatter_limit<14>(threads));
    scatter28 = std::max(scatter28, scatter_limit<28>(threads));
  }
};

// The kernels on one table of uniform numbers with 255 bins per feature.
class Kernels {
 public:
  explicit Kernels(int threads) : threads_(threads), x_(kRows * kFeatures), residual_(kRows), hessian_(kRows) {
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(uniform(i));
    for (std::size_t i = 0; i < kRows; ++i) residual_[i] = uniform(~i) - 0.5 + x_[i * kFeatures];
    for (std::size_t i = 0; i < kRows; ++i) hessian_[i] = 0.25 * uniform(i);
    lay_out(matrix_, kRows, std::vector<int>(kFeatures, kMaxValueBins), std::vector<int>(kFeatures, 0),
            ColumnPlan::of_own(kFeatures));
  }

  std::vector<Measured> measure() {
    bin();
    for (int hessians : {0, 1}) histogram(hessians);
    partition();
    walk();
    combine();
    predict();
    return std::move(measured_);
  }

 private:
  template <class Work>
  void add(const std::string& kernel, double bytes, double adds, const Work& work) {
    measured_.push_back({kernel, threads_, seconds_of(work), bytes, adds});
  }

  void bin() {
    std::vector<double> thresholds;
    for (int i = 0; i < kFeatures * (kMaxValueBins - 1); ++i) {
      thresholds.push_back((i % (kMaxValueBins - 1) + 1.0) / kMaxValueBins);
    }
    // A value is read, and its code written twice.
    const Dense<float> x{x_.data(), kFeatures, kFeatures, 1};
    add("bin", 6.0 * x_.size(), 0, [&] { bin_columns(matrix_, 0, thresholds.data(), x, kRows, nullptr, threads_); });
  }

  void histogram(int hessians) {
    const std::string mode = hessians > 0 ? ", Newton" : ", gradient";
    TreeInputs inputs;
    inputs.n_residuals = 1;
    inputs.n_hessians = hessians;
    inputs.n_rows = inputs.n_repeated = kRows;
    inputs.residuals = {residual_.data()};
    inputs.hessians = hessian_.data();
    inputs.max = {2.0, 0.25};
    inputs.l2 = {0.0};
    const Channels channels = channels_of(inputs);
    const RowForm form(channels, false);
    LargeVector<std::int64_t> packed;
    const double channel_bytes = 8.0 * (1 + hessians);
    add("quantise" + mode, 2 * channel_bytes * kRows, 0, [&] { pack(inputs, channels, form, packed, threads_); });

    HistogramBuilder builder(matrix_, threads_);
    std::vector<std::int64_t> cells(matrix_.n_cells() * channels.n());
    std::vector<Row> half;
    for (std::size_t i = 0; i < kRows; ++i) {
      if (mixed(i) & 1) half.push_back(static_cast<Row>(i));
    }
    builder.set_rows(packed.data(), form);
    const auto build = [&](const Row* rows, std::size_t n) { builder.build({{rows, n, cells.data()}}); };
    const double row_bytes = kFeatures + channel_bytes * static_cast<double>(matrix_.groups.size());
    const double adds = static_cast<double>(kFeatures) * channels.n();
    add("histogram, half of the rows" + mode, half.size() * (row_bytes + 4.0 * matrix_.groups.size()),
        adds * half.size(), [&] { build(half.data(), half.size()); });
    add("histogram, root" + mode, row_bytes * kRows, adds * kRows, [&] { build(nullptr, kRows); });
    scan(mode, channels, cells);
  }

  // Scans all features of 32 nodes, the number of parents of the last level of a tree of depth 6.
  void scan(const std::string& mode, const Channels& channels, const std::vector<std::int64_t>& cells) {
    constexpr std::size_t nodes = 32;
    const GrowthRules rules{6, 0, 20, 0.0, {}, {}};
    std::vector<std::int64_t> total(channels.n(), 0);
    for (std::size_t i = 0; i < matrix_.cell_offset[1] * total.size(); ++i) total[i % total.size()] += cells[i];
    std::vector<Split> found(nodes * kFeatures);
    add("split scan, 32 nodes" + mode, 8.0 * cells.size() * nodes, 0, [&] {
      parallel_for(found.size(), threads_, [&](std::size_t t) {
        const int f = static_cast<int>(t % kFeatures);
        std::int64_t scratch[9];  // three cells of at most three channels
        const std::int64_t* of_feature = cells.data() + matrix_.cell_offset[f] * channels.n();
        improve_split(found[t], channels, rules, {f, of_feature, matrix_.n_bins[f], 0, total.data(), scratch, {}});
      });
    });
  }

  void partition() {
    RowPartition partition(matrix_, threads_);
    Split split;
    split.feature = 0;
    for (int code = 0; code < 128; ++code) split.left.add(code);
    // A row's number is written at the start, read, written to one side and copied back.
    add("partition, all rows", kRows * (5 * 4.0 + 1), 0, [&] {
      partition.reset(nullptr, kRows, {});
      partition.split({{0, kRows}}, {split});
    });
  }

  // A tree with 63 leaves, as the default grows them on large tables: each level but the last has a leaf.
  void walk() {
    GrownTree tree;
    tree.n_values = 1;
    tree.add(kRows);
    for (std::int32_t node = 0; tree.n_nodes() < 125; ++node) {
      if (node % 4 == 3) continue;
      tree.feature[node] = static_cast<int>(mixed(node) % kFeatures);
      tree.left_codes[node] = CodeSet::up_to(static_cast<int>(64 + mixed(~node) % 128));
      tree.left[node] = static_cast<std::int32_t>(tree.n_nodes());
      tree.add(0);
      tree.add(0);
    }
    std::vector<double> out(kRows);
    // At least the codes of one column are read, and a value is written.
    add("values of a tree, 63 leaves", kRows * (1 + 8.0), 0,
        [&] { TreeWalk(matrix_, tree).values(0, kRows, out.data(), kRows, threads_); });
  }

  void combine() {
    std::vector<double> out(kRows);
    add("a x + b y", kRows * 24.0, 0,
        [&] { mix(0.5, residual_.data(), 2.0, hessian_.data(), out.data(), kRows, threads_); });
  }

  void predict() {
    constexpr int depth = 6, trees = 100, inner = (1 << depth) - 1;
    ForestArrays forest;
    forest.n_features = kFeatures;
    forest.n_columns = forest.n_values = 1;
    forest.category_start = {0};
    for (int tree = 0; tree < trees; ++tree) {
      const std::int32_t root = static_cast<std::int32_t>(forest.nodes.size());
      forest.roots.push_back(root);
      forest.first_column.push_back(0);
      for (int i = 0; i < 2 * inner + 1; ++i) {
        const std::uint64_t random = mixed(root + i);
        const bool leaf = i >= inner;
        const int feature = leaf ? -1 : static_cast<int>(random % kFeatures);
        forest.nodes.push_back({uniform(random), feature, leaf ? -1 : root + 2 * i + 1, -1, false});
        forest.values.push_back(uniform(i));
      }
    }
    const Forest packed(std::move(forest));
    std::vector<double> out(kRows, 0.0);
    add("predict, 100 trees of depth 6", 4.0 * x_.size() + 16.0 * kRows, 0,
        [&] { packed.add_predictions(x_.data(), kRows, kFeatures, 1, out.data(), threads_); });
  }

  const int threads_;
  std::vector<float> x_;
  std::vector<double> residual_, hessian_;
  BinnedMatrix matrix_;
  std::vector<Measured> measured_;
};

void print(const Limits& limits, const std::vector<Measured>& measured) {
  std::printf(
      "\n%d thread(s): copy %.1f GB/s; scatter-add %.2f ns (14 x 256 cells), %.2f ns (28 x 256) per add and core\n",
      limits.threads, limits.copy / 1e9, 1e9 * limits.threads / limits.scatter14,
      1e9 * limits.threads / limits.scatter28);
  std::printf("%-40s%10s%10s%10s%14s%16s\n", "kernel", "ms", "GB/s", "of copy", "10^9 adds/s", "of scatter-add");
  for (const Measured& m : measured) {
    std::printf("%-40s%10.2f%10.2f%9.0f%%", m.kernel.c_str(), 1e3 * m.seconds, m.bytes / m.seconds / 1e9,
                100 * m.bytes / m.seconds / limits.copy);
    if (m.adds > 0)
      std::printf("%14.2f%15.0f%%", m.adds / m.seconds / 1e9, 100 * m.adds / m.seconds / limits.scatter14);
    std::printf("\n");
  }
}

void write(std::ostream& out, const Limits& limits, const std::vector<Measured>& measured) {
  out << "{\"threads\": " << limits.threads << ", \"copy_bytes_per_second\": " << limits.copy
      << ", \"adds_per_second_14\": " << limits.scatter14 << ", \"adds_per_second_28\": " << limits.scatter28
      << ", \"kernels\": [";
  for (std::size_t i = 0; i < measured.size(); ++i) {
    const Measured& m = measured[i];
    out << (i > 0 ? ",\n  " : "\n  ") << "{\"kernel\": \"" << m.kernel << "\", \"seconds\": " << m.seconds
        << ", \"bytes\": " << m.bytes << ", \"adds\": " << m.adds << "}";
  }
  out << "]}";
}

}  // namespace
}  // namespace agbm

int main(int argc, char** argv) {
  using namespace agbm;
  std::printf("%zu x %d float32, 255 bins; best of %d\n", kRows, kFeatures, kRepeats);
  std::ofstream json(argc > 1 ? argv[1] : "/dev/null");
  json << "[";
  const int all = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (int threads = 1; threads <= all; threads = threads < all ? all : all + 1) {
    Limits limits{threads};
    limits.measure();
    const std::vector<Measured> measured = Kernels(threads).measure();
    limits.measure();
    print(limits, measured);
    json << (threads > 1 ? ",\n" : "");
    write(json, limits, measured);
  }
  json << "]\n";
}
