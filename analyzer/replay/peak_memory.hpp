// SPDX-License-Identifier: Apache-2.0
// The memory that a caching allocator had reserved at its peak, and the reasons why no request
// could use all of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "analyzer/replay/caching_allocator.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer::replay {

// The reason why reserved bytes that no block in use asked for were of no use to the peak's
// request.
enum class Cause : std::uint8_t {
  kRounding,      // the ends of blocks that are larger than their request
  kPieces,        // free pieces of the request's pool and stream that are too small
  kOversize,      // free pieces kept for large requests by max_split_size_mb
  kOtherPool,     // free memory of the same stream in the pool for other sizes
  kOtherStreams,  // free memory of other streams or private pools
  kRestOfSegment  // the rest of the driver's newest segment, behind the request
};

struct UnusableBytes {
  std::uint64_t bytes = 0;
  std::uint64_t releasable = 0;  // the part of `bytes` in segments or pages without a block in use
};

// Unusable bytes by the call stack that causes them: the stacks of blocks in use in the same
// segment (or page of an expandable segment), in proportion to their bytes there; if no block is in
// use there, the stack of the block freed last.
using UnusableByStack = std::map<std::optional<trace::StackId>, UnusableBytes>;
using Unusable = std::map<Cause, UnusableByStack>;

// Remembers the memory at the peak without a copy of everything. Memory that existed at the peak is
// either still there and older than the peak, or went since then and is kept here. The memory of
// this class is bounded by what existed at the peak.
class PeakMemory {
 public:
  // A pool of one stream or private pool, for small or for large requests: requests to one pool
  // share its free memory.
  struct Pool {
    ClassId block_class = 0;
    bool small = false;
    friend bool operator==(const Pool&, const Pool&) = default;
  };
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t requested = 0;
    trace::StackId stack = trace::StackId::kNone;
    std::uint64_t since = 0;  // number of the event that allocated it
    [[nodiscard]] std::uint64_t end() const { return address + bytes; }
  };

  // Sets the number of the event to which later changes belong; numbers begin at 1 and rise.
  void begin_event(std::uint64_t number) { now_ = number; }
  void add_segment(std::uint64_t address, std::uint64_t bytes, Pool pool) {
    units_[address] = {address, bytes, pool, false, now_, {}, {}};
  }
  void add_page(std::uint64_t address, std::uint64_t bytes, Pool pool) {
    units_[address] = {address, bytes, pool, true, now_, {}, {}};
  }
  // Removes a segment, or pages of an expandable one.
  void remove(std::uint64_t address, std::uint64_t bytes);
  void move_segment(std::uint64_t any_address, ClassId to);
  // Updates the peak after `block` met a request.
  void update_peak(const Block& block, Pool pool, std::uint64_t reserved_bytes);
  // Notes that a block was freed. `free_from`, `free_to`: the free memory around it after the free.
  void note_free(const Block& block, std::uint64_t free_from, std::uint64_t free_to);

  // The reserved memory that the peak's request could not use. `live`: all blocks in use now.
  [[nodiscard]] Unusable unusable(std::vector<Block> live, std::uint64_t max_split_bytes) const;

 private:
  struct Use {
    std::optional<trace::StackId> stack;
    std::uint64_t at = 0;
  };
  // A segment or page: memory that could go back to the driver by itself.
  struct Unit {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    Pool pool;
    bool is_page = false;
    std::uint64_t since = 0;
    Use last;  // the last free: since then no block is in use in the unit
    Use last_before_peak;
    [[nodiscard]] std::uint64_t end() const { return address + bytes; }
  };
  class Sums;

  [[nodiscard]] std::vector<Unit> units_at_peak() const;

  std::uint64_t now_ = 0;
  std::uint64_t at_ = 0;  // number of the peak's event
  std::uint64_t reserved_bytes_ = 0;
  Block request_;  // the block that met the peak's request
  Pool pool_;
  std::map<std::uint64_t, Unit> units_;
  // Units and blocks that existed at the peak and were removed since then.
  std::vector<Unit> gone_units_;
  std::vector<Block> gone_blocks_;
};

}  // namespace gpumemtrace::analyzer::replay
