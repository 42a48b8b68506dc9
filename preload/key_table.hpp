// Numbers for keys of 64 bits, in mapped memory: what was seen before has its number at the cost of
// one look-up.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload {

// Step of a hash over numbers.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0xff51afd7ed558ccdull;  // the multiplier of MurmurHash3's finalizer
  return hash ^ (hash >> 32);
}

// - Any thread, no lock, no allocation after map().
// - Open addressing; a slot is claimed once and never changes, so two threads that meet the same
// new
//   key agree on its number without waiting for each other.
class KeyTable {
 public:
  // Makes the table empty, with room for `slots` keys, a power of two. False where there is no
  // memory.
  bool map(std::size_t slots) noexcept {
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

  // 1 + slot of the key; 0 where the neighbourhood is full or nothing is mapped. `added`: it was
  // not there before.
  std::uint32_t intern(std::uint64_t key, bool& added) noexcept {
    if (keys_ == nullptr) return 0;
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
