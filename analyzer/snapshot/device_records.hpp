// SPDX-License-Identifier: Apache-2.0
// Writes the history of one device as the records that the recorder would have written: calls of
// the driver for segments, and the framework's reports of its blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "analyzer/replay/allocator_settings.hpp"
#include "analyzer/snapshot/address_spaces.hpp"
#include "analyzer/snapshot/snapshot.hpp"
#include "analyzer/snapshot/stack_records.hpp"
#include "analyzer/snapshot/undo.hpp"
#include "trace/file_writer.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer::snapshot {

// The ticks of a trace that is made from a snapshot are nanoseconds.
struct TickScale {
  static constexpr std::uint64_t kFirstTick = 1'000'000;
  std::uint64_t first_us = 0;  // the first time in the whole file

  [[nodiscard]] std::uint64_t tick_of(std::uint64_t time_us) const {
    return kFirstTick + (time_us > first_us ? (time_us - first_us) * 1000 : 0);
  }
};

// The parts that the records of all devices share.
struct RecordContext {
  const Snapshot& snapshot;
  const replay::AllocatorSettings& settings;
  TickScale scale;
  StackRecords& stacks;
};

struct EarlierMemory {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t reserved_bytes = 0;
  // Blocks that were freed in the history may be larger than shown, by uncertain_bytes in all.
  std::uint64_t uncertain_blocks = 0;
  std::uint64_t uncertain_bytes = 0;
};

// Writes one device's records. A block counts as allocated until its free is requested, as in
// torch.cuda.memory_allocated(); its memory is used again when the free is completed.
class DeviceRecords {
 public:
  DeviceRecords(const RecordContext& context, std::int32_t device, trace::StreamWriter out)
      : context_(context), device_(device), out_(std::move(out)) {}

  void write(const UndoneHistory& history, std::span<const Event> events);
  [[nodiscard]] const EarlierMemory& earlier() const { return earlier_; }
  [[nodiscard]] std::uint64_t last_tick() const { return now_; }

 private:
  void reserve(const AddressSpace& space);
  void give_back(const AddressSpace& space);
  void write_earlier(const HeldMemory& before, std::span<const Event> events);
  void find_earlier_sizes(std::span<const Event> events);
  void write_earlier_block(std::uint64_t address, std::uint64_t stream);
  void write_event(const Event& event, const Event* next);
  void write_alloc(const Event& event);
  void write_free_requested(const Event& event, const Event* next);
  void write_free_completed(const Event& event);
  void write_oom(const Event& event);
  void add_segment(std::uint64_t address, const HeldSegment& segment, std::uint16_t flags);
  void remove_segment(const Event& event);
  void map_pages(std::uint64_t address, const HeldSegment& pages);
  void unmap_pages(const Event& event);
  void add_block(std::uint64_t address, const HeldBlock& block, std::uint64_t stream,
                 trace::StackId stack, std::uint16_t flags);

  // The bytes that the allocator's rules give to a request at a free place, and the free bytes
  // behind the block.
  struct BlockSize {
    std::uint64_t bytes = 0;
    std::uint64_t free_behind = 0;  // only for blocks of the large pool
  };
  [[nodiscard]] BlockSize block_size_at(std::uint64_t address, std::uint64_t requested) const;
  [[nodiscard]] trace::StackId stack_of(StackId stack) {
    return context_.stacks.number_of(stack, now_, out_);
  }
  [[nodiscard]] std::uint64_t private_pool(PoolId id) const;
  [[nodiscard]] trace::CallHeader call(StackId stack);
  [[nodiscard]] trace::Block block_record(std::uint64_t address);

  RecordContext context_;
  std::int32_t device_;
  trace::StreamWriter out_;
  HeldMemory held_;
  std::map<std::uint64_t, std::uint64_t> page_bytes_;  // page sizes, by address of the space
  // Bytes of each mapped page, by address; each has its own handle of physical memory.
  std::map<std::uint64_t, std::uint64_t> pages_;
  EarlierMemory earlier_;
  // The tick of the last record: each record has its own.
  std::uint64_t now_ = TickScale::kFirstTick;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t reserved_bytes_ = 0;
};

}  // namespace gpumemtrace::analyzer::snapshot
