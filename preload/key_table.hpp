// Gives numbers to things by their hashes, once for the whole process.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload {

// Keys by open addressing, in memory of fixed size; a slot is claimed once and never changes.
// Any thread interns, signal handlers too; no lock.
class KeyTable {
 public:
  // Makes the table of 2^n slots, or empties it. False where there is no memory. While nobody else
  // uses it.
  [[nodiscard]] bool reset(std::size_t slots) noexcept {
    if (keys_ == nullptr) {
      void* memory = mmap(nullptr, slots * sizeof *keys_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) return false;
      keys_ = static_cast<std::atomic<std::uint64_t>*>(memory);
      slots_ = slots;
    } else {
      madvise(keys_, slots_ * sizeof *keys_, MADV_DONTNEED);  // zeros again
    }
    return true;
  }

  // 1 + slot of the key; 0 where the neighbourhood is full. `added`: it was not there before.
  std::uint32_t intern(std::uint64_t key, bool& added) noexcept {
    key |= 1;  // 0 is an empty slot
    const std::size_t first = key * 0x9e3779b97f4a7c15ull >> 20;
    for (std::size_t probe = 0; probe < kMaxProbes; ++probe) {
      const std::size_t slot = (first + probe) & (slots_ - 1);
      std::uint64_t present = keys_[slot].load(std::memory_order_relaxed);
      // Relaxed: the key is all there is; what it stands for is in the trace, not in memory.
      if (present == 0 &&
          keys_[slot].compare_exchange_strong(present, key, std::memory_order_relaxed)) {
        added = true;
        return static_cast<std::uint32_t>(slot) + 1;
      }
      if (present == key) return static_cast<std::uint32_t>(slot) + 1;
    }
    return 0;
  }

 private:
  static constexpr std::size_t kMaxProbes = 64;

  std::atomic<std::uint64_t>* keys_ = nullptr;
  std::size_t slots_ = 0;
};

}  // namespace gpumemtrace::preload
