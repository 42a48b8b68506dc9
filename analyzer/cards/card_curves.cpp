// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cards/card_curves.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

// Copies a point of a process's own curves, in which the process is member 0, to a point of the
// card's curves, in which it has the number `member`.
void copy_point(const CardPoint& from, std::size_t member, CardPoint& point) {
  point.time = from.time;
  point.process = from.process;
  point.other_bytes = from.other_bytes;
  point.untraced_bytes = from.untraced_bytes;
  point.managed_bytes = from.managed_bytes;
  point.clear_held();
  point.held[member] = from.held[0];
}

trace::CardPoint stored_point(const rows::CardPrefixPoint& point) {
  trace::CardPoint stored = point;
  stored.point_time = time_of_point(point.time_ns);
  return stored;
}

// The curves of the card that the process computed alone before a checkpoint.
CardCurves curves_before(const rows::CardPrefix& prefix, std::uint32_t process) {
  CardCurves before_checkpoint;
  CardMember member;
  member.process = process;
  (void)before_checkpoint.add(member);
  before_checkpoint.restore(prefix);
  for (const rows::CardPrefixCurve& curve : prefix.curves) before_checkpoint.restore(curve);
  for (const rows::CardPrefixPoint& point : prefix.points) {
    before_checkpoint.restore(stored_point(point)).holders = {&point, 0};
  }
  return before_checkpoint;
}

}  // namespace

void CardCurves::take_change(std::size_t member) {
  CardMember& taken = members_[member];
  const rows::CardChange& present = taken.history->changes[taken.changes++];
  change(member, present.allocated_bytes + present.pool_reserved + present.rounding_bytes,
         present.rounding_bytes);
}

// Restores the part of the curves before a checkpoint that has no curves, from the highest point of
// the process's calls, the most bytes that the driver reported, the sample nearest to that point,
// and the last sample.
void CardCurves::restore_from_samples(std::size_t member, const rows::CardSummary& summary) {
  members_[member].is_told = summary.most_of_process != 0;
  count(member);
  const rows::CardPrefixPoint& highest = summary.highest;
  const std::uint64_t called_bytes = highest.called_bytes;
  const auto take_point = [&](CardPoint& point) {
    point.time = time_of_point(highest.time_ns);
    point.process = members_[member].process;
    point.other_bytes = summary.nearest.other_bytes;
    point.clear_held();
    HeldOnCard& held = point.held[member];
    held.parts = {point.time, highest.framework_allocated, highest.pool_used, highest.pool_reserved,
                  highest.allocated};
    held.holders = {&highest, 0};
  };
  const auto restore_curve = [&](Curve& curve, std::uint64_t most_bytes, std::uint64_t nearest,
                                 std::uint64_t last) {
    if (most_bytes == 0) return;
    // by how much the sample nearest to the highest point had more bytes than the calls held
    const std::int64_t beyond = ledger::difference(nearest, summary.nearest.called_bytes);
    ledger::CurveBounds bounds;
    bounds.bytes = std::max(most_bytes, called_bytes + ledger::positive(beyond));
    bounds.low_bytes = std::max(most_bytes, called_bytes);
    bounds.high_bytes = called_bytes + most_bytes;
    if (summary.total_bytes != 0) {
      bounds.high_bytes = std::min(bounds.high_bytes, summary.total_bytes);
    }
    bounds.high_bytes = std::max(bounds.high_bytes, bounds.bytes);
    curve.restore(bounds, called_bytes, take_point);
    const std::int64_t at_end = ledger::difference(last, summary.last.called_bytes);
    curve.restore_last_sample({at_end, at_end});
  };
  restore_curve(card_, summary.most_in_use, summary.nearest.in_use, summary.last.in_use);
  restore_curve(job_, summary.most_of_process, summary.nearest.process_bytes,
                summary.last.process_bytes);
}

// Continues the curves that the member's process computed alone before a checkpoint: unchanged if
// it is the only member, else with wider bounds.
bool CardCurves::take_over(std::size_t member, const rows::CardPrefix& prefix) {
  const CardCurves before_checkpoint = curves_before(prefix, members_[member].process);
  CardMember& self = members_[member];
  const CardMember& before = before_checkpoint.members_[0];
  self.driver_bytes = before.driver_bytes;
  self.is_told = before.is_told;
  self.asked_for_free = before.asked_for_free;
  self.has_managed = before.has_managed;
  if (before.process_id != 0) self.process_id = before.process_id;
  const bool is_alone = members_.size() == 1;
  if (is_alone) {
    other_bytes_ = before_checkpoint.other_bytes_;
    untraced_bytes_ = before_checkpoint.untraced_bytes_;
    round_ = before_checkpoint.round_;
    managed_ = before_checkpoint.managed_;
    best_awaits_round_ = before_checkpoint.best_awaits_round_;
    copy_curve_state(member, before_checkpoint.card_, card_);
    copy_curve_state(member, before_checkpoint.job_, job_);
  } else {
    managed_.is_there = managed_.is_there || before.has_managed;
    managed_.is_known = false;
    // A sample of this member includes the memory of the other members at that time. Between
    // samples their memory may have come and gone: the bounds are widened by the most that they
    // held.
    std::uint64_t others_bytes = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (i != member) others_bytes += members_[i].most_called_bytes;
    }
    ledger::CurveBounds card = before_checkpoint.card_.bounds();
    ledger::CurveBounds job = before_checkpoint.job_.bounds();
    card.low_bytes -= std::min(card.low_bytes, others_bytes);
    card.high_bytes += others_bytes;
    job.high_bytes = std::max(job.high_bytes, card.high_bytes);
    add_earlier_maximum(member, before_checkpoint.card_, card, card_);
    add_earlier_maximum(member, before_checkpoint.job_, job, job_);
  }
  // Memory that the member's calls hold for CUDA graphs becomes known only after the checkpoint.
  // Samples before the checkpoint had counted it as the driver's own memory.
  const std::uint64_t more_bytes = self.called_bytes - prefix.called_bytes;
  if (self.is_told) subtract(self.driver_bytes, more_bytes);
  count(member);
  touch(member);
  if (more_bytes == 0) return is_alone;
  for (Curve* const curve : {&card_, &job_}) {
    curve->count_in_last_sample(more_bytes, [](CardPoint&) {});
  }
  return false;
}

// Copies the whole state of `before_checkpoint`, a curve of the member's process alone, to `curve`.
void CardCurves::copy_curve_state(std::size_t member, const Curve& before_checkpoint,
                                  Curve& curve) {
  trace::CardCurve state;
  before_checkpoint.store(state);
  curve.restore(state);
  const auto take_point = [&](const CardPoint& from, CardPoint& to) {
    to.called_bytes = from.called_bytes;
    to.at_sample = from.at_sample;
    copy_point(from, member, to);
  };
  take_point(before_checkpoint.candidate(), curve.candidate());
  take_point(before_checkpoint.best(), curve.best());
}

// Adds to `curve` the maximum of `before_checkpoint`, a curve of the member's process alone,
// between `bounds`, and converts the last sample of `before_checkpoint` to one of all members.
void CardCurves::add_earlier_maximum(std::size_t member, const Curve& before_checkpoint,
                                     const ledger::CurveBounds& bounds, Curve& curve) {
  const CardPoint& highest = before_checkpoint.highest();
  const auto take_point = [&](CardPoint& point) {
    copy_point(highest, member, point);
    point.is_partial = true;
  };
  if (!before_checkpoint.was_sampled()) return curve.change(highest.called_bytes, take_point);
  curve.restore(bounds, highest.called_bytes, take_point);
  const std::uint64_t others_bytes = called_bytes_ - members_[member].called_bytes;
  ledger::Beyond beyond = before_checkpoint.last_beyond();
  if (&curve == &card_) {
    subtract(beyond.low, others_bytes);
    subtract(beyond.high, others_bytes);
  } else {
    ledger::TakenByDriver others = taken_;
    others.subtract(members_[member].counted);
    beyond.low += static_cast<std::int64_t>(others.low_bytes);
    beyond.high += static_cast<std::int64_t>(others.high_bytes);
  }
  curve.restore_last_sample(beyond);
}

}  // namespace gpumemtrace::analyzer
