// parallel_for and its thread pools. No other file deals with threads.
//
// The pools are used instead of OpenMP because they have no runtime that could conflict with that of another package,
// work after fork(), and are visible to ThreadSanitizer. All threads use the first pool, except those that train members
// of a model at the same time, which have one each. Results never depend on which thread runs a task, so if two threads
// call parallel_for on the same pool at the same time, the second one runs its tasks itself. Calls must not be nested.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if !defined(_WIN32)
#include <pthread.h>
#endif

#include "layout.hpp"

namespace agbm {

class ThreadPool {
 public:
  // Calls body(task) for every task in [0, n_tasks). Returns false, and calls nothing, if the pool is busy.
  template <class Body>
  bool run(std::size_t n_tasks, int n_threads, const Body& body) {
    std::unique_lock<std::mutex> owner(busy_, std::try_to_lock);
    if (!owner.owns_lock()) return false;
    const std::size_t wanted = std::min<std::size_t>(n_threads, n_tasks) - 1;
    const std::size_t helpers = hire(wanted);
    call_ = [](const void* context, std::size_t task) { (*static_cast<const Body*>(context))(task); };
    context_ = &body;
    n_tasks_ = n_tasks;
    next_.store(0, std::memory_order_relaxed);
    working_.store(helpers, std::memory_order_relaxed);
    {
      std::lock_guard<std::mutex> lock(sleep_);
      const std::uint64_t job = (job_.load(std::memory_order_relaxed) >> kHelperBits) + 1;
      job_.store(job << kHelperBits | helpers, std::memory_order_release);
    }
    wake_.notify_all();
    work();
    Waiting waiting;
    while (working_.load(std::memory_order_acquire) != 0) waiting.step();
    return true;
  }

 private:
  static constexpr int kHelperBits = 16;

  // Waits without sleeping: first by spinning, for the gaps within a tree, then by yielding, for the gaps between
  // trees, so that other threads can use this core. A sleeping thread is often woken on the core of the thread that
  // wakes it, and the two would then compete for that core.
  class Waiting {
   public:
    void step() {
      if (++turns_ < 2000) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
    bool long_enough() const {
      using namespace std::chrono;
      return turns_ >= 2000 && turns_ % 16 == 0 && steady_clock::now() - began_ > milliseconds(5);
    }

   private:
    int turns_ = 0;
    std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  };

  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
  }

  // Starts threads until there are `wanted` of them. Returns their number, which is lower if no more can be started.
  std::size_t hire(std::size_t wanted) {
    constexpr std::size_t limit = (1u << kHelperBits) - 1;
    wanted = std::min(wanted, limit);
    while (n_workers_ < wanted) {
      try {
        const std::uint64_t seen = job_.load(std::memory_order_relaxed) >> kHelperBits;
        std::thread([this, id = n_workers_, seen] { serve(id, seen); }).detach();
      } catch (const std::system_error&) {
        break;
      }
      ++n_workers_;
    }
    return std::min(wanted, n_workers_);
  }

  void work() {
    for (std::size_t task = next_.fetch_add(1, std::memory_order_relaxed); task < n_tasks_;
         task = next_.fetch_add(1, std::memory_order_relaxed)) {
      call_(context_, task);
    }
  }

  void serve(std::size_t id, std::uint64_t seen) {
    for (;;) {
      std::uint64_t job = job_.load(std::memory_order_acquire);
      for (Waiting waiting; job >> kHelperBits == seen && !waiting.long_enough(); waiting.step()) {
        job = job_.load(std::memory_order_acquire);
      }
      if (job >> kHelperBits == seen) {
        std::unique_lock<std::mutex> lock(sleep_);
        wake_.wait(lock, [&] { return job_.load(std::memory_order_acquire) >> kHelperBits != seen; });
        continue;
      }
      seen = job >> kHelperBits;
      // A job cannot be replaced before its helpers are done, so a helper always reads the fields of its own job.
      if (id < (job & ((1u << kHelperBits) - 1))) {
        work();
        working_.fetch_sub(1, std::memory_order_release);
      }
    }
  }

  std::mutex busy_;
  std::mutex sleep_;
  std::condition_variable wake_;
  std::atomic<std::uint64_t> job_{0};  // number of the job; in the low bits, the number of its helpers
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> working_{0};
  std::size_t n_workers_ = 0;
  std::size_t n_tasks_ = 0;
  void (*call_)(const void*, std::size_t) = nullptr;
  const void* context_ = nullptr;
};

class ThreadPools {
 public:
  static ThreadPools& instance() {
#if !defined(_WIN32)  // Windows has no fork()
    static std::once_flag registered;
    std::call_once(registered, [] { pthread_atfork(nullptr, nullptr, [] { current().store(nullptr); }); });
#endif
    ThreadPools* pools = current().load(std::memory_order_acquire);
    if (pools == nullptr) {
      // Never destroyed: their threads sleep until the process ends. A child of fork() has no threads and creates new
      // pools.
      ThreadPools* fresh = new ThreadPools;
      if (current().compare_exchange_strong(pools, fresh)) {
        pools = fresh;
      } else {
        delete fresh;
      }
    }
    return *pools;
  }

  // The pool of the calling thread.
  static std::size_t& chosen() {
    static thread_local std::size_t number = 0;
    return number;
  }

  // Calls body(task) for every task in [0, n_tasks). The body must not throw.
  template <class Body>
  void run(std::size_t n_tasks, int n_threads, const Body& body) {
    if (n_threads > 1 && n_tasks > 1 && pools_[chosen() % pools_.size()].run(n_tasks, n_threads, body)) return;
    for (std::size_t task = 0; task < n_tasks; ++task) body(task);
  }

 private:
  static std::atomic<ThreadPools*>& current() {
    static std::atomic<ThreadPools*> pools{nullptr};
    return pools;
  }

  std::array<ThreadPool, 16> pools_;  // a pool has no threads until it is used
};

template <class Body>
void parallel_for(std::size_t n_tasks, int n_threads, const Body& body) {
  ThreadPools::instance().run(n_tasks, n_threads, body);
}

// The number of threads for a number of steps of about a nanosecond each: waking a thread takes as long as a few
// thousand.
inline int threads_for(std::size_t steps, int n_threads) { return steps < 16384 ? 1 : n_threads; }

// Calls body(begin, end) for consecutive pieces of [0, n_rows).
template <class Body>
void parallel_rows(std::size_t n_rows, int n_threads, const Body& body) {
  parallel_for(tasks_for_rows(n_rows), n_threads,
               [&](std::size_t task) { body(task * kRowsPerTask, std::min(n_rows, (task + 1) * kRowsPerTask)); });
}

}  // namespace agbm
