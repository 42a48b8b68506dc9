// SPDX-License-Identifier: Apache-2.0
// Builds a trace file and its ring block by block, for tests of the reader; they may also hold what
// no recorder would write. TraceBuilder is for tests of what a trace means.
#pragma once

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

#include "trace/checksum.hpp"
#include "trace/file_layout.hpp"
#include "trace/file_writer.hpp"
#include "trace/pack.hpp"
#include "trace/ring_layout.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::tests {

// Records one after the other, as they stand in a chunk.
class RecordImage {
 public:
  // Adds a record and fills in its kind and length.
  template <class Record>
  void add(const Record& record, std::string_view tail = {}) {
    trace::append_record(words_, record, tail);
  }
  void add_raw(std::span<const std::byte> record) {
    const std::size_t begin = words_.size();
    words_.resize(begin + record.size() / 8, 0);
    std::memcpy(words_.data() + begin, record.data(), record.size());
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(words_)); }

 private:
  std::vector<std::uint64_t> words_;
};

// The columns of packed records; empty if the packer refuses the records.
inline std::vector<std::byte> pack_image(std::span<const std::byte> image) {
  // Kept from call to call, because these buffers are large.
  thread_local trace::PackScratch scratch;
  thread_local std::vector<std::byte> room(trace::kMaxColumnBytes);
  const std::size_t bytes = trace::pack(image, room, scratch).column_bytes;
  return {room.begin(), room.begin() + static_cast<std::ptrdiff_t>(bytes)};
}

// The payload of the schema block of this version.
inline std::vector<std::byte> own_schema_bytes() {
  std::vector<std::byte> payload(1 << 16);
  payload.resize(trace::write_schema(payload));
  return payload;
}

template <class Object>
void append_object(std::vector<std::byte>& out, const Object& object) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&object);
  out.insert(out.end(), bytes, bytes + sizeof object);
}

// - `file` and `ring` may be changed at will before write(); an empty ring is not written.
// - A checksum is that of the bytes at the time when they were added.
class RawTrace {
 public:
  static constexpr trace::TraceId kId = {0x1234, 0x5678};

  RawTrace() {
    trace::FileHeader header;
    header.id = kId;
    header.checksum = trace::crc32c(&header, offsetof(trace::FileHeader, checksum));
    append_object(file, header);
  }

  // Adds a block with its lengths and checksums filled in. `stored` is the payload after `codec`.
  void add_block(trace::BlockHeader header, std::span<const std::byte> stored) {
    header.header_bytes = sizeof header;
    header.stored_bytes = static_cast<std::uint32_t>(stored.size());
    if (header.codec == trace::Codec::kNone) header.column_bytes = header.stored_bytes;
    header.payload_checksum = trace::crc32c(stored.data(), stored.size());
    header.header_checksum = trace::crc32c(&header, offsetof(trace::BlockHeader, header_checksum));
    append_object(file, header);
    file.insert(file.end(), stored.begin(), stored.end());
  }

  void add_schema(std::span<const std::byte> payload) {
    trace::BlockHeader header;
    header.type = trace::BlockType::kSchema;
    add_block(header, payload);
  }

  // Adds a block of packed records, which began at `begin_offset` of a chunk of the writer.
  void add_records(std::uint32_t writer, std::uint32_t sequence, std::uint32_t begin_offset,
                   std::span<const std::byte> image, trace::Codec codec = trace::Codec::kNone) {
    std::vector<std::byte> payload = pack_image(image);
    trace::BlockHeader header;
    header.writer = writer;
    header.sequence = sequence;
    header.begin_offset = begin_offset;
    header.end_offset = begin_offset + static_cast<std::uint32_t>(image.size());
    header.codec = codec;
    header.column_bytes = static_cast<std::uint32_t>(payload.size());
    if (codec == trace::Codec::kZstd) {
      std::vector<std::byte> stored(ZSTD_compressBound(payload.size()));
      stored.resize(ZSTD_compress(stored.data(), stored.size(), payload.data(), payload.size(), 1));
      payload = std::move(stored);
    }
    add_block(header, payload);
  }

  void begin_ring(const trace::TraceId& id = kId) {
    trace::RingHeader header;
    header.id = id;
    append_object(ring, header);
    ring.resize(trace::kRingHeaderBytes);
  }

  void add_chunk(std::uint32_t writer, std::uint32_t sequence, std::span<const std::byte> content,
                 trace::ChunkState state = trace::ChunkState::kSealed,
                 std::uint32_t chunk_bytes = trace::kMinChunkBytes) {
    trace::ChunkHeader header;
    header.bytes = chunk_bytes;
    header.state = state;
    header.writer = writer;
    header.sequence = sequence;
    header.committed = static_cast<std::uint32_t>(content.size());
    const std::size_t end = ring.size() + chunk_bytes;
    append_object(ring, header);
    ring.insert(ring.end(), content.begin(), content.end());
    ring.resize(end);
  }

  // Writes the file and the ring. Returns the path of the trace file.
  std::filesystem::path write(const std::filesystem::path& folder) const {
    const std::filesystem::path path = folder / "trace.gmt";
    write_bytes(path, file);
    if (!ring.empty()) write_bytes(folder / "trace.gmt.ring", ring);
    return path;
  }

  std::vector<std::byte> file;
  std::vector<std::byte> ring;

 private:
  static void write_bytes(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
};

}  // namespace gpumemtrace::tests
