// SPDX-License-Identifier: Apache-2.0
// The single allocations, for reports that need more than sums.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "analyzer/model/accounts/block_use.hpp"
#include "analyzer/model/accounts/live_allocation.hpp"
#include "analyzer/model/accounts/present_record.hpp"

namespace gpumemtrace::analyzer {

// The program's request to its framework for a block.
struct BlockRequest {
  std::uint64_t bytes = 0;             // 0: not known
  std::optional<std::int64_t> stream;  // as in trace::Block
};

struct LoggedAllocation {
  LiveAllocation entry;
  std::uint64_t end = 0;  // model time; 0: it lived to the end of the trace
  BlockUse use;           // blocks of the framework only, like the request
  BlockRequest request;
  trace::StackId free_stack = trace::StackId::kNone;
};

// Keeps the allocations that are live at the end, and of the others those that ended last; of both,
// those that were live in the window if there is one. `present` is borrowed.
class AllocationLog {
 public:
  // Keeps at most `most` allocations that ended; none at all without a number.
  AllocationLog(const PresentRecord& present, std::optional<std::size_t> most)
      : present_(present), most_(most) {}

  [[nodiscard]] bool is_on() const { return most_.has_value(); }
  // Before the first record: keeps only allocations live between two model times, both included.
  void keep_window(std::uint64_t first, std::uint64_t last) {
    first_ = first;
    last_ = last;
  }
  // A block of the framework was handed out at the address.
  void add_request(std::uint64_t address, const BlockRequest& request) {
    requests_[address] = request;
  }
  // The request of the block at the address, which ended or is logged as live; only once.
  [[nodiscard]] BlockRequest take_request(std::uint64_t address) {
    const auto found = requests_.find(address);
    if (found == requests_.end()) return {};
    const BlockRequest request = found->second;
    requests_.erase(found);
    return request;
  }
  // The present record frees an allocation from this stack.
  void note_free(trace::StackId stack) {
    free_stack_ = stack;
    free_time_ = present_.time;
  }
  void add_ended(const LiveAllocation& entry, BlockUse use, const BlockRequest& request) {
    if (present_.time < first_ || entry.born > last_) return;
    const bool is_freed = free_time_ == present_.time;
    ended_.push_back(
        {entry, present_.time, use, request, is_freed ? free_stack_ : trace::StackId::kNone});
    if (ended_.size() <= *most_) return;
    dropped_until_ = ended_.front().end;
    ended_.pop_front();
  }
  void add_live(const LiveAllocation& entry, BlockUse use, const BlockRequest& request) {
    if (entry.born <= last_) live_.push_back({entry, 0, use, request, trace::StackId::kNone});
  }

  // In the order in which they ended; those that live come last.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const LoggedAllocation& row : ended_) visit(row);
    for (const LoggedAllocation& row : live_) visit(row);
  }
  // Some that ended up to this model time are missing; 0: none is.
  [[nodiscard]] std::uint64_t dropped_until() const { return dropped_until_; }

 private:
  const PresentRecord& present_;
  std::optional<std::size_t> most_;
  std::uint64_t dropped_until_ = 0;
  trace::StackId free_stack_ = trace::StackId::kNone;
  std::uint64_t free_time_ = 0;  // of the record that gave free_stack_
  std::uint64_t first_ = 0;
  std::uint64_t last_ = ~std::uint64_t{0};
  std::deque<LoggedAllocation> ended_;
  std::deque<LoggedAllocation> live_;
  std::unordered_map<std::uint64_t, BlockRequest> requests_;  // of live blocks, by address
};

}  // namespace gpumemtrace::analyzer
