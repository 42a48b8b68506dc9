// SPDX-License-Identifier: Apache-2.0
// Unwind rules by address of code: a rule that was computed once costs one look-up from then on.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/base/map_zeros.hpp"

namespace gpumemtrace::preload::native {

enum class CachedKind : std::uint8_t {
  kUnknown = 0,  // nothing is known of the address
  kPlain = 1,    // frame address = rsp or rbp + a constant; return address just below it
  kGeneral = 2,  // the tables must be interpreted each time
  kOutermost = 3,
};

// In one word:
//
//   kind 3 | by rbp 1 | guessed 1 | frame offset / 8: 22 | rbp's distance below / 8: 22 | module 15
struct CachedRule {
  CachedKind kind = CachedKind::kUnknown;
  bool by_rbp = false;              // the frame address is rbp + offset, else rsp + offset
  bool guessed = false;             // without tables: a frame pointer is assumed
  std::uint32_t frame_offset = 0;   // bytes
  std::uint32_t rbp_distance = 0;   // rbp is saved that far below the frame address; 0 = it is not
  std::uint32_t module_serial = 0;  // tells apart libraries that reuse an address
};

inline constexpr std::uint32_t kMaxCachedBytes = ((1u << 22) - 1) * 8;
inline constexpr std::uint32_t kMaxModuleSerial = (1u << 15) - 1;

constexpr std::uint64_t pack(const CachedRule& rule) noexcept {
  return std::uint64_t{static_cast<std::uint8_t>(rule.kind)} | std::uint64_t{rule.by_rbp} << 3 |
         std::uint64_t{rule.guessed} << 4 | std::uint64_t{rule.frame_offset / 8} << 5 |
         std::uint64_t{rule.rbp_distance / 8} << 27 | std::uint64_t{rule.module_serial} << 49;
}

constexpr CachedRule unpack(std::uint64_t word) noexcept {
  CachedRule rule;
  rule.kind = static_cast<CachedKind>(word & 7);
  rule.by_rbp = (word >> 3 & 1) != 0;
  rule.guessed = (word >> 4 & 1) != 0;
  rule.frame_offset = static_cast<std::uint32_t>(word >> 5 & 0x3f'ffff) * 8;
  rule.rbp_distance = static_cast<std::uint32_t>(word >> 27 & 0x3f'ffff) * 8;
  rule.module_serial = static_cast<std::uint32_t>(word >> 49);
  return rule;
}

// Any thread finds and inserts, signal handlers too; no lock. Memory of fixed size.
//
// An entry's key is the address and the generation, the number of libraries unloaded so far: rules
// of older generations are never found. Four entries share a cache line, so a look-up waits for one
// line. A writer takes an entry by exchanging its key for kBusy, stores the rule, then the new key:
//
//   writer   key = kBusy      rule = R2 (release)                     key = K2 (release)
//   reader        key == K1?            rule (acquire): R2   key == K1? no -> not found
class RuleCache {
 public:
  // Makes the table, or empties it. False if there is no memory. No other thread may use it then.
  [[nodiscard]] bool reset() noexcept {
    if (buckets_ != nullptr) {
      return madvise(buckets_, kBuckets * sizeof(Bucket), MADV_DONTNEED) == 0;  // zeros again
    }
    buckets_ = static_cast<Bucket*>(map_zeros(kBuckets * sizeof(Bucket)));
    return buckets_ != nullptr;
  }

  // The packed rule, 0 if there is none.
  std::uint64_t find(std::uint64_t address, std::uint32_t generation) const noexcept {
    const std::uint64_t key = key_of(address, generation);
    for (const Entry& entry : buckets_[bucket_of(address)].entries) {
      if (entry.key.load(std::memory_order_acquire) != key) continue;         // pairs with insert()
      const std::uint64_t rule = entry.rule.load(std::memory_order_acquire);  // as above
      if (entry.key.load(std::memory_order_relaxed) == key) return rule;  // ordered by the above
    }
    return 0;
  }

  void insert(std::uint64_t address, std::uint32_t generation, std::uint64_t rule) noexcept {
    const std::uint64_t key = key_of(address, generation);
    Entry& entry = place_for(address, key);
    std::uint64_t present = entry.key.load(std::memory_order_relaxed);  // checked by the exchange
    if (present == kBusy || present == key ||
        !entry.key.compare_exchange_strong(present, kBusy, std::memory_order_relaxed)) {
      return;  // another thread is at it; the next walk finds its rule or tries again
    }
    entry.rule.store(rule, std::memory_order_release);  // pairs with find(): kBusy is seen with it
    entry.key.store(key, std::memory_order_release);  // pairs with find(): the rule is seen with it
  }

 private:
  // 16384 rules in 256 KiB: a training step needs some thousand, and they should stay in the
  // processor's caches between two walks.
  static constexpr int kBucketBits = 12;
  static constexpr std::size_t kBuckets = std::size_t{1} << kBucketBits;
  static constexpr std::size_t kEntries = 4;
  static constexpr std::uint64_t kBusy = 1;  // no code stands in the first page

  struct Entry {
    std::atomic<std::uint64_t> key;
    std::atomic<std::uint64_t> rule;
  };
  struct alignas(64) Bucket {
    Entry entries[kEntries];
  };

  // User addresses have 47 bits; 17 are left for the generation. After so many unloads a rule of
  // that old generation could be found again, unless its entry was reused since.
  static std::uint64_t key_of(std::uint64_t address, std::uint32_t generation) noexcept {
    return address << 17 | (generation & 0x1'ffff);
  }
  static std::size_t bucket_of(std::uint64_t address) noexcept {
    return address * 0x9e37'79b9'7f4a'7c15u >> (64 - kBucketBits);
  }
  // The entry that has the key, an empty one, one of another generation, or any.
  Entry& place_for(std::uint64_t address, std::uint64_t key) noexcept {
    Bucket& bucket = buckets_[bucket_of(address)];
    Entry* chosen = &bucket.entries[address % kEntries];
    for (Entry& entry : bucket.entries) {
      const std::uint64_t present = entry.key.load(std::memory_order_relaxed);  // a hint
      if (present == key) return entry;
      if (present == 0 || (present ^ key) % (1u << 17) != 0) chosen = &entry;
    }
    return *chosen;
  }

  Bucket* buckets_ = nullptr;
};

}  // namespace gpumemtrace::preload::native
