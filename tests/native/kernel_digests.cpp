// Runs the kernels without Python and prints a digest of the bits of each result, one line per kernel.
//
// `make test-cross` compiles this program for every platform and compares the output of those that can be run. Results
// must not depend on the number of threads, so each kernel runs with one thread and with three. The instructions that
// were used are named on the error stream.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/hash.hpp"
#include "base/memory.hpp"
#include "base/vectors.hpp"
#include "bins/encode.hpp"
#include "forest/shap.hpp"
#include "losses/loss.hpp"
#include "tree/grow.hpp"
#include "tree/histogram_search.hpp"
#include "tree/rows.hpp"
#include "tree/tree.hpp"

namespace agbm {
namespace {

constexpr std::size_t kRows = 30'011;  // several tasks per thread, and not a multiple of any vector
constexpr int kFeatures = 11;
constexpr int kTrees = 3;

double uniform(std::uint64_t i) { return static_cast<double>(mixed(i) >> 11) * 0x1p-53; }

// FNV-1a over the bytes; every platform that is compiled for is little-endian.
class Digest {
 public:
  template <class T>
  Digest& add(const T* values, std::size_t n) {
    static_assert(std::is_arithmetic_v<T>, "padding has no defined bits");
    const auto* bytes = reinterpret_cast<const unsigned char*>(values);
    for (std::size_t i = 0; i < n * sizeof(T); ++i) state_ = (state_ ^ bytes[i]) * 0x100000001b3u;
    return *this;
  }
  template <class T>
  Digest& add(const std::vector<T>& values) {
    return add(values.data(), values.size());
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325u;
};

// A line of text. Without variable arguments: on ARM, Wine (8.0 of Debian) takes them from the wrong places.
void say(const std::string& line, std::FILE* stream) {
  std::fputs((line + "\n").c_str(), stream);
  std::fflush(stream);
}

std::string in_hex(std::uint64_t value) {
  std::string digits(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4) digits[i] = "0123456789abcdef"[value & 15];
  return digits;
}

// Calls kernel(n_threads) with both numbers of threads and prints its digest; ends the program if they differ.
template <class Kernel>
void print(const std::string& name, const Kernel& kernel) {
  const std::uint64_t one = kernel(1).value(), three = kernel(3).value();
  if (one != three) {
    say(name + ": bits depend on the number of threads", stderr);
    std::exit(1);
  }
  say(name + " " + in_hex(one), stdout);
}

const char* instructions() {
#if defined(__x86_64__) && defined(__GNUC__)
  switch (widest_instructions()) {
    case Instructions::kAvx512: return "AVX-512";
    case Instructions::kAvx2: return "AVX2";
    default: return "SSE2";
  }
#elif defined(__aarch64__)
  return "NEON";
#else
  return "baseline";
#endif
}

struct Table {
  std::vector<double> x, y, score, out;

  Table() : x(kRows * kFeatures), y(kRows), score(kRows), out(kRows) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = uniform(i) < 0.05 ? std::numeric_limits<double>::quiet_NaN() : 4.0 * uniform(~i) - 2.0;
    }
    for (std::size_t i = 0; i < kRows; ++i) {
      score[i] = 6.0 * uniform(3 * i) - 3.0;
      y[i] = uniform(7 * i) < 0.5 ? 0.0 : 1.0;
    }
  }
};

void print_vectors(Table& t) {
  const auto each = [&](const char* name, const auto& fill) {
    print(name, [&](int n_threads) {
      fill(n_threads);
      return Digest().add(t.out);
    });
  };
  const double *f = t.score.data(), *y = t.y.data();
  double* out = t.out.data();
  each("mix", [&](int n) { mix(0.3, f, 0.7, y, out, kRows, n); });
  each("exp", [&](int n) { exp_of(f, out, kRows, n); });
  each("sigmoid", [&](int n) { sigmoid_of(f, out, kRows, n); });
  std::vector<double> positive(kRows);
  exp_of(f, positive.data(), kRows, 1);
  each("log", [&](int n) { log_of(positive.data(), out, kRows, n); });
  print("inner products", [&](int n) {
    const auto sums = inner_products(f, positive.data(), positive.data(), kRows, n);
    const double rounded[] = {sums[0].rounded(), sums[1].rounded(), sums[2].rounded()};
    return Digest().add(rounded, 3);
  });
}

void print_losses(Table& t) {
  for (int kind = 0; kind <= static_cast<int>(LossKind::exponential); ++kind) {
    // A label of 1 is allowed by all of them, and a parameter of 0.6 or, for Tweedie's, 1.6.
    const double parameter = static_cast<LossKind>(kind) == LossKind::tweedie ? 1.6 : 0.6;
    const std::vector<double> ones(kRows, 1.0);
    print("loss " + std::to_string(kind), [&](int n) {
      Digest digest;
      with_loss(static_cast<LossKind>(kind), parameter, [&](const auto& loss) {
        for (Quantity quantity : {Quantity::kValue, Quantity::kNegativeGradient, Quantity::kHessian}) {
          fill_rows(loss, quantity, ones.data(), t.score.data(), kRows, t.out.data(), n);
          digest.add(t.out);
        }
      });
      return digest;
    });
  }
  constexpr std::size_t classes = 3, rows = kRows / classes;
  print("multinomial loss", [&](int n) {
    std::vector<double> value(rows), residual(classes * rows), hessian(classes * rows);
    MultinomialRows({t.score.data(), rows, classes, rows}, {t.y.data(), false, 0},
                    {value.data(), residual.data(), hessian.data()})
        .fill(n);
    return Digest().add(value).add(residual).add(hessian);
  });
}

void fill(BinnedMatrix& matrix, const Table& t, int n_threads) {
  constexpr int bins = 60;
  std::vector<double> thresholds;
  for (int i = 0; i < kFeatures * (bins - 1); ++i) thresholds.push_back(4.0 * (i % (bins - 1) + 1) / bins - 2.0);
  lay_out(matrix, kRows, std::vector<int>(kFeatures, bins), std::vector<int>(kFeatures, 0),
          ColumnPlan::of_own(kFeatures));
  bin_columns(matrix, 0, thresholds.data(), Dense<double>{t.x.data(), kFeatures, kFeatures, 1}, kRows, nullptr,
              n_threads);
}

// Trees of a logistic loss, each fitted to the residuals of those before it.
template <class Each>
void boost(const Table& t, int max_leaf_nodes, int n_threads, const Each& each) {
  BinnedMatrix matrix;
  fill(matrix, t, n_threads);
  const GrowthRules rules{max_leaf_nodes > 0 ? 30 : 6, max_leaf_nodes, 20, 0.0, {}, {}};
  TreeRows rows(matrix, n_threads);
  HistogramSearch search(matrix, rules, rows, &rows, n_threads);
  TreeGrower grower(matrix, rules, search);
  std::vector<double> score(t.score), residual(kRows), hessian(kRows), values(kRows);
  for (int tree = 0; tree < kTrees; ++tree) {
    fill_both_derivatives(LogisticLoss{}, t.y.data(), score.data(), kRows, residual.data(), hessian.data(), n_threads);
    TreeInputs inputs;
    inputs.n_residuals = inputs.n_hessians = 1;
    inputs.n_rows = inputs.n_repeated = kRows;
    inputs.residuals = {residual.data()};
    inputs.hessians = hessian.data();
    inputs.max = {max_abs(residual.data(), kRows, n_threads), max_abs(hessian.data(), kRows, n_threads)};
    inputs.l2 = {1.0};
    rows.start(inputs, nullptr, 0);
    grower.grow(inputs, {nullptr, 0.5, 0, static_cast<std::uint64_t>(tree)}, [] {});
    rows.values(grower.tree().leaves(), grower.tree().value.data(), values.data(), kRows);
    mix(1.0, score.data(), 0.1, values.data(), score.data(), kRows, n_threads);
    each(grower.tree(), score);
  }
}

void print_trees(const Table& t) {
  for (int max_leaf_nodes : {0, 31}) {
    print(max_leaf_nodes > 0 ? "trees, best-first" : "trees, by level", [&](int n) {
      Digest digest;
      boost(t, max_leaf_nodes, n, [&](const GrownTree& tree, const std::vector<double>& score) {
        digest.add(tree.feature).add(tree.bin).add(tree.left).add(tree.gain).add(tree.count).add(tree.value);
        digest.add(score);
      });
      return digest;
    });
  }
}

void print_predictions(const Table& t) {
  ForestArrays arrays;
  arrays.n_features = kFeatures;
  arrays.n_columns = arrays.n_values = 1;
  arrays.category_start = {0};
  boost(t, 31, 1, [&](const GrownTree& tree, const std::vector<double>&) {
    const auto root = static_cast<std::int32_t>(arrays.nodes.size());
    arrays.roots.push_back(root);
    arrays.first_column.push_back(0);
    for (std::size_t i = 0; i < tree.n_nodes(); ++i) {
      const std::int32_t left = tree.left[i] < 0 ? -1 : root + tree.left[i];
      arrays.nodes.push_back(
          {4.0 * (tree.bin[i] + 1) / 60 - 2.0, tree.feature[i], left, -1, tree.missing_left[i] != 0});
      arrays.values.push_back(tree.value[i]);
      arrays.counts.push_back(tree.count[i]);
    }
  });
  const Forest forest(std::move(arrays));
  print("predictions", [&](int n) {
    std::vector<double> out(kRows, 0.0);
    forest.add_predictions(t.x.data(), kRows, kFeatures, 1, out.data(), n);
    return Digest().add(out);
  });
  const Contributions contributions(forest);
  print("contributions", [&](int n) {
    const std::size_t n_rows = 2000;
    std::vector<double> out(n_rows * (kFeatures + 1), 0.0);
    contributions.add(t.x.data(), n_rows, kFeatures, 1, out.data(), n);
    return Digest().add(out);
  });
}

}  // namespace
}  // namespace agbm

int main() {
  agbm::Table table;
  agbm::say(agbm::instructions(), stderr);
  agbm::ReusedMemory::instance().begin_run();
  agbm::print_vectors(table);
  agbm::print_losses(table);
  agbm::print_trees(table);
  agbm::print_predictions(table);
  agbm::ReusedMemory::instance().end_run();
}
