// SPDX-License-Identifier: Apache-2.0
// The packed trace file, `NAME.gmt`:
//
//   FileHeader | schema block | block | block | ...
//
// A block is a BlockHeader and `stored_bytes` of payload. Blocks are appended; a checkpoint
// replaces the whole file by a shorter one. A file whose process was killed may end within a block;
// the reader takes the whole blocks. docs/internals/format.md explains the format.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::trace {

inline constexpr std::uint64_t kFileMagic = 0x31'45'43'41'52'54'4d'47;  // "GMTRACE1"
inline constexpr std::uint32_t kFileVersion = 2;
// Since version 2 a column may be of the form kSame; nothing else has changed.
inline constexpr std::uint32_t kOldestFileVersion = 1;
inline constexpr std::uint32_t kBlockMagic = 0x42'54'4d'47;  // "GMTB"

// Bytes of the largest chunk of the ring, and so of the largest image that a block holds; this
// bounds the reader's memory.
inline constexpr std::size_t kMaxChunkBytes = 256 * 1024;
// Bytes of the longest columns that an image of kMaxChunkBytes can make: at worst a varint takes
// ten bytes.
inline constexpr std::size_t kMaxColumnBytes = 4 * kMaxChunkBytes;

struct TraceId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const TraceId&, const TraceId&) = default;
};

struct FileHeader {
  std::uint64_t magic = kFileMagic;
  std::uint32_t version = kFileVersion;
  std::uint32_t header_bytes = sizeof(FileHeader);
  TraceId id;  // the ring file of the same trace has the same id
  std::uint64_t start_realtime_ns = 0;
  // 0 = the rate is not known: it follows from the Clock records
  std::uint64_t ticks_per_second = 0;
  std::uint32_t process_id = 0;
  std::uint32_t checksum = 0;  // CRC-32C of all fields before it
};
static_assert(sizeof(FileHeader) == 56);

enum class BlockType : std::uint8_t {
  kSchema = 1,      // kinds and fields of all records in this file
  kRecords = 2,     // the records of one chunk of the ring, or of a part of one
  kCheckpoint = 3,  // records that stand for compacted records; the writer is kCheckpointWriter
  kIndex = 4,       // offsets of all other blocks; written at an orderly end
  kCompacted = 5,   // no payload: the checkpoint stands for the writer's records up to this chunk
};

// The number of the stream of records that a checkpoint adds; no thread writes this stream.
inline constexpr std::uint32_t kCheckpointWriter = ~std::uint32_t{0};

enum class Codec : std::uint8_t { kNone = 0, kZstd = 1 };

struct BlockHeader {
  std::uint32_t magic = kBlockMagic;
  BlockType type = BlockType::kRecords;
  Codec codec = Codec::kNone;
  std::uint16_t header_bytes = 0;
  std::uint32_t writer = 0;  // blocks of records: the writer whose chunk this is
  // blocks of records: number of the chunk among its writer's chunks
  std::uint32_t sequence = 0;
  // blocks of records: the bytes of the chunk's content, from this to end_offset
  std::uint32_t begin_offset = 0;
  std::uint32_t end_offset = 0;
  std::uint32_t records = 0;
  std::uint32_t column_bytes = 0;  // payload before compression, in bytes
  std::uint32_t stored_bytes = 0;  // payload as it stands in the file, in bytes
  std::uint32_t payload_checksum = 0;
  std::uint64_t first_time = 0;  // time of the block's first record, in ticks
  std::uint64_t last_time = 0;   // time of the block's last record, in ticks
  std::uint32_t reserved = 0;
  std::uint32_t header_checksum = 0;  // CRC-32C of all fields before it
};
static_assert(sizeof(BlockHeader) == 64);

}  // namespace gpumemtrace::trace
