// SPDX-License-Identifier: Apache-2.0
// A lock for a few instructions: never held around a call of CUPTI or of the program.
#pragma once

#include <sched.h>

#include <atomic>

namespace gpumemtrace::cupti {

class SpinLock {
 public:
  void lock() noexcept {
    for (int tries = 0; taken_.exchange(true, std::memory_order_acquire); ++tries) {
      // Acquire: pairs with unlock().
      if (tries > kSpins) sched_yield();
    }
  }
  void unlock() noexcept { taken_.store(false, std::memory_order_release); }  // pairs with lock()
  // Called in a forked child, which has one thread: the thread that held the lock is not there.
  void free_in_child() noexcept { unlock(); }

 private:
  static constexpr int kSpins = 100;
  std::atomic<bool> taken_ = false;
};

class SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) noexcept : lock_(lock) { lock_.lock(); }
  ~SpinGuard() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace gpumemtrace::cupti
