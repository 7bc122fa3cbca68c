// Conversion of real numbers to integers, so that sums do not depend on their order.
//
// A residual x becomes round(x * 2^e), with one exponent e for all rows, chosen so that no sum can overflow. The sums,
// and therefore the tree, are then the same for every number of threads and every partition of the rows.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/hash.hpp"
#include "base/memory.hpp"
#include "base/parallel.hpp"
#include "base/simd.hpp"
#include "formulas/histogram_layout.hpp"
#include "formulas/row_ring.hpp"
#include "formulas/split_rules.hpp"

namespace agbm {

// Largest exponent e with max_abs * 2^e < 2^bits (0 if all numbers are zero).
inline int scale_exponent(double max_abs, int bits) {
  if (max_abs == 0.0) return 0;
  int exponent = 0;
  std::frexp(max_abs, &exponent);  // max_abs < 2^exponent
  return std::min(bits - exponent, 1000);
}

inline int bits_for(std::size_t n) { return std::bit_width(n); }  // n < 2^bits

// Largest |x|; NaN or infinity if some x is not finite. A maximum does not depend on the order either.
inline double max_abs(const double* x, std::size_t n, int n_threads) {
  std::vector<double> partial(tasks_for_rows(n), 0.0);
  parallel_rows(n, n_threads, [&](std::size_t begin, std::size_t end) {
    vectorised_by_register([&](auto vectors) AGBM_INLINE {
      using Numbers = typename decltype(vectors)::Numbers;
      constexpr std::size_t lanes = decltype(vectors)::kLanes;
      Numbers largest = {}, poison = {};  // 0 * x is NaN for an x that is not finite
      const auto take = [&](Numbers v) AGBM_INLINE {
        const Numbers a = v < 0.0 ? -v : v;
        largest = a > largest ? a : largest;
        poison += 0.0 * v;
      };
      std::size_t i = begin;
      for (Numbers v; i + lanes <= end; i += lanes) {
        std::memcpy(&v, x + i, sizeof v);
        take(v);
      }
      for (; i < end; ++i) take(Numbers{} + x[i]);
      double& result = partial[begin / kRowsPerTask];
      for (std::size_t lane = 0; lane < lanes; ++lane) {
        const double found = largest[lane] + poison[lane];
        result = found > result || found != found ? found : result;
      }
    });
  });
  double largest = 0.0;
  for (double a : partial) largest = a > largest || a != a ? a : largest;
  return largest;
}

// The form of a histogram cell: one 64-bit integer for each residual, then one for each hessian unless these are
// constant. The last of them also counts rows, in its low bits: value * 2^count_bits + count. With constant hessians
// and one residual, a cell is a single integer, and a row costs one addition per feature. If there are so many rows
// that the count would leave too few bits for the value, an additional integer holds the count; see RowForm.
struct Channels {
  int n_residuals = 0;
  int n_hessians = 0;
  bool counts_alone = false;
  int count_bits = 0;
  double min_hessian_leaf = 0.0, l1 = 0.0;
  std::vector<double> l2;     // per hessian; one for all if hessians are constant
  std::vector<double> noise;  // per residual: its mean square divided by the mean hessian
  std::vector<int> exponent;  // per channel: the integer of a row is its number times 2^exponent
  std::vector<double> unit;   // value of one step of each channel, a power of two

  int n() const { return n_residuals + n_hessians + (counts_alone ? 1 : 0); }
  // Without vectors; valid as long as the channels do not change.
  ChannelRules rules() const {
    return {n_residuals, n_hessians, n(), count_bits, min_hessian_leaf, l1, l2.data(), unit.data(), noise.data()};
  }
  // The count within the last integer of a cell or of sums.
  std::int64_t count_in(std::int64_t last) const { return last & count_mask(); }
  std::int64_t count_mask() const { return (std::int64_t{1} << count_bits) - 1; }
};

// round_scaled takes numbers below 2^51; a sum over all rows must stay below 2^62, including the count in its low bits.
inline int value_bits(std::size_t n_repeated, bool carries_count) {
  const int row_bits = bits_for(n_repeated);
  return std::min(50, 62 - row_bits - (carries_count ? row_bits : 0));
}

// If cells have an integer for the count, histograms are built from blocks of rows, in which the last value still has
// room for the count: a row then costs no addition more. The value keeps 62 bits less those of the sum and of the count.
constexpr int kCountedBits = 16;
constexpr std::size_t kCountedRows = std::size_t{1} << kCountedBits;
constexpr int kCountBitsOfBlock = kCountedBits + 1;
constexpr int kValueBitsOfBlock = 62 - kCountedBits - kCountBitsOfBlock;

// Leaf values that are quantiles of the distances of their rows instead of Newton steps, for losses with a kink.
struct LeafQuantiles {
  int n_outputs = 0;                     // 0: no quantiles
  std::vector<double> shares;            // per output: of the weight at or below the value
  std::vector<const double*> distances;  // per output: from the score to the label of each row
  const std::int64_t* steps = nullptr;   // weights of the rows in whole steps; null: the repeats are the weights

  // The weight that corresponds to the share of a total. As a double, the share may be slightly above the intended
  // number, as 0.1 is; the factor corrects this, so that exactly a tenth suffices.
  double enough(int output, std::int64_t total) const {
    return std::max(1.0, std::ceil(shares[output] * (1.0 - 0x1p-50) * static_cast<double>(total)));
  }
};

// Which residuals, with their hessians, histograms sum: all, or a sketch of some of them. Leaves have values for all.
struct Sketch {
  std::vector<int> sums;  // numbers of the residuals, then of the hessians, ascending; empty: all
  int n_residuals = 0;    // in `sums`

  bool all() const { return sums.empty(); }
  int sum(int channel) const { return all() ? channel : sums[channel]; }
};

// Inputs of one tree: residuals times weights, and hessians (group, row) times weights, absent if all are 1.
// Neighbouring residuals share a hessian, in groups of equal size. A row may be repeated (null: no row is); sums are
// then exactly those of the repeated rows. If the rows are spread over machines, `max` and `n_repeated` are those of
// all of them: the integers that a row becomes depend on these alone. A process that only adds up the sums of others
// has no rows.
struct TreeInputs {
  int n_residuals = 0;
  int n_hessians = 0;
  std::size_t n_rows = 0;
  std::size_t n_repeated = 0;  // rows, counting repeats
  RowRing ring;                // where the rows of the matrix are in the vectors
  std::vector<const double*> residuals;
  const double* hessians = nullptr;
  const std::int64_t* repeats = nullptr;
  std::vector<double> max;        // per residual, then per hessian
  double min_hessian_leaf = 0.0;  // keeps Newton steps from dividing by almost zero
  double l1 = 0.0;                // every sum of residuals is this much closer to zero
  std::vector<double> l2;         // per hessian, added to its sum; one for all if hessians are constant
  LeafQuantiles quantiles;
  Sketch sketch;

  int n_sums() const { return n_residuals + n_hessians; }
  // Residuals that share a hessian; each on its own if hessians are constant.
  int n_groups() const { return n_hessians > 1 ? n_hessians : n_residuals; }
  int group_of(int residual) const { return residual / (n_residuals / n_groups()); }
  // Whether the leaf values for a residual are quantiles: those for the first residual of every output are.
  bool has_quantiles(int residual) const {
    return quantiles.n_outputs > 0 && residual % (n_residuals / quantiles.n_outputs) == 0;
  }
  int output_of(int residual) const { return residual / (n_residuals / quantiles.n_outputs); }
  // The k-th of the residuals, followed by the hessians.
  const double* residual_or_hessian(int k) const {
    return k < n_residuals ? residuals[k] : hessians + (k - n_residuals) * n_rows;
  }
  std::int64_t repeat(std::size_t row) const { return repeats == nullptr ? 1 : repeats[row]; }

  // Exponents of the integers that rows become, in sums other than histograms.
  int leaf_exponent(int k) const { return scale_exponent(max[k], value_bits(n_repeated, false)); }
  int hessian_noise_exponent(int group) const { return leaf_exponent(n_residuals + group); }
  int residual_noise_exponent(int k) const { return scale_exponent(max[k], value_bits(n_repeated, false) / 2); }
};

// Sum of round(x * scale)^power over all rows, counting repeats: exact, so that it does not depend on the order.
inline std::int64_t sum_of_powers(const TreeInputs& inputs, const double* x, double scale, int power, int n_threads) {
  std::vector<std::int64_t> partial(tasks_for_rows(inputs.n_rows), 0);
  parallel_rows(inputs.n_rows, n_threads, [&](std::size_t begin, std::size_t end) {
    std::int64_t sum = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::int64_t value = round_scaled(x[i], scale);
      sum += (power == 2 ? value * value : value) * inputs.repeat(i);
    }
    partial[begin / kRowsPerTask] = sum;
  });
  return std::accumulate(partial.begin(), partial.end(), std::int64_t{0});
}

// Sums over rows that noise_of() needs: one per hessian, then one of squares per residual.
inline std::vector<std::int64_t> noise_sums(const TreeInputs& inputs, int n_threads) {
  std::vector<std::int64_t> sums;
  for (int group = 0; group < inputs.n_hessians; ++group) {
    const double scale = std::ldexp(1.0, inputs.hessian_noise_exponent(group));
    sums.push_back(sum_of_powers(inputs, inputs.residual_or_hessian(inputs.n_residuals + group), scale, 1, n_threads));
  }
  for (int k = 0; k < inputs.n_residuals; ++k) {
    sums.push_back(sum_of_powers(inputs, inputs.residual_or_hessian(k),
                                 std::ldexp(1.0, inputs.residual_noise_exponent(k)), 2, n_threads));
  }
  return sums;
}

// What one row adds to the score G^2 / H of a leaf by chance alone, for each residual.
inline std::vector<double> noise_of(const TreeInputs& inputs, const std::vector<std::int64_t>& sums) {
  std::vector<double> hessian(std::max(inputs.n_hessians, 1), static_cast<double>(inputs.n_repeated));
  for (int group = 0; group < inputs.n_hessians; ++group) {
    hessian[group] = std::ldexp(static_cast<double>(sums[group]), -inputs.hessian_noise_exponent(group));
  }
  std::vector<double> noise;
  for (int k = 0; k < inputs.n_residuals; ++k) {
    const double squares =
        std::ldexp(static_cast<double>(sums[inputs.n_hessians + k]), -2 * inputs.residual_noise_exponent(k));
    const double h = hessian[k * hessian.size() / inputs.n_residuals];
    noise.push_back(h > 0.0 ? squares / h : 0.0);
  }
  return noise;
}

// A sketch of some groups, drawn at random: with a probability that grows with the squares of the residuals, so that
// outputs that have been learnt are rarely looked at. Sums of squares: those of noise_sums().
inline Sketch drawn_sketch(const TreeInputs& inputs, const std::vector<std::int64_t>& sums, int n_drawn,
                           std::uint64_t seed) {
  constexpr double even = 0.2;  // the share of the probability that all groups have equally
  const int n_groups = inputs.n_groups();
  std::vector<double> weight(n_groups, 0.0);
  for (int k = 0; k < inputs.n_residuals; ++k) {
    const auto squares = static_cast<double>(sums[inputs.n_hessians + k]);
    weight[inputs.group_of(k)] += std::ldexp(squares, -2 * inputs.residual_noise_exponent(k));
  }
  double total = 0.0;
  for (double w : weight) total += w;
  for (double& w : weight) w = (total > 0.0 ? (1.0 - even) * w / total : 0.0) + even / n_groups;
  std::vector<std::uint8_t> drawn(n_groups, 0);
  for (int draw = 0; draw < n_drawn; ++draw) {
    double left = 0.0;
    for (int g = 0; g < n_groups; ++g) left += drawn[g] ? 0.0 : weight[g];
    double at = static_cast<double>(mixed(seed + mixed(static_cast<std::uint64_t>(draw))) >> 11) * 0x1p-53 * left;
    int last = -1;
    for (int g = 0; g < n_groups && (last < 0 || at >= 0.0); ++g) {
      if (drawn[g]) continue;
      last = g;
      at -= weight[g];
    }
    drawn[last] = 1;
  }
  Sketch sketch;
  for (int k = 0; k < inputs.n_residuals; ++k) {
    if (drawn[inputs.group_of(k)]) sketch.sums.push_back(k);
  }
  sketch.n_residuals = static_cast<int>(sketch.sums.size());
  for (int h = 0; h < inputs.n_hessians; ++h) {
    if (inputs.n_hessians == 1 || drawn[h]) sketch.sums.push_back(inputs.n_residuals + h);
  }
  return sketch;
}

// A residual keeps almost the precision of float32, however many rows there are.
constexpr int kMinValueBits = 22;

// The form of the cells, which depends only on properties of all rows together.
inline Channels channels_of(const TreeInputs& inputs) {
  Channels c;
  const Sketch& sketch = inputs.sketch;
  c.n_residuals = sketch.all() ? inputs.n_residuals : sketch.n_residuals;
  c.n_hessians = sketch.all() ? inputs.n_hessians : static_cast<int>(sketch.sums.size()) - sketch.n_residuals;
  c.counts_alone = value_bits(inputs.n_repeated, true) < kMinValueBits;
  c.count_bits = bits_for(inputs.n_repeated);
  c.min_hessian_leaf = inputs.min_hessian_leaf;
  c.l1 = inputs.l1;
  c.l2 = inputs.l2;  // empty where rows are only summed
  if (!sketch.all() && c.n_hessians > 0 && !c.l2.empty()) {
    c.l2.clear();
    for (int h = 0; h < c.n_hessians; ++h)
      c.l2.push_back(inputs.l2[sketch.sum(c.n_residuals + h) - inputs.n_residuals]);
  }
  c.exponent.assign(c.n(), 0);
  c.unit.assign(c.n(), 1.0);
  const int n_sums = c.n_residuals + c.n_hessians;
  for (int k = 0; k < n_sums; ++k) {
    const int bits = value_bits(inputs.n_repeated, k == c.n() - 1);
    const bool in_blocks = c.counts_alone && k == n_sums - 1;
    const double max = inputs.max[sketch.sum(k)];
    c.exponent[k] = scale_exponent(max, in_blocks ? std::min(bits, kValueBitsOfBlock) : bits);
    c.unit[k] = std::ldexp(1.0, -c.exponent[k]);
  }
  return c;
}

// The integers of a packed row. They are those of a cell, or one fewer: sums of at most kCountedRows rows then have the
// count in the last one, from which it is separated when they are added to cells.
struct RowForm {
  int n = 0;
  int n_cell = 0;
  int count_bits = 0;

  // Repeated rows may be too many for a block.
  RowForm() = default;
  RowForm(const Channels& c, bool repeats)
      : n(c.n() - (c.counts_alone && !repeats ? 1 : 0)),
        n_cell(c.n()),
        count_bits(n < n_cell ? kCountBitsOfBlock : c.count_bits) {}

  bool in_blocks() const { return n < n_cell; }
  // Adds sums of rows to those of a cell.
  void add(const std::int64_t* sums, std::int64_t* cell) const {
    for (int c = 0; c < n; ++c) cell[c] += sums[c];
    if (!in_blocks()) return;
    const CountedSum last = CountedSum::of(sums[n - 1], count_bits);
    cell[n - 1] += last.value - sums[n - 1];
    cell[n] += last.count;
  }
};

// Calls body(begin, end, row) for neighbouring positions in vectors whose rows are neighbours as well, from `row` on.
template <class Body>
void for_runs(const RowRing& ring, std::size_t begin, std::size_t end, const Body& body) {
  // The runs end where the ring begins in the matrix and in the vectors, and where it ends in either.
  const std::int64_t wrap = ring.begin + ring.end - ring.first;
  for (const std::int64_t stop : {ring.begin, wrap, ring.end, static_cast<std::int64_t>(end)}) {
    const std::size_t until = std::min(end, static_cast<std::size_t>(std::max<std::int64_t>(stop, 0)));
    if (begin >= until) continue;
    body(begin, until, static_cast<std::size_t>(ring.row(static_cast<std::int64_t>(begin))));
    begin = until;
  }
}

// Packs the rows of this process as (row of the matrix, channel).
inline void pack(const TreeInputs& inputs, const Channels& c, const RowForm& form, LargeVector<std::int64_t>& packed,
                 int n_threads) {
  const int n = form.n;
  packed.resize(static_cast<std::size_t>(inputs.ring.limit(static_cast<std::int64_t>(inputs.n_rows))) * n);
  constexpr std::size_t block =
      256;  // rows whose packed channels stay in cache while one channel after the other is filled
  const auto pack_run = [&](std::size_t run_begin, std::size_t run_end, std::size_t row) {
    const std::ptrdiff_t shift_of_row = static_cast<std::ptrdiff_t>(row) - static_cast<std::ptrdiff_t>(run_begin);
    for (std::size_t begin = run_begin; begin < run_end; begin += block) {
      const std::size_t end = std::min(run_end, begin + block);
      for (int k = 0; k < n; ++k) {
        const bool last = k == n - 1;
        const bool counts_only = k >= c.n_residuals + c.n_hessians;
        const double* x = inputs.residual_or_hessian(counts_only ? 0 : inputs.sketch.sum(k));
        const double scale = counts_only ? 0.0 : std::ldexp(1.0, c.exponent[k]);
        const int shift = last ? form.count_bits : 0;
        std::int64_t* out = packed.data() + shift_of_row * n + k;
        for (std::size_t i = begin; i < end; ++i) {
          out[i * n] = packed_number(x[i], scale, shift, last) * inputs.repeat(i);
        }
      }
    }
  };
  parallel_rows(inputs.n_rows, n_threads,
                [&](std::size_t begin, std::size_t end) { for_runs(inputs.ring, begin, end, pack_run); });
}

}  // namespace agbm
