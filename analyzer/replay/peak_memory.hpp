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
  kRounding,      // blocks larger than the request
  kPieces,        // free, of the request's pool and stream, too small for it
  kOversize,      // free as well, kept for large requests by max_split_size_mb
  kOtherPool,     // free, of the same stream, for small or for large requests
  kOtherStreams,  // free, of other streams or private pools
  kRestOfSegment  // of the driver's newest segment, behind the request
};

struct UnusableBytes {
  std::uint64_t bytes = 0;
  std::uint64_t releasable = 0;  // of these, where no block is in use
};

// By the stack of the blocks that are the reason: those in use of the segment (or page of an
// expandable one), each by its bytes there; if none is, the one that was freed last.
using UnusableByStack = std::map<std::optional<trace::StackId>, UnusableBytes>;
using Unusable = std::map<Cause, UnusableByStack>;

// Remembers the peak without a copy of everything: present then is what is still there and
// older than the peak, and what went since, which is kept here. Memory is bounded by what was
// there at the peak.
class PeakMemory {
 public:
  // Requests share the free memory of one of these.
  struct Pool {
    ClassId of = 0;
    bool small = false;
    friend bool operator==(const Pool&, const Pool&) = default;
  };
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t requested = 0;
    trace::StackId stack = trace::StackId::kNone;
    std::uint64_t since = 0;  // number of its event
    [[nodiscard]] std::uint64_t end() const { return address + bytes; }
  };

  // Later changes happen with the event of this number; numbers begin at 1 and rise.
  void begin_event(std::uint64_t number) { now_ = number; }
  void add_segment(std::uint64_t address, std::uint64_t bytes, Pool pool) {
    units_[address] = {address, bytes, pool, false, now_, {}, {}};
  }
  void add_page(std::uint64_t address, std::uint64_t bytes, Pool pool) {
    units_[address] = {address, bytes, pool, true, now_, {}, {}};
  }
  // Removes a segment, or pages.
  void remove(std::uint64_t address, std::uint64_t bytes);
  void move_segment(std::uint64_t any_address, ClassId to);
  // The request is met by the block, and the peak is updated.
  void met(const Block& block, Pool pool, std::uint64_t reserved_bytes);
  // `free_from`, `free_to`: the free memory around it now.
  void freed(const Block& block, std::uint64_t free_from, std::uint64_t free_to);

  // `live`: all blocks that are in use now.
  [[nodiscard]] Unusable unusable(std::vector<Block> live, std::uint64_t max_split_bytes) const;

 private:
  struct Use {
    std::optional<trace::StackId> stack;
    std::uint64_t at = 0;
  };
  // Memory that could go back to the driver by itself.
  struct Unit {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    Pool pool;
    bool is_page = false;
    std::uint64_t since = 0;
    Use last;  // freed so that nothing is in use any more
    Use last_before_peak;
    [[nodiscard]] std::uint64_t end() const { return address + bytes; }
  };
  class Sums;

  [[nodiscard]] std::vector<Unit> units_at_peak() const;

  std::uint64_t now_ = 0;
  std::uint64_t at_ = 0;  // the peak's event
  std::uint64_t reserved_bytes_ = 0;
  Block request_;  // the block that met it
  Pool pool_;
  std::map<std::uint64_t, Unit> units_;
  std::vector<Unit> gone_units_;  // since the peak
  std::vector<Block> gone_blocks_;
};

}  // namespace gpumemtrace::analyzer::replay
