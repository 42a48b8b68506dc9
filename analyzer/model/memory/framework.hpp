// SPDX-License-Identifier: Apache-2.0
// The framework's caching allocator: its blocks, and the segments of driver memory in which they
// lie.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/model/accounts/accounts.hpp"
#include "analyzer/model/memory/private_pools.hpp"
#include "trace/ledger/reserved_bytes.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// A piece of memory that holds the framework's blocks: one driver allocation, or one
// reservation of virtual memory, of which `bytes` are mapped.
struct Segment {
  // model time of the driver's allocation; the pieces of a reservation have times of their own
  std::uint64_t born = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;    // end of the address range
  std::uint64_t bytes = 0;  // the bytes of the range that are memory
  std::uint64_t allocated = 0;
  std::uint64_t live_blocks = 0;
  std::int32_t device = kUnknownDevice;
  bool mapped = false;  // the segment is a reservation of virtual memory
  bool live = false;
  std::uint32_t pool = 0;  // id in PrivatePools; 0 = the default pool of the device

  // Free bytes that cannot go back to the driver because blocks live beside them. Segments of
  // private pools have none: other settings of the allocator do not change what these pools hold.
  [[nodiscard]] std::uint64_t stranded() const {
    return pool == 0 && live_blocks != 0 && bytes > allocated ? bytes - allocated : 0;
  }
};

// The framework's memory on one device.
struct FrameworkDevice : ledger::ReservedBytes {
  std::int32_t device = kUnknownDevice;
  Account* blocks = nullptr;
  // blocks, driver memory and mappings at the moment of most stranded bytes
  PeakSnapshot most_stranded_moment;
  std::uint64_t stranded_bytes = 0;
  std::uint64_t segments_allocated = 0;
  std::uint64_t segments_freed = 0;
  std::int64_t difference = 0;  // allocated bytes: the framework's own total minus the model's
  PoolBytes in_private_pools;
  PoolBytes default_pool_peak;    // reserved and allocated bytes, each at its own time
  std::uint64_t marked_peak = 0;  // reserved_peak_bytes at the last PrivatePools::set_mark()
  // allocated bytes of all pools at the peak of reserved bytes
  std::uint64_t allocated_at_peak = 0;
  bool peak_is_restored = false;  // the peak of reserved bytes came before a checkpoint
};

// - Segments are found by their blocks: the code that applies block records asks for the segment at
//   a new block's address and, if there is none, adds the driver memory around the address as one.
// - Segment ids are stable and begin at 1; 0 means no segment. The id of a private pool's segment
//   is never used again, so that released memory is known to be private.
class Framework {
 public:
  explicit Framework(Accounts& accounts) : accounts_(accounts) {}

  [[nodiscard]] std::uint32_t find_segment(std::uint64_t address) const;
  std::uint32_t add_segment(const Segment& segment, std::uint64_t now);
  // grow_segment(): `bytes` at `address` of the segment became physical memory at `born`.
  // shrink_segment(): they are no longer physical memory.
  void grow_segment(std::uint32_t id, std::uint64_t address, std::uint64_t bytes,
                    std::uint64_t born, std::uint64_t now);
  void shrink_segment(std::uint32_t id, std::uint64_t address, std::uint64_t bytes,
                      std::uint64_t now);
  void remove_segment(std::uint32_t id, std::uint64_t now);
  // Puts the segment and the capture, which allocates from it, into one private pool.
  void join_pool(std::uint32_t id, PrivatePools::Capture& capture, std::uint64_t now);

  [[nodiscard]] LiveAllocation* find_block(std::uint64_t address) { return blocks_.find(address); }
  void add_block(const trace::Block& record, std::uint32_t group, std::uint32_t segment,
                 std::uint64_t now);
  // False if no block at the address is live.
  [[nodiscard]] bool remove_block(std::uint64_t address, std::uint64_t now);
  // Compares the framework's own total of allocated bytes with the model's. True if the difference
  // changed at this record.
  [[nodiscard]] bool check_totals(const trace::Block& record, std::uint64_t now);

  // Restarts the search for the moment of most stranded bytes, because a checkpoint does not have
  // the earlier layout of memory.
  void restart_most_stranded_moment(std::uint64_t now) {
    for (auto& [ordinal, owner] : devices_)
      owner.most_stranded_moment.set(now, owner.stranded_bytes);
  }
  // Restores the peak of reserved bytes from a checkpoint.
  void restore(const trace::Peak& peak) {
    FrameworkDevice& owner = device(peak.device);
    owner.restore(peak);
    owner.marked_peak = owner.reserved_peak_bytes;
    owner.peak_is_restored = true;
    accounts_.set_reserved(*owner.blocks, owner.reserved_bytes());
  }

  [[nodiscard]] FrameworkDevice& device(std::int32_t ordinal) {
    if (last_device_ == nullptr || last_device_->device != ordinal) find_device(ordinal);
    return *last_device_;
  }
  // nullptr if the framework never used the device.
  [[nodiscard]] const FrameworkDevice* find(std::int32_t ordinal) const;
  [[nodiscard]] const std::map<std::int32_t, FrameworkDevice>& devices() const { return devices_; }
  [[nodiscard]] const Segment& segment(std::uint32_t id) const { return segments_[id - 1]; }
  [[nodiscard]] bool is_private(std::uint32_t segment) const {
    return segments_[segment - 1].pool != 0;
  }
  // Returns the private pool for a new segment, 0 without a capture; `capture` may be nullptr.
  [[nodiscard]] std::uint32_t pool_of(PrivatePools::Capture* capture, std::int32_t device) {
    return capture == nullptr ? 0 : pools_.pool_of(*capture, device);
  }
  [[nodiscard]] PrivatePools& pools() { return pools_; }
  [[nodiscard]] const PrivatePools& pools() const { return pools_; }
  template <class Visit>
  void for_each_block(Visit&& visit) const {
    blocks_.for_each(visit);
  }

 private:
  struct Page {
    std::uint64_t number = 0;  // number of the page: address / page size, never 0
    std::uint32_t segment = 0;
    std::uint32_t overlaps = 0;  // number of other segments that touch the page
  };

  void find_device(std::int32_t ordinal);
  [[nodiscard]] std::uint32_t find_by_begin(std::uint64_t address) const;
  void index_pages(std::uint32_t id, std::uint64_t address, std::uint64_t bytes);
  void unindex_pages(std::uint32_t id, std::uint64_t address, std::uint64_t bytes);
  void change_stranded(FrameworkDevice& device, std::uint64_t before, std::uint64_t after,
                       std::uint64_t now);
  void update_peaks(FrameworkDevice& device);

  Accounts& accounts_;
  FlatMap<LiveAllocation, &LiveAllocation::address> blocks_;
  std::vector<Segment> segments_;
  std::vector<std::uint32_t> unused_;  // ids of segments that can be used again
  std::map<std::uint64_t, std::uint32_t> by_begin_;
  std::uint64_t unindexed_pieces_ = 0;  // number of pieces too large for the page index
  FlatMap<Page, &Page::number> pages_;
  PrivatePools pools_;
  std::map<std::int32_t, FrameworkDevice> devices_;
  FrameworkDevice* last_device_ = nullptr;
};

}  // namespace gpumemtrace::analyzer
