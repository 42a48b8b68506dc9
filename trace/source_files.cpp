// SPDX-License-Identifier: Apache-2.0
#include "trace/source_files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "trace/ring_layout.hpp"

namespace gpumemtrace::trace {
namespace {

// The bounds of a decompressed file. A trace is compressed already and shrinks little, a ring is
// mostly zeros. A file that exceeds both bounds, the growth factor and the bytes, is no trace.
constexpr std::uint64_t kMostGrowth = 200;
constexpr std::uint64_t kAlwaysAllowedBytes = std::uint64_t{1} << 30;
constexpr std::size_t kBufferBytes = 256 << 10;
constexpr int kGzipWindow = 15 + 16;  // zlib's windowBits: the largest window, and a header of gzip

enum class Packer { kNone, kGzip, kZstd };

Packer packer_of(const OwnDescriptor& file) {
  std::array<unsigned char, 4> begin = {};
  if (!file.read_at(0, begin.data(), begin.size())) return Packer::kNone;
  if (begin[0] == 0x1f && begin[1] == 0x8b) return Packer::kGzip;
  constexpr std::array<unsigned char, 4> kZstdMagic = {0x28, 0xb5, 0x2f, 0xfd};
  return begin == kZstdMagic ? Packer::kZstd : Packer::kNone;
}

// Opens a temporary file for writing and removes its name, so that no other process can reach it.
OwnDescriptor open_temporary() {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  std::string name = ((error ? "/tmp" : folder) / "gpumemtrace-XXXXXX").string();
  OwnDescriptor file(mkostemp(name.data(), O_CLOEXEC));
  if (file.is_open()) unlink(name.c_str());
  return file;
}

// Writes the decompressed content to a file; take() fails beyond a bound of bytes.
class Sink {
 public:
  Sink(const OwnDescriptor& file, std::uint64_t most_bytes)
      : file_(file), most_bytes_(most_bytes) {}

  [[nodiscard]] bool take(const std::byte* data, std::size_t bytes) {
    if (bytes > most_bytes_ - taken_bytes_ || !file_.write_at(taken_bytes_, data, bytes)) {
      return false;
    }
    taken_bytes_ += bytes;
    return true;
  }

 private:
  const OwnDescriptor& file_;
  std::uint64_t most_bytes_;
  std::uint64_t taken_bytes_ = 0;
};

enum class Outcome { kWhole, kDamaged, kNoRoom };

struct Buffers {
  std::vector<std::byte> in = std::vector<std::byte>(kBufferBytes);
  std::vector<std::byte> out = std::vector<std::byte>(kBufferBytes);
};

// Reads the next bytes of the compressed file at `offset`; 0 at its end.
std::size_t refill(const OwnDescriptor& packed, std::uint64_t& offset, std::vector<std::byte>& in) {
  const std::uint64_t left = packed.bytes() - std::min(packed.bytes(), offset);
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(left, in.size()));
  if (bytes == 0 || !packed.read_at(offset, in.data(), bytes)) return 0;
  offset += bytes;
  return bytes;
}

// A file of gzip can have several members, one behind the other.
Outcome unpack_gzip(const OwnDescriptor& packed, Sink& sink) {
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) return Outcome::kNoRoom;
  const std::unique_ptr<z_stream, int (*)(z_stream*)> closed_at_end(&stream, inflateEnd);
  Buffers buffers;
  std::uint64_t offset = 0;
  int result = Z_OK;
  bool is_full = false;  // zlib may hold more output than the buffer took
  for (;;) {
    if (stream.avail_in == 0 && !is_full) {
      stream.avail_in = static_cast<uInt>(refill(packed, offset, buffers.in));
      stream.next_in = reinterpret_cast<Bytef*>(buffers.in.data());
      if (stream.avail_in == 0) return result == Z_STREAM_END ? Outcome::kWhole : Outcome::kDamaged;
    }
    if (result == Z_STREAM_END && inflateReset(&stream) != Z_OK) return Outcome::kDamaged;
    stream.next_out = reinterpret_cast<Bytef*>(buffers.out.data());
    stream.avail_out = static_cast<uInt>(buffers.out.size());
    result = inflate(&stream, Z_NO_FLUSH);
    if (!sink.take(buffers.out.data(), buffers.out.size() - stream.avail_out)) {
      return Outcome::kNoRoom;
    }
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) return Outcome::kDamaged;
    is_full = stream.avail_out == 0 && result != Z_STREAM_END;
  }
}

Outcome unpack_zstd(const OwnDescriptor& packed, Sink& sink) {
  const std::unique_ptr<ZSTD_DStream, std::size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                             ZSTD_freeDStream);
  if (stream == nullptr) return Outcome::kNoRoom;
  Buffers buffers;
  std::uint64_t offset = 0;
  std::size_t wanted = 0;  // zstd's hint of input that it needs; 0 between two frames
  while (const std::size_t bytes = refill(packed, offset, buffers.in)) {
    ZSTD_inBuffer in = {buffers.in.data(), bytes, 0};
    bool is_full = true;  // zstd may hold more output than the buffer took
    while (in.pos < in.size || is_full) {
      ZSTD_outBuffer out = {buffers.out.data(), buffers.out.size(), 0};
      wanted = ZSTD_decompressStream(stream.get(), &out, &in);
      if (!sink.take(buffers.out.data(), out.pos)) return Outcome::kNoRoom;
      if (ZSTD_isError(wanted) != 0) return Outcome::kDamaged;
      is_full = out.pos == out.size && wanted != 0;
    }
  }
  return wanted == 0 ? Outcome::kWhole : Outcome::kDamaged;
}

}  // namespace

UnpackedFile open_unpacked(const std::filesystem::path& path) {
  UnpackedFile result;
  result.file = OwnDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const Packer packer = result.file.is_open() ? packer_of(result.file) : Packer::kNone;
  if (packer == Packer::kNone) return result;
  OwnDescriptor unpacked = open_temporary();
  Sink sink(unpacked, std::max(kAlwaysAllowedBytes, kMostGrowth * result.file.bytes()));
  Outcome outcome = Outcome::kNoRoom;
  if (unpacked.is_open()) {
    outcome =
        packer == Packer::kGzip ? unpack_gzip(result.file, sink) : unpack_zstd(result.file, sink);
  }
  result.is_whole = outcome == Outcome::kWhole;
  result.has_room = outcome != Outcome::kNoRoom;
  result.file = std::move(unpacked);
  return result;
}

std::filesystem::path unpacked_name(const std::filesystem::path& path) {
  const std::filesystem::path suffix = path.extension();
  const bool is_packed = std::ranges::find(kPackedSuffixes, suffix) != kPackedSuffixes.end();
  return is_packed ? std::filesystem::path(path).replace_extension() : path;
}

std::vector<std::filesystem::path> ring_names(const std::filesystem::path& trace) {
  std::filesystem::path ring = unpacked_name(trace);
  ring += ".ring";
  std::vector<std::filesystem::path> names = {ring};
  for (const char* suffix : kPackedSuffixes) names.emplace_back(ring.string() + suffix);
  return names;
}

namespace {

bool is_in_use(const ChunkHeader& chunk) { return chunk.state.load() != ChunkState::kFree; }

// True if the chunk's memory held the same chunk both times that its header was read, so the
// content read between them is that chunk's.
bool same_use(const ChunkHeader& before, const ChunkHeader& after) {
  return is_in_use(after) && before.generation == after.generation &&
         before.writer == after.writer && before.sequence == after.sequence &&
         before.committed.load() <= after.committed.load();
}

// Copies one chunk of the ring, header and content, to `chunk`; false if the chunk has no records
// or was reused meanwhile.
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
      offset += kMinChunkBytes;  // the recorder is just making the chunk
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
