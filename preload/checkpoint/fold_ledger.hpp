// SPDX-License-Identifier: Apache-2.0
// The sums of a fold: how much of what is live, who holds it, and how high it has been.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/base/mapped_array.hpp"
#include "trace/checkpoint_records.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

inline constexpr std::uint32_t kNoIndex32 = ~std::uint32_t{0};
// Devices as the analysis counts them: host memory has none, an unknown context an unknown one.
inline constexpr std::int32_t kHostMemory = -1;
inline constexpr std::int32_t kUnknownDevice = -2;

// Calls that differ in nothing that a report tells. All bytes belong to a member, so that keys can
// be hashed and compared as bytes.
struct GroupKey {
  std::uint64_t caller = 0;
  std::uint64_t pool = 0;
  std::uint32_t stack = 0;
  std::uint32_t context = 0;
  std::uint16_t api = 0;
  std::uint16_t flags = 0;
  std::uint32_t kind = 0;  // trace::RecordKind
  trace::MemoryKind memory = trace::MemoryKind::kUnknown;
  std::int32_t location = -1;
  std::int32_t source_device = -1;
  std::int32_t destination_device = -1;
  trace::EndType source_type = trace::EndType::kUnknown;
  trace::EndType destination_type = trace::EndType::kUnknown;
  trace::Place source = trace::Place::kUnknown;
  trace::Place destination = trace::Place::kUnknown;
  std::uint32_t is_told = 0;  // 1: a holder of a peak from an earlier checkpoint
};
static_assert(sizeof(GroupKey) == 56);

// The highest point so far of some sum.
struct Moment {
  std::uint64_t time = 0;
  std::uint64_t bytes = 0;
  std::uint32_t epoch = 0;  // counts the highest points
  // Whose bytes it was is told by what groups saved, and by nothing else: it came from an earlier
  // checkpoint.
  bool is_told = false;
};

// What a group had at a moment; valid while the epochs agree.
struct Share {
  std::uint32_t epoch = 0;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
};

struct Group {
  GroupKey key;
  std::uint32_t row = kNoIndex32;  // kNoIndex32: holds no memory
  std::uint32_t live_count = 0;
  std::uint64_t live_bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t freed = 0;
  std::uint64_t failed = 0;
  std::uint64_t bytes = 0;
  std::uint64_t largest_bytes = 0;
  std::uint64_t host_ticks = 0;
  Share at_peak;
  Share at_physical_peak;
};

// Memory of one kind on one device; of pools, of one pool.
struct Row {
  trace::MemoryKind memory = trace::MemoryKind::kUnknown;
  std::int32_t device = kHostMemory;
  std::uint64_t pool = 0;
  std::uint32_t account = 0;
  std::uint32_t reserved = 0;
  std::uint64_t bytes = 0;
  Moment peak;
};

// All memory of one level on one device.
struct Account {
  trace::PeakScope scope = trace::PeakScope::kDriver;
  std::int32_t device = kHostMemory;
  std::uint64_t bytes = 0;
  Moment peak;
};

// The process's physical bytes of one device: what it allocated of the driver and what its pools
// hold.
struct Physical {
  std::int32_t device = kHostMemory;
  std::uint32_t account = 0;  // of the driver's memory
  std::uint64_t pool_used = 0;
  std::uint64_t pool_reserved = 0;
  std::uint64_t framework_reserved_peak = 0;  // what the framework said
  Moment peak;
  trace::Peak at_peak;  // the parts and the sample
  trace::MemorySample before_peak;
  trace::MemorySample after_peak;
  trace::MemorySample last_sample;
  std::uint64_t before_physical = 0;  // physical bytes at these samples
  std::uint64_t after_physical = 0;
  std::uint64_t last_physical = 0;
};

struct LiveBytes {
  std::uint64_t bytes = 0;
  std::uint64_t born = 0;  // model time
};

// - A sum costs a few stores an event. Whose bytes a peak was is not copied at the peak: a group
//   saves its share before it changes for the first time after it.
// - failed() where the system had no memory; the sums are worthless then.
class Ledger {
 public:
  // Index of the group; kNoIndex32 without memory.
  std::uint32_t group_of(const GroupKey& key) noexcept;
  // The group's memory belongs to this account; the pool only where there are several.
  void bind(std::uint32_t group, trace::PeakScope scope, trace::MemoryKind memory,
            std::int32_t device, std::uint64_t pool) noexcept;

  void add(std::uint32_t group, const LiveBytes& live, std::uint64_t now) noexcept;
  void remove(std::uint32_t group, std::uint64_t bytes) noexcept;
  // What is live turns out to belong to another group of the same row, and always did.
  void move(std::uint32_t from, std::uint32_t to, const LiveBytes& live) noexcept;
  // The group that stands for what an earlier checkpoint told of groups like this one.
  static GroupKey told_key(const GroupKey& key, std::int32_t device) noexcept;

  // The bytes that pools hold have changed, or driver memory has: looks for a new physical peak.
  void physical_changed(std::int32_t device, std::uint64_t now) noexcept;

  Group& group(std::uint32_t index) noexcept { return groups_[index]; }
  Row& row_of(std::uint32_t group) noexcept { return rows_[groups_[group].row]; }
  Account& account_of(std::uint32_t group) noexcept { return accounts_[row_of(group).account]; }
  Account* account(trace::PeakScope scope, std::int32_t device) noexcept;
  Row* row(trace::PeakScope scope, trace::MemoryKind memory, std::int32_t device,
           std::uint64_t pool) noexcept;
  Physical* physical(std::int32_t device) noexcept;

  // What the group had at the moment.
  Share share_of(const Group& group, const Share& saved, const Moment& moment) const noexcept;
  // A peak of an earlier checkpoint: it replaces ours where it is not lower.
  bool compete(Moment& moment, std::uint64_t bytes, std::uint64_t time) noexcept;

  const MappedArray<Group>& groups() const noexcept { return groups_; }
  const MappedArray<Row>& rows() const noexcept { return rows_; }
  const MappedArray<Account>& accounts() const noexcept { return accounts_; }
  const MappedArray<Physical>& physicals() const noexcept { return physicals_; }
  bool failed() const noexcept { return failed_; }

 private:
  void move_at(std::uint32_t from, std::uint32_t to, Share Group::*share, const Moment& moment,
               const LiveBytes& live) noexcept;
  void move_told_share(std::uint32_t from, std::uint32_t to, Share Group::*share,
                       std::uint32_t epoch, const LiveBytes& live) noexcept;
  void save_shares(Group& group) noexcept;
  static void save(const Group& group, Share& share, const Moment& moment) noexcept;
  void note_peak(Moment& moment, std::uint64_t bytes, std::uint64_t now) noexcept;
  bool grow_index() noexcept;
  std::uint32_t account_index(trace::PeakScope scope, std::int32_t device) noexcept;

  MappedArray<Group> groups_;
  MappedArray<std::uint32_t> index_;  // of groups_, plus 1, by hash; 0 = empty
  MappedArray<Row> rows_;
  MappedArray<Account> accounts_;
  MappedArray<Physical> physicals_;
  bool failed_ = false;
};

}  // namespace gpumemtrace::preload
