// The binned matrix: its codes, how they are laid out, and the reason for each layout.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <fcntl.h>
#include <unistd.h>
#endif

#include "base/memory.hpp"

namespace agbm {

#if defined(__linux__)
// Maps an unnamed file of zeros in a folder. The file disappears when the process ends, even if it is killed. Its
// blocks are allocated at once, because running out of disk space later would kill the process instead of raising an
// error.
inline void* map_file(std::size_t n_bytes, const std::string& folder) {
  std::string name = folder + "/agbm-bins-XXXXXX";
  const int file = mkstemp(name.data());
  if (file < 0) throw std::system_error(errno, std::generic_category());
  unlink(name.c_str());
  int failed = EINTR;  // returned after any signal
  while (failed == EINTR) failed = posix_fallocate(file, 0, static_cast<off_t>(n_bytes));
  void* memory = MAP_FAILED;
  if (failed == 0) {
    memory = mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) failed = errno;
  }
  close(file);  // the mapping keeps the file open
  if (failed != 0) throw std::system_error(failed, std::generic_category());
  return memory;
}
inline void unmap_file(void* memory, std::size_t n_bytes) noexcept { munmap(memory, n_bytes); }
#else
inline void* map_file(std::size_t, const std::string&) { throw std::system_error(ENOTSUP, std::generic_category()); }
inline void unmap_file(void*, std::size_t) noexcept {}
#endif

// The bytes of a binned matrix, in memory or in a file.
class Codes {
 public:
  Codes() = default;
  // n zeros, in memory if `folder` is empty.
  Codes(std::size_t n, const std::string& folder) : size_(n), in_file_(!folder.empty() && n > 0) {
    data_ = static_cast<std::uint8_t*>(in_file_ ? map_file(n, folder) : allocate_large(n));
    if (!in_file_) std::memset(data_, 0, n);
  }
  Codes(Codes&& other) noexcept { swap(other); }
  Codes& operator=(Codes&& other) noexcept {
    Codes moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Codes() {
    if (data_ == nullptr) return;
    in_file_ ? unmap_file(data_, size_) : free_large(data_, size_);
  }

  std::uint8_t* data() { return data_; }
  const std::uint8_t* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::uint8_t& operator[](std::size_t i) { return data_[i]; }

 private:
  void swap(Codes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(in_file_, other.in_file_);
  }

  std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
  bool in_file_ = false;
};

using Row = std::uint32_t;

// A feature has at most 255 value bins and one slot for missing values after them, so a code fits one byte.
constexpr int kMaxValueBins = 255;

// Codes of up to 16 neighbouring columns are stored together, row after row. One cache line then feeds many histogram
// adds, and the histograms of one group (16 columns x 256 cells x 8 bytes = 32 KiB) stay in the first-level cache.
constexpr int kMaxGroupWidth = 16;

// The histogram of every column of a group has the same number of cells, one of these two, known at compile time: the
// address of a cell is then a constant plus the code, and an add costs two instructions.
constexpr int kNarrowCells = 32;
constexpr int kWideCells = 256;

struct ColumnGroup {
  int first_column;
  int width;
  int cells;  // per column; in a sparse group they differ
  std::size_t data_offset;
  int sparse = -1;   // its number among the sparse groups, if it is one
  bool own = false;  // whether its codes are those of one matrix alone; see CodeStore
};

// Shared columns in sparse groups are mostly zero. The cell of code 0 is not needed, since a feature is zero in the rows of a node that
// are in none of its other bins, so a row only has a list of the cells that it is added to: cells[start[row]] up to
// start[row + 1]. Columns in which almost all codes are 0 are not stored as bytes but as lists as well: the rows with
// other codes, ascending, one column after the other.
//
// The last cell of each row has the mark kLastOfRow, so that one loop reads the lists of all rows: with a loop per row,
// most of the time would be spent on branches that are predicted wrong, since lists differ in length. A row without
// values has the cell of code 0 of the first column.
struct SparseGroup {
  static constexpr std::uint16_t kLastOfRow = 0x8000;

  std::vector<std::uint32_t> start;
  std::vector<std::uint16_t> cells;  // within the group
  std::vector<std::uint32_t> column_start;
  std::vector<Row> rows;
  std::vector<std::uint8_t> codes;

  static std::size_t cell(std::uint16_t entry) { return entry & (kLastOfRow - 1); }
  static std::size_t is_last(std::uint16_t entry) { return entry / kLastOfRow; }
  std::size_t size_of(int column) const { return column_start[column + 1] - column_start[column]; }
  const Row* rows_of(int column) const { return rows.data() + column_start[column]; }
  const std::uint8_t* codes_of(int column) const { return codes.data() + column_start[column]; }
};

// Columns of a sparse group; they have at most 2^15 cells. There may be fewer, so that the lists of a group have
// fewer than 2^32 entries.
constexpr int kMaxSparseWidth = 128;
constexpr std::size_t kMaxSparseEntries = (std::size_t{1} << 32) - 1;

// Where the bins of a feature are. Usually a feature has its own column, and a code is its bin. Features of which no two
// differ from their usual bins in the same row share a column (exclusive feature bundling: Ke et al., "LightGBM", 2017):
// code 0 means that all of them have their usual bins, and the other bins of each, followed by that of missing values,
// have codes from first_code on. In sparse matrices, the usual bin is that of zero.
struct FeaturePlace {
  int column = -1;  // -1: none, since no split can use the feature
  int first_code = 0;
  int zero_bin = -1;  // the usual bin; -1: the feature has its own column

  bool used() const { return column >= 0; }
  bool shared() const { return zero_bin >= 0; }
  int code(int bin) const {
    return !shared() ? bin : bin == zero_bin ? 0 : first_code + bin - (bin > zero_bin ? 1 : 0);
  }
  // Codes of the column up to the last one of the feature: that of missing values, unless these are the usual bin.
  int n_codes(int n_bins) const { return shared() ? first_code + n_bins : n_bins + 1; }
  int bin(int code, int n_bins) const {
    if (!shared()) return code;
    if (code < first_code || code >= first_code + n_bins) return zero_bin;
    return code - first_code + (code - first_code >= zero_bin ? 1 : 0);
  }
};

// The codes of columns, which are stored twice.
struct CodeStore {
  Codes grouped;  // group after group, for histograms; not of sparse groups
  Codes columns;  // column after column, for access to one feature of many rows; not of those that are lists
  std::vector<SparseGroup> sparse_groups;
};

// The binned training matrix: bin of (row, feature) = number of the feature's thresholds below the value, or
// n_bins[feature] when the value is missing. Members of a model share the codes of most features. Those that every
// member bins in its own way have the first columns.
struct BinnedMatrix {
  std::size_t n_rows = 0;
  int n_features = 0;
  std::vector<int> n_bins;               // value bins of each feature
  std::vector<int> n_categories;         // per feature; 0 if it is ordered
  std::vector<FeaturePlace> places;      // per feature
  std::vector<std::size_t> cell_offset;  // first histogram cell of each column; the last entry is the total
  std::vector<ColumnGroup> groups;
  std::vector<int> group_of;  // column -> group
  int n_whole = 0;            // columns that are not lists; they come before the others
  int n_own = 0;              // columns of this matrix alone
  std::shared_ptr<CodeStore> shared = std::make_shared<CodeStore>(), own;
  std::int64_t min_samples_leaf = 0;  // features that cannot be split into sides of this many rows were removed
  std::size_t n_counted = 0;          // rows, counting repeats, by which this was decided

  std::size_t n_cells() const { return cell_offset.back(); }
  std::size_t n_columns() const { return group_of.size(); }
  std::size_t n_cells(const ColumnGroup& group) const {
    return cell_offset[group.first_column + group.width] - cell_offset[group.first_column];
  }
  bool categorical(int feature) const { return n_categories[feature] > 0; }
  bool has_shared_columns() const {
    return std::any_of(places.begin(), places.end(), [](const FeaturePlace& p) { return p.shared(); });
  }
  int group_of_feature(int feature) const { return group_of[places[feature].column]; }
  // Additions of all rows to the histogram of a group.
  std::size_t n_additions(const ColumnGroup& group) const {
    return group.sparse < 0 ? n_rows * group.width : lists_of(group).cells.size();
  }

  bool listed(int column) const { return column >= n_whole; }
  std::uint8_t* column(int column) const {
    return column < n_own ? own->columns.data() + n_rows * column : shared->columns.data() + n_rows * (column - n_own);
  }
  std::uint8_t* column_of(int feature) const { return column(places[feature].column); }
  std::uint8_t* codes_of(const ColumnGroup& group) const {
    return (group.own ? own : shared)->grouped.data() + group.data_offset;
  }
  SparseGroup& lists_of(const ColumnGroup& group) const { return shared->sparse_groups[group.sparse]; }
  // Codes of some ascending rows of a column that is a list: each entry of the shorter list is searched for in the
  // other.
  void codes_of_listed(int column, const Row* of, std::size_t n, std::uint8_t* out) const {
    const ColumnGroup& group = groups[group_of[column]];
    const SparseGroup& lists = lists_of(group);
    const Row* rows = lists.rows_of(column - group.first_column);
    const std::uint8_t* codes = lists.codes_of(column - group.first_column);
    const std::size_t n_listed = lists.size_of(column - group.first_column);
    std::fill_n(out, n, std::uint8_t{0});
    if (n < n_listed) {
      const Row* found = rows;
      for (std::size_t i = 0; i < n; ++i) {
        found = std::lower_bound(found, rows + n_listed, of[i]);
        if (found < rows + n_listed && *found == of[i]) out[i] = codes[found - rows];
      }
    } else {
      const Row* found = of;
      for (std::size_t i = 0; i < n_listed; ++i) {
        found = std::lower_bound(found, of + n, rows[i]);
        if (found < of + n && *found == rows[i]) out[found - of] = codes[i];
      }
    }
  }
  int code(int column, std::size_t row) const {
    if (!listed(column)) return this->column(column)[row];
    std::uint8_t code;
    const Row number = static_cast<Row>(row);
    codes_of_listed(column, &number, 1, &code);
    return code;
  }
  int bin(int feature, std::size_t row) const {
    return places[feature].bin(code(places[feature].column, row), n_bins[feature]);
  }
};

// The columns of the features. The first n_dense are in groups with the codes of every row, the others in sparse groups,
// of which those from n_whole on are lists. Columns of one feature are all dense.
struct ColumnPlan {
  std::vector<FeaturePlace> places;  // per feature
  int n_dense = 0;
  int n_whole = 0;
  int n_columns = 0;

  // A column for every feature, except for those left out.
  static ColumnPlan of_own(int n_features, const std::vector<int>& without = {}) {
    ColumnPlan plan;
    plan.places.resize(n_features);
    for (int f = 0; f < n_features; ++f) {
      const bool left_out = std::find(without.begin(), without.end(), f) != without.end();
      if (!left_out) plan.places[f].column = plan.n_columns++;
    }
    plan.n_dense = plan.n_whole = plan.n_columns;
    return plan;
  }
};

}  // namespace agbm
