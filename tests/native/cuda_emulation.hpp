// CUDA kernels on the CPU, for tests on machines without a GPU.
//
// Blocks run one after the other. Every thread of a block is a fiber: it runs until it waits for others, at a barrier or
// at an exchange within its warp, and then another one runs. A warp runs until all of its threads wait for the block, and
// the order of warps and threads alternates, so that a missing barrier is likely to be noticed. A wait that cannot end is
// an error, not a hang.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "formulas/portable.hpp"

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define AGBM_DYNAMIC_SHARED(type, name) type* const name = reinterpret_cast<type*>(emulation::block().dynamic_shared())

namespace emulation {

struct Place {
  unsigned x = 0, y = 0, z = 0;
};

constexpr int kWarp = 32;
constexpr std::size_t kStack = 128 * 1024;
constexpr std::size_t kGuard = 256;
constexpr unsigned char kGarbage = 0xff;  // -1, or NaN

}  // namespace emulation

inline emulation::Place threadIdx, blockIdx, blockDim, gridDim;

namespace emulation {

class Block {
 public:
  // Runs body() in every thread.
  template <class Body>
  void run(unsigned n_threads, std::size_t shared_bytes, const Body& body) {
    prepare(n_threads, shared_bytes);
    call_ = [](const void* given) { (*static_cast<const Body*>(given))(); };
    body_ = &body;
    for (unsigned pass = blockIdx.x; n_done_ < n_threads; ++pass) {
      bool any = false;
      const unsigned n_warps = static_cast<unsigned>(arrived_.size());
      for (unsigned w = 0; w < n_warps; ++w) {
        while (resume_warp(pass % 2 == 0 ? n_warps - 1 - w : w, pass % 2 == 0)) any = true;
      }
      if (n_at_barrier_ > 0 && n_at_barrier_ + n_done_ == n_threads) {
        release_barrier();
      } else if (!any) {
        throw std::runtime_error("threads wait for others that never arrive (__syncthreads or a warp's exchange)");
      }
    }
    check_shared();
  }

  unsigned char* dynamic_shared() { return shared_.data(); }

  void wait_for_block() {
    state_[current_] = State::kAtBarrier;
    ++n_at_barrier_;
    pause();
  }

  // The sum of the numbers that all threads give.
  int sum_over_block(int given) {
    wait_for_block();  // everybody has read the last sum
    const std::size_t barrier = n_barriers_;
    if (sum_at_ != barrier) {
      sum_at_ = barrier;
      sum_ = 0;
    }
    sum_ += given;
    wait_for_block();
    return sum_;
  }

  void wait_for_warp(unsigned mask) {
    const unsigned first = current_ / kWarp * kWarp;
    if (!(mask >> current_ % kWarp & 1)) throw std::runtime_error("a thread is not in the mask of its own exchange");
    const unsigned width = std::min<unsigned>(kWarp, state_.size() - first);
    if (width < kWarp) mask &= (1u << width) - 1;
    arrived_[current_ / kWarp] |= 1u << current_ % kWarp;
    if ((arrived_[current_ / kWarp] & mask) == mask) {
      arrived_[current_ / kWarp] &= ~mask;
      for (unsigned lane = 0; lane < width; ++lane) {
        if (mask >> lane & 1) state_[first + lane] = State::kReady;
      }
      return;
    }
    state_[current_] = State::kAtWarp;
    pause();
  }

  // Calls read(numbers of the warp's lanes) when all lanes of the mask have given theirs.
  template <class T, class Read>
  auto exchange(unsigned mask, T given, const Read& read) {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));
    std::uint64_t* slots = slots_.data() + current_ / kWarp * kWarp;
    std::memcpy(slots + current_ % kWarp, &given, sizeof given);
    wait_for_warp(mask);
    const auto found = read([slots](unsigned lane) {
      T number;
      std::memcpy(&number, slots + lane, sizeof number);
      return number;
    });
    wait_for_warp(mask);  // nobody overwrites a slot that others still read
    return found;
  }

  unsigned lane() const { return current_ % kWarp; }

 private:
  enum class State : unsigned char { kReady, kAtBarrier, kAtWarp, kDone };

  void prepare(unsigned n_threads, std::size_t shared_bytes) {
    while (stacks_.size() < n_threads) stacks_.emplace_back(kStack);
    contexts_.resize(std::max<std::size_t>(contexts_.size(), n_threads));
    places_.resize(contexts_.size());
    state_.assign(n_threads, State::kReady);
    started_.assign(n_threads, false);
    slots_.resize((n_threads + kWarp - 1) / kWarp * kWarp);
    arrived_.assign((n_threads + kWarp - 1) / kWarp, 0);
    shared_.assign(shared_bytes + kGuard, kGarbage);
    shared_bytes_ = shared_bytes;
    n_done_ = n_at_barrier_ = 0;
  }

  // Returns whether any thread of a warp was ready to run.
  bool resume_warp(unsigned warp, bool backwards) {
    const unsigned first = warp * kWarp, end = std::min<unsigned>(first + kWarp, state_.size());
    bool any = false;
    for (unsigned i = first; i < end; ++i) any |= resume(backwards ? end - 1 - (i - first) : i);
    return any;
  }

  bool resume(unsigned thread) {
    if (state_[thread] != State::kReady) return false;
    current_ = thread;
    threadIdx = {thread, 0, 0};
    // A context is needed for its stack only: to switch with swapcontext would be two system calls each time.
    if (_setjmp(scheduler_) == 0) {
      if (started_[thread]) _longjmp(places_[thread].buffer, 1);
      started_[thread] = true;
      ucontext_t& context = contexts_[thread];
      getcontext(&context);
      context.uc_stack.ss_sp = stacks_[thread].data();
      context.uc_stack.ss_size = kStack;
      makecontext(&context, &Block::start, 0);
      setcontext(&context);
    }
    if (!error_.empty()) throw std::runtime_error(std::exchange(error_, {}));
    return true;
  }

  static void start();

  void pause() {
    if (_setjmp(places_[current_].buffer) == 0) _longjmp(scheduler_, 1);
  }

  void release_barrier() {
    for (State& state : state_) {
      if (state == State::kAtBarrier) state = State::kReady;
    }
    n_at_barrier_ = 0;
    ++n_barriers_;
  }

  void check_shared() const {
    const auto guard = shared_.begin() + static_cast<std::ptrdiff_t>(shared_bytes_);
    if (std::any_of(guard, shared_.end(), [](unsigned char byte) { return byte != kGarbage; })) {
      throw std::runtime_error("a write after the end of dynamic shared memory");
    }
  }

  std::vector<std::vector<char>> stacks_;
  struct Place {
    jmp_buf buffer;
  };

  std::vector<ucontext_t> contexts_;
  std::vector<Place> places_;  // where threads wait
  std::vector<State> state_;
  std::vector<bool> started_;
  std::vector<std::uint64_t> slots_;  // of every thread, for exchanges within warps
  std::vector<unsigned> arrived_;     // of every warp: its waiting lanes
  std::vector<unsigned char> shared_;
  std::size_t shared_bytes_ = 0, n_barriers_ = 0, sum_at_ = 0;
  int sum_ = 0;
  unsigned n_done_ = 0, n_at_barrier_ = 0, current_ = 0;
  jmp_buf scheduler_;
  void (*call_)(const void*) = nullptr;
  const void* body_ = nullptr;
  std::string error_;
};

inline Block& block() {
  static Block the_only_one;
  return the_only_one;
}

inline void Block::start() {
  Block& here = block();
  try {
    here.call_(here.body_);
  } catch (const std::exception& error) {
    here.error_ = error.what();
  }
  here.state_[here.current_] = State::kDone;
  ++here.n_done_;
  _longjmp(here.scheduler_, 1);
}

// The code of an argument's type: "f8" for double, "i8" for long long, "p" and the code of what it points to for
// pointers; nothing for pointers to other types, which may point to any array.
template <class T>
std::string type_code() {
  if constexpr (std::is_pointer_v<T>) {
    return "p" + type_code<std::remove_cv_t<std::remove_pointer_t<T>>>();
  } else if constexpr (std::is_arithmetic_v<T>) {
    const char* kind = std::is_floating_point_v<T> ? "f" : std::is_signed_v<T> ? "i" : "u";
    return kind + std::to_string(sizeof(T));
  } else {
    return "";
  }
}

inline void check_type(const std::string& wanted, const std::string& given, std::size_t number) {
  const bool null = given == "p" && wanted[0] == 'p';
  const bool any_array = wanted == "p" && given[0] == 'p';
  if (wanted != given && !null && !any_array) {
    throw std::runtime_error("argument " + std::to_string(number) + " must be " + wanted + ", not " + given);
  }
}

template <class... Args, std::size_t... I>
void launch(void (*kernel)(Args...), unsigned n_blocks, unsigned n_threads, std::size_t shared, void** args,
            const std::vector<std::string>& types, std::index_sequence<I...>) {
  static_assert(((std::is_pointer_v<Args> || (std::is_signed_v<Args> && sizeof(Args) == 8)) && ...),
                "arguments of kernels are pointers, long long or double");
  if (types.size() != sizeof...(Args)) {
    throw std::runtime_error("the kernel has " + std::to_string(sizeof...(Args)) + " arguments, not " +
                             std::to_string(types.size()));
  }
  (check_type(type_code<Args>(), types[I], I), ...);
  blockDim = {n_threads, 1, 1};
  gridDim = {n_blocks, 1, 1};
  for (unsigned b = 0; b < n_blocks; ++b) {
    blockIdx = {b, 0, 0};
    block().run(n_threads, shared, [&] { kernel(*static_cast<Args*>(args[I])...); });
  }
}

// Runs a kernel; `types` are the codes of the arguments, separated by spaces. Returns null, or what went wrong.
template <class... Args>
const char* emulate(void (*kernel)(Args...), unsigned n_blocks, unsigned n_threads, std::size_t shared, void** args,
                    const char* types) {
  static std::string error;
  std::vector<std::string> codes;
  for (const char* from = types; *from != 0;) {
    const char* to = std::strchr(from, ' ');
    codes.emplace_back(from, to == nullptr ? std::strlen(from) : static_cast<std::size_t>(to - from));
    from = to == nullptr ? from + std::strlen(from) : to + 1;
  }
  try {
    if (n_blocks == 0 || n_threads == 0 || n_threads > 1024) throw std::runtime_error("a block has 1 to 1024 threads");
    launch(kernel, n_blocks, n_threads, shared, args, codes, std::index_sequence_for<Args...>());
    return nullptr;
  } catch (const std::exception& caught) {
    error = caught.what();
    return error.c_str();
  }
}

// The codes of the arguments of a kernel, separated by spaces.
template <class... Args>
const char* signature(void (*)(Args...)) {
  static const std::string codes = [] {
    std::string all;
    ((all += (all.empty() ? "" : " ") + type_code<Args>()), ...);
    return all;
  }();
  return codes.c_str();
}

}  // namespace emulation

#define AGBM_EMULATE(kernel)                                                                                      \
  extern "C" const char* signature_of_##kernel() { return emulation::signature(&kernel); }                        \
  extern "C" const char* emulate_##kernel(unsigned n_blocks, unsigned n_threads, std::size_t shared, void** args, \
                                          const char* types) {                                                    \
    return emulation::emulate(&kernel, n_blocks, n_threads, shared, args, types);                                 \
  }

// Functions of CUDA, as far as the kernels use them.

inline void __syncthreads() { emulation::block().wait_for_block(); }
inline int __syncthreads_count(int condition) { return emulation::block().sum_over_block(condition != 0); }
inline int __syncthreads_or(int condition) { return __syncthreads_count(condition) > 0; }
inline int __syncthreads_and(int condition) { return __syncthreads_count(!condition) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffff) { emulation::block().wait_for_warp(mask); }
inline void __threadfence() {}
inline void __threadfence_block() {}

inline unsigned __ballot_sync(unsigned mask, int condition) {
  return emulation::block().exchange(mask, condition != 0, [&](const auto& of_lane) {
    unsigned found = 0;
    for (unsigned lane = 0; lane < emulation::kWarp; ++lane) {
      if (mask >> lane & 1 && of_lane(lane)) found |= 1u << lane;
    }
    return found;
  });
}
inline int __any_sync(unsigned mask, int condition) { return __ballot_sync(mask, condition) != 0; }
inline int __all_sync(unsigned mask, int condition) { return __ballot_sync(mask, !condition) == 0; }

namespace emulation {

// The number of another lane, or the own one if there is no such lane within the group of `width` lanes.
template <class T>
T shuffle(unsigned mask, T given, int source, int width) {
  const int own = static_cast<int>(block().lane()), first = own / width * width;
  const bool inside = source >= first && source < first + width;
  return block().exchange(mask, given, [&](const auto& of_lane) { return inside ? of_lane(source) : given; });
}

}  // namespace emulation

template <class T>
T __shfl_sync(unsigned mask, T given, int source, int width = emulation::kWarp) {
  const int own = static_cast<int>(emulation::block().lane());
  return emulation::shuffle(mask, given, own / width * width + source % width, width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T given, unsigned distance, int width = emulation::kWarp) {
  const int own = static_cast<int>(emulation::block().lane());
  return emulation::shuffle(mask, given, own - static_cast<int>(distance), width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T given, unsigned distance, int width = emulation::kWarp) {
  const int own = static_cast<int>(emulation::block().lane());
  return emulation::shuffle(mask, given, own + static_cast<int>(distance), width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T given, int flipped, int width = emulation::kWarp) {
  const int own = static_cast<int>(emulation::block().lane());
  return emulation::shuffle(mask, given, own ^ flipped, width);
}

// Fibers do not interrupt each other, so atomics are plain operations. Types are those of CUDA's overloads.
template <class T>
concept AtomicInteger =
    std::is_same_v<T, int> || std::is_same_v<T, unsigned> || (std::is_unsigned_v<T> && sizeof(T) == 8);

template <AtomicInteger T>
T atomicAdd(T* to, std::type_identity_t<T> given) {
  return std::exchange(*to, static_cast<T>(*to + given));
}
template <AtomicInteger T>
T atomicMax(T* to, std::type_identity_t<T> given) {
  return std::exchange(*to, std::max(*to, given));
}
template <AtomicInteger T>
T atomicMin(T* to, std::type_identity_t<T> given) {
  return std::exchange(*to, std::min(*to, given));
}
template <AtomicInteger T>
T atomicOr(T* to, std::type_identity_t<T> given) {
  return std::exchange(*to, *to | given);
}
template <AtomicInteger T>
T atomicExch(T* to, std::type_identity_t<T> given) {
  return std::exchange(*to, given);
}
template <AtomicInteger T>
T atomicCAS(T* to, std::type_identity_t<T> expected, std::type_identity_t<T> given) {
  return std::exchange(*to, *to == expected ? given : *to);
}

template <class T>
T __ldg(const T* from) {
  return *from;
}
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __popcll(unsigned long long bits) { return std::popcount(bits); }
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline int __clzll(long long bits) { return std::countl_zero(static_cast<unsigned long long>(bits)); }
inline int __ffs(int bits) { return bits == 0 ? 0 : std::countr_zero(static_cast<unsigned>(bits)) + 1; }
