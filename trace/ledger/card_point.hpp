// SPDX-License-Identifier: Apache-2.0
// The parts of the curves of a card's memory: the processes on the card, points of the curves, and
// managed memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trace/ledger/device_samples.hpp"

namespace gpumemtrace::ledger {

// More bytes than any card has; larger numbers are cut to this, because a damaged trace may say
// anything.
inline constexpr std::uint64_t kMostCardBytes = std::uint64_t{1} << 50;

[[nodiscard]] constexpr std::int64_t believable(std::uint64_t bytes) {
  return static_cast<std::int64_t>(std::min(bytes, kMostCardBytes));
}
[[nodiscard]] constexpr std::int64_t believable(std::int64_t bytes) {
  return std::clamp(bytes, -believable(kMostCardBytes), believable(kMostCardBytes));
}
[[nodiscard]] constexpr std::int64_t difference(std::uint64_t bytes, std::uint64_t less_bytes) {
  return believable(bytes) - believable(less_bytes);
}
[[nodiscard]] constexpr std::uint64_t positive(std::int64_t bytes) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0));
}

// The memory that one process held on the card at one point of time.
template <class Holders>
struct HeldOnCard {
  Parts parts;
  std::uint64_t rounding_bytes = 0;
  std::int64_t driver_bytes = 0;  // the bytes that the driver took for the process beyond its calls
  Holders holders;                // tells who held the process's memory at that time
};

// A point of a card's curve. The point knows which members (processes of the job) changed since it
// was taken, so taking it again costs as much as there are changed members, not as there are
// members.
template <class Held, template <class> class List>
class CardPoint {
 public:
  // bytes that the calls of all members asked for, as the driver rounds them
  std::uint64_t called_bytes = 0;
  bool at_sample = false;
  bool is_partial = false;  // the memory of some other processes of the job is missing
  std::uint64_t time = 0;   // time of `process` as its now() tells it; 0 = there is no point
  std::uint32_t process = 0;
  std::uint64_t other_bytes = 0;     // bytes of processes that are not of the job
  std::uint64_t untraced_bytes = 0;  // bytes of processes of the job that have no trace
  // managed memory of the job's processes on the card, if that is known
  std::uint64_t managed_bytes = 0;
  List<Held> held;  // the memory that each member holds

  // Adds a member, marked as changed.
  void add_member() {
    changed_.emplace_back();
    held.emplace_back();
    mark_changed(held.size() - 1);
  }
  void mark_changed(std::size_t member) {
    Link& link = changed_[member];
    if (link.is_in_list) return;
    link = {first_changed_, true};
    first_changed_ = member;
  }
  // Calls visit(member) for each member that changed since the point was taken.
  template <class Visit>
  void for_each_changed(Visit&& visit) const {
    for (std::size_t i = first_changed_; i != kNoMember; i = changed_[i].next) visit(i);
  }
  void forget_changes() {
    while (first_changed_ != kNoMember) {
      Link& link = changed_[first_changed_];
      first_changed_ = link.next;
      link = {};
    }
  }
  // Sets the memory that each member holds to nothing.
  void clear_held() {
    for (std::size_t i = 0; i < held.size(); ++i) {
      held[i] = {};
      mark_changed(i);
    }
  }
  // Copies the time, the process and the bytes of each member from another point, not the rest. A
  // member that did not change since either point was taken has the same bytes in both.
  void copy_held(const CardPoint& from) {
    time = from.time;
    process = from.process;
    for_each_changed([&](std::size_t i) { held[i] = from.held[i]; });
    forget_changes();
    from.for_each_changed([&](std::size_t i) {
      held[i] = from.held[i];
      mark_changed(i);
    });
  }

 private:
  static constexpr std::size_t kNoMember = ~std::size_t{0};
  // An element of the linked list of members that changed.
  struct Link {
    std::size_t next = kNoMember;
    bool is_in_list = false;
  };
  List<Link> changed_;  // for each member, a link in the list of changed ones
  std::size_t first_changed_ = kNoMember;
};

// The bytes that the driver took for one or more members, by the last samples. Modulo 2^64.
struct TakenByDriver {
  std::uint64_t low_bytes = 0;     // bytes beyond those that the members' calls hold
  std::uint64_t high_bytes = 0;    // the same bytes, counted as at least 0 for each member
  std::uint64_t member_bytes = 0;  // all bytes of the members, those that their calls hold included
  std::uint64_t not_told = 0;      // number of members that hold memory and have no sample

  void add(const TakenByDriver& taken) {
    low_bytes += taken.low_bytes;
    high_bytes += taken.high_bytes;
    member_bytes += taken.member_bytes;
    not_told += taken.not_told;
  }
  void subtract(const TakenByDriver& taken) {
    low_bytes -= taken.low_bytes;
    high_bytes -= taken.high_bytes;
    member_bytes -= taken.member_bytes;
    not_told -= taken.not_told;
  }
};

// A process of the job that may use the card.
struct CardMember {
  std::uint32_t process = 0;
  std::int32_t ordinal = 0;  // the ordinal that the card has in the process
  // the process's id in the PID namespace that NVML knows; 0 = not known
  std::uint32_t process_id = 0;
  std::uint64_t called_bytes = 0;
  std::uint64_t most_called_bytes = 0;  // the most that called_bytes was so far
  std::uint64_t rounding_bytes = 0;
  std::int64_t driver_bytes = 0;  // bytes beyond its calls, by the last sample that told them
  bool has_managed = false;       // the process allocates managed memory
  bool is_told = false;           // NVML told how much the process uses
  // cuMemGetInfo was asked since NVML was last asked about processes
  bool asked_for_free = false;
  bool is_ending = false;  // the process has no more records
  bool has_ended = false;
  bool is_marked = false;  // every CardPoint has noted that this member's bytes changed
  // the last round of samples in whose list of processes the member is
  std::uint64_t listed_round = 0;
  std::size_t next_ending = 0;  // the next member in the list of those that are about to end
  TakenByDriver counted;        // the part of this member in the sum of all members

  [[nodiscard]] TakenByDriver taken() const {
    TakenByDriver taken;
    if (has_ended) return taken;
    if (!is_told) {
      taken.member_bytes = positive(believable(called_bytes));
      taken.not_told = called_bytes != 0 ? 1 : 0;
      return taken;
    }
    const std::int64_t bytes = believable(driver_bytes);
    taken.low_bytes = static_cast<std::uint64_t>(bytes);
    taken.high_bytes = positive(bytes);
    taken.member_bytes = positive(believable(called_bytes) + bytes);
    return taken;
  }
};

// Managed memory on a card. NVML counts its pages for no process. The numbers of a round of samples
// tell its bytes only if all else that belongs to no process is as in an earlier round, before
// managed memory was allocated: no context was made since, the number of processes on the card is
// the same, and none of them is foreign to the job.
struct ManagedOnCard {
  bool is_there = false;           // some process of the job allocated managed memory
  bool is_known = false;           // the earlier round is known, and all else is as it was then
  std::uint32_t processes = 0;     // number of processes on the card in the earlier round
  std::int64_t unowned_bytes = 0;  // bytes of no process in the earlier round
  // managed bytes by the last round, including freed pages that the driver keeps
  std::uint64_t bytes = 0;
};

}  // namespace gpumemtrace::ledger
