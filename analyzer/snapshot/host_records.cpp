// SPDX-License-Identifier: Apache-2.0
#include "analyzer/snapshot/host_records.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer::snapshot {
namespace {

// The stack of the request that made PyTorch allocate a host segment. PyTorch gives that stack to
// the block that it hands out, whose event comes after the segment's own; other threads' events may
// come in between.
StackId stack_of_request(std::span<const Event> segment_and_later) {
  constexpr std::size_t kMostEventsBetween = 64;
  const Event& segment = segment_and_later.front();
  const auto near = segment_and_later.first(std::min(segment_and_later.size(), kMostEventsBetween));
  const auto request = std::ranges::find_if(near, [&](const Event& event) {
    return event.action == Action::alloc && event.address == segment.address;
  });
  return request == near.end() ? segment.stack : request->stack;
}

}  // namespace

void HostRecords::write(const UndoneHistory& history, std::span<const Event> events) {
  events = events.subspan(history.first_event);
  trace::Thread thread;
  thread.record.time = ++now_;
  out_.add(thread);
  for (const auto& [address, segment] : history.before.segments) {
    const auto block = history.before.blocks.find(address);
    const bool has_stack = block != history.before.blocks.end() && block->second.stack.value != 0;
    add_segment(
        address, segment.bytes,
        has_stack ? stack_of(block->second.stack) : context_.stacks.stack_of_earlier(now_, out_));
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    now_ = std::max(now_, context_.scale.tick_of(events[i].time_us));
    if (events[i].action == Action::segment_alloc) {
      add_segment(events[i].address, events[i].bytes,
                  stack_of(stack_of_request(events.subspan(i))));
    } else if (events[i].action == Action::segment_free) {
      remove_segment(events[i]);
    }
  }
  out_.finish();
}

void HostRecords::add_segment(std::uint64_t address, std::uint64_t bytes, trace::StackId stack) {
  trace::Allocation record;
  record.call = call(stack);
  record.address = address;
  record.bytes = bytes;
  record.memory = trace::MemoryKind::kPinned;
  out_.add(record);
}

void HostRecords::remove_segment(const Event& event) {
  trace::Free record;
  record.call = call(stack_of(event.stack));
  record.address = event.address;
  record.memory = trace::MemoryKind::kPinned;
  out_.add(record);
}

trace::CallHeader HostRecords::call(trace::StackId stack) {
  trace::CallHeader header;
  header.stack = stack;
  header.record.time = ++now_;
  header.end = header.record.time;
  return header;
}

}  // namespace gpumemtrace::analyzer::snapshot
