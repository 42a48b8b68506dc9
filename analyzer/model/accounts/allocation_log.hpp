// SPDX-License-Identifier: Apache-2.0
// A log of single allocations, for reports that need more than sums.
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
  std::uint64_t bytes = 0;             // bytes asked for; 0: not known
  std::optional<std::int64_t> stream;  // CUDA stream, as in trace::Block; none: not known
};

struct LoggedAllocation {
  LiveAllocation entry;
  std::uint64_t end = 0;  // model time; 0: the allocation lived to the end of the trace
  BlockUse use;           // use and request: only of the framework's blocks
  BlockRequest request;
  trace::StackId free_stack = trace::StackId::kNone;
};

// A log of the allocations that are live at the end of the trace and of the last ones that ended.
// With a window of time, only allocations that were live in it are logged. `present` is borrowed.
class AllocationLog {
 public:
  // Keeps at most `most` ended allocations; without a number the log is off.
  AllocationLog(const PresentRecord& present, std::optional<std::size_t> most)
      : present_(present), most_(most) {}

  [[nodiscard]] bool is_on() const { return most_.has_value(); }
  // Called before the first record: the log keeps only allocations live between two model times,
  // both included.
  void keep_window(std::uint64_t first, std::uint64_t last) {
    first_ = first;
    last_ = last;
  }
  // Notes the request for the block that the framework handed out at the address.
  void add_request(std::uint64_t address, const BlockRequest& request) {
    requests_[address] = request;
  }
  // Returns and forgets the request for the block at the address: called once, when the block has
  // ended or is logged as live.
  [[nodiscard]] BlockRequest take_request(std::uint64_t address) {
    const auto found = requests_.find(address);
    if (found == requests_.end()) return {};
    const BlockRequest request = found->second;
    requests_.erase(found);
    return request;
  }
  // Notes the stack from which the present record frees an allocation.
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

  // Visits the ended allocations in the order of their ends, then the live ones.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const LoggedAllocation& row : ended_) visit(row);
    for (const LoggedAllocation& row : live_) visit(row);
  }
  // Some allocations that ended up to this model time are missing from the log; 0: none is.
  [[nodiscard]] std::uint64_t dropped_until() const { return dropped_until_; }

 private:
  const PresentRecord& present_;
  std::optional<std::size_t> most_;
  std::uint64_t dropped_until_ = 0;
  trace::StackId free_stack_ = trace::StackId::kNone;
  std::uint64_t free_time_ = 0;  // model time of the record that gave free_stack_
  std::uint64_t first_ = 0;
  std::uint64_t last_ = ~std::uint64_t{0};
  std::deque<LoggedAllocation> ended_;
  std::deque<LoggedAllocation> live_;
  // requests for live blocks, by address
  std::unordered_map<std::uint64_t, BlockRequest> requests_;
};

}  // namespace gpumemtrace::analyzer
