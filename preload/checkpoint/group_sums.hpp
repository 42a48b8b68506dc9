// SPDX-License-Identifier: Apache-2.0
// The sums of a compaction: the live bytes, their holders, and their peaks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "trace/ledger/card_curves.hpp"
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

// Each group has a share of these moments: the peak of its account, and for driver memory the
// physical peak of the device and the points of its card's curves.
inline constexpr std::size_t kCardPoints = 4;
inline constexpr std::size_t kAtPeak = 0;
inline constexpr std::size_t kAtPhysicalPeak = 1;
inline constexpr std::size_t kAtCardPoint = 2;  // the first of them
inline constexpr std::size_t kMoments = kAtCardPoint + kCardPoints;

// Calls that a report does not distinguish.
struct Group {
  std::uint32_t row = kNoIndex32;  // kNoIndex32: holds no memory
  std::uint32_t live_count = 0;
  std::uint64_t live_bytes = 0;
  std::array<Share, kMoments> shares;
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

class GroupSums;

// This process among those on a card. Who held a point's memory is known by the number of a moment;
// points that are copies have the same one.
struct OwnMember : ledger::CardMember {
  GroupSums* sums = nullptr;

  [[nodiscard]] std::uint64_t now() const noexcept;
  [[nodiscard]] ledger::Parts hold(std::uint32_t& moment) const noexcept;
};

// A list of one at most, in place.
template <class Element>
class AtMostOne {
 public:
  Element& emplace_back() noexcept {
    size_ = 1;
    return element_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  Element& operator[](std::size_t) noexcept { return element_; }
  const Element& operator[](std::size_t) const noexcept { return element_; }
  Element* begin() noexcept { return &element_; }
  Element* end() noexcept { return &element_ + size_; }
  const Element* begin() const noexcept { return &element_; }
  const Element* end() const noexcept { return &element_ + size_; }

 private:
  Element element_{};  // all of it: Held has members without a value of their own
  std::size_t size_ = 0;
};

using OwnCurves = ledger::CardCurves<OwnMember, std::uint32_t, AtMostOne>;

// The process's physical bytes on one device: its allocations from the driver and the bytes that
// its pools hold.
struct Physical : ledger::DeviceSamples {
  std::int32_t device = ledger::kHostDevice;
  std::uint32_t account = 0;  // the account of the driver's memory
  ledger::ReservedBytes framework;
  PeakSnapshot peak;
  ledger::Parts at_peak;
  std::uint64_t threads = 0;  // that the device can run at once; 0 = not known
  OwnCurves curves;
  // The holders at the curves' points, whose number is the epoch. As many as there are points, so
  // one is free whenever a point is taken.
  std::array<PeakSnapshot, kCardPoints> card_points;
  std::uint32_t card_epochs = 0;
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
  // `rounding_bytes`: the part that the driver added.
  void physical_changed(std::int32_t device, std::uint64_t rounding_bytes,
                        const ledger::PoolSums& pools, std::uint64_t now) noexcept;
  // The device's curves, which may ask how the bytes divide at present; nullptr without memory.
  [[nodiscard]] OwnCurves* curves(std::int32_t device, const ledger::PoolSums& pools,
                                  std::uint64_t now) noexcept;
  // The process allocates managed memory, which can be on any device.
  void add_managed(const ledger::Pools& pools, std::uint64_t now) noexcept;
  // A point that an earlier checkpoint tells: the number of its moment. Its holders follow.
  [[nodiscard]] std::size_t restore_point(Physical& device, const trace::CardPoint& point) noexcept;
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
  friend OwnMember;

  // The present time and how the device's bytes divide, for the curves.
  [[nodiscard]] ledger::Parts present_parts(const Physical& device) noexcept;
  // A new moment for the point with these holders, and its number.
  std::size_t begin_moment(Physical& device, std::uint32_t& holders) noexcept;
  // `share`: the number of the moment among the shares.
  void move_at(std::uint32_t from, std::uint32_t to, std::size_t share, const PeakSnapshot& moment,
               const LiveBytes& live) noexcept;
  void move_restored_share(std::uint32_t from, std::uint32_t to, std::size_t share,
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
  bool has_managed_ = false;
  std::uint64_t now_ = 0;             // of the last call that told it
  ledger::PoolSums pools_of_device_;  // at that call, of its device
  bool failed_ = false;
};

}  // namespace gpumemtrace::preload
