// SPDX-License-Identifier: Apache-2.0
// Caches for unwinding: rules by address of code, each of which is computed once and then costs one
// look-up, and whole walks of a thread.
#pragma once

#include <string.h>
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

// A rule that finds a function's caller. It is packed into one word, with these bits:
//
//   kind 3 | by rbp 1 | guessed 1 | frame offset / 8: 22 | rbp's distance below / 8: 22 | module 15
struct CachedRule {
  CachedKind kind = CachedKind::kUnknown;
  bool by_rbp = false;              // the frame address is rbp + offset, else rsp + offset
  bool guessed = false;             // without tables: a frame pointer is assumed
  std::uint32_t frame_offset = 0;   // offset in bytes
  std::uint32_t rbp_distance = 0;   // bytes from saved rbp up to the frame address; 0 = not saved
  std::uint32_t module_serial = 0;  // from SerialOf; tells apart libraries that reuse an address
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

// The cache of rules. Any thread finds and inserts, signal handlers too; no lock. Memory of fixed
// size.
//
// An entry's key is the address and the generation, the number of libraries unloaded so far: rules
// of older generations are never found. Four entries share a cache line, so a look-up waits for one
// line. A writer takes an entry by exchanging its key for kBusy, stores the rule, then the new key:
//
//   writer   key = kBusy      rule = R2 (release)                     key = K2 (release)
//   reader        key == K1?            rule (acquire): R2   key == K1? no -> not found
class RuleCache {
 public:
  // Makes the table, or empties it. False if there is no memory. No other thread may use the table
  // meanwhile.
  [[nodiscard]] bool reset() noexcept {
    if (buckets_ != nullptr) {
      return madvise(buckets_, kBuckets * sizeof(Bucket), MADV_DONTNEED) == 0;  // reads as zeros
    }
    buckets_ = static_cast<Bucket*>(map_zeros(kBuckets * sizeof(Bucket)));
    return buckets_ != nullptr;
  }

  // Returns the packed rule for the address in this generation, 0 if there is none.
  std::uint64_t find(std::uint64_t address, std::uint32_t generation) const noexcept {
    const std::uint64_t key = key_of(address, generation);
    for (const Entry& entry : buckets_[bucket_of(address)].entries) {
      if (entry.key.load(std::memory_order_acquire) != key) continue;         // pairs with insert()
      const std::uint64_t rule = entry.rule.load(std::memory_order_acquire);  // pairs with insert()
      // Relaxed: the acquire loads before it keep it behind them.
      if (entry.key.load(std::memory_order_relaxed) == key) return rule;
    }
    return 0;
  }

  void insert(std::uint64_t address, std::uint32_t generation, std::uint64_t rule) noexcept {
    const std::uint64_t key = key_of(address, generation);
    Entry& entry = place_for(address, key);
    // Relaxed: the exchange fails if another thread has changed the key.
    std::uint64_t present = entry.key.load(std::memory_order_relaxed);
    if (present == kBusy || present == key ||
        !entry.key.compare_exchange_strong(present, kBusy, std::memory_order_relaxed)) {
      return;  // another thread writes the entry; the next walk finds its rule or tries again
    }
    // Release: a find() that reads this rule reads kBusy or a newer key after it.
    entry.rule.store(rule, std::memory_order_release);
    // Release: a find() that reads this key reads this rule or a newer one after it.
    entry.key.store(key, std::memory_order_release);
  }

 private:
  // 16384 rules in 256 KiB: a training step needs some thousand, and they should stay in the
  // processor's caches between two walks.
  static constexpr int kBucketBits = 12;
  static constexpr std::size_t kBuckets = std::size_t{1} << kBucketBits;
  static constexpr std::size_t kEntries = 4;
  static constexpr std::uint64_t kBusy = 1;  // not a key: no code has the address 0

  struct Entry {
    std::atomic<std::uint64_t> key;
    std::atomic<std::uint64_t> rule;
  };
  struct alignas(64) Bucket {
    Entry entries[kEntries];
  };

  // User addresses have 47 bits; 17 bits are left for the generation. After 2^17 unloads, a rule of
  // the old generation could be found again, unless its entry was reused since.
  static std::uint64_t key_of(std::uint64_t address, std::uint32_t generation) noexcept {
    return address << 17 | (generation & 0x1'ffff);
  }
  static std::size_t bucket_of(std::uint64_t address) noexcept {
    return address * 0x9e37'79b9'7f4a'7c15u >> (64 - kBucketBits);
  }
  // The entry to write: the entry that has the key, else an empty entry or one of another
  // generation, else any entry of the bucket.
  Entry& place_for(std::uint64_t address, std::uint64_t key) noexcept {
    Bucket& bucket = buckets_[bucket_of(address)];
    Entry* chosen = &bucket.entries[address % kEntries];
    for (Entry& entry : bucket.entries) {
      // Relaxed: a hint, which may be old.
      const std::uint64_t present = entry.key.load(std::memory_order_relaxed);
      if (present == key) return entry;
      if (present == 0 || (present ^ key) % (1u << 17) != 0) chosen = &entry;
    }
    return *chosen;
  }

  Bucket* buckets_ = nullptr;
};

// Remembered native walks of one thread, for the next time that the same walk comes.
//
// A training step repeats, and so do its walks. Following frames by their rules waits for memory
// twice a frame: only the rule gives the address of the next frame. A remembered walk has the
// addresses of its words beforehand, so all words are read at once, and one hash of them shows
// whether the stack has the same walk. The cache is small, because between two walks the program
// displaces it from the processor's caches.

// A remembered walk: the places on the stack of all words that it read. The same words at these
// places lead to the same frames. The step out of a frame depends on the return address, whose rule
// stays the same while no library is unloaded, and on rbp if the rule asks for it.
struct alignas(64) RememberedWalk {
  static constexpr std::size_t kMaxPlaces = 144;
  static constexpr std::uint16_t kInRegister = 0xffff;

  std::uint64_t hash;             // hash of the frames
  std::uint64_t hash_of_words;    // hash of the words at the places
  std::uint32_t generation;       // unload_count() at the time of the walk
  std::uint16_t capacity;         // the walk's limit of frames; 0: no walk is remembered here
  std::uint8_t return_addresses;  // number of return addresses, the first entries of `places`
  std::uint8_t rbps;    // number of saved rbps that rules use, the next entries of `places`
  std::uint32_t label;  // a number that the cache's user may add to the walk; 0 = none
  std::uint16_t places[kMaxPlaces];  // distances, in words, from the walk's first stack pointer
};
static_assert(sizeof(RememberedWalk) == 320);

// The remembered walks, which belong to one thread at a time. All zeros: no walk is remembered.
//
// Walks mostly come in the same order as before, so the next one can be fetched before it is
// needed. If another walk comes, the stack pointer distinguishes most call paths into a hook,
// because their frames have different sizes together; the previous walk distinguishes those of one
// depth.
class UnwindCache {
 public:
  using Slot = std::uint8_t;

  RememberedWalk& walk(Slot slot) noexcept { return walks_[slot]; }
  // The slot of the walk that came next when the same sequence of walks last came.
  Slot follower() const noexcept { return followers_[history_]; }
  // The slot of the last walk that began at this stack pointer and came after the same previous
  // walk.
  Slot seen_at(std::uint64_t stack_pointer) const noexcept {
    return seen_[place_of(stack_pointer)];
  }

  void remember_follower() noexcept { append(follower()); }
  void remember_known_walk(Slot slot) noexcept {
    followers_[history_] = slot;
    append(slot);
  }
  // Fetches the memory of the expected walk before it is needed.
  void fetch_follower() const noexcept {
    constexpr std::size_t kLine = 64;
    const auto* const begin = reinterpret_cast<const char*>(&walks_[follower()]);
    __builtin_prefetch(begin);
    __builtin_prefetch(begin + kLine);
  }

  // Called when neither of the two expected walks came. A walk that the cache does not have yet
  // replaces the oldest one.
  void remember_new_walk(std::uint64_t stack_pointer, const RememberedWalk& walk) noexcept {
    Slot& slot = by_words_[walk.hash_of_words % kHints];
    if (!is_same(walks_[slot], walk)) {
      slot = oldest_++;
      // A signal handler may leave this function by longjmp: half a walk must not be used.
      walks_[slot].capacity = 0;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      memcpy(walks_[slot].places, walk.places, place_bytes_of(walk));
      walks_[slot].hash = walk.hash;
      walks_[slot].hash_of_words = walk.hash_of_words;
      walks_[slot].generation = walk.generation;
      walks_[slot].return_addresses = walk.return_addresses;
      walks_[slot].rbps = walk.rbps;
      walks_[slot].label = 0;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      walks_[slot].capacity = walk.capacity;
    }
    seen_[place_of(stack_pointer)] = slot;
    remember_known_walk(slot);
  }

 private:
  static constexpr std::size_t kWalks = 256;  // one for each value of a Slot
  static constexpr std::size_t kHints = 1024;
  static constexpr std::size_t kHistories = 1024;
  static constexpr int kSeenBits = 12;  // a training has some hundred keys in seen_; few collide

  void append(Slot slot) noexcept {
    history_ = (history_ << 3 ^ slot) % kHistories;
    last_ = slot;
  }
  std::size_t place_of(std::uint64_t stack_pointer) const noexcept {
    const std::uint64_t key = (stack_pointer / sizeof(std::uint64_t)) ^ std::uint64_t{last_} << 48;
    return key * 0x9e37'79b9'7f4a'7c15u >> (64 - kSeenBits);
  }
  static std::size_t place_bytes_of(const RememberedWalk& walk) noexcept {
    return (std::size_t{walk.return_addresses} + walk.rbps) * sizeof walk.places[0];
  }
  [[nodiscard]] static bool is_same(const RememberedWalk& left,
                                    const RememberedWalk& right) noexcept {
    return left.hash == right.hash && left.hash_of_words == right.hash_of_words &&
           left.generation == right.generation && left.capacity == right.capacity &&
           left.return_addresses == right.return_addresses && left.rbps == right.rbps &&
           memcmp(left.places, right.places, place_bytes_of(left)) == 0;
  }

  std::size_t history_;  // mix of the last walks' slots; older walks contribute fewer bits
  Slot last_;
  Slot oldest_;  // the slot that the next new walk takes
  Slot by_words_[kHints];
  Slot followers_[kHistories];
  Slot seen_[std::size_t{1} << kSeenBits];
  RememberedWalk walks_[kWalks];
};

}  // namespace gpumemtrace::preload::native
