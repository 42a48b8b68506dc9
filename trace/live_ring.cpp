// SPDX-License-Identifier: Apache-2.0
#include "trace/live_ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "trace/ring_layout.hpp"

namespace gpumemtrace::trace {
namespace {

bool is_in_use(const ChunkHeader& chunk) { return chunk.state.load() != ChunkState::kFree; }

bool same_use(const ChunkHeader& before, const ChunkHeader& after) {
  return is_in_use(after) && before.generation == after.generation &&
         before.writer == after.writer && before.sequence == after.sequence &&
         before.committed.load() <= after.committed.load();
}

// Copies one chunk, header and content, in `chunk`; false if it has none or lost it meanwhile.
bool read_chunk(const OwnDescriptor& ring, std::uint64_t offset, const ChunkHeader& before,
                std::vector<std::byte>& chunk) {
  if (!is_in_use(before) || before.committed.load() > before.bytes - sizeof before) return false;
  chunk.resize(sizeof before + before.committed.load());
  std::memcpy(chunk.data(), static_cast<const void*>(&before), sizeof before);
  ChunkHeader after;
  return ring.read_at(offset + sizeof before, chunk.data() + sizeof before,
                      before.committed.load()) &&
         ring.read_at(offset, static_cast<void*>(&after), sizeof after) && same_use(before, after);
}

}  // namespace

// The recorder holds an open-file-description lock on the ring for as long as it lives.
bool has_recorder(const OwnDescriptor& ring) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(ring.number(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

OwnDescriptor copy_live_ring(const OwnDescriptor& ring) {
  OwnDescriptor copy(memfd_create("ring", MFD_CLOEXEC));
  const std::uint64_t bytes = ring.bytes();
  if (!copy.is_open() || ftruncate(copy.number(), static_cast<off_t>(bytes)) != 0)
    return OwnDescriptor();
  std::vector<std::byte> chunk;
  std::uint64_t offset = kRingHeaderBytes;
  while (offset + sizeof(ChunkHeader) <= bytes) {
    ChunkHeader header;
    if (!ring.read_at(offset, static_cast<void*>(&header), sizeof header)) break;
    if (!is_chunk(header)) {
      offset += kMinChunkBytes;  // being made
      continue;
    }
    if (read_chunk(ring, offset, header, chunk) &&
        !copy.write_at(offset, chunk.data(), chunk.size())) {
      return OwnDescriptor();
    }
    offset += header.bytes;
  }
  return copy;
}

}  // namespace gpumemtrace::trace
