// SPDX-License-Identifier: Apache-2.0
// Numbers for keys of 64 bits, in mapped memory: a key that was seen before gets its number by one
// look-up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/base/map_zeros.hpp"

namespace gpumemtrace::preload {

// Adds a number to a hash over several numbers.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) noexcept {
  hash = (hash ^ value) * 0xff51afd7ed558ccdull;  // the multiplier of MurmurHash3's finalizer
  return hash ^ (hash >> 32);
}

// A hash table of keys with open addressing, in memory of fixed size; a slot is claimed once and
// keeps its key. Any thread may intern a key, signal handlers too; no lock.
//
// The meaning of a number must be emitted into the trace. Until it has been, every thread that
// meets the key is asked to emit it: the thread that was asked first may be slow, find no room, or
// never come back.
//
//   thread 1  intern -> number, not emitted         writes it, mark_emitted
//   thread 2        intern -> the same number, not emitted       writes it once more
//   thread 3                                               intern -> the same number, emitted
//
// A small table of buckets stands in front of the large table: the few hundred stacks of a training
// step then lie in a few pages, which stay in the processor's caches between two events.
class KeyTable {
 public:
  // Makes the table empty, with room for `slots` keys: a power of two, the same in every call.
  // False if there is no memory. No other thread may use the table meanwhile.
  [[nodiscard]] bool map(std::size_t slots) noexcept {
    slots_ = slots;
    keys_ = static_cast<std::atomic<std::uint64_t>*>(
        map_zeros_anew(keys_, (kFrontSlots + slots) * sizeof *keys_));
    return keys_ != nullptr;
  }

  // The number of the key, which is 1 + its slot; 0 if all slots near its hash are taken or there
  // is no table. `emitted` tells if the meaning of the number was emitted before.
  std::uint32_t intern(std::uint64_t key, bool& emitted) noexcept {
    if (keys_ == nullptr) return 0;
    key |= 3;  // bit 1 keeps a key without kEmitted from being 0, an empty slot
    const std::uint64_t spread = key * 0x9e3779b97f4a7c15ull;
    const std::size_t bucket = bucket_of(spread);
    for (std::size_t slot = bucket; slot < bucket + kBucketSlots; ++slot) {
      // mutant: emitted_without_acquire
      if (keys_[slot].load(std::memory_order_acquire) != key)
        continue;  // pairs with mark_emitted()
      emitted = true;
      return static_cast<std::uint32_t>(slot) + 1;
    }
    return find_or_claim(key, spread, emitted);
  }

  // Notes that the meaning of the number is in the trace.
  void mark_emitted(std::uint32_t number) noexcept {
    // Release: pairs with intern(): records that use the number enter the trace after this.
    // mutant: emitted_without_release
    keys_[number - 1].fetch_or(kEmitted, std::memory_order_release);
  }

 private:
  static constexpr std::size_t kFrontSlots = std::size_t{1} << 12;
  static constexpr std::size_t kBucketSlots = 8;  // one cache line of 64 bytes
  static constexpr std::size_t kMaxProbes = 64;
  static constexpr std::uint64_t kEmitted = 1;  // a bit of the key in a slot

  static std::size_t bucket_of(std::uint64_t spread) noexcept {
    return (spread >> 32) % (kFrontSlots / kBucketSlots) * kBucketSlots;
  }

  [[gnu::noinline]] std::uint32_t find_or_claim(std::uint64_t key, std::uint64_t spread,
                                                bool& emitted) noexcept {
    const std::size_t bucket = bucket_of(spread);
    for (std::size_t slot = bucket; slot < bucket + kBucketSlots; ++slot) {
      if (claim(slot, key, emitted)) return static_cast<std::uint32_t>(slot) + 1;
    }
    for (std::size_t probe = 0; probe < kMaxProbes; ++probe) {
      const std::size_t slot = kFrontSlots + (((spread >> 20) + probe) & (slots_ - 1));
      if (claim(slot, key, emitted)) return static_cast<std::uint32_t>(slot) + 1;
    }
    return 0;
  }

  // True if the slot holds the key, claimed now or before.
  [[nodiscard]] bool claim(std::size_t slot, std::uint64_t key, bool& emitted) noexcept {
    // mutant: emitted_without_acquire
    std::uint64_t present =
        keys_[slot].load(std::memory_order_acquire);  // pairs with mark_emitted()
    // Acquire: another thread may just have claimed the slot and emitted the number's meaning.
    // mutant: claimed_without_exchange
    if (present == 0 &&
        keys_[slot].compare_exchange_strong(present, key & ~kEmitted, std::memory_order_acquire)) {
      present = key & ~kEmitted;
    }
    emitted = present == key;
    return (present | kEmitted) == key;
  }

  std::atomic<std::uint64_t>* keys_ = nullptr;
  std::size_t slots_ = 0;
};

}  // namespace gpumemtrace::preload
