// SPDX-License-Identifier: Apache-2.0
// The typed rows of a memory snapshot of PyTorch (torch.cuda.memory._dump_snapshot).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/snapshot/sequence_table.hpp"

namespace gpumemtrace::analyzer::snapshot {

// Numbers of texts, frames, stacks and pools, each of which a Snapshot holds once. 0: the file has
// no value, or an empty text or list.
struct TextId {
  std::uint32_t value = 0;
  friend bool operator==(TextId, TextId) = default;
};
struct FrameId {
  std::uint32_t value = 0;
  friend bool operator==(FrameId, FrameId) = default;
};
struct StackId {
  std::uint32_t value = 0;
  friend bool operator==(StackId, StackId) = default;
};
struct PoolId {
  std::uint32_t value = 0;
  friend bool operator==(PoolId, PoolId) = default;
};

// PyTorch's own name of a pool. (0, 0) is the pool of all allocations that are in no other pool.
struct Pool {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend bool operator==(Pool, Pool) = default;
};

struct Frame {
  TextId function;
  TextId file;
  std::uint32_t line = 0;
  TextId fx_node;   // fx_node_name: the node of compiled code
  TextId fx_trace;  // fx_original_trace: the lines of the model that became this node, as text
};

enum class BlockState : std::uint8_t { allocated, pending_free, free };

struct Block {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;  // the size of the block, which is rounded up
  std::optional<std::uint64_t> requested_bytes;
  BlockState state = BlockState::free;
  StackId stack;  // the stack of its allocation; PyTorch keeps it for some free blocks
};

struct Segment {
  std::int32_t device = 0;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t stream = 0;
  bool is_large = false;
  bool is_expandable = false;
  PoolId pool;
  StackId stack;
  std::uint32_t first_block = 0;  // see Snapshot::blocks_of()
  std::uint32_t blocks = 0;
};

enum class Action : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  oom,
  annotate,
  unknown,  // any other action: Snapshot::unknown_actions counts them
};
// The names of the actions as PyTorch writes them, in the order of the enumeration.
constexpr auto names(Action) {
  return std::to_array<std::string_view>(
      {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
       "segment_unmap", "snapshot", "oom", "annotate", "unknown"});
}

// One entry of PyTorch's history.
struct Event {
  // The largest time_us: two thousand years fit into 56 bits.
  static constexpr std::uint64_t kMostUs = (std::uint64_t{1} << 56) - 1;

  std::uint64_t address = 0;  // for oom: device_free, the driver's free bytes
  std::uint64_t bytes = 0;    // block: the requested size; segment: the size from the driver
  std::uint64_t stream = 0;
  std::uint64_t time_us : 56 = 0;  // 0: the file has no times
  Action action : 8 = Action::unknown;
  // The stack of the call; for a free, of the freeing call. Its outermost frames are the event's
  // compile_context and user_metadata: see kUserMetadataFile.
  StackId stack;
  PoolId pool;
};
static_assert(sizeof(Event) == 40, "two million events must fit below 128 MiB");

// An entry of the snapshot's external_annotations.
struct Annotation {
  TextId stage;  // "START" or "END"
  TextId name;
  std::int32_t device = 0;
  std::uint64_t time_us = 0;
};

// A setting of the allocator as text: whole numbers in decimals, True and False as in Python. The
// settings inside a setting are named NAME.KEY.
struct Setting {
  TextId name;
  TextId value;
};

// A range of a vector of the snapshot.
struct Range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct Snapshot {
  SequenceTable<char> texts;
  SequenceTable<Frame> frames;  // each frame once: a table of sequences of one frame
  SequenceTable<std::uint32_t>
      stacks;                 // numbers (FrameId) of frames, innermost first, as PyTorch gives them
  SequenceTable<Pool> pools;  // each pool once: a table of sequences of one pool

  std::vector<Segment> segments;  // the segments of devices and of the host's pinned memory
  std::vector<Block> blocks;      // each segment's blocks, by address as in the file
  std::vector<Event> events;      // each device's and the host's events, in the file's order

  Range device_segments;             // the devices' part of `segments`
  std::vector<Range> device_traces;  // each device's part of `events`, by device ordinal
  Range host_segments;               // pinned memory's part of `segments`
  std::vector<Range> host_traces;    // pinned memory's parts of `events`
  bool has_host_memory = false;      // the file has host_segments or host_traces
  std::vector<Annotation> annotations;
  std::vector<Setting> settings;  // the file's allocator_settings

  // ring_overflowed: PyTorch dropped events because its ring was full. ring_entries: the number of
  // events that the ring can hold.
  std::optional<bool> ring_overflowed;
  std::optional<std::uint64_t> ring_entries;

  // Skipped keys and actions by name: "event.NAME", "frame.NAME" and the like; at most
  // kUnknownNames names, further ones are counted as "...".
  std::map<std::string, std::uint64_t> unknown_keys;
  std::map<std::string, std::uint64_t> unknown_actions;
  static constexpr std::size_t kUnknownNames = 100;

  [[nodiscard]] std::string_view text(TextId id) const {
    const std::span<const char> characters = texts[id.value];
    return {characters.data(), characters.size()};
  }
  [[nodiscard]] const Frame& frame(FrameId id) const { return frames[id.value].front(); }
  [[nodiscard]] std::span<const std::uint32_t> stack(StackId id) const { return stacks[id.value]; }
  [[nodiscard]] std::optional<Pool> pool(PoolId id) const {
    if (id.value == 0) return std::nullopt;
    return pools[id.value].front();
  }
  [[nodiscard]] std::span<const Segment> segments_of(Range range) const {
    return std::span(segments).subspan(range.first, range.count);
  }
  [[nodiscard]] std::span<const Event> events_of(Range range) const {
    return std::span(events).subspan(range.first, range.count);
  }
  [[nodiscard]] std::span<const Block> blocks_of(const Segment& segment) const {
    return std::span(blocks).subspan(segment.first_block, segment.blocks);
  }
};

}  // namespace gpumemtrace::analyzer::snapshot
