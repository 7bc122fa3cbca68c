// parallel_for and its thread pools. No other file deals with threads.
//
// The pools are used instead of OpenMP because they have no runtime that could conflict with that of another package,
// work after fork(), and are visible to ThreadSanitizer. All threads use the first pool, except those that train members
// of a model at the same time, which have one each. Results never depend on which thread runs a task, so if two threads
// call parallel_for on the same pool at the same time, the second one runs its tasks itself; so does everybody while
// other programs keep the cores busy. Calls must not be nested.
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
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace agbm {

// Whether other programs want the cores too, which shows when a thread waits longer than it should. Threads that share
// work would then mostly wait for helpers that do not run, so for a while they work alone: sixteen times as long as the
// wait, which makes waiting cheap even if the machine stays busy.
class Contention {
 public:
  using Clock = std::chrono::steady_clock;

  // Shorter waits occur on quiet machines as well.
  static constexpr std::chrono::microseconds kUsualWait{500};

  static bool noticed() { return ticks(Clock::now()) < quiet_from().load(std::memory_order_relaxed); }
  static void note(Clock::duration wait) {
    const Clock::duration alone = std::min<Clock::duration>(16 * wait, std::chrono::seconds(1));
    quiet_from().store(ticks(Clock::now() + alone), std::memory_order_relaxed);
  }

 private:
  static std::int64_t ticks(Clock::time_point time) { return time.time_since_epoch().count(); }
  static std::atomic<std::int64_t>& quiet_from() {
    static std::atomic<std::int64_t> time{0};
    return time;
  }
};

// Waits without sleeping, for the short gaps within a tree and between trees: a thread that sleeps takes long to wake, and
// often wakes on the core of the thread that wakes it. Soon it lets other threads use the core whenever they want to,
// and it stops when they do.
class Spin {
 public:
  // Whether to wait on; takes less than a microsecond.
  bool goes_on() {
    const auto now = Contention::Clock::now(), before = std::exchange(last_, now);
    if (now - before > Contention::kUsualWait) Contention::note(now - before);
    if (now - began_ > kLongest || Contention::noticed()) return false;
    if (now - began_ < kAlone) {
      for (int i = 0; i < 16; ++i) pause();
    } else {
      std::this_thread::yield();
    }
    return true;
  }

 private:
  static constexpr std::chrono::microseconds kAlone{20}, kLongest{2000};

  static void pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
  }

  const Contention::Clock::time_point began_ = Contention::Clock::now();
  Contention::Clock::time_point last_ = began_;
};

// Threads that help a caller with its tasks. A helper joins a job when it runs, and the caller closes the job when no
// task is left: it never waits for a helper that the system has not let run, only for tasks that have begun.
class ThreadPool {
 public:
  // Calls body(task) for every task in [0, n_tasks). Returns false, and calls nothing, if there are no helpers.
  template <class Body>
  bool run(std::size_t n_tasks, int n_threads, const Body& body) {
    if (Contention::noticed()) return false;
    std::unique_lock<std::mutex> owner(busy_, std::try_to_lock);
    if (!owner.owns_lock()) return false;
    const std::uint64_t most = hire(std::min<std::size_t>(n_threads, n_tasks) - 1);
    call_ = [](const void* context, std::size_t task) { (*static_cast<const Body*>(context))(task); };
    context_ = &body;
    n_tasks_ = n_tasks;
    next_.store(0, std::memory_order_relaxed);
    n_done_.store(0, std::memory_order_relaxed);
    job_.store((number_of(job_.load(std::memory_order_relaxed)) + 1) << kNumberShift | kOpen | most << kMostShift);
    wake_helpers();
    const auto began = Contention::Clock::now();
    const std::size_t n_own = work();
    const auto one_task = (Contention::Clock::now() - began) / std::max<std::size_t>(1, n_own);
    wait_for(job_.fetch_and(~kOpen) & kHelpers, one_task);
    return true;
  }

 private:
  // A job in one word: its number, whether helpers may join, how many may and how many have.
  static constexpr int kMostShift = 16, kNumberShift = 33;
  static constexpr std::uint64_t kHelpers = 0xffff, kOpen = std::uint64_t{1} << 32;

  static std::uint64_t number_of(std::uint64_t job) { return job >> kNumberShift; }

  // Starts threads until there are `wanted` of them. Returns their number, which is lower if no more can be started.
  std::size_t hire(std::size_t wanted) {
    wanted = std::min<std::size_t>(wanted, kHelpers);
    while (n_workers_ < wanted) {
      try {
        std::thread([this, seen = number_of(job_.load())] { serve(seen); }).detach();
      } catch (const std::system_error&) {
        break;
      }
      ++n_workers_;
    }
    return std::min(wanted, n_workers_);
  }

  void wake_helpers() {
    if (n_asleep_.load() == 0) return;
    const std::lock_guard<std::mutex> lock(sleep_);  // those that are about to sleep do so first, or see the job
    wake_.notify_all();
  }

  void wake_caller() {
    const std::lock_guard<std::mutex> lock(sleep_);
    all_done_.notify_one();
  }

  // Returns the number of tasks that this thread has done.
  std::size_t work() {
    std::size_t n = 0;
    for (std::size_t task = next_.fetch_add(1, std::memory_order_relaxed); task < n_tasks_; ++n) {
      call_(context_, task);
      task = next_.fetch_add(1, std::memory_order_relaxed);
    }
    return n;
  }

  // Waits for the tasks of helpers; each has at most one left.
  void wait_for(std::uint64_t n_helpers, Contention::Clock::duration one_task) {
    if (n_done_.load() == n_helpers) return;
    const auto began = Contention::Clock::now();
    for (Spin spin; n_done_.load() != n_helpers && spin.goes_on();) continue;
    if (n_done_.load() != n_helpers) {
      std::unique_lock<std::mutex> lock(sleep_);
      caller_sleeps_.store(true);
      all_done_.wait(lock, [&] { return n_done_.load() == n_helpers; });
      caller_sleeps_.store(false);
    }
    const auto waited = Contention::Clock::now() - began;
    if (waited > Contention::kUsualWait + 2 * one_task) Contention::note(waited);
  }

  void serve(std::uint64_t seen) {
    for (;;) {
      for (Spin spin; number_of(job_.load()) == seen && spin.goes_on();) continue;
      if (number_of(job_.load()) == seen) {
        std::unique_lock<std::mutex> lock(sleep_);
        n_asleep_.fetch_add(1);
        wake_.wait(lock, [&] { return number_of(job_.load()) != seen; });
        n_asleep_.fetch_sub(1);
      }
      std::uint64_t job = job_.load();
      seen = number_of(job);
      if (join(job)) {
        work();
        n_done_.fetch_add(1);
        if (caller_sleeps_.load()) wake_caller();
      }
    }
  }

  // Whether the job is still open and needs a helper; its fields stay as they are until this helper is done.
  bool join(std::uint64_t job) {
    while ((job & kOpen) != 0 && (job & kHelpers) < (job >> kMostShift & kHelpers)) {
      const std::uint64_t number = number_of(job);
      if (job_.compare_exchange_weak(job, job + 1)) return true;
      if (number_of(job) != number) return false;
    }
    return false;
  }

  std::mutex busy_;   // a job has one caller
  std::mutex sleep_;  // of threads that go to sleep or wake others
  std::condition_variable wake_, all_done_;
  std::atomic<std::uint64_t> job_{0};
  std::atomic<std::size_t> n_asleep_{0};
  std::atomic<bool> caller_sleeps_{false};
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> n_done_{0};
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

// Rows per task in parallel loops over rows: large enough to hide scheduling, small enough to balance.
constexpr std::size_t kRowsPerTask = 16384;

inline std::size_t tasks_for_rows(std::size_t n_rows) { return (n_rows + kRowsPerTask - 1) / kRowsPerTask; }

// Calls body(begin, end) for consecutive pieces of [0, n_rows).
template <class Body>
void parallel_rows(std::size_t n_rows, int n_threads, const Body& body) {
  parallel_for(tasks_for_rows(n_rows), n_threads,
               [&](std::size_t task) { body(task * kRowsPerTask, std::min(n_rows, (task + 1) * kRowsPerTask)); });
}

}  // namespace agbm
