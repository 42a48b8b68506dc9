// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/trace_input.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "tests/support/raw_trace.hpp"
#include "trace/checksum.hpp"
#include "trace/file_layout.hpp"
#include "trace/ring_layout.hpp"

namespace gpumemtrace::tests {
namespace {

using trace::BlockHeader;
using trace::ChunkHeader;
using trace::FileHeader;
using trace::RingHeader;

constexpr std::size_t kMaxChunks = 24;
// The size of an input's ring header. Header fields that were added later are zeros, so that kept
// inputs stay good.
constexpr std::size_t kHeaderBytes = 376;
static_assert(kHeaderBytes <= sizeof(RingHeader));

// Takes bytes from the front of an input; fewer than asked for if the input has no more.
class Input {
 public:
  explicit Input(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> take(std::size_t bytes) {
    const std::span<const std::byte> taken = bytes_.first(std::min(bytes, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  std::size_t number(std::size_t bytes) {
    std::size_t value = 0;
    std::size_t shift = 0;
    for (const std::byte byte : take(bytes)) {
      value |= static_cast<std::size_t>(byte) << shift;
      shift += 8;
    }
    return value;
  }
  std::span<const std::byte> rest() { return take(bytes_.size()); }
  std::size_t left() const { return bytes_.size(); }

 private:
  std::span<const std::byte> bytes_;
};

// The layouts hold atomics, but here they are only bytes of a file.
template <class Object>
void load(Object& object, const std::byte* from) {
  std::memcpy(static_cast<void*>(&object), from, sizeof object);
}
template <class Object>
void store(std::byte* to, const Object& object) {
  std::memcpy(to, static_cast<const void*>(&object), sizeof object);
}

void append(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

// Makes lengths and checksums of every block fit what mutations have left of the block.
void repair_blocks(std::span<std::byte> file, std::uint8_t options) {
  std::size_t offset = sizeof(FileHeader);
  while (offset + sizeof(BlockHeader) <= file.size()) {
    BlockHeader block;
    load(block, file.data() + offset);
    if (block.magic != trace::kBlockMagic) {
      ++offset;
      continue;
    }
    const std::span<const std::byte> rest = file.subspan(offset + sizeof block);
    if ((options & kKeepLengths) == 0) {
      block.header_bytes = sizeof block;
      block.stored_bytes =
          static_cast<std::uint32_t>(std::min<std::size_t>(block.stored_bytes, rest.size()));
      if (block.codec == trace::Codec::kNone) block.column_bytes = block.stored_bytes;
    }
    if (block.stored_bytes <= rest.size()) {
      block.payload_checksum = trace::crc32c(rest.data(), block.stored_bytes);
    }
    block.header_checksum = trace::crc32c(&block, offsetof(BlockHeader, header_checksum));
    store(file.data() + offset, block);
    offset += sizeof block + std::min<std::size_t>(block.stored_bytes, rest.size());
  }
}

void repair_file(std::span<std::byte> file, std::uint8_t options) {
  if (file.size() < sizeof(FileHeader)) return;
  FileHeader header;
  load(header, file.data());
  header.checksum = trace::crc32c(&header, offsetof(FileHeader, checksum));
  store(file.data(), header);
  repair_blocks(file, options);
}

SparseFile expand_ring(Input input, std::span<const std::byte> file, std::uint8_t options) {
  SparseFile ring;
  if (input.left() < kHeaderBytes) return ring;
  const auto header_bytes = input.take(kHeaderBytes);
  ring.parts.emplace_back(0, std::vector<std::byte>(sizeof(RingHeader)));
  std::copy(header_bytes.begin(), header_bytes.end(), ring.parts.back().second.begin());
  if ((options & kKeepRingId) == 0 && file.size() >= sizeof(FileHeader)) {
    RingHeader header;
    load(header, ring.parts.back().second.data());
    header.magic = trace::kRingMagic;
    header.version = trace::kFileVersion;
    std::memcpy(&header.id, file.data() + offsetof(FileHeader, id), sizeof header.id);
    store(ring.parts.back().second.data(), header);
  }
  std::uint64_t offset = trace::kRingHeaderBytes;
  ring.bytes = offset;
  for (std::size_t i = 0; i < kMaxChunks && input.left() >= sizeof(ChunkHeader); ++i) {
    ChunkHeader chunk;
    const auto chunk_bytes = input.take(sizeof chunk);
    load(chunk, chunk_bytes.data());
    const auto content = input.take(input.number(2));
    std::vector<std::byte> part(chunk_bytes.begin(), chunk_bytes.end());
    append(part, content);
    ring.bytes = offset + part.size() - content.size() / 2;
    ring.parts.emplace_back(offset, std::move(part));
    offset += std::clamp<std::uint64_t>(chunk.bytes, trace::kMinChunkBytes, trace::kMaxChunkBytes);
  }
  if ((options & kCutRing) == 0) ring.bytes = offset;
  return ring;
}

void write_parts(const std::filesystem::path& path, const SparseFile& file) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool written = descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(file.bytes)) == 0;
  for (const auto& [offset, bytes] : file.parts) {
    written = written && pwrite(descriptor, bytes.data(), bytes.size(),
                                static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes.size());
  }
  if (descriptor >= 0) close(descriptor);
  if (!written) throw std::runtime_error("Cannot write " + path.string() + ".");
}

}  // namespace

TraceInput expand_input(std::span<const std::byte> bytes) {
  Input input(bytes);
  const auto options = static_cast<std::uint8_t>(input.number(1));
  Input file_part(input.take(input.number(2)));
  TraceInput result;
  append(result.file, file_part.take(sizeof(FileHeader)));
  if ((options & kOwnSchema) != 0) {
    RawTrace schema;
    schema.file.clear();
    schema.add_schema(own_schema_bytes());
    append(result.file, schema.file);
  }
  append(result.file, file_part.rest());
  if ((options & kKeepChecksums) == 0) repair_file(result.file, options);
  result.ring = expand_ring(input, result.file, options);
  return result;
}

std::vector<std::byte> make_input(std::uint8_t options, std::span<const std::byte> file,
                                  std::span<const std::byte> ring) {
  std::vector<std::byte> out = {static_cast<std::byte>(options)};
  const auto two_bytes = [&](std::size_t value) {
    out.push_back(static_cast<std::byte>(value & 0xff));
    out.push_back(static_cast<std::byte>(value >> 8 & 0xff));
  };
  if (file.size() > 0xffff) throw std::runtime_error("A file part has at most 65535 bytes.");
  two_bytes(file.size());
  append(out, file);
  if (ring.empty()) return out;
  append(out, ring.first(kHeaderBytes));
  for (std::size_t offset = trace::kRingHeaderBytes; offset < ring.size();) {
    ChunkHeader chunk;
    load(chunk, ring.data() + offset);
    append(out, ring.subspan(offset, sizeof chunk));
    const std::size_t committed = chunk.committed.load();
    two_bytes(committed);
    append(out, ring.subspan(offset + sizeof chunk, committed));
    offset += chunk.bytes;
  }
  return out;
}

void write_input(const TraceInput& input, const std::filesystem::path& trace) {
  write_parts(trace, {{{0, input.file}}, input.file.size()});
  std::filesystem::path ring = trace;
  ring += ".ring";
  if (input.ring.bytes != 0) {
    write_parts(ring, input.ring);
  } else {
    unlink(ring.c_str());
  }
}

}  // namespace gpumemtrace::tests
