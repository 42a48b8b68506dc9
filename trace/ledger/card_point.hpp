// SPDX-License-Identifier: Apache-2.0
// The parts of a card's curves: its processes, points, and the managed memory on it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "trace/ledger/device_samples.hpp"

namespace gpumemtrace::ledger {

// More than any card has; a damaged trace may say anything.
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
  std::int64_t driver_bytes = 0;  // that the driver took for the process beyond its calls
  Holders holders;                // of driver memory
};

// A point of the card's curves. It knows which members changed since it was taken, so that taking
// it again costs as much as changed, not as many members as there are.
template <class Held, template <class> class List>
class CardPoint {
 public:
  std::uint64_t called_bytes = 0;  // asked for by all processes, as the driver rounds it
  bool at_sample = false;
  bool is_partial = false;  // memory of other processes of the job is missing
  std::uint64_t time = 0;   // in the model time of `process`; 0 = there is none
  std::uint32_t process = 0;
  std::uint64_t other_bytes = 0;     // of processes that are not of the job
  std::uint64_t untraced_bytes = 0;  // of processes of the job that have no trace
  std::uint64_t managed_bytes = 0;   // of the job, on the card, if that is known
  List<Held> held;                   // by member

  // Adds a member, which has changed.
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
  // Calls visit(member) for each that changed.
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
  // Nothing is held by any member.
  void clear_held() {
    for (std::size_t i = 0; i < held.size(); ++i) {
      held[i] = {};
      mark_changed(i);
    }
  }
  // Takes over the time, the process and the bytes of each member, not the rest of the point.
  // Members that changed since neither point was taken have the same in both.
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
  // In the list of members that changed.
  struct Link {
    std::size_t next = kNoMember;
    bool is_in_list = false;
  };
  List<Link> changed_;  // by member
  std::size_t first_changed_ = kNoMember;
};

// The bytes of a member, or of several, as the last samples tell them. Modulo 2^64.
struct TakenByDriver {
  std::uint64_t low_bytes = 0;     // beyond what its calls hold
  std::uint64_t high_bytes = 0;    // beyond what its calls hold
  std::uint64_t member_bytes = 0;  // what its calls hold included
  std::uint64_t not_told = 0;      // members that hold memory and have no sample

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

// A process that may use the card.
struct CardMember {
  std::uint32_t process = 0;
  std::int32_t ordinal = 0;      // the process's number of the card
  std::uint32_t process_id = 0;  // in the namespace that NVML knows; 0 = not known
  std::uint64_t called_bytes = 0;
  std::uint64_t most_called_bytes = 0;  // so far
  std::uint64_t rounding_bytes = 0;
  std::int64_t driver_bytes = 0;  // by the last sample that told it
  bool has_managed = false;       // it allocates managed memory
  bool is_told = false;           // the driver told the process apart
  bool asked_for_free = false;    // since the driver was last asked about processes
  bool is_ending = false;         // it has no more records
  bool has_ended = false;
  bool is_marked = false;          // every point knows that it changed
  std::uint64_t listed_round = 0;  // the last one whose list of NVML has it
  std::size_t next_ending = 0;     // a list
  TakenByDriver counted;           // in the sum of all members

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

// NVML counts the pages of managed memory on a card for no process. The numbers of a round tell
// them only if all else that belongs to no process is as it was in a round before such memory was
// allocated: no context was made since, the same number of processes is on the card, and none of
// them is foreign to the job.
struct ManagedOnCard {
  bool is_there = false;           // some process of the job allocated managed memory
  bool is_known = false;           // a round before that told the rest
  std::uint32_t processes = 0;     // on the card in that round
  std::int64_t unowned_bytes = 0;  // in use in that round and no process's
  std::uint64_t bytes = 0;         // by the last round, with freed pages that the driver keeps
};

}  // namespace gpumemtrace::ledger
