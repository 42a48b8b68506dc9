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

// Zeros that come into being as they are touched; nullptr where the system has no room.
inline void* map_zeros(std::size_t bytes) noexcept {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// Keys by open addressing, in memory of fixed size; a slot is claimed once. Any thread interns,
// signal handlers too; no lock.
//
// In front of the table stands a small one of buckets: the few hundred stacks of a training step
// then lie in a few pages, which stay in the processor's caches between two events.
class KeyTable {
 public:
  // Makes the table empty, with room for `slots` keys, a power of two. False where there is no
  // memory. While nobody else uses it.
  bool map(std::size_t slots) noexcept {
    if (keys_ == nullptr) {
      slots_ = slots;
      keys_ = static_cast<std::atomic<std::uint64_t>*>(
          map_zeros((kFrontSlots + slots) * sizeof *keys_));
      return keys_ != nullptr;
    }
    madvise(keys_, (kFrontSlots + slots_) * sizeof *keys_, MADV_DONTNEED);  // zeros again
    return true;
  }

  // 1 + slot of the key; 0 where the neighbourhood is full or there is no table. `added`: it was
  // not there before.
  std::uint32_t intern(std::uint64_t key, bool& added) noexcept {
    if (keys_ == nullptr) return 0;
    key |= 1;  // 0 is an empty slot
    const std::uint64_t spread = key * 0x9e3779b97f4a7c15ull;
    const std::size_t bucket = (spread >> 32) % (kFrontSlots / kBucketSlots) * kBucketSlots;
    for (std::size_t slot = bucket; slot < bucket + kBucketSlots; ++slot) {
      if (claim(slot, key, added)) return static_cast<std::uint32_t>(slot) + 1;
    }
    for (std::size_t probe = 0; probe < kMaxProbes; ++probe) {
      const std::size_t slot = kFrontSlots + (((spread >> 20) + probe) & (slots_ - 1));
      if (claim(slot, key, added)) return static_cast<std::uint32_t>(slot) + 1;
    }
    return 0;
  }

  // Gives a number back that intern() just added, because what it stands for could not be told.
  // The next one to have the key adds it again, with the same number or another one; a key that
  // was added behind this slot meanwhile may get a second number.
  void forget(std::uint32_t number) noexcept {
    keys_[number - 1].store(0, std::memory_order_relaxed);  // the key is all there is
  }

 private:
  static constexpr std::size_t kFrontSlots = std::size_t{1} << 12;
  static constexpr std::size_t kBucketSlots = 8;  // a cache line
  static constexpr std::size_t kMaxProbes = 64;

  // True where the slot holds the key, now or since before.
  bool claim(std::size_t slot, std::uint64_t key, bool& added) noexcept {
    std::uint64_t present = keys_[slot].load(std::memory_order_relaxed);
    // Relaxed: the key is all there is; what it stands for is in the trace, not in memory.
    if (present == 0 &&
        keys_[slot].compare_exchange_strong(present, key, std::memory_order_relaxed)) {
      added = true;
      return true;
    }
    return present == key;
  }

  std::atomic<std::uint64_t>* keys_ = nullptr;
  std::size_t slots_ = 0;
};

}  // namespace gpumemtrace::preload
