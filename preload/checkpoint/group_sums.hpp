// SPDX-License-Identifier: Apache-2.0
// The sums of a compaction: live bytes, their peaks, and the bytes that each group of calls held at
// each peak.
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

// The highest value that a sum has had so far.
struct PeakSnapshot {
  std::uint64_t time = 0;  // in model time (trace/order.hpp)
  std::uint64_t bytes = 0;
  std::uint32_t epoch = 0;  // raised with each new highest point
  // True if the peak came from an earlier checkpoint: then a group without a saved share held
  // nothing.
  bool is_restored = false;
};

// The bytes that a group held at a peak; valid while the share's epoch is that of the peak.
struct Share {
  std::uint32_t epoch = 0;
  std::uint32_t count = 0;
  std::uint64_t bytes = 0;
};

// Each group has a share at each of these moments: the peak of the account that its memory counts
// in, and for driver memory also the physical peak of the device and the points of OwnCurves.
inline constexpr std::size_t kCardPoints = 4;
inline constexpr std::size_t kAtPeak = 0;
inline constexpr std::size_t kAtPhysicalPeak = 1;
inline constexpr std::size_t kAtCardPoint = 2;  // the first of kCardPoints
inline constexpr std::size_t kMoments = kAtCardPoint + kCardPoints;

// Calls that a report does not distinguish.
struct Group {
  std::uint32_t row = kNoIndex32;  // index of the Row; kNoIndex32: the group holds no memory
  std::uint32_t live_count = 0;
  std::uint64_t live_bytes = 0;
  std::array<Share, kMoments> shares;
  ledger::Releases freed;
  bool is_restored = false;  // true for holders of a peak from an earlier checkpoint
  trace::Totals totals;      // the calls' common fields, and the sums of the calls that have ended
};

// The sum of the memory of one kind on one device; for kinds that have pools, of one pool.
struct Row {
  Kind kind = Kind::kDevice;
  std::int32_t device = ledger::kHostDevice;
  std::uint32_t pool = 0;  // the pool's index
  std::uint32_t account = 0;
  std::uint64_t bytes = 0;
  PeakSnapshot peak;
};

// The sum of all memory of one level (driver, pools, host, framework, ...) on one device.
struct Account {
  Level level = Level::kDriver;
  std::int32_t device = ledger::kHostDevice;
  std::uint64_t bytes = 0;
  PeakSnapshot peak;
};

class GroupSums;

// This process as a member of its card's curves. A point of a curve has the epoch of one of
// card_points, by which the groups' shares at that point are found; copies of a point have the same
// epoch.
struct OwnMember : ledger::CardMember {
  GroupSums* sums = nullptr;

  [[nodiscard]] std::uint64_t now() const noexcept;
  [[nodiscard]] ledger::Parts hold(std::uint32_t& epoch) const noexcept;
};

// A list of at most one element, which is stored in place.
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
  Element element_{};  // {} sets all members: some of Held have no default value
  std::size_t size_ = 0;
};

using OwnCurves = ledger::CardCurves<OwnMember, std::uint32_t, AtMostOne>;

// The process's physical bytes on one device: its allocations from the driver and the bytes that
// its pools hold.
struct Physical : ledger::DeviceSamples {
  std::int32_t device = ledger::kHostDevice;
  std::uint32_t account = 0;  // index of the device's Account of level kDriver
  ledger::ReservedBytes framework;
  PeakSnapshot peak;
  ledger::Parts at_peak;
  std::uint64_t threads = 0;  // threads that the device can run at once; 0 = not known
  OwnCurves curves;
  // The driver memory at the points of `curves`; a point names its snapshot by the epoch. There are
  // as many snapshots as points, so one is free whenever a point is taken.
  std::array<PeakSnapshot, kCardPoints> card_points;
  std::uint32_t card_epochs = 0;
};

struct LiveBytes {
  std::uint64_t bytes = 0;
  std::uint64_t born_time = 0;  // in model time (trace/order.hpp)
};

// - A sum costs a few stores for each event. A peak does not copy its holders: a group saves its
//   share before it changes for the first time after the peak.
// - failed() is true if the system had no memory; the sums are worthless then.
class GroupSums {
 public:
  // Index of the group of calls that agree with `like` in all fields but the sums; kNoIndex32 if
  // the system has no memory.
  std::uint32_t group_of(const trace::Totals& like, bool is_restored = false) noexcept;
  // Assigns the group to the Row of this kind and device; the pool counts only for kinds of memory
  // that have several pools.
  void bind(std::uint32_t group, Kind kind, std::int32_t device, std::uint32_t pool) noexcept;

  void add(std::uint32_t group, const LiveBytes& live, std::uint64_t now) noexcept;
  void remove(std::uint32_t group, std::uint64_t bytes) noexcept;
  // Moves live bytes to another group of the same Row, in the shares at past peaks, too: they
  // turned out to have belonged to that group all along.
  void move(std::uint32_t from, std::uint32_t to, const LiveBytes& live) noexcept;
  // The group that holds the numbers that an earlier checkpoint has for calls like `like`.
  std::uint32_t restored_group_of(const trace::Totals& like, std::int32_t device) noexcept;

  // The bytes of pools or of driver memory have changed: checks for a new physical peak.
  // `rounding_bytes`: the part that the driver added when it rounded sizes up.
  void physical_changed(std::int32_t device, std::uint64_t rounding_bytes,
                        const ledger::PoolSums& pools, std::uint64_t now) noexcept;
  // The device's curves, which take `pools` and `now` for the present state until the next call;
  // nullptr if the system has no memory.
  [[nodiscard]] OwnCurves* curves(std::int32_t device, const ledger::PoolSums& pools,
                                  std::uint64_t now) noexcept;
  // Called when the process allocates managed memory, which can be on any device.
  void add_managed(const ledger::Pools& pools, std::uint64_t now) noexcept;
  // Restores a point of a curve from an earlier checkpoint, and returns the index of the point's
  // snapshot in card_points, for the PeakHolder records that follow.
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

  // The group's share at the snapshot's time: the saved share, or the live bytes if none was saved
  // since.
  Share share_of(const Group& group, const Share& saved,
                 const PeakSnapshot& snapshot) const noexcept;
  // Replaces `peak` by the peak of an earlier checkpoint unless that is lower. True if it replaced
  // it.
  [[nodiscard]] bool replace_unless_lower(PeakSnapshot& peak, std::uint64_t bytes,
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
  // Takes a free snapshot of card_points for the point of a curve that contains `holders`: sets
  // `holders` to the snapshot's new epoch, and returns the snapshot's index.
  std::size_t begin_point_snapshot(Physical& device, std::uint32_t& holders) noexcept;
  // `share`: the index of the snapshot's share in Group::shares.
  void move_at(std::uint32_t from, std::uint32_t to, std::size_t share,
               const PeakSnapshot& snapshot, const LiveBytes& live) noexcept;
  void move_restored_share(std::uint32_t from, std::uint32_t to, std::size_t share,
                           std::uint32_t epoch, const LiveBytes& live) noexcept;
  void save_shares(Group& group) noexcept;
  static void save(const Group& group, Share& share, const PeakSnapshot& snapshot) noexcept;
  void raise_peak(PeakSnapshot& peak, std::uint64_t bytes, std::uint64_t now) noexcept;
  [[nodiscard]] bool grow_index() noexcept;
  std::uint32_t account_index(Level level, std::int32_t device) noexcept;

  MappedArray<Group> groups_;
  MappedArray<std::uint32_t> index_;  // indexes of groups_, plus 1, by hash; 0 = empty
  MappedArray<Row> rows_;
  MappedArray<Account> accounts_;
  MappedArray<Physical> physicals_;
  bool has_managed_ = false;
  std::uint64_t now_ = 0;             // model time, as the last call of curves() gave it
  ledger::PoolSums pools_of_device_;  // sums of the pools on the device of that call
  bool failed_ = false;
};

}  // namespace gpumemtrace::preload
