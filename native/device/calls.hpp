// Calls of the driver of a device: launches of kernels, and copies.
//
// The functions are those of CUDA's driver, at addresses that Python gives. So nothing of CUDA is needed to compile and
// link, and tests give functions of their own.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace agbm {

using Address = std::uintptr_t;  // of memory of a device, or of a function

// The kernels that the growth of trees launches.
enum class Kernel {
  kBestSplits,
  kFirstRows,
  kHistograms,
  kLargest,
  kLeafSums,
  kPack,
  kPartition,
  kScan1,
  kScan1Hessian,
  kScan2,
  kScan2Hessian,
  kScanAny,
  kScanAnyHessian,
  kSettle,
  kSumOfPowers,
  kTotals,
  kTreeValues,
};

// Their names, in the same order.
inline const std::vector<std::string> kKernelNames = {
    "agbm_best_splits",    "agbm_first_rows", "agbm_histograms",       "agbm_largest",        "agbm_leaf_sums",
    "agbm_pack",           "agbm_partition",  "agbm_scan_1",           "agbm_scan_1_hessian", "agbm_scan_2",
    "agbm_scan_2_hessian", "agbm_scan_any",   "agbm_scan_any_hessian", "agbm_settle",         "agbm_sum_of_powers",
    "agbm_totals",         "agbm_tree_values"};

// The addresses of cuLaunchKernel, cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemsetD8Async and cuStreamSynchronize, and
// the kernels in the order of kKernelNames, as cuLaunchKernel takes them.
struct DriverFunctions {
  Address launch = 0, copy_to_device = 0, copy_to_host = 0, clear = 0, wait = 0;
  std::vector<Address> kernels;
};

// A word of a kernel's argument: an address, an integer or a double.
template <class T>
std::uint64_t word_of(T x) {
  static_assert(std::is_integral_v<T> || std::is_same_v<T, double>);
  if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<std::uint64_t>(x);
  } else {
    return static_cast<std::uint64_t>(x);  // of the same number as a 64-bit integer
  }
}

// All calls are carried out in their order, on one stream.
class DeviceCalls {
 public:
  explicit DeviceCalls(DriverFunctions functions) : functions_(std::move(functions)) {
    if (functions_.kernels.size() != kKernelNames.size()) throw std::invalid_argument("kernels: wrong number");
  }

  void set_stream(Address stream) { stream_ = stream; }

  template <class... Args>
  void launch(Kernel kernel, std::int64_t n_blocks, int n_threads, std::size_t shared, Args... args) const {
    std::uint64_t words[] = {word_of(args)...};
    void* pointers[sizeof...(Args) + 1] = {};  // the last one stays null, so that tests can count the arguments
    for (std::size_t i = 0; i < sizeof...(Args); ++i) pointers[i] = words + i;
    const auto call = reinterpret_cast<Launch>(functions_.launch);
    const int result =
        call(functions_.kernels[static_cast<std::size_t>(kernel)], static_cast<unsigned>(n_blocks), 1, 1,
             static_cast<unsigned>(n_threads), 1, 1, static_cast<unsigned>(shared), stream_, pointers, nullptr);
    if (result != 0) fail(result, "the launch of " + kKernelNames[static_cast<std::size_t>(kernel)]);
  }

  // The words must not change before all calls so far are done.
  void copy_to_device(Address to, const std::int64_t* from, std::size_t n_words) const {
    if (n_words == 0) return;
    const auto call = reinterpret_cast<CopyToDevice>(functions_.copy_to_device);
    const int result = call(to, from, n_words * sizeof *from, stream_);
    if (result != 0) fail(result, "a copy to the device");
  }

  // Waits for all calls so far.
  void copy_to_host(std::int64_t* to, Address from, std::size_t n_words) const {
    const auto call = reinterpret_cast<CopyToHost>(functions_.copy_to_host);
    int result = call(to, from, n_words * sizeof *to, stream_);
    if (result == 0) result = reinterpret_cast<Wait>(functions_.wait)(stream_);
    if (result != 0) fail(result, "a copy from the device, or a kernel before it,");
  }

  void clear(Address words, std::size_t n_words) const {
    const auto call = reinterpret_cast<Clear>(functions_.clear);
    const int result = call(words, 0, n_words * sizeof(std::int64_t), stream_);
    if (result != 0) fail(result, "the clearing of memory");
  }

 private:
  using Launch = int (*)(Address, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Address, void**,
                         void**);
  using CopyToDevice = int (*)(Address, const void*, std::size_t, Address);
  using CopyToHost = int (*)(void*, Address, std::size_t, Address);
  using Clear = int (*)(Address, unsigned char, std::size_t, Address);
  using Wait = int (*)(Address);

  [[noreturn]] static void fail(int result, const std::string& what) {
    throw std::runtime_error("device: " + what + " failed with error " + std::to_string(result) +
                             " of the CUDA driver (CUresult).");
  }

  const DriverFunctions functions_;
  Address stream_ = 0;
};

}  // namespace agbm
