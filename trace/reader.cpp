#include "trace/reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <system_error>

#include "trace/checksum.hpp"
#include "trace/ring_layout.hpp"
#include "trace/unpack.hpp"

namespace gpumemtrace::trace {
namespace {

constexpr std::size_t kMaxSchemaBytes = 1 << 20;

// Reads exactly `bytes` at `offset`; false at the end of the file or on an error.
bool read_at(int descriptor, std::uint64_t offset, void* out, std::size_t bytes) {
  auto* position = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = pread(descriptor, position, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    position += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

std::uint64_t size_of(int descriptor) {
  struct stat status;
  if (fstat(descriptor, &status) != 0 || status.st_size < 0) return 0;
  return static_cast<std::uint64_t>(status.st_size);
}

// The recorder holds an open-file-description lock on the ring for as long as it lives.
bool locked_by_another(int descriptor) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return fcntl(descriptor, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

std::string describe_errno(int error) { return std::generic_category().message(error); }

bool decompress(Codec codec, std::span<const std::byte> stored, std::span<std::byte> out,
                ZSTD_DCtx* context) {
  if (codec == Codec::kNone) {
    if (stored.size() != out.size()) return false;
    std::memcpy(out.data(), stored.data(), stored.size());
    return true;
  }
  if (codec != Codec::kZstd) return false;
  const std::size_t got =
      ZSTD_decompressDCtx(context, out.data(), out.size(), stored.data(), stored.size());
  return ZSTD_isError(got) == 0 && got == out.size();
}

struct ContextDeleter {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using DecompressionContext = std::unique_ptr<ZSTD_DCtx, ContextDeleter>;

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw TraceError(path.string() + " is a folder, not a trace.");
  }
  descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) {
    throw TraceError("Cannot open " + path.string() + ": " + describe_errno(errno) + ".");
  }
  try {
    read_packed();
    read_ring();
  } catch (...) {
    close(descriptor_);
    if (ring_descriptor_ >= 0) close(ring_descriptor_);
    throw;
  }
}

TraceFile::~TraceFile() {
  close(descriptor_);
  if (ring_descriptor_ >= 0) close(ring_descriptor_);
}

void TraceFile::read_packed() {
  file_bytes_ = size_of(descriptor_);
  if (!read_at(descriptor_, 0, &header_, sizeof header_) || header_.magic != kFileMagic) {
    throw TraceError(path_.string() + " is not a gpumemtrace trace (wrong magic at its begin).");
  }
  if (header_.version != kFileVersion) {
    throw TraceError(path_.string() + " has format version " + std::to_string(header_.version) +
                     "; this gpumemtrace reads version " + std::to_string(kFileVersion) + ".");
  }
  if (crc32c(&header_, offsetof(FileHeader, checksum)) != header_.checksum) {
    throw TraceError(path_.string() +
                     " has a damaged header. Copy it again from where it was made.");
  }

  std::map<std::uint32_t, WriterStream> writers;
  std::uint64_t offset = header_.header_bytes;
  while (offset < file_bytes_) {
    BlockHeader block;
    if (file_bytes_ - offset < sizeof block ||
        !read_at(descriptor_, offset, &block, sizeof block)) {
      tail_is_cut_ = true;
      break;
    }
    if (block.magic != kBlockMagic || block.header_bytes != sizeof block ||
        crc32c(&block, offsetof(BlockHeader, header_checksum)) != block.header_checksum) {
      // Without a trustworthy length, look for the next header at every later byte.
      ++losses_.corrupt_blocks;
      const std::optional<std::uint64_t> next = find_block_header(offset + 1);
      if (!next) break;
      offset = *next;
      continue;
    }
    const std::uint64_t payload = offset + sizeof block;
    if (file_bytes_ - payload < block.stored_bytes) {
      tail_is_cut_ = true;
      break;
    }
    if (block.type == BlockType::kSchema && !schema_) {
      read_schema(block, payload);
    } else if (block.type == BlockType::kRecords && block.column_bytes <= kMaxColumnBytes &&
               block.begin_offset < block.end_offset) {
      WriterStream& stream = writers[block.writer];
      stream.writer = block.writer;
      stream.pieces.push_back({payload, block.sequence, block.begin_offset, block.end_offset,
                               block.records, block.column_bytes, block.stored_bytes,
                               block.payload_checksum, block.codec, false});
    }
    offset = payload + block.stored_bytes;
  }
  if (!schema_) {
    throw TraceError(path_.string() +
                     " holds no readable record description; it was cut or damaged.");
  }
  for (auto& [writer, stream] : writers) writers_.push_back(std::move(stream));
}

std::optional<std::uint64_t> TraceFile::find_block_header(std::uint64_t offset) const {
  constexpr std::size_t kWindow = 1 << 16;
  std::vector<char> window(kWindow);
  while (offset + sizeof(BlockHeader) <= file_bytes_) {
    const std::size_t bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, file_bytes_ - offset));
    if (!read_at(descriptor_, offset, window.data(), bytes)) return std::nullopt;
    for (std::size_t i = 0; i + sizeof(BlockHeader) <= bytes; ++i) {
      BlockHeader block;
      std::memcpy(&block.magic, window.data() + i, sizeof block.magic);
      if (block.magic != kBlockMagic) continue;
      std::memcpy(static_cast<void*>(&block), window.data() + i, sizeof block);
      if (crc32c(&block, offsetof(BlockHeader, header_checksum)) == block.header_checksum) {
        return offset + i;
      }
    }
    offset += bytes - sizeof(BlockHeader) + 1;
  }
  return std::nullopt;
}

void TraceFile::read_schema(const BlockHeader& block, std::uint64_t payload) {
  if (block.stored_bytes > kMaxSchemaBytes || block.column_bytes > kMaxSchemaBytes) return;
  std::vector<std::byte> stored(block.stored_bytes);
  std::vector<std::byte> plain(block.column_bytes);
  const DecompressionContext context(ZSTD_createDCtx());
  if (!read_at(descriptor_, payload, stored.data(), stored.size()) ||
      crc32c(stored.data(), stored.size()) != block.payload_checksum ||
      !decompress(block.codec, stored, plain, context.get())) {
    ++losses_.corrupt_blocks;
    return;
  }
  std::optional<FileSchema> schema = FileSchema::parse(plain);
  if (schema) schema_ = std::make_unique<FileSchema>(*std::move(schema));
}

void TraceFile::read_ring() {
  std::filesystem::path ring_path = path_;
  ring_path += ".ring";
  ring_descriptor_ = open(ring_path.c_str(), O_RDONLY | O_CLOEXEC);
  std::map<std::uint32_t, WriterStream> writers;
  for (WriterStream& stream : writers_) writers[stream.writer] = std::move(stream);
  writers_.clear();
  if (ring_descriptor_ >= 0) scan_ring(writers);
  // A process that ended while a block was being appended left that block's records in the ring.
  if (tail_is_cut_ && ring_descriptor_ < 0) ++losses_.truncated_tail;
  for (auto& [writer, stream] : writers) {
    order_pieces(stream);
    if (!stream.pieces.empty()) writers_.push_back(std::move(stream));
  }
}

void TraceFile::scan_ring(std::map<std::uint32_t, WriterStream>& writers) {
  RingHeader header;
  const std::uint64_t ring_bytes = size_of(ring_descriptor_);
  if (!read_at(ring_descriptor_, 0, static_cast<void*>(&header), sizeof header) ||
      header.magic != kRingMagic || header.version != kFileVersion || !(header.id == header_.id)) {
    // Of another trace, or never finished being made: it holds nothing of this one.
    close(ring_descriptor_);
    ring_descriptor_ = -1;
    return;
  }
  exit_seen_ = header.exit_seen.load() != 0;
  still_running_ = locked_by_another(ring_descriptor_);
  for (std::size_t i = 0; i < dropped_.size(); ++i) dropped_[i] = header.dropped[i].load();
  const std::uint64_t used = std::min<std::uint64_t>(ring_bytes, header.used_bytes.load());
  std::uint64_t offset = kRingHeaderBytes;
  while (offset < used && used - offset >= sizeof(ChunkHeader)) {
    ChunkHeader chunk;
    if (!read_at(ring_descriptor_, offset, static_cast<void*>(&chunk), sizeof chunk) ||
        chunk.magic != kChunkMagic || chunk.bytes < kMinChunkBytes ||
        chunk.bytes > kMaxChunkBytes || chunk.bytes > used - offset) {
      break;
    }
    const std::uint32_t committed = chunk.committed.load();
    const ChunkState state = chunk.state.load();
    const bool holds_records = state == ChunkState::kActive || state == ChunkState::kSealed;
    if (holds_records && committed > 0 && committed <= chunk.bytes - sizeof chunk &&
        committed % kWordBytes == 0) {
      WriterStream& stream = writers[chunk.writer];
      stream.writer = chunk.writer;
      ChunkPiece piece;
      piece.file_offset = offset + sizeof chunk;
      piece.sequence = chunk.sequence;
      piece.end_offset = committed;
      piece.in_ring = true;
      stream.pieces.push_back(piece);
    }
    offset += chunk.bytes;
  }
}

// Sorts by place in the stream, packed before ring, and cuts from each piece what an earlier one
// has already: a chunk that was packed, but not recycled before the kill, stands in both files.
void TraceFile::order_pieces(WriterStream& stream) {
  std::sort(stream.pieces.begin(), stream.pieces.end(),
            [](const ChunkPiece& a, const ChunkPiece& b) {
              return std::tuple(a.sequence, a.in_ring, a.begin_offset, a.file_offset) <
                     std::tuple(b.sequence, b.in_ring, b.begin_offset, b.file_offset);
            });
  std::vector<ChunkPiece> kept;
  std::uint32_t sequence = 0;
  std::uint32_t covered = 0;
  for (ChunkPiece piece : stream.pieces) {
    if (piece.sequence != sequence) {
      if (piece.sequence > sequence + 1 || (kept.empty() && piece.sequence > 0)) {
        losses_.missing_chunks += piece.sequence - sequence - (kept.empty() ? 0 : 1);
      }
      sequence = piece.sequence;
      covered = 0;
    }
    if (piece.end_offset <= covered) continue;
    if (piece.begin_offset < covered) {
      if (!piece.in_ring) continue;
      piece.file_offset += covered - piece.begin_offset;
      piece.begin_offset = covered;
    } else if (piece.in_ring && covered > 0) {
      piece.file_offset += covered;
      piece.begin_offset = covered;
    }
    covered = piece.end_offset;
    kept.push_back(piece);
  }
  stream.pieces = std::move(kept);
}

struct WriterCursor::Buffers {
  std::vector<std::byte> stored;
  std::vector<std::byte> columns;
  Image image;
  UnpackScratch scratch;
  DecompressionContext context{ZSTD_createDCtx()};
};

WriterCursor::WriterCursor(const TraceFile& file, const WriterStream& stream)
    : file_(&file), stream_(&stream), buffers_(std::make_unique<Buffers>()) {}
WriterCursor::~WriterCursor() = default;
WriterCursor::WriterCursor(WriterCursor&&) noexcept = default;
WriterCursor& WriterCursor::operator=(WriterCursor&&) noexcept = default;

const RecordHeader* WriterCursor::next() {
  while (position_ >= buffers_->image.bytes) {
    if (!load_next_piece()) return nullptr;
  }
  const auto* header = reinterpret_cast<const RecordHeader*>(buffers_->image.data() + position_);
  position_ += header->words * kWordBytes;
  return header;
}

// Makes the next readable piece the current image; false where the stream is at its end.
bool WriterCursor::load_next_piece() {
  position_ = 0;
  buffers_->image.bytes = 0;
  if (next_piece_ == stream_->pieces.size()) return false;
  const ChunkPiece& piece = stream_->pieces[next_piece_++];
  if (piece.in_ring) {
    load_ring(piece);
  } else if (!load_packed(piece)) {
    ++losses_.corrupt_blocks;
  }
  return true;
}

bool WriterCursor::load_packed(const ChunkPiece& piece) {
  buffers_->stored.resize(piece.stored_bytes);
  buffers_->columns.resize(piece.column_bytes);
  return read_at(file_->descriptor_, piece.file_offset, buffers_->stored.data(),
                 piece.stored_bytes) &&
         crc32c(buffers_->stored.data(), piece.stored_bytes) == piece.payload_checksum &&
         decompress(piece.codec, buffers_->stored, buffers_->columns, buffers_->context.get()) &&
         unpack(*file_->schema_, buffers_->columns, buffers_->image, buffers_->scratch,
                losses_.unknown_records);
}

void WriterCursor::load_ring(const ChunkPiece& piece) {
  buffers_->stored.resize(piece.end_offset - piece.begin_offset);
  if (!read_at(file_->ring_descriptor_, piece.file_offset, buffers_->stored.data(),
               buffers_->stored.size()) ||
      !convert(*file_->schema_, buffers_->stored, buffers_->image, losses_.unknown_records)) {
    ++losses_.malformed_records;
  }
}

std::string_view tail_of(const RecordHeader& header) {
  const KindInfo* info = find_kind(header.kind);
  if (info == nullptr || !info->has_tail) return {};
  const char* begin = reinterpret_cast<const char*>(&header) + info->bytes;
  std::size_t length = header.words * kWordBytes - info->bytes;
  while (length > 0 && begin[length - 1] == '\0') --length;
  return {begin, length};
}

std::vector<std::filesystem::path> find_traces(const std::vector<std::filesystem::path>& inputs) {
  namespace fs = std::filesystem;
  std::set<fs::path> found;
  for (const fs::path& input : inputs) {
    std::error_code error;
    if (!fs::is_directory(input, error)) {
      if (!fs::exists(input, error)) throw TraceError("There is no file " + input.string() + ".");
      found.insert(input);
      continue;
    }
    std::vector<fs::path> folders = {input};
    for (const fs::directory_entry& entry : fs::directory_iterator(input, error)) {
      if (entry.is_directory(error)) folders.push_back(entry.path());
    }
    const std::size_t before = found.size();
    for (const fs::path& folder : folders) {
      for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
        if (entry.path().extension() == ".gmt") found.insert(entry.path());
      }
    }
    if (found.size() == before) {
      throw TraceError("There is no trace (*.gmt) in the folder " + input.string() + ".");
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace gpumemtrace::trace
