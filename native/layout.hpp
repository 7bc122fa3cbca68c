// Data layouts shared by every kernel, with the reason for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace agbm {

using Row = std::uint32_t;

// A feature has at most 255 value bins and one slot for missing values behind them, so a code fits one byte.
constexpr int kMaxValueBins = 255;

// Codes of up to 16 neighbouring features lie together, row after row. One cache line then feeds many histogram adds, and
// the histograms of one group (16 features x 256 cells x 8 bytes = 32 KiB) stay in the first-level cache.
constexpr int kMaxGroupWidth = 16;

// The histogram of every feature of a group has the same number of cells, one of these two, known at compile time: the
// address of a cell is then a constant plus the code, and an add costs two instructions.
constexpr int kNarrowCells = 32;
constexpr int kWideCells = 256;

struct FeatureGroup {
  int first_feature;
  int width;
  int cells;  // of each feature
  std::size_t data_offset;
};

// The binned training matrix: code of (row, feature) = number of the feature's thresholds below the value,
// or n_bins[feature] when the value is missing.
struct BinnedMatrix {
  std::size_t n_rows = 0;
  int n_features = 0;
  std::vector<int> n_bins;                  // value bins of each feature
  std::vector<int> n_categories;            // behind the bins of a feature whose codes have no order; 0 where they have
  std::vector<std::size_t> cell_offset;     // first histogram cell of each feature; the last entry is the total
  std::vector<FeatureGroup> groups;
  std::vector<int> group_of;                // feature -> group
  std::vector<std::uint8_t> codes;          // group after group, for histograms
  std::vector<std::uint8_t> columns;        // feature after feature, for all that looks at one feature of many rows

  std::size_t n_cells() const { return cell_offset.back(); }
  bool categorical(int feature) const { return n_categories[feature] > 0; }

  // Codes of one feature, row after row.
  const std::uint8_t* column(int feature) const { return columns.data() + n_rows * feature; }
};

// Rows per task in parallel loops over rows: large enough to hide scheduling, small enough to balance.
constexpr std::size_t kRowsPerTask = 16384;

inline std::size_t tasks_for_rows(std::size_t n_rows) { return (n_rows + kRowsPerTask - 1) / kRowsPerTask; }

}  // namespace agbm
