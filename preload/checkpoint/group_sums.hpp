// SPDX-License-Identifier: Apache-2.0
// The sums of a compaction: the live bytes, their holders, and their peaks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trace/ledger/device_samples.hpp"
#include "trace/ledger/levels.hpp"
#include "trace/ledger/mapped_array.hpp"
#include "trace/ledger/pools.hpp"
#include "trace/ledger/releases.hpp"
#include "trace/ledger/reserved_bytes.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

using ledger::Kind;
using ledger::Level;
using ledger::MappedArray;

inline constexpr std::uint32_t kNoIndex32 = ~std::uint32_t{0};

// The fields of Totals that a call of any kind shares with its group.
[[nodiscard]] inline trace::Totals totals_like(const trace::CallHeader& call) noexcept {
  trace::Totals like;
  like.kind = static_cast<std::uint32_t>(call.record.kind);
  like.caller = call.caller;
  like.stack = call.stack;
  like.context = call.context;
  like.record.api = call.record.api;
  return like;
}

// The highest point so far of some sum.
struct PeakSnapshot {
  std::uint64_t time = 0;  // model time
  std::uint64_t bytes = 0;
  std::uint32_t epoch = 0;  // counts the highest points
  // The holders are only known from the groups' saved shares: the peak came from an earlier
  // checkpoint.
  bool is_restored = false;
};

// The bytes of a group at a peak; valid while the epochs agree.
struct Share {
  std::uint32_t epoch = 0;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
};

// Calls that a report does not distinguish.
struct Group {
  std::uint32_t row = kNoIndex32;  // kNoIndex32: holds no memory
  std::uint32_t live_count = 0;
  std::uint64_t live_bytes = 0;
  Share at_peak;
  Share at_physical_peak;
  ledger::Releases freed;
  bool is_restored = false;  // holders of a peak from an earlier checkpoint
  trace::Totals totals;      // the common fields of the calls, and the sums of those that are over
};

// Memory of one kind on one device; for pools, of one pool.
struct Row {
  Kind kind = Kind::kDevice;
  std::int32_t device = ledger::kHostDevice;
  std::uint32_t pool = 0;  // index
  std::uint32_t account = 0;
  std::uint64_t bytes = 0;
  PeakSnapshot peak;
};

// All memory of one level on one device.
struct Account {
  Level level = Level::kDriver;
  std::int32_t device = ledger::kHostDevice;
  std::uint64_t bytes = 0;
  PeakSnapshot peak;
};

// The process's physical bytes on one device: its allocations from the driver and the bytes that
// its pools hold.
struct Physical : ledger::DeviceSamples {
  std::int32_t device = ledger::kHostDevice;
  std::uint32_t account = 0;  // the account of the driver's memory
  ledger::ReservedBytes framework;
  PeakSnapshot peak;
  ledger::Parts at_peak;
};

struct LiveBytes {
  std::uint64_t bytes = 0;
  std::uint64_t born_time = 0;  // model time
};

// - A sum costs a few stores for each event. A peak does not copy its holders: a group saves its
//   share before it changes for the first time after the peak.
// - failed() if the system had no memory; the sums are worthless then.
class GroupSums {
 public:
  // Index of the group of calls like this, without regard to its sums; kNoIndex32 if there is no
  // memory.
  std::uint32_t group_of(const trace::Totals& like, bool is_restored = false) noexcept;
  // The group's memory belongs to this account; the pool counts only if there are several.
  void bind(std::uint32_t group, Kind kind, std::int32_t device, std::uint32_t pool) noexcept;

  void add(std::uint32_t group, const LiveBytes& live, std::uint64_t now) noexcept;
  void remove(std::uint32_t group, std::uint64_t bytes) noexcept;
  // Live bytes turn out to belong to another group of the same row, and always did.
  void move(std::uint32_t from, std::uint32_t to, const LiveBytes& live) noexcept;
  // The group that holds an earlier checkpoint's numbers of groups like this one.
  std::uint32_t restored_group_of(const trace::Totals& like, std::int32_t device) noexcept;

  // The bytes of pools or of driver memory have changed: checks for a new physical peak.
  void physical_changed(std::int32_t device, const ledger::PoolSums& pools,
                        std::uint64_t now) noexcept;
  std::uint64_t driver_bytes(const Physical& device) const noexcept {
    return accounts_[device.account].bytes;
  }

  Group& group(std::uint32_t index) noexcept { return groups_[index]; }
  Row& row_of(std::uint32_t group) noexcept { return rows_[groups_[group].row]; }
  Account& account_of(std::uint32_t group) noexcept { return accounts_[row_of(group).account]; }
  Account* account(Level level, std::int32_t device) noexcept;
  Row* row(Kind kind, std::int32_t device, std::uint32_t pool) noexcept;
  Physical* physical(std::int32_t device) noexcept;

  // The group's bytes at the peak.
  Share share_of(const Group& group, const Share& saved, const PeakSnapshot& moment) const noexcept;
  // A peak of an earlier checkpoint: it replaces ours unless it is lower.
  [[nodiscard]] bool compete(PeakSnapshot& moment, std::uint64_t bytes,
                             std::uint64_t time) noexcept;

  const MappedArray<Group>& groups() const noexcept { return groups_; }
  const MappedArray<Row>& rows() const noexcept { return rows_; }
  const MappedArray<Account>& accounts() const noexcept { return accounts_; }
  const MappedArray<Physical>& physicals() const noexcept { return physicals_; }
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  void move_at(std::uint32_t from, std::uint32_t to, Share Group::*share,
               const PeakSnapshot& moment, const LiveBytes& live) noexcept;
  void move_restored_share(std::uint32_t from, std::uint32_t to, Share Group::*share,
                           std::uint32_t epoch, const LiveBytes& live) noexcept;
  void save_shares(Group& group) noexcept;
  static void save(const Group& group, Share& share, const PeakSnapshot& moment) noexcept;
  void raise_peak(PeakSnapshot& moment, std::uint64_t bytes, std::uint64_t now) noexcept;
  [[nodiscard]] bool grow_index() noexcept;
  std::uint32_t account_index(Level level, std::int32_t device) noexcept;

  MappedArray<Group> groups_;
  MappedArray<std::uint32_t> index_;  // indexes of groups_, plus 1, by hash; 0 = empty
  MappedArray<Row> rows_;
  MappedArray<Account> accounts_;
  MappedArray<Physical> physicals_;
  bool failed_ = false;
};

}  // namespace gpumemtrace::preload
