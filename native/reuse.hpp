// Large arrays whose memory is used again.
//
// The loop makes a dozen vectors over all rows in every iteration and drops as many. Memory fresh from the system costs more
// than what is written into it: each page is a fault, and is cleared first. What is dropped here waits for the next vector
// of the same size, until the run is over.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "large_pages.hpp"

namespace agbm {

class ReusedMemory {
 public:
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

  // Nothing is kept but between the beginning and the end of a run.
  void begin_run() {
    std::lock_guard<std::mutex> lock(mutex_);
    ++n_runs_;
  }
  void end_run() {
    std::lock_guard<std::mutex> lock(mutex_);
    --n_runs_;
    free_.clear();  // a run that goes on may have arrays of another size, and would never take these
  }

 private:
  static constexpr std::size_t kWorthIt = 16384;  // numbers; below, the allocator does the same

  std::mutex mutex_;
  int n_runs_ = 0;
  std::vector<LargeArray<double>> free_;
};

}  // namespace agbm
