// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/card_curves.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

// More than any card has; a damaged trace may say anything.
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 50;

std::int64_t believable(std::uint64_t bytes) {
  return static_cast<std::int64_t>(std::min(bytes, kMostBytes));
}

std::int64_t believable(std::int64_t bytes) {
  return std::clamp(bytes, -believable(kMostBytes), believable(kMostBytes));
}

std::int64_t difference(std::uint64_t bytes, std::uint64_t less_bytes) {
  return believable(bytes) - believable(less_bytes);
}

std::uint64_t positive(std::int64_t bytes) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(bytes, 0));
}

// Modulo 2^64.
void subtract(std::int64_t& from, std::uint64_t bytes) {
  from = static_cast<std::int64_t>(static_cast<std::uint64_t>(from) - bytes);
}

// Copies the time, the process and what each member held, not the rest of the point.
void copy(const CardPoint& from, CardPoint& to) {
  to.time = from.time;
  to.process = from.process;
  std::ranges::copy(from.held, to.held.begin());
}

}  // namespace

std::size_t CardCurves::add(const CardMember& member) {
  members_.push_back(member);
  for (Curve* const curve : {&card_, &job_}) {
    for (CardPoint* const point : {&curve->candidate(), &curve->best()}) {
      member.driver->watchers.push_back(&point->held.emplace_back().holders);
    }
  }
  const std::size_t index = members_.size() - 1;
  members_.back().called_bytes = 0;
  change(index, member.called_bytes, member.rounding_bytes);
  return index;
}

void CardCurves::change(std::size_t member, std::uint64_t called_bytes,
                        std::uint64_t rounding_bytes) {
  if (round_.is_open) finish_round();
  CardMember& changed = members_[member];
  called_bytes_ += called_bytes - changed.called_bytes;
  changed.called_bytes = called_bytes;
  changed.rounding_bytes = rounding_bytes;
  for (Curve* const curve : {&card_, &job_}) {
    curve->change(called_bytes_, [&](CardPoint& point) { take(member, point); });
  }
}

void CardCurves::end(std::size_t member) {
  CardMember& ended = members_[member];
  change(member, 0, 0);
  ended.driver_bytes = 0;
  ended.has_ended = true;
}

void CardCurves::take(std::size_t member, CardPoint& point) const {
  point.time = members_[member].present->time;
  point.process = members_[member].process;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const CardMember& holder = members_[i];
    HeldOnCard& held = point.held[i];
    held.parts = holder.has_ended ? Parts{} : holder.parts_now(holder.ordinal);
    held.rounding_bytes = holder.rounding_bytes;
    held.holders.set(holder.has_ended ? 0 : holder.present->time, held.parts.driver);
  }
  divide(point);
}

void CardCurves::divide(CardPoint& point) const {
  point.other_bytes = other_bytes_;
  point.untraced_bytes = untraced_bytes_;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    point.held[i].driver_bytes = members_[i].driver_bytes;
  }
}

void CardCurves::sample(std::size_t member, const trace::MemorySample& sample) {
  if (round_.is_open) finish_round();
  CardMember& asking = members_[member];
  switch (sample.source) {
    case trace::SampleSource::kMemGetInfo:
      asking.asked_for_free = true;
      return sample_card(member, ledger::in_use_of(sample));
    case trace::SampleSource::kNvmlProcess:
    case trace::SampleSource::kNvmlDevice:
      if (!asking.asked_for_free) sample_card(member, ledger::in_use_of(sample));
      asking.asked_for_free = false;
      if (sample.source == trace::SampleSource::kNvmlProcess) begin_round(member, sample);
      return;
    case trace::SampleSource::kNone:
      return;
  }
}

void CardCurves::sample_card(std::size_t member, std::uint64_t in_use) {
  const std::int64_t beyond = difference(in_use, called_bytes_);
  best_is_to_divide_ =
      card_.sample(called_bytes_, {beyond, beyond}, [&](CardPoint& point) { take(member, point); });
}

void CardCurves::begin_round(std::size_t member, const trace::MemorySample& sample) {
  tell(member, sample.process_bytes);
  for (CardMember& other : members_) other.is_listed = false;
  round_ = {.is_open = true, .asking = member, .other_bytes = sample.other_bytes};
}

void CardCurves::tell(std::size_t member, std::uint64_t bytes) {
  CardMember& told = members_[member];
  told.driver_bytes = difference(bytes, told.called_bytes);
  if (!told.is_told) tell_late(member);
  told.is_told = true;
}

// Before its first number it took between nothing and that: as much of it as was some other
// process's then.
void CardCurves::tell_late(std::size_t member) {
  for (Curve* const curve : {&card_, &job_}) {
    for (CardPoint* const point : {&curve->candidate(), &curve->best()}) {
      HeldOnCard& held = point->held[member];
      if (held.parts.physical() == 0 || held.driver_bytes != 0) continue;
      const std::uint64_t late =
          std::min(positive(members_[member].driver_bytes), point->other_bytes);
      held.driver_bytes = static_cast<std::int64_t>(late);
      point->other_bytes -= late;
    }
  }
}

void CardCurves::sample(std::size_t member, const trace::ProcessSample& sample) {
  if (!round_.is_open || round_.asking != member) return;
  if (sample.relation == trace::ProcessRelation::kThis) {
    members_[member].process_id = sample.process_id;
    return;
  }
  if (sample.bytes == trace::kBytesNotTold) return;
  round_.has_list = true;
  const std::size_t listed = member_with(sample.process_id);
  if (listed != members_.size()) {
    members_[listed].is_listed = true;
    tell(listed, sample.bytes);
    round_.listed_bytes += sample.bytes;
  } else if (sample.relation == trace::ProcessRelation::kDescendant) {
    round_.untraced_bytes += sample.bytes;
  }
}

std::size_t CardCurves::member_with(std::uint32_t process_id) const {
  const auto found = std::ranges::find_if(members_, [&](const CardMember& member) {
    return member.process_id == process_id && process_id != 0 && !member.has_ended;
  });
  return static_cast<std::size_t>(found - members_.begin());
}

void CardCurves::finish_round() {
  if (!round_.is_open) return;
  const Round round = round_;
  round_.is_open = false;
  for (std::size_t i = 0; i < members_.size() && round.has_list; ++i) {
    if (members_[i].is_ending && !members_[i].is_listed && i != round.asking) end(i);
  }
  ledger::Beyond beyond;
  std::uint64_t members_bytes = 0;  // of those that are not the asking one
  bool some_are_not_told = false;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const CardMember& member = members_[i];
    if (member.has_ended) continue;
    if (!member.is_told) {
      some_are_not_told = some_are_not_told || member.called_bytes != 0;
      members_bytes += positive(believable(member.called_bytes));
      continue;
    }
    const std::int64_t driver_bytes = believable(member.driver_bytes);
    beyond.low += driver_bytes;
    beyond.high += std::max<std::int64_t>(driver_bytes, 0);
    if (i != round.asking)
      members_bytes += positive(believable(member.called_bytes) + driver_bytes);
  }
  if (round.has_list) members_bytes = round.listed_bytes;
  untraced_bytes_ = round.untraced_bytes;
  other_bytes_ =
      positive(difference(round.other_bytes, members_bytes) - believable(untraced_bytes_));
  beyond.low += believable(untraced_bytes_);
  beyond.high += believable(untraced_bytes_);
  // other_bytes_ contains what the driver took for a process that has not asked yet.
  if (some_are_not_told) beyond.high += believable(other_bytes_);
  // The calls may have gone on since the driver was asked.
  const auto take_then = [&](CardPoint& point) {
    const CardPoint& asked = card_.candidate();
    if (!asked.at_sample || asked.called_bytes != called_bytes_) return take(round.asking, point);
    copy(asked, point);
    divide(point);
  };
  if (job_.sample(called_bytes_, beyond, take_then)) divide(job_.best());
  divide(card_.candidate());
  if (best_is_to_divide_) divide(card_.best());
  best_is_to_divide_ = false;
}

void CardCurves::restore(std::size_t member, const GoneOnCard& gone) {
  members_[member].is_told = gone.most_of_process != 0;
  const std::uint64_t called_bytes = gone.held.parts.physical();
  const auto take_gone = [&](CardPoint& point) {
    point.time = gone.time;
    point.process = members_[member].process;
    point.other_bytes = gone.nearest.other_bytes;
    for (HeldOnCard& held : point.held) held = {};
    point.held[member] = gone.held;
  };
  const auto restore_curve = [&](Curve& curve, std::uint64_t most_bytes, std::uint64_t nearest,
                                 std::uint64_t last) {
    if (most_bytes == 0) return;
    const std::int64_t beyond = difference(nearest, gone.nearest.physical_bytes);
    ledger::CurveBounds bounds;
    bounds.bytes = std::max(most_bytes, called_bytes + positive(beyond));
    bounds.low_bytes = std::max(most_bytes, called_bytes);
    bounds.high_bytes = called_bytes + most_bytes;
    if (gone.total_bytes != 0) bounds.high_bytes = std::min(bounds.high_bytes, gone.total_bytes);
    bounds.high_bytes = std::max(bounds.high_bytes, bounds.bytes);
    curve.restore(bounds, called_bytes, take_gone);
    const std::int64_t at_end = difference(last, gone.last.physical_bytes);
    curve.restore_last_sample({at_end, at_end});
  };
  restore_curve(card_, gone.most_in_use, ledger::in_use_of(gone.nearest),
                ledger::in_use_of(gone.last));
  restore_curve(job_, gone.most_of_process, gone.nearest.process_bytes, gone.last.process_bytes);
}

void CardCurves::count_in_last_sample(std::size_t member, std::uint64_t more_bytes) {
  finish_round();
  const bool is_told = members_[member].is_told;
  if (is_told) subtract(members_[member].driver_bytes, more_bytes);
  for (Curve* const curve : {&card_, &job_}) {
    curve->count_in_last_sample(more_bytes, [&](CardPoint& point) {
      point.held[member].parts.pool_reserved += more_bytes;
      if (is_told) subtract(point.held[member].driver_bytes, more_bytes);
    });
  }
}

}  // namespace gpumemtrace::analyzer
