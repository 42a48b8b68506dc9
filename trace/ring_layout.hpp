// SPDX-License-Identifier: Apache-2.0
// The ring file, `NAME.gmt.ring`: records that are not packed yet, in shared memory that outlives
// the process.
//
//   RingHeader (one page) | chunk | chunk | ...          each chunk: ChunkHeader | content
//
// A chunk belongs to one writer at a time. Only that writer's thread stores into the content and
// advances `committed`; the reader of a killed process's ring takes [0, committed) of every chunk
// whose bytes are not in the packed file already (found by writer, sequence and offset).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trace/file_layout.hpp"

namespace gpumemtrace::trace {

inline constexpr std::uint64_t kRingMagic = 0x31'47'4e'49'52'54'4d'47;  // "GMTRING1"
inline constexpr std::uint32_t kChunkMagic = 0x43'54'4d'47;             // "GMTC"
inline constexpr std::size_t kRingHeaderBytes = 4096;
inline constexpr std::size_t kMinChunkBytes = 4096;

enum class ChunkState : std::uint32_t {
  kFree = 0,    // the chunk's content is meaningless
  kActive = 1,  // a writer stores records into the chunk
  kSealed = 2,  // the chunk is complete and waits to be packed
};

struct ChunkHeader {
  std::uint32_t magic = kChunkMagic;
  std::uint32_t bytes = 0;  // bytes of the whole chunk, this header included
  std::atomic<ChunkState> state = ChunkState::kFree;
  std::uint32_t writer = 0;
  std::uint32_t sequence = 0;
  std::uint32_t generation = 0;              // counts the uses of this chunk's memory
  std::atomic<std::uint32_t> committed = 0;  // bytes of content that hold whole records
  std::uint32_t packed = 0;                  // bytes of content that are in the packed file
  std::uint32_t reserved[8] = {};
};
static_assert(sizeof(ChunkHeader) == 64);

// True if a chunk begins at these bytes: they have a chunk's magic number and a valid length.
[[nodiscard]] inline bool is_chunk(const ChunkHeader& chunk) {
  return chunk.magic == kChunkMagic && chunk.bytes >= kMinChunkBytes &&
         chunk.bytes <= kMaxChunkBytes && chunk.bytes % kMinChunkBytes == 0;
}

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// The classes of dropped records, in the order of the fields of the Gap record.
enum class DropClass : std::uint32_t { kAllocation, kFree, kCopy, kBlock, kOther, kCount };

// The counts of dropped records by class, shared by some of the writers.
struct alignas(64) DropCounts {
  std::atomic<std::uint64_t> counts[static_cast<std::size_t>(DropClass::kCount)] = {};
};

enum class ControlCommand : std::uint32_t { kNone = 0, kStart = 1, kStop = 2, kMark = 3 };

// `gpumemtrace ctl` writes command and text, then raises `requested`; the background thread of the
// traced process carries the command out and sets `answered` to the same number.
struct ControlMailbox {
  std::atomic<std::uint32_t> requested = 0;
  std::atomic<std::uint32_t> answered = 0;
  ControlCommand command = ControlCommand::kNone;
  std::uint32_t text_bytes = 0;
  char text[256] = {};
};

// The value of ended_by_signal if the process exited and no signal ended it. It tells of exits by
// _exit() too, for which no exit handler runs.
inline constexpr std::uint32_t kEndedByExit = 0x80;

struct RingHeader {
  std::uint64_t magic = kRingMagic;
  std::uint32_t version = kFileVersion;
  std::uint32_t header_bytes = kRingHeaderBytes;
  TraceId id;
  std::uint32_t process_id = 0;
  std::uint32_t reserved = 0;
  std::atomic<std::uint64_t> used_bytes = kRingHeaderBytes;  // file offset after the last chunk
  // Records dropped by threads without a writer; rings of former versions count all drops here.
  std::atomic<std::uint64_t> dropped[static_cast<std::size_t>(DropClass::kCount)] = {};
  std::atomic<std::uint32_t> exit_seen = 0;  // 1 once the exit handlers of the process have begun
  std::uint32_t unused = 0;
  ControlMailbox mailbox;
  // The MarkKind of the last mark that said that the process ends (exit or exec), once its record
  // is committed; 0: none. The packed trace tells the same once all records are packed.
  std::atomic<std::uint32_t> marked_end = 0;
  // Set by `gpumemtrace run`, which sees how its child ends: the number of the signal that ended
  // it, or kEndedByExit; 0: not known.
  std::atomic<std::uint32_t> ended_by_signal = 0;
  // Calls that were not recorded because they seemed to be a part of another running call of their
  // thread, and the stack could not be unwound to check it.
  std::atomic<std::uint64_t> calls_taken_for_parts = 0;
  // Counts of dropped records, indexed by the writer's number; several writers share one. Each is
  // in a cache line of its own, so that threads which drop records at the same time do not wait for
  // each other.
  static constexpr std::size_t kDropLines = 32;
  DropCounts dropped_by_writers[kDropLines];
};
static_assert(sizeof(RingHeader) <= kRingHeaderBytes);

// The sum of all counts of dropped records of the class.
inline std::uint64_t dropped_records(const RingHeader& header, DropClass drop_class) {
  const auto index = static_cast<std::size_t>(drop_class);
  // Relaxed: this is a counter, and no other memory is ordered by it.
  std::uint64_t sum = header.dropped[index].load(std::memory_order_relaxed);
  for (const DropCounts& line : header.dropped_by_writers) {
    sum += line.counts[index].load(std::memory_order_relaxed);
  }
  return sum;
}

}  // namespace gpumemtrace::trace
