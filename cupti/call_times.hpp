// SPDX-License-Identifier: Apache-2.0
// Begin times of calls, by the correlation that they share with their activities. The time of the
// call decides whether a copy is the program's, and the copy's own record has only the time at
// which it ran.
//
// The last kCapacity calls, any thread.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include "cupti/spin_lock.hpp"

namespace gpumemtrace::cupti {

class CallTimes {
 public:
  // One thread, before anything else; false if there is no memory.
  [[nodiscard]] bool reserve() noexcept {
    if (calls_ != nullptr) return true;
    void* memory = mmap(nullptr, kCapacity * sizeof(Call), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    calls_ = static_cast<Call*>(memory);
    return true;
  }

  void note(std::uint32_t correlation, std::uint64_t start) noexcept {
    if (calls_ == nullptr) return;
    const SpinGuard guard(lock_);
    calls_[correlation % kCapacity] = {start, correlation};
  }

  // False, and `start` as it was, if the call is not known.
  [[nodiscard]] bool find(std::uint32_t correlation, std::uint64_t& start) noexcept {
    if (calls_ == nullptr || correlation == 0) return false;
    const SpinGuard guard(lock_);
    const Call& call = calls_[correlation % kCapacity];
    if (call.correlation != correlation) return false;
    start = call.start;
    return true;
  }

  void forget() noexcept {
    const SpinGuard guard(lock_);
    if (calls_ != nullptr) madvise(calls_, kCapacity * sizeof(Call), MADV_DONTNEED);  // zeros again
  }

  void free_in_child() noexcept { lock_.free_in_child(); }

 private:
  static constexpr std::size_t kCapacity = std::size_t{1} << 16;
  struct Call {
    std::uint64_t start;
    std::uint32_t correlation;
  };

  SpinLock lock_;
  Call* calls_ = nullptr;
};

}  // namespace gpumemtrace::cupti
