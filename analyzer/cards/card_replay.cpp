// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cards/card_replay.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace gpumemtrace::analyzer {
namespace {

// The time within which the driver returns the memory of a process after the process's last record.
constexpr std::uint64_t kEndTakesNs = 1'000'000'000;

}  // namespace

CardReplay::CardReplay(std::span<const rows::CardHistory* const> histories)
    : histories_(histories), readers_(histories.size()) {
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    CardMember member;
    member.process = static_cast<std::uint32_t>(i);
    member.process_id = histories_[i]->process_id;
    member.history = histories_[i];
    (void)curves_.add(member);
  }
  take_all();
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    if (histories_[i]->last_ns) curves_.begin_event(i, *histories_[i]->last_ns);
  }
  curves_.finish_round();
}

// Takes the events of all processes in the order of time; at equal times the process with the
// smaller index comes first.
void CardReplay::take_all() {
  // the time of a process's next event, and the index of the process
  using Turn = std::pair<std::uint64_t, std::size_t>;
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns;
  for (std::size_t i = 0; i < histories_.size(); ++i) {
    if (has_next(i)) turns.emplace(time_of_next(i), i);
  }
  while (!turns.empty()) {
    const std::size_t process = turns.top().second;
    turns.pop();
    do {
      take_next(process);
    } while (has_next(process) &&
             (turns.empty() || Turn(time_of_next(process), process) < turns.top()));
    if (has_next(process)) turns.emplace(time_of_next(process), process);
  }
}

bool CardReplay::has_next(std::size_t process) const {
  const rows::CardHistory& history = *histories_[process];
  const bool leaves = history.has_ended && history.last_ns;
  return readers_[process].next_event < history.events.size() + (leaves ? 2 : 0);
}

std::uint64_t CardReplay::time_of_next(std::size_t process) const {
  const rows::CardHistory& history = *histories_[process];
  const std::size_t next = readers_[process].next_event;
  if (next < history.events.size()) return history.events[next].time_ns;
  return *history.last_ns + (next == history.events.size() ? 0 : kEndTakesNs);
}

void CardReplay::take_next(std::size_t process) {
  const rows::CardHistory& history = *histories_[process];
  const std::size_t next = readers_[process].next_event++;
  if (next < history.events.size()) {
    curves_.begin_event(process, history.events[next].time_ns);
    return take(process, history.events[next]);
  }
  // the two events of a process that has ended: its last record, and the return of its memory
  curves_.begin_event(process, *history.last_ns);
  if (next == history.events.size()) {
    curves_.begin_end(process);
  } else {
    curves_.end(process);
  }
}

void CardReplay::take(std::size_t process, const rows::CardEvent& event) {
  const rows::CardHistory& history = *histories_[process];
  Reader& reader = readers_[process];
  switch (event.what) {
    case rows::CardEventKind::kChange:
      return take_change(process, event.time_ns);
    case rows::CardEventKind::kSample:
      return take_sample(process);
    case rows::CardEventKind::kListedProcess:
      return take_listed(process);
    case rows::CardEventKind::kRoundEnd:
      return curves_.finish_round();
    case rows::CardEventKind::kCountedLate:
      return curves_.count_in_last_sample(process, history.counted_late[reader.next_late++]);
    case rows::CardEventKind::kContext:
      return curves_.add_context();
    case rows::CardEventKind::kManaged:
      return curves_.add_managed(process);
    case rows::CardEventKind::kPrefix:
      is_whole_ = curves_.take_over(process, *history.prefix) && is_whole_;
      return;
    case rows::CardEventKind::kSummary:
      is_whole_ = false;
      return curves_.restore_from_samples(process, *history.summary);
    case rows::CardEventKind::kRestoredPeak: {
      const rows::RestoredCardPeak& peak = history.restored_peaks[reader.next_peak++];
      if (peak.bytes >= called_peak_.bytes) called_peak_ = {peak.bytes, peak.time_ns};
      return;
    }
  }
}

void CardReplay::take_change(std::size_t process, std::uint64_t time_ns) {
  Reader& reader = readers_[process];
  const rows::CardChange& change = histories_[process]->changes[curves_.members()[process].changes];
  const std::uint64_t bytes = change.allocated_bytes + change.pool_reserved;
  called_bytes_ += bytes - std::exchange(reader.called_bytes, bytes);
  if (called_bytes_ > called_peak_.bytes) called_peak_ = {called_bytes_, time_ns};
  unknown_bytes_ +=
      change.unknown_bytes - std::exchange(reader.unknown_bytes, change.unknown_bytes);
  most_unknown_bytes_ = std::max(most_unknown_bytes_, unknown_bytes_);
  curves_.take_change(process);
}

void CardReplay::take_sample(std::size_t process) {
  curves_.sample(process, histories_[process]->samples[readers_[process].next_sample++]);
}

void CardReplay::take_listed(std::size_t process) {
  curves_.sample(process, histories_[process]->listed_processes[readers_[process].next_listed++]);
}

}  // namespace gpumemtrace::analyzer
