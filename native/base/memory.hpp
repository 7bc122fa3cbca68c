// Memory for large arrays: in large pages if the system has them, and returned to the system as soon as it is freed. All
// arrays begin with a cache line.
//
// The rows of a node are scattered over the matrix, and with pages of 4 KiB most accesses would also miss the TLB. The
// memory is not kept by an allocator for later arrays, because it would then count as memory that a fit uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace agbm {

constexpr std::size_t kLargePage = std::size_t{1} << 21;
constexpr std::align_val_t kCacheLine{64};

#if defined(__linux__)
constexpr bool kMapped = true;

inline std::size_t whole_pages(std::size_t n_bytes) { return (n_bytes + kLargePage - 1) / kLargePage * kLargePage; }

// Maps whole, aligned large pages. The unaligned parts at both ends of the mapping are unmapped at once.
inline void* map_pages(std::size_t n_bytes) {
  const std::size_t size = whole_pages(n_bytes);
  void* mapped = mmap(nullptr, size + kLargePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const std::size_t before = (kLargePage - reinterpret_cast<std::uintptr_t>(begin) % kLargePage) % kLargePage;
  if (before > 0) munmap(begin, before);
  munmap(begin + before + size, kLargePage - before);
  madvise(begin + before, n_bytes / kLargePage * kLargePage, MADV_HUGEPAGE);  // only advice, may fail
  return begin + before;
}
inline void unmap_pages(void* memory, std::size_t n_bytes) { munmap(memory, whole_pages(n_bytes)); }
#else
constexpr bool kMapped = false;

inline void* map_pages(std::size_t) { return nullptr; }
inline void unmap_pages(void*, std::size_t) {}
#endif

inline bool mapped(std::size_t n_bytes) { return kMapped && n_bytes >= 2 * kLargePage; }

inline void* allocate_large(std::size_t n_bytes) {
  void* memory = mapped(n_bytes) ? map_pages(n_bytes) : ::operator new(n_bytes, kCacheLine);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// n_bytes: the size passed to allocate_large().
inline void free_large(void* memory, std::size_t n_bytes) noexcept {
  mapped(n_bytes) ? unmap_pages(memory, n_bytes) : ::operator delete(memory, kCacheLine);
}

// An uninitialised array.
template <class T>
struct FreeLarge {
  std::size_t n;
  void operator()(T* memory) const noexcept { free_large(memory, n * sizeof(T)); }
};
template <class T>
using LargeArray = std::unique_ptr<T[], FreeLarge<T>>;
template <class T>
LargeArray<T> large_array(std::size_t n) {
  static_assert(std::is_trivial_v<T>);
  return LargeArray<T>(static_cast<T*>(allocate_large(n * sizeof(T))), {n});
}

template <class T>
struct LargePages {
  using value_type = T;

  LargePages() = default;
  template <class Other>
  LargePages(const LargePages<Other>&) {}

  T* allocate(std::size_t n) { return static_cast<T*>(allocate_large(n * sizeof(T))); }
  void deallocate(T* memory, std::size_t n) noexcept { free_large(memory, n * sizeof(T)); }
  friend bool operator==(const LargePages&, const LargePages&) { return true; }
};

template <class T>
using LargeVector = std::vector<T, LargePages<T>>;

// Reuse of the memory of large arrays.
//
// Every iteration of boosting creates and deletes about a dozen vectors over all rows. New memory from the system costs
// more time than writing the values, because each page causes a page fault and is zeroed first. Memory that is freed
// here is therefore kept for the next vector of the same size, until the run ends.
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
