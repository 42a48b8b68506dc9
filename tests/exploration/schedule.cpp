// SPDX-License-Identifier: Apache-2.0
#include "tests/exploration/schedule.hpp"

namespace gpumemtrace::exploration {
namespace {

constexpr ThreadSet bit(std::size_t thread) { return ThreadSet{1} << thread; }

std::size_t lowest(ThreadSet set) { return static_cast<std::size_t>(__builtin_ctz(set)); }

}  // namespace

void Schedule::restart() {
  position_ = 0;
  sleeping_ = 0;
  events_.clear();
  meetings_.clear();
  file_ = Meeting{};
  clocks_ = {};
}

std::vector<std::size_t> Schedule::threads() const {
  std::vector<std::size_t> threads;
  for (const Event& event : events_) threads.push_back(event.thread);
  return threads;
}

bool Schedule::advance() {
  // Steps back to the last decision that has an option left, and takes that option. An execution
  // that a death ended early has no decisions after the death.
  for (; !path_.empty(); path_.pop_back()) {
    Decision& last = path_.back();
    if (last.is_value) {
      if (++last.chosen < last.options) return true;
      continue;
    }
    last.done |= bit(last.chosen);
    const ThreadSet left = last.wanted & ~last.done & ~last.sleeping;
    if (left == 0) continue;
    last.chosen = lowest(left);
    return true;
  }
  return false;
}

std::size_t Schedule::next_thread(ThreadSet enabled,
                                  const std::array<Operation, kMostThreads + 1>& next,
                                  std::size_t preferred) {
  if (position_ == path_.size()) {
    const ThreadSet awake = enabled & ~sleeping_;
    if (awake == 0) return kNone;
    Decision decision;
    decision.enabled = enabled;
    decision.sleeping = sleeping_;
    decision.chosen = (awake & bit(preferred)) != 0 ? preferred : lowest(awake);
    decision.wanted = reduction_ == Reduction::kOn ? bit(decision.chosen) : enabled;
    path_.push_back(decision);
  }
  const Decision& decision = path_[position_];
  const std::size_t thread = decision.chosen;
  // Threads whose next step was already tried at this decision sleep until another step conflicts
  // with theirs.
  sleeping_ = reduction_ == Reduction::kOn ? decision.sleeping | decision.done : 0;
  for (ThreadSet left = sleeping_; left != 0; left &= left - 1) {
    if (next[lowest(left)].meets(next[thread])) sleeping_ &= ~bit(lowest(left));
  }
  std::vector<std::size_t> races;
  const bool is_new = position_ + 1 == path_.size();  // else earlier executions made this step, too
  if (is_new) find_races(thread, next[thread], races);
  record_step(thread, next[thread], position_);
  for (const std::size_t race : races) reverse(race);
  ++position_;
  return thread;
}

std::size_t Schedule::next_value(std::size_t options) {
  if (options == 1) return 0;
  if (position_ == path_.size()) {
    Decision decision;
    decision.is_value = true;
    decision.options = options;
    path_.push_back(decision);
  }
  return path_[position_++].chosen;
}

// Finds the earlier steps of other threads that conflict with this step and did not happen before
// it: the opposite order may have another result.
void Schedule::find_races(std::size_t thread, const Operation& operation,
                          std::vector<std::size_t>& races) const {
  const auto add = [&](std::size_t index) {
    if (index == kNone) return;
    const Event& event = events_[index];
    if (clocks_[thread][event.thread] < event.number) races.push_back(index);
  };
  const auto look_at = [&](const Meeting& meeting, bool writes) {
    add(meeting.last_write);
    if (!writes) return;
    for (const std::size_t read : meeting.last_reads) add(read);
  };
  if (const auto met = meetings_.find(operation.place);
      operation.place != 0 && met != meetings_.end()) {
    look_at(met->second, operation.writes);
  }
  if (operation.is_death || operation.changes_file) look_at(file_, operation.is_death);
}

// Plans an order in which the last step comes before the step `race`: at the decision that chose
// `race`, a thread is to be tried that can begin such an order, which moves the last step and the
// steps that do not depend on `race` ahead of `race` (source sets; Abdulla, Aronsson, Jonsson and
// Sagonas, POPL 2014).
void Schedule::reverse(std::size_t race) {
  const Event& first = events_[race];
  ThreadSet begins = 0;
  Clock first_moved;  // number of each thread's first moved step; 0 = none
  for (std::size_t i = race + 1; i < events_.size(); ++i) {
    const Event& event = events_[i];
    const bool is_last = i + 1 == events_.size();
    if (!is_last && event.clock[first.thread] >= first.number) continue;
    if (first_moved[event.thread] != 0) continue;
    bool depends = false;
    for (std::size_t thread = 0; thread <= kMostThreads; ++thread) {
      depends |= first_moved[thread] != 0 && event.clock[thread] >= first_moved[thread];
    }
    if (!depends) begins |= bit(event.thread);
    first_moved[event.thread] = event.number;
  }
  Decision& decision = path_[first.decision];
  // Threads that waited at the decision are left out: they could only have checked their conditions
  // again in vain.
  begins &= decision.enabled;
  if (begins != 0 && (decision.wanted & begins) == 0) decision.wanted |= bit(lowest(begins));
}

void Schedule::record_step(std::size_t thread, const Operation& operation, std::size_t decision) {
  const std::size_t index = events_.size();
  Event event;
  event.thread = thread;
  event.number = ++clocks_[thread][thread];
  event.decision = decision;
  if (operation.place != 0) record_at(meetings_[operation.place], operation.writes, thread, index);
  if (operation.is_death || operation.changes_file) {
    record_at(file_, operation.is_death, thread, index);
  }
  event.clock = clocks_[thread];
  events_.push_back(event);
}

void Schedule::record_at(Meeting& meeting, bool writes, std::size_t thread, std::size_t index) {
  Clock& clock = clocks_[thread];
  clock.join(meeting.writes);
  if (writes) {
    clock.join(meeting.reads);
    meeting.writes = clock;
    meeting.last_write = index;
    meeting.last_reads.fill(kNone);
  } else {
    meeting.reads.join(clock);
    meeting.last_reads[thread] = index;
  }
}

}  // namespace gpumemtrace::exploration
