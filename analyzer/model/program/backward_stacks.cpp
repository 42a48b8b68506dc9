// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/backward_stacks.hpp"

#include <algorithm>
#include <limits>

#include "analyzer/stacks/pytorch_frames.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxJoined = std::size_t{1} << 22;

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

std::uint64_t time_of(const trace::WaitingStack& wait) { return wait.record.time; }

}  // namespace

BackwardStacks::BackwardStacks(std::vector<trace::WaitingStack> waits, LookAhead& look_ahead,
                               const PythonStacks& stacks)
    : look_ahead_(look_ahead), stacks_(stacks) {
  std::ranges::stable_sort(waits, {}, time_of);
  for (const trace::WaitingStack& wait : waits) {
    // Older recorders wrote stack 0 when the thread no longer waits, which the thread's own events
    // show, too.
    if (wait.stack != trace::StackId::kNone) waits_[wait.thread_id].push_back(wait);
  }
}

void BackwardStacks::add_stack(const trace::Stack& record) {
  if (record.python_frames == 0 || record.id == trace::StackId::kNone) return;
  any_python_ = true;
  const std::uint32_t number = number_of(record.id);
  if (RootOfStack* const known = roots_.find(number)) {
    known->root = Root::kNotLooked;
  } else {
    (void)roots_.insert({number, Root::kNotLooked});
  }
}

void BackwardStacks::add_thread(std::uint32_t writer, std::uint64_t thread_id) {
  Thread& thread = threads_[writer];
  if (thread.thread_id == thread_id) return;  // each chunk of a thread's stream has a thread record
  thread = Thread();
  thread.thread_id = thread_id;
  waiting_until_ = 0;
}

void BackwardStacks::add_wait(const trace::WaitingStack& wait) {
  if (wait.stack == trace::StackId::kNone) return;
  std::vector<trace::WaitingStack>& waits = waits_[wait.thread_id];
  const auto at = std::ranges::lower_bound(waits, time_of(wait), {}, time_of);
  if (at != waits.end() && at->record.time == wait.record.time) return;
  waits.insert(at, wait);
  waiting_until_ = 0;
  // Forgets waits before the waiting thread's last own event: they are over.
  std::uint64_t needed_from = kNever;
  for (const auto& [writer, thread] : threads_) {
    if (thread.thread_id == wait.thread_id) needed_from = std::min(needed_from, thread.last_own);
  }
  if (needed_from == kNever) return;
  waits.erase(waits.begin(), std::ranges::lower_bound(waits, needed_from, {}, time_of));
}

void BackwardStacks::begin_at(std::uint64_t cut) {
  for (auto& [writer, thread] : threads_) {
    thread.last_own = cut;
    const auto waits = waits_.find(thread.thread_id);
    if (waits == waits_.end() || waits->second.empty()) continue;
    if (waits->second.back().record.time < cut) continue;
    const Root root = root_of(waits->second.back().stack);
    if (root != Root::kNone) thread.role = root == Root::kEngine ? Role::kEngine : Role::kPython;
  }
  waiting_until_ = 0;
}

BackwardStacks::Thread& BackwardStacks::thread_of(std::uint32_t writer) {
  if (last_thread_ == nullptr || last_writer_ != writer) {
    last_writer_ = writer;
    last_thread_ = &threads_[writer];
  }
  return *last_thread_;
}

BackwardStacks::Root BackwardStacks::root_of(trace::StackId stack) {
  RootOfStack* const found = roots_.find(number_of(stack));
  if (found == nullptr) return Root::kNone;
  Root& root = found->root;
  if (root == Root::kNotLooked) [[unlikely]] {
    const std::vector<CodePlace> places = stacks_.places_of(stack);
    const std::uint32_t code = places.empty() ? 0 : places.back().code;
    const bool is_engine = is_custom_backward_entry(stacks_.text_of(code, trace::CodeText::kFile),
                                                    stacks_.text_of(code, trace::CodeText::kName));
    root = is_engine ? Root::kEngine : Root::kPython;
  }
  return root;
}

// Learns the thread's role from the event. An event of a Python thread keeps its own stack; one of
// another thread gets its stack joined with that of the thread that waits.
trace::StackId BackwardStacks::find_stack(std::uint32_t writer, trace::StackId stack,
                                          std::uint64_t time, bool is_block) {
  Thread& thread = thread_of(writer);
  const Root root = root_of(stack);
  if (root == Root::kEngine && thread.role != Role::kEngine) {
    thread.role = Role::kEngine;
    waiting_until_ = 0;
  }
  if (root == Root::kPython && thread.role == Role::kWithoutPython) thread.role = Role::kPython;
  if (thread.role == Role::kPython) {
    // An event with stack 0 says nothing of its thread: frees have no stack.
    const bool strange = root == Root::kNone && stack != trace::StackId::kNone && is_block;
    if (!strange || !turns_out_engine(thread, time)) {
      record_own_event(thread, root == Root::kNone ? trace::StackId::kNone : stack, time, is_block);
      return stack;
    }
  }
  if (time >= waiting_until_) update_waiting(time);
  if (waiting_.inferred == trace::StackId::kNone) return stack;
  if (waiting_.seen_waiting && is_block) thread.role = Role::kEngine;
  return join(stack);
}

void BackwardStacks::record_own_event(Thread& thread, trace::StackId stack, std::uint64_t time,
                                      bool is_block) {
  thread.last_own = time;
  waiting_until_ = 0;
  if (stack == trace::StackId::kNone || !is_block) return;
  thread.last_block = time;
  thread.last_block_stack = stack;
}

bool BackwardStacks::turns_out_engine(Thread& thread, std::uint64_t time) {
  thread.role = Role::kEngine;  // so that update_waiting() does not find this thread
  update_waiting(time);
  if (!waiting_.seen_waiting) thread.role = Role::kPython;
  return waiting_.seen_waiting;
}

void BackwardStacks::update_waiting(std::uint64_t time) {
  waiting_ = find_waiting(time);
  const auto next = static_cast<std::uint32_t>(waiting_numbers_.size());
  waiting_number_ = waiting_numbers_.try_emplace(waiting_, next).first->second;
}

// Prefers a Python thread that was seen waiting, or else guesses that the one with the latest block
// waits. Sets waiting_until_ to the time at which the answer may change.
BackwardStacks::Waiting BackwardStacks::find_waiting(std::uint64_t time) {
  Waiting seen;
  Waiting guessed;
  std::uint64_t seen_own = 0;
  std::uint64_t guessed_own = 0;
  waiting_until_ = kNever;
  for (const auto& [writer, thread] : threads_) {
    if (thread.role != Role::kPython) continue;
    const std::uint64_t next_own = look_ahead_.next_ticks_of(writer);
    waiting_until_ = std::min(waiting_until_, std::max(next_own, time + 1));
    if (thread.last_block_stack != trace::StackId::kNone && thread.last_block >= guessed_own) {
      guessed_own = thread.last_block;
      guessed = {thread.last_block_stack, thread.thread_id, false};
    }
    const auto waits = waits_.find(thread.thread_id);
    if (waits == waits_.end()) continue;
    const auto first = std::ranges::lower_bound(waits->second, thread.last_own, {}, time_of);
    if (first == waits->second.end() || first->record.time >= next_own) continue;
    if (seen.inferred != trace::StackId::kNone && thread.last_own < seen_own) continue;
    seen_own = thread.last_own;
    seen = {first->stack, thread.thread_id, true};
  }
  return seen.inferred != trace::StackId::kNone ? seen : guessed;
}

// Returns the one id for `own` and the present waiting stack; `own` if too many stacks are joined.
trace::StackId BackwardStacks::join(trace::StackId own) {
  const std::uint64_t key = number_of(own) | std::uint64_t{waiting_number_ + 1} << 32;
  const Slot* known = slots_.find(key);
  if (known != nullptr) return known->joined;
  if (joined_.size() == kMaxJoined) return own;
  const trace::StackId joined{static_cast<std::uint32_t>(kFirstJoined + joined_.size())};
  joined_.push_back({own, waiting_.inferred, waiting_.thread_id, waiting_.seen_waiting});
  *slots_.add(key) = {key, joined};
  return joined;
}

}  // namespace gpumemtrace::analyzer
