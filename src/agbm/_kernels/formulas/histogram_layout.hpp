// The layout of histograms, of the codes and integers of rows that they are made of, and of the records of splits that
// are found in them. Records are sent to devices and to other processes.
#pragma once

#include "formulas/portable.hpp"

namespace agbm {

// Codes on a device are in groups of columns, row after row, so that a thread reads those of a row and group at once.
constexpr int kGroupColumns = 16;

AGBM_INLINE inline int code_of(const UInt8* codes, Int64 n_rows, Int64 row, int column) {
  return codes[(column / kGroupColumns * n_rows + row) * kGroupColumns + column % kGroupColumns];
}

// round(x * scale) for |x * scale| < 2^51: adding 1.5 * 2^52 leaves the integer in the low bits. Ties go to even.
AGBM_INLINE inline Int64 round_scaled(double x, double scale) {
  constexpr double magic = 6755399441055744.0;
  return bit_cast<Int64>(x * scale + magic) - bit_cast<Int64>(magic);
}

// What a row adds to a channel of a histogram cell: its number, shifted by the bits of the count, and a count of one, if
// the channel has counts.
AGBM_INLINE inline Int64 packed_number(double x, double scale, int count_bits, bool counts) {
  return static_cast<Int64>(static_cast<UInt64>(round_scaled(x, scale)) << count_bits) + (counts ? 1 : 0);
}

// A sum of such numbers, separated: the sum of the rows' numbers, and their count.
struct CountedSum {
  Int64 value, count;

  AGBM_INLINE static CountedSum of(Int64 sum, int count_bits) {
    const Int64 value = sum >> count_bits;
    return {value, sum - value * (Int64{1} << count_bits)};
  }
};

// The bits of a number, such that their order is that of the numbers.
AGBM_INLINE inline UInt64 ordered_bits(double x) {
  const UInt64 bits = bit_cast<UInt64>(x + 0.0);  // -0 becomes 0
  return bits >> 63 ? ~bits : bits | UInt64{1} << 63;
}

// The histograms of a device: (slot, cell, channel).
struct HistogramSlots {
  Int64* numbers;
  Int64 size;  // of a histogram: cells times channels
  Int64 n_channels;

  AGBM_INLINE Int64* cells(Int64 slot, Int64 first_cell) const {
    return numbers + slot * size + first_cell * n_channels;
  }
};

constexpr int kChannelsAtOnce = 4;  // of a row, which a thread keeps in registers
constexpr int kMostNodes = 256;     // of a batch of growth, and of a kernel
constexpr int kPlaces = 256;        // where a feature may be cut: one for each code

// A set of bins of one feature, including that of missing values.
struct CodeSet {
  UInt64 words[4] = {};

  AGBM_INLINE bool has(int code) const { return words[code >> 6] >> (code & 63) & 1; }
  AGBM_INLINE void add(int code) { words[code >> 6] |= UInt64{1} << (code & 63); }
  AGBM_INLINE static CodeSet up_to(int code) {
    CodeSet set;
    for (int w = 0; w < 4; ++w) {
      const int n = smaller(larger(code + 1 - 64 * w, 0), 64);
      set.words[w] = n == 64 ? ~UInt64{0} : (UInt64{1} << n) - 1;
    }
    return set;
  }
};

// A node whose rows go to its children, which are left and left + 1.
struct NodeSplit {
  Int64 node, left, feature;
  CodeSet codes;  // of the rows that go left
};

// A node of a tree on binned rows; a leaf has feature -1.
struct BinnedNode {
  Int64 left, feature;
  CodeSet codes;
};

// The best split of a candidate or of one of its features.
struct SplitRecord {
  double gain;
  Int64 feature, bin, missing_left;
  CodeSet left;
};

// Two siblings. The histogram of the smaller is built from its rows; the parent's minus this one is that of the larger.
// The root has no sibling: its histogram is built as that of a smaller node, and searched as that of a larger one.
struct Family {
  Int64 small, small_slot;  // -1: none
  Int64 large_slot;
  Int64 candidates[2];  // the numbers of the larger and of the smaller among the candidates for splits; -1: none
};

// All of these are sent as 64-bit words.
constexpr int kSplitWords = sizeof(NodeSplit) / sizeof(Int64), kRecordWords = sizeof(SplitRecord) / sizeof(Int64),
              kFamilyWords = sizeof(Family) / sizeof(Int64);
static_assert(kSplitWords == 7 && kRecordWords == 8 && kFamilyWords == 5 && sizeof(BinnedNode) == 6 * sizeof(Int64));

}  // namespace agbm
