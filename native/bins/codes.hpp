// Storage of the bytes of a binned matrix: in memory or in a file.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "base/large_pages.hpp"

#if defined(__linux__)
#include <fcntl.h>
#include <unistd.h>
#endif

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

}  // namespace agbm
