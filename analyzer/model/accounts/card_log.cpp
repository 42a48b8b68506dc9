// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/card_log.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace gpumemtrace::analyzer {
namespace {

constexpr unsigned kMostBits = 63;

}  // namespace

void CardLog::change(std::uint64_t now, const CardLogChange& held) {
  changes_.push_back(held);
  add(now, CardEventKind::kChange, changes_.size());
  if (changes_.size() > most_changes_) thin_changes();
}

void CardLog::set_use(const CardLogUse& use) {
  CardLogUse& last = uses_.back();
  // Between two events of the log, only the last CardLogUse of each interval of time is kept, so
  // that a long trace seldom needs thin_uses().
  if (!last.is_at_event && last.time >> use_bits_ == use.time >> use_bits_) {
    uses_are_left_out_ = uses_are_left_out_ || last.time != use.time;
    last = use;
    return;
  }
  uses_.push_back(use);
  if (uses_.size() > most_uses_) thin_uses();
}

// Logs the bytes of an allocation that has ended, from the change at its birth up to the next
// change; nothing if there is no change between.
void CardLog::end(const LiveAllocation& entry) {
  GroupBytesChange holder = holder_of_live(entry);
  const auto next = static_cast<std::uint32_t>(changes_.size());
  if (holder.change == next) return;
  holders_.push_back(holder);
  holder.change = next;
  holder.bytes = 0 - holder.bytes;
  holders_.push_back(holder);
  if (holders_.size() > most_holders_) sum_holders();
}

std::uint32_t CardLog::change_from(std::uint64_t time) const {
  const auto first = std::ranges::lower_bound(events_, time, {}, &CardLogEvent::time);
  const auto change = std::find_if(first, events_.end(), [](const CardLogEvent& event) {
    return event.what == CardEventKind::kChange;
  });
  return change == events_.end() ? static_cast<std::uint32_t>(changes_.size()) : change->number;
}

// Keeps only the decisive changes of each interval of time, and doubles the interval's length until
// half of the changes are gone. Other events end an interval.
void CardLog::thin_changes() {
  const std::size_t before = changes_.size();
  do {
    change_bits_ = std::min(change_bits_ + 1, kMostBits);
    keep(decisive_events());
  } while (changes_.size() > before / 2 && change_bits_ < kMostBits);
  most_changes_ = std::max(most_changes_, 2 * changes_.size());
  sum_holders();
}

// The indexes of the events to keep: the decisive changes of each interval, and all other events.
std::vector<std::size_t> CardLog::decisive_events() {
  std::vector<std::size_t> kept;
  for (std::size_t begin = 0; begin < events_.size();) {
    const auto belongs = [&](const CardLogEvent& event) {
      return event.what == CardEventKind::kChange &&
             event.time >> change_bits_ == events_[begin].time >> change_bits_;
    };
    std::size_t end = begin + 1;
    while (belongs(events_[begin]) && end < events_.size() && belongs(events_[end])) ++end;
    keep_decisive(begin, end, kept);
    begin = end;
  }
  return kept;
}

// Keeps only the events with these indexes, and renumbers the changes in events_ and holders_.
void CardLog::keep(const std::vector<std::size_t>& kept) {
  std::vector<CardLogEvent> events;
  std::vector<CardLogChange> changes;
  // by a change's old number: the new number of that change or, if it is gone, of the next one kept
  std::vector<std::uint32_t> number_now;
  for (const std::size_t index : kept) {
    CardLogEvent event = events_[index];
    if (event.what == CardEventKind::kChange) {
      const auto number = static_cast<std::uint32_t>(changes.size());
      number_now.resize(event.number + 1, number);
      changes.push_back(changes_[event.number]);
      event.number = number;
    }
    events.push_back(event);
  }
  number_now.push_back(static_cast<std::uint32_t>(changes.size()));
  for (GroupBytesChange& holder : holders_) holder.change = number_now[holder.change];
  events_ = std::move(events);
  changes_ = std::move(changes);
}

// Keeps, of the changes of one interval, the first, the last, the lowest and the highest ones. Each
// but the last notes by how much the changes left out may differ.
void CardLog::keep_decisive(std::size_t begin, std::size_t end, std::vector<std::size_t>& kept) {
  constexpr std::size_t kDecisive = 5;
  if (end - begin <= kDecisive) {
    for (std::size_t i = begin; i < end; ++i) kept.push_back(i);
    return;
  }
  const auto of = [&](std::size_t i) -> CardLogChange& { return changes_[events_[i].number]; };
  std::size_t lowest = begin;
  std::size_t highest = begin;
  std::size_t highest_physical = begin;
  for (std::size_t i = begin; i < end; ++i) {
    if (of(i).called() < of(lowest).called()) lowest = i;
    if (of(i).called() > of(highest).called()) highest = i;
    if (of(i).physical() > of(highest_physical).physical()) highest_physical = i;
  }
  std::vector<std::size_t> decisive{begin, lowest, highest, highest_physical, end - 1};
  std::ranges::sort(decisive);
  decisive.erase(std::ranges::unique(decisive).begin(), decisive.end());
  const std::uint64_t unknown_bytes = of(highest).called() - of(lowest).called();
  for (const std::size_t i : decisive) {
    if (i != end - 1) of(i).unknown_bytes = std::max(of(i).unknown_bytes, unknown_bytes);
    kept.push_back(i);
  }
}

// Keeps only the last use of each interval, and all uses at other events, however many they are.
void CardLog::thin_uses() {
  const auto between_events = [&] {
    return std::ranges::count(uses_, false, &CardLogUse::is_at_event);
  };
  const auto before = between_events();
  do {
    use_bits_ = std::min(use_bits_ + 1, kMostBits);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const bool is_last =
          i + 1 == uses_.size() || uses_[i].time >> use_bits_ != uses_[i + 1].time >> use_bits_;
      if (is_last || uses_[i].is_at_event) uses_[kept++] = uses_[i];
    }
    uses_are_left_out_ = uses_are_left_out_ || kept != uses_.size();
    uses_.resize(kept);
  } while (between_events() > before / 2 && use_bits_ < kMostBits);
  most_uses_ = std::max(most_uses_, 2 * uses_.size());
}

// Joins rows of holders_ with the same change and holder. Memory that came and went between two
// changes leaves no row.
void CardLog::sum_holders() {
  const auto key = [](const GroupBytesChange& row) {
    return std::tuple(row.change, row.group, row.segment);
  };
  std::ranges::sort(holders_, {}, key);
  std::vector<GroupBytesChange> sums;
  for (const GroupBytesChange& row : holders_) {
    if (sums.empty() || key(sums.back()) != key(row)) {
      if (!sums.empty() && sums.back().bytes == 0) sums.pop_back();
      sums.push_back(row);
    } else {
      sums.back().bytes += row.bytes;
    }
  }
  if (!sums.empty() && sums.back().bytes == 0) sums.pop_back();
  holders_ = std::move(sums);
  most_holders_ = std::max(most_holders_, 2 * holders_.size());
}

}  // namespace gpumemtrace::analyzer
