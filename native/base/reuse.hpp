// Reuse of the memory of large arrays.
//
// Every iteration of boosting creates and deletes about a dozen vectors over all rows. New memory from the system costs
// more time than writing the values, because each page causes a page fault and is zeroed first. Memory that is freed
// here is therefore kept for the next vector of the same size, until the run ends.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/large_pages.hpp"

namespace agbm {

class ReusedMemory {
 public:
  static constexpr std::size_t kWorthIt = 16384;  // numbers; the allocator itself reuses smaller arrays

  static ReusedMemory& instance() {
    static ReusedMemory* memory = new ReusedMemory;  // never destroyed: arrays may live as long as the process
    return *memory;
  }

  double* take(std::size_t n) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (std::size_t i = free_.size(); i-- > 0;) {
        if (free_[i].get_deleter().n != n) continue;
        double* found = free_[i].release();
        free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
        return found;
      }
    }
    return large_array<double>(n).release();
  }

  void give_back(double* numbers, std::size_t n) noexcept {
    LargeArray<double> owned(numbers, {n});
    std::lock_guard<std::mutex> lock(mutex_);
    if (n_runs_ == 0 || n < kWorthIt) return;
    try {
      free_.push_back(std::move(owned));
    } catch (const std::bad_alloc&) {
    }
  }

  // Memory is kept only between the start and the end of a run.
  void begin_run() {
    std::lock_guard<std::mutex> lock(mutex_);
    ++n_runs_;
  }
  void end_run() {
    std::lock_guard<std::mutex> lock(mutex_);
    --n_runs_;
    free_.clear();  // other runs may have arrays of another size and would never use these
  }

 private:
  std::mutex mutex_;
  int n_runs_ = 0;
  std::vector<LargeArray<double>> free_;
};

}  // namespace agbm
