// SPDX-License-Identifier: Apache-2.0
// Two curves of the memory in use on one card: by everything on the card, and by the processes of
// the job alone. The bytes that calls ask for are known at all times; the driver is asked now and
// then.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "trace/ledger/card_point.hpp"
#include "trace/ledger/curve_peak.hpp"
#include "trace/ledger/device_samples.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

// - Computes both curves from the members' changes, in the order of the job's time. The recorder's
//   checkpoint and the analyzer use it. A member is a process of the job on the card.
// - Memory is bounded: a curve keeps two points, each with one element for each member.
// - Member is a CardMember with now(), the present time, and hold(holders), which sets `holders` to
//   what tells who holds the member's memory now, and returns the Parts of that memory.
// - List is a container with emplace_back(), whose elements are not moved when it grows.
template <class Member, class Holders, template <class> class List>
class CardCurves {
 public:
  using Held = HeldOnCard<Holders>;
  using Point = CardPoint<Held, List>;
  using Curve = CurvePeak<Point>;

  // Adds a process of the job; returns its number as a member.
  std::size_t add(const Member& member);
  // Notes that the member allocates managed memory.
  void add_managed(std::size_t member) {
    finish_round();
    members_[member].has_managed = true;
    managed_.is_there = true;
  }
  // A context was made: the driver takes memory for it that it counts for no process.
  void add_context() {
    finish_round();
    managed_.is_known = false;
  }
  // The member's calls hold `called_bytes` now; `rounding_bytes` of them the driver added by
  // rounding requests up.
  void change(std::size_t member, std::uint64_t called_bytes, std::uint64_t rounding_bytes);
  void sample(std::size_t member, const trace::MemorySample& sample);
  // Takes a row of NVML's list of processes; the list belongs to the member's last memory sample.
  void sample(std::size_t member, const trace::ProcessSample& sample);
  // The member's process has no more records; the memory that it held is released soon.
  void begin_end(std::size_t member);
  // The member's process is over, and all that it held is released.
  void end(std::size_t member);
  // Moves `more_bytes`, which a pool reserves, from the driver's bytes to those of the member's
  // calls, also at points of the last sample: that sample had counted them already.
  void count_in_last_sample(std::size_t member, std::uint64_t more_bytes);
  // Applies the numbers of the open round of samples, if there is one. Called before the curves are
  // read.
  void finish_round();

  // Hands over the records of a checkpoint about one process's curves: calls put(record), and for a
  // point put(record, holders).
  template <class Put>
  void store(std::int32_t device, Put&& put) const;
  void restore(const trace::CardState& state);
  void restore(const trace::CardCurve& curve);
  // Restores a point of a curve; the PeakHolder records that follow belong to the result.
  Held& restore(const trace::CardPoint& point);

  [[nodiscard]] const List<Member>& members() const { return members_; }
  [[nodiscard]] const Curve& of_card() const { return card_; }
  // The curve of the job's processes; not known if NVML never told how much each process uses.
  [[nodiscard]] const Curve& of_job() const { return job_; }
  [[nodiscard]] const ManagedOnCard& managed() const { return managed_; }
  template <class Visit>
  void for_each_point(Visit&& visit) {
    for (Curve* const curve : {&card_, &job_}) {
      for (Point* const point : {&curve->candidate(), &curve->best()}) visit(*point);
    }
  }

 protected:
  // One round of samples: NVML's numbers of the processes on the card, taken over row by row.
  struct Round {
    std::uint64_t number = 1;
    bool is_open = false;
    bool has_list = false;
    bool tells_unowned = false;
    std::uint32_t processes = 0;       // number of processes in NVML's list
    std::size_t asking = 0;            // the member whose process asked NVML
    std::int64_t unowned_bytes = 0;    // bytes in use on the card, but of no process
    std::uint64_t other_bytes = 0;     // bytes of processes other than the asking one
    std::uint64_t untraced_bytes = 0;  // bytes of children of the asking process that have no trace
    std::uint64_t listed_bytes = 0;    // bytes of other members, as NVML's list has them
  };

  // Subtracts modulo 2^64.
  static void subtract(std::int64_t& from, std::uint64_t bytes) {
    from = static_cast<std::int64_t>(static_cast<std::uint64_t>(from) - bytes);
  }
  void sample_card(std::size_t member, std::uint64_t in_use);
  void begin_round(std::size_t member, const trace::MemorySample& sample);
  void set_member_bytes(std::size_t member, std::uint64_t bytes);
  // The member with the process id; the number of members if there is none.
  [[nodiscard]] std::size_t member_with(std::uint32_t process_id) const;
  void set_to_present(std::size_t member, Point& point);
  // Updates the sum of all members after the member's bytes, by calls or by the driver, have
  // changed.
  void count(std::size_t member);
  // Marks the member as changed in every point.
  void touch(std::size_t member) {
    if (members_[member].is_marked) return;
    members_[member].is_marked = true;
    for_each_point([&](Point& point) { point.mark_changed(member); });
  }
  void add_ending(std::size_t member) {
    members_[member].next_ending = std::exchange(first_ending_, member);
    ++ending_members_;
  }
  // Ends the members that are about to end and are not in the round's list of processes.
  void end_unlisted(const Round& round);
  // Corrects points that were taken before the driver first told how much it took for the member.
  void correct_earlier_points(std::size_t member);
  // Sets the bytes that the driver took for each changed member, and those outside of members, in
  // the point to the numbers of the last samples.
  void set_driver_bytes(Point& point) const;
  // The bytes that the driver took for the job's processes, by the last numbers for each process.
  [[nodiscard]] Beyond taken_for_job(const Round& round);
  void find_managed(const Round& round);
  [[nodiscard]] Curve& curve_of(trace::CurveOf of) {
    return of == trace::CurveOf::kJob ? job_ : card_;
  }

  List<Member> members_;
  std::uint64_t called_bytes_ = 0;
  std::uint64_t other_bytes_ = 0;
  std::uint64_t untraced_bytes_ = 0;
  TakenByDriver taken_;             // the bytes that the driver took for all members
  std::size_t first_ending_ = 0;    // the first in the list of members that are about to end
  std::size_t ending_members_ = 0;  // number of members that are about to end
  Round round_;
  ManagedOnCard managed_;
  // the end of the round is to divide the driver's bytes at the card's highest point by process
  bool best_awaits_round_ = false;
  Curve card_;
  Curve job_;
};

template <class Member, class Holders, template <class> class List>
std::size_t CardCurves<Member, Holders, List>::add(const Member& member) {
  members_.emplace_back() = member;
  managed_.is_there = managed_.is_there || member.has_managed;
  for_each_point([](Point& point) { point.add_member(); });
  const std::size_t index = members_.size() - 1;
  members_[index].called_bytes = 0;
  members_[index].counted = {};
  members_[index].is_marked = true;
  change(index, member.called_bytes, member.rounding_bytes);
  return index;
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::change(std::size_t member, std::uint64_t called_bytes,
                                               std::uint64_t rounding_bytes) {
  if (round_.is_open) finish_round();
  Member& changed = members_[member];
  called_bytes_ += called_bytes - changed.called_bytes;
  changed.called_bytes = called_bytes;
  changed.most_called_bytes = std::max(changed.most_called_bytes, called_bytes);
  changed.rounding_bytes = rounding_bytes;
  count(member);
  touch(member);
  for (Curve* const curve : {&card_, &job_}) {
    curve->change(called_bytes_, [&](Point& point) { set_to_present(member, point); });
  }
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::end(std::size_t member) {
  Member& ended = members_[member];
  change(member, 0, 0);
  ended.driver_bytes = 0;
  ended.has_ended = true;
  count(member);
  touch(member);
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::begin_end(std::size_t member) {
  if (std::exchange(members_[member].is_ending, true)) return;
  add_ending(member);
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::end_unlisted(const Round& round) {
  std::size_t next = first_ending_;
  for (std::size_t left = std::exchange(ending_members_, 0); left != 0; --left) {
    const std::size_t member = next;
    next = members_[member].next_ending;
    if (members_[member].listed_round == round.number || member == round.asking) {
      add_ending(member);
    } else {
      end(member);
    }
  }
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::count(std::size_t member) {
  Member& counted = members_[member];
  taken_.subtract(counted.counted);
  counted.counted = counted.taken();
  taken_.add(counted.counted);
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::set_to_present(std::size_t member, Point& point) {
  point.time = members_[member].now();
  point.process = members_[member].process;
  point.is_partial = false;
  point.mark_changed(member);
  point.for_each_changed([&](std::size_t i) {
    Member& holder = members_[i];
    Held& held = point.held[i];
    held.rounding_bytes = holder.rounding_bytes;
    holder.is_marked = false;
    if (holder.has_ended) {
      held.parts = {};
      held.holders = {};
    } else {
      held.parts = holder.hold(held.holders);
    }
  });
  set_driver_bytes(point);
  point.forget_changes();
  // The record that is being applied may go on to change the bytes that the member holds.
  point.mark_changed(member);
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::set_driver_bytes(Point& point) const {
  point.other_bytes = other_bytes_;
  point.untraced_bytes = untraced_bytes_;
  point.managed_bytes = managed_.is_known ? managed_.bytes : 0;
  point.for_each_changed(
      [&](std::size_t i) { point.held[i].driver_bytes = members_[i].driver_bytes; });
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::sample(std::size_t member,
                                               const trace::MemorySample& sample) {
  if (round_.is_open) finish_round();
  Member& asking = members_[member];
  switch (sample.source) {
    case trace::SampleSource::kMemGetInfo:
      asking.asked_for_free = true;
      return sample_card(member, in_use_of(sample));
    case trace::SampleSource::kNvmlProcess:
    case trace::SampleSource::kNvmlDevice:
      if (!asking.asked_for_free) sample_card(member, in_use_of(sample));
      asking.asked_for_free = false;
      if (sample.source == trace::SampleSource::kNvmlProcess) begin_round(member, sample);
      return;
    case trace::SampleSource::kNone:
      return;
  }
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::sample_card(std::size_t member, std::uint64_t in_use) {
  const std::int64_t beyond = difference(in_use, called_bytes_);
  best_awaits_round_ = card_.sample(called_bytes_, {beyond, beyond},
                                    [&](Point& point) { set_to_present(member, point); });
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::begin_round(std::size_t member,
                                                    const trace::MemorySample& sample) {
  set_member_bytes(member, sample.process_bytes);
  round_ = {.number = round_.number + 1};
  round_.is_open = true;
  round_.asking = member;
  round_.other_bytes = sample.other_bytes;
  // Older traces do not tell how much of the card the driver reserves.
  round_.tells_unowned = sample.reserved_bytes != 0;
  round_.unowned_bytes =
      difference(in_use_of(sample), sample.process_bytes) - believable(sample.other_bytes);
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::set_member_bytes(std::size_t member, std::uint64_t bytes) {
  Member& told = members_[member];
  told.driver_bytes = difference(bytes, told.called_bytes);
  if (!told.is_told) correct_earlier_points(member);
  told.is_told = true;
  count(member);
  touch(member);
}

// Until the driver first tells the member's bytes, points count those beyond its calls as other
// processes' bytes. At most that many are moved to the member.
template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::correct_earlier_points(std::size_t member) {
  for_each_point([&](Point& point) {
    Held& held = point.held[member];
    if (held.parts.physical() == 0 || held.driver_bytes != 0) return;
    const std::uint64_t late = std::min(positive(members_[member].driver_bytes), point.other_bytes);
    held.driver_bytes = static_cast<std::int64_t>(late);
    point.other_bytes -= late;
  });
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::sample(std::size_t member,
                                               const trace::ProcessSample& sample) {
  if (!round_.is_open || round_.asking != member) return;
  round_.processes += sample.processes;
  if (sample.relation == trace::ProcessRelation::kThis) {
    members_[member].process_id = sample.process_id;
    return;
  }
  if (sample.bytes == trace::kBytesNotTold) return;
  round_.has_list = true;
  const std::size_t listed = member_with(sample.process_id);
  if (listed != members_.size()) {
    members_[listed].listed_round = round_.number;
    set_member_bytes(listed, sample.bytes);
    round_.listed_bytes += sample.bytes;
  } else if (sample.relation == trace::ProcessRelation::kDescendant) {
    round_.untraced_bytes += sample.bytes;
  }
}

template <class Member, class Holders, template <class> class List>
std::size_t CardCurves<Member, Holders, List>::member_with(std::uint32_t process_id) const {
  const auto found = std::ranges::find_if(members_, [&](const Member& member) {
    return member.process_id == process_id && process_id != 0 && !member.has_ended;
  });
  return static_cast<std::size_t>(found - members_.begin());
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::finish_round() {
  if (!round_.is_open) return;
  const Round round = round_;
  round_.is_open = false;
  if (round.has_list) end_unlisted(round);
  Beyond beyond = taken_for_job(round);
  find_managed(round);
  if (managed_.is_known) {
    beyond.low += believable(managed_.bytes);
    beyond.high += believable(managed_.bytes);
  }
  // If the bytes of calls have changed since the driver was asked, the point gets the present
  // state, else that of the sample.
  const auto take_then = [&](Point& point) {
    const Point& asked = card_.candidate();
    if (!asked.at_sample || asked.called_bytes != called_bytes_)
      return set_to_present(round.asking, point);
    point.copy_held(asked);
    set_driver_bytes(point);
  };
  if (job_.sample(called_bytes_, beyond, take_then)) set_driver_bytes(job_.best());
  set_driver_bytes(card_.candidate());
  if (best_awaits_round_) set_driver_bytes(card_.best());
  best_awaits_round_ = false;
}

template <class Member, class Holders, template <class> class List>
Beyond CardCurves<Member, Holders, List>::taken_for_job(const Round& round) {
  Beyond beyond{static_cast<std::int64_t>(taken_.low_bytes),
                static_cast<std::int64_t>(taken_.high_bytes)};
  // The bytes of all members but the one that asked NVML in this round.
  std::uint64_t members_bytes = taken_.member_bytes - members_[round.asking].counted.member_bytes;
  if (round.has_list) members_bytes = round.listed_bytes;
  untraced_bytes_ = round.untraced_bytes;
  other_bytes_ =
      positive(difference(round.other_bytes, members_bytes) - believable(untraced_bytes_));
  beyond.low += believable(untraced_bytes_);
  beyond.high += believable(untraced_bytes_);
  // The bytes of a process of the job that has not asked the driver yet are counted in
  // other_bytes_.
  if (taken_.not_told != 0) beyond.high += believable(other_bytes_);
  return beyond;
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::find_managed(const Round& round) {
  if (!managed_.is_there) {
    managed_ = {.is_known = round.tells_unowned,
                .processes = round.processes,
                .unowned_bytes = round.unowned_bytes};
    return;
  }
  managed_.is_known = managed_.is_known && round.tells_unowned && other_bytes_ == 0 &&
                      round.processes == managed_.processes;
  managed_.bytes = managed_.is_known ? positive(round.unowned_bytes - managed_.unowned_bytes) : 0;
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::count_in_last_sample(std::size_t member,
                                                             std::uint64_t more_bytes) {
  finish_round();
  const bool is_told = members_[member].is_told;
  if (is_told) subtract(members_[member].driver_bytes, more_bytes);
  count(member);
  touch(member);
  for (Curve* const curve : {&card_, &job_}) {
    curve->count_in_last_sample(more_bytes, [&](Point& point) {
      point.held[member].parts.pool_reserved += more_bytes;
      if (is_told) subtract(point.held[member].driver_bytes, more_bytes);
    });
  }
}

template <class Member, class Holders, template <class> class List>
template <class Put>
void CardCurves<Member, Holders, List>::store(std::int32_t device, Put&& put) const {
  const Member& member = members_[0];
  trace::CardState state;
  state.called_bytes = member.called_bytes;
  state.driver_bytes = member.driver_bytes;
  state.other_bytes = other_bytes_;
  state.untraced_bytes = untraced_bytes_;
  state.round_other_bytes = round_.other_bytes;
  state.round_untraced_bytes = round_.untraced_bytes;
  state.round_unowned_bytes = round_.unowned_bytes;
  state.unowned_bytes = managed_.unowned_bytes;
  state.managed_bytes = managed_.bytes;
  state.round_processes = round_.processes;
  state.processes = managed_.processes;
  state.process_id = member.process_id;
  state.device = device;
  state.is_told = member.is_told;
  state.asked_for_free = member.asked_for_free;
  state.round_is_open = round_.is_open;
  state.round_has_list = round_.has_list;
  state.round_tells_unowned = round_.tells_unowned;
  state.best_is_to_divide = best_awaits_round_;
  state.has_managed = managed_.is_there;
  state.managed_is_known = managed_.is_known;
  put(state);
  for (const trace::CurveOf of : {trace::CurveOf::kCard, trace::CurveOf::kJob}) {
    const Curve& curve = of == trace::CurveOf::kJob ? job_ : card_;
    trace::CardCurve record;
    curve.store(record);
    record.device = device;
    record.of = of;
    put(record);
    for (const bool is_best : {false, true}) {
      const Point& point = is_best ? curve.best() : curve.candidate();
      const Held& held = point.held[0];
      trace::CardPoint stored;
      stored.called_bytes = point.called_bytes;
      stored.point_time = point.time;
      stored.framework_allocated = held.parts.framework_allocated;
      stored.pool_used = held.parts.pool_used;
      stored.pool_reserved = held.parts.pool_reserved;
      stored.allocated = held.parts.driver;
      stored.rounding_bytes = held.rounding_bytes;
      stored.driver_bytes = held.driver_bytes;
      stored.other_bytes = point.other_bytes;
      stored.untraced_bytes = point.untraced_bytes;
      stored.managed_bytes = point.managed_bytes;
      stored.device = device;
      stored.of = of;
      stored.is_best = is_best;
      stored.at_sample = point.at_sample;
      put(stored, held.holders);
    }
  }
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::restore(const trace::CardState& state) {
  Member& member = members_[0];
  member.driver_bytes = state.driver_bytes;
  member.process_id = state.process_id;
  member.is_told = state.is_told != 0;
  member.asked_for_free = state.asked_for_free != 0;
  other_bytes_ = state.other_bytes;
  untraced_bytes_ = state.untraced_bytes;
  round_ = {};
  round_.is_open = state.round_is_open != 0;
  round_.has_list = state.round_has_list != 0;
  round_.tells_unowned = state.round_tells_unowned != 0;
  round_.processes = state.round_processes;
  round_.unowned_bytes = state.round_unowned_bytes;
  round_.other_bytes = state.round_other_bytes;
  round_.untraced_bytes = state.round_untraced_bytes;
  member.has_managed = state.has_managed != 0;
  managed_.is_there = member.has_managed;
  managed_.is_known = state.managed_is_known != 0;
  managed_.processes = state.processes;
  managed_.unowned_bytes = state.unowned_bytes;
  managed_.bytes = state.managed_bytes;
  best_awaits_round_ = state.best_is_to_divide != 0;
  count(0);
  touch(0);
}

template <class Member, class Holders, template <class> class List>
void CardCurves<Member, Holders, List>::restore(const trace::CardCurve& curve) {
  curve_of(curve.of).restore(curve);
}

template <class Member, class Holders, template <class> class List>
typename CardCurves<Member, Holders, List>::Held& CardCurves<Member, Holders, List>::restore(
    const trace::CardPoint& stored) {
  Curve& curve = curve_of(stored.of);
  Point& point = stored.is_best != 0 ? curve.best() : curve.candidate();
  point.called_bytes = stored.called_bytes;
  point.at_sample = stored.at_sample != 0;
  point.is_partial = false;
  point.time = stored.point_time;
  point.process = members_[0].process;
  point.other_bytes = stored.other_bytes;
  point.untraced_bytes = stored.untraced_bytes;
  point.managed_bytes = stored.managed_bytes;
  Held& held = point.held[0];
  held.parts = {stored.point_time, stored.framework_allocated, stored.pool_used,
                stored.pool_reserved, stored.allocated};
  held.rounding_bytes = stored.rounding_bytes;
  held.driver_bytes = stored.driver_bytes;
  return held;
}

}  // namespace gpumemtrace::ledger
