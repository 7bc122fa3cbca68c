// Memory for large arrays in large pages, where the system has them.
//
// The rows of a node are all over the matrix. With pages of 4 KiB most of them also miss in the table of addresses.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace agbm {

constexpr std::size_t kLargePage = std::size_t{1} << 21;

// To be freed by std::free.
inline void* allocate_large(std::size_t n_bytes) {
  void* memory = nullptr;
  if (n_bytes < 2 * kLargePage) {
    memory = std::malloc(n_bytes > 0 ? n_bytes : 1);
  } else {
    const std::size_t whole_pages = (n_bytes + kLargePage - 1) / kLargePage * kLargePage;
    memory = std::aligned_alloc(kLargePage, whole_pages);
#if defined(__linux__)
    if (memory != nullptr) madvise(memory, n_bytes / kLargePage * kLargePage, MADV_HUGEPAGE);  // advice: it may fail
#endif
  }
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

template <class T>
struct LargePages {
  using value_type = T;

  LargePages() = default;
  template <class Other>
  LargePages(const LargePages<Other>&) {}

  T* allocate(std::size_t n) { return static_cast<T*>(allocate_large(n * sizeof(T))); }
  void deallocate(T* memory, std::size_t) noexcept { std::free(memory); }
  friend bool operator==(const LargePages&, const LargePages&) { return true; }
};

}  // namespace agbm
