// SPDX-License-Identifier: Apache-2.0
#include "trace/reader.hpp"

#include <sys/stat.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <tuple>

#include "trace/checksum.hpp"
#include "trace/payload.hpp"
#include "trace/ring_layout.hpp"
#include "trace/source_files.hpp"
#include "trace/unpack.hpp"

namespace gpumemtrace::trace {
namespace {

std::string describe_errno(int error) { return std::generic_category().message(error); }

struct ContextDeleter {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// The memory for reading one block, from its bytes to its image. Each thread has one, not each
// cursor: the memory of the cursors of a process with many threads would add up.
struct Workspace {
  std::vector<std::byte> stored;
  std::vector<std::byte> columns;
  UnpackScratch scratch;
  std::unique_ptr<ZSTD_DCtx, ContextDeleter> context{ZSTD_createDCtx()};
};

Workspace& workspace() {
  thread_local Workspace of_this_thread;
  return of_this_thread;
}

// Reads and decompresses a block's payload into workspace().columns; false if it is damaged.
bool load_payload(const OwnDescriptor& file, std::uint64_t offset, std::uint32_t stored_bytes,
                  std::uint32_t column_bytes, std::uint32_t checksum, Codec codec) {
  Workspace& work = workspace();
  work.stored.resize(stored_bytes);
  work.columns.resize(column_bytes);
  return file.read_at(offset, work.stored.data(), stored_bytes) &&
         open_payload(codec, checksum, work.stored, work.columns, work.context.get());
}

std::string no_room_for(const std::filesystem::path& path) {
  return "Cannot unpack " + path.string() +
         " into the folder for temporary files: there is no room, or it unpacks to " +
         "more than a trace would. Set TMPDIR, or unpack it yourself.";
}

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path) : path_(path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_directory(status)) {
    throw TraceError(path.string() + " is a folder, not a trace.");
  }
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw TraceError(path.string() +
                     " is not a regular file. Traces are read in any order: save it to a file.");
  }
  // The ring is opened before the packed file: records that leave the ring after this are in the
  // packed file by then.
  RingHeader ring;
  open_ring(ring);
  UnpackedFile unpacked = open_unpacked(path);
  if (!unpacked.has_room) throw TraceError(no_room_for(path));
  if (!unpacked.file.is_open()) {
    throw TraceError("Cannot open " + path.string() + ": " + describe_errno(errno) + ".");
  }
  if (!unpacked.is_whole) ++losses_.truncated_tail;
  file_ = std::move(unpacked.file);
  read(ring);
}

TraceFile::TraceFile(OwnDescriptor file, const std::filesystem::path& path)
    : path_(path), file_(std::move(file)) {
  RingHeader no_ring;
  no_ring.magic = 0;
  read(no_ring);
}

void TraceFile::read(const RingHeader& ring) {
  Writers streams;
  read_header();
  read_blocks(streams);
  read_ring(ring, streams);
  for (auto& [writer, stream] : streams) {
    order_pieces(stream);
    // A writer all of whose records a checkpoint replaced has no pieces and is left out.
    if (!stream.pieces.empty()) writers_.push_back(std::move(stream));
  }
}

TraceFile::~TraceFile() = default;

bool TraceFile::ring_is_spent() const {
  if (!has_ring() || still_running_ || !end_is_marked_ || ended_by_signal_ != 0) return false;
  for (const std::uint64_t count : dropped_) {
    if (count != 0) return false;  // only the ring is sure to have the counts of all drops
  }
  for (const WriterStream& stream : writers_) {
    for (const ChunkPiece& piece : stream.pieces) {
      if (piece.in_ring) return false;
    }
  }
  return !tail_is_cut_ && losses_.corrupt_blocks == 0 && losses_.missing_chunks == 0;
}

void TraceFile::read_header() {
  file_bytes_ = file_.bytes();
  struct stat status = {};
  if (fstat(file_.number(), &status) == 0) identity_ = {status.st_dev, status.st_ino};
  if (!file_.read_at(0, &header_, sizeof header_) || header_.magic != kFileMagic) {
    throw TraceError(path_.string() +
                     (file_bytes_ == 0 ? " is empty, so it is not a gpumemtrace trace."
                                       : " is not a gpumemtrace trace: it does not begin as one."));
  }
  if (header_.version < kOldestFileVersion || header_.version > kFileVersion) {
    throw TraceError(path_.string() + " has format version " + std::to_string(header_.version) +
                     "; this gpumemtrace reads versions " + std::to_string(kOldestFileVersion) +
                     " to " + std::to_string(kFileVersion) + ".");
  }
  if (crc32c(&header_, offsetof(FileHeader, checksum)) != header_.checksum ||
      header_.header_bytes < sizeof header_) {
    throw TraceError(path_.string() +
                     " has a damaged header. Copy it again from where it was made.");
  }
}

void TraceFile::read_blocks(Writers& writers) {
  std::uint64_t offset = header_.header_bytes;
  while (offset < file_bytes_) {
    BlockHeader block;
    if (file_bytes_ - offset < sizeof block || !file_.read_at(offset, &block, sizeof block)) {
      tail_is_cut_ = true;
      break;
    }
    if (!checks_out(block)) {
      // The length of a damaged block cannot be trusted: look for the next header at every later
      // byte.
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
    read_block(block, payload, writers);
    offset = payload + block.stored_bytes;
  }
  if (!schema_) {
    throw TraceError(path_.string() +
                     " holds no readable record description; it was cut or damaged.");
  }
}

// Notes the position of a block of records as a piece of its writer's stream; only the schema's
// block is decompressed here.
void TraceFile::read_block(const BlockHeader& block, std::uint64_t payload, Writers& writers) {
  if (block.type == BlockType::kSchema) {
    if (!schema_ && !read_schema(block, payload)) ++losses_.corrupt_blocks;
    return;
  }
  if (block.type == BlockType::kCompacted) {
    WriterStream& stream = writers[block.writer];
    stream.writer = block.writer;
    stream.compacted_sequence = block.sequence;
    stream.compacted_end = block.end_offset;
    return;
  }
  if (block.type != BlockType::kRecords && block.type != BlockType::kCheckpoint) return;
  if (!is_plausible(block) || block.begin_offset >= block.end_offset) {
    ++losses_.corrupt_blocks;
    return;
  }
  WriterStream& stream = writers[block.writer];
  stream.writer = block.writer;
  stream.pieces.push_back({payload, block.sequence, block.begin_offset, block.end_offset,
                           block.records, block.column_bytes, block.stored_bytes,
                           block.payload_checksum, block.codec, false});
}

// The offset of the first intact block header at or after `offset`.
std::optional<std::uint64_t> TraceFile::find_block_header(std::uint64_t offset) const {
  // The window is small, because it is read again for each place at which the file is damaged.
  std::array<char, 4096> window;
  while (offset + sizeof(BlockHeader) <= file_bytes_) {
    const std::size_t bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(window.size(), file_bytes_ - offset));
    if (!file_.read_at(offset, window.data(), bytes)) return std::nullopt;
    for (std::size_t i = 0; i + sizeof(BlockHeader) <= bytes; ++i) {
      BlockHeader block;
      std::memcpy(&block.magic, window.data() + i, sizeof block.magic);
      if (block.magic != kBlockMagic) continue;
      std::memcpy(static_cast<void*>(&block), window.data() + i, sizeof block);
      if (checks_out(block)) return offset + i;
    }
    offset += bytes - sizeof(BlockHeader) + 1;
  }
  return std::nullopt;
}

bool TraceFile::read_schema(const BlockHeader& block, std::uint64_t payload) {
  if (!is_plausible(block) || !load_payload(file_, payload, block.stored_bytes, block.column_bytes,
                                            block.payload_checksum, block.codec)) {
    return false;
  }
  std::optional<FileSchema> schema = FileSchema::parse(workspace().columns);
  if (schema) schema_ = std::make_unique<FileSchema>(*std::move(schema));
  return schema_ != nullptr;
}

// Opens the trace's ring, or a copy of it if a process still writes it, and reads its header;
// header.magic is 0 if there is no ring.
void TraceFile::open_ring(RingHeader& header) {
  std::filesystem::path ring_path;
  for (const std::filesystem::path& name : ring_names(path_)) {
    UnpackedFile unpacked = open_unpacked(name);
    if (!unpacked.has_room) throw TraceError(no_room_for(name));
    if (!unpacked.file.is_open()) continue;
    if (!unpacked.is_whole) ++losses_.truncated_tail;
    ring_path = name;
    ring_ = std::move(unpacked.file);
    break;
  }
  if (!ring_.is_open() || !ring_.read_at(0, static_cast<void*>(&header), sizeof header)) {
    header.magic = 0;
    return;
  }
  still_running_ = has_recorder(ring_);
  if (!still_running_) return;
  ring_ = copy_live_ring(ring_);
  if (!ring_.is_open()) {
    throw TraceError("Cannot copy " + ring_path.string() +
                     ", which is being written: " + describe_errno(errno) + ".");
  }
}

void TraceFile::read_ring(const RingHeader& header, Writers& writers) {
  if (header.magic == kRingMagic && header.version == header_.version && header.id == header_.id) {
    ring_bytes_ = ring_.bytes();
    const std::uint32_t ended_by = header.ended_by_signal.load();
    exit_seen_ = header.exit_seen.load() != 0 || ended_by == kEndedByExit;
    end_is_marked_ = header.marked_end.load() != 0;
    ended_by_signal_ = static_cast<int>(ended_by & 0x7f);
    for (std::size_t i = 0; i < dropped_.size(); ++i) {
      dropped_[i] = dropped_records(header, static_cast<DropClass>(i));
    }
    calls_taken_for_parts_ = header.calls_taken_for_parts.load();
    read_chunks(writers);
  } else {
    // The ring belongs to another trace, or was never finished: it has no records of this trace.
    ring_ = OwnDescriptor();
    still_running_ = false;
  }
  // If the process ended while a block was being appended, that block's records are still in the
  // ring.
  if (tail_is_cut_ && !has_ring()) ++losses_.truncated_tail;
}

// Chunks follow each other in the ring. A killed process may have left zeros in place of a chunk
// that it was about to make, and chunks of other threads may come after the zeros.
void TraceFile::read_chunks(Writers& writers) {
  bool damaged = false;
  std::uint64_t offset = kRingHeaderBytes;
  while (offset + sizeof(ChunkHeader) <= ring_bytes_) {
    ChunkHeader chunk;
    if (!ring_.read_at(offset, static_cast<void*>(&chunk), sizeof chunk)) break;
    if (is_chunk(chunk)) {
      damaged = false;
      read_chunk(chunk, offset + sizeof chunk, writers);
      offset += chunk.bytes;
      continue;
    }
    if (chunk.magic != 0 && !damaged) {
      damaged = true;
      ++losses_.corrupt_blocks;
    }
    offset += kMinChunkBytes;
  }
}

// Adds the committed records of a ring chunk to its writer's stream as one piece.
void TraceFile::read_chunk(const ChunkHeader& chunk, std::uint64_t content, Writers& writers) {
  const ChunkState state = chunk.state.load();
  if (state == ChunkState::kFree) return;
  std::uint32_t committed = chunk.committed.load();
  if ((state != ChunkState::kActive && state != ChunkState::kSealed) ||
      committed > chunk.bytes - sizeof chunk || committed % kWordBytes != 0) {
    ++losses_.corrupt_blocks;
    return;
  }
  if (committed > ring_bytes_ - content) {
    ++losses_.truncated_tail;
    committed = static_cast<std::uint32_t>((ring_bytes_ - content) / kWordBytes * kWordBytes);
  }
  if (committed == 0) return;
  WriterStream& stream = writers[chunk.writer];
  stream.writer = chunk.writer;
  ChunkPiece piece;
  piece.file_offset = content;
  piece.sequence = chunk.sequence;
  piece.end_offset = committed;
  piece.in_ring = true;
  stream.pieces.push_back(piece);
}

// Sorts pieces by their position in the stream, those of the packed file before those of the ring,
// and cuts from each the part that an earlier piece has already: a chunk that was packed, but not
// recycled before the kill, stands in both files, and records that a checkpoint has compacted may
// still stand in the ring.
void TraceFile::order_pieces(WriterStream& stream) {
  std::sort(stream.pieces.begin(), stream.pieces.end(),
            [](const ChunkPiece& a, const ChunkPiece& b) {
              return std::tuple(a.sequence, a.in_ring, a.begin_offset, a.file_offset) <
                     std::tuple(b.sequence, b.in_ring, b.begin_offset, b.file_offset);
            });
  std::vector<ChunkPiece> kept;
  std::uint32_t sequence = stream.compacted_sequence;
  std::uint32_t covered = stream.compacted_end;
  bool has_begun = covered != 0;
  for (ChunkPiece piece : stream.pieces) {
    if (piece.sequence < stream.compacted_sequence) continue;
    if (piece.sequence != sequence) {
      const std::uint32_t missing = piece.sequence - sequence - (has_begun ? 1 : 0);
      // The ring is copied from begin to end: the missing chunk was begun in a part that had been
      // copied already, so this piece was recorded after the copy began.
      if (missing > 0 && still_running_ && piece.in_ring) break;
      losses_.missing_chunks += missing;
      sequence = piece.sequence;
      covered = 0;
    }
    has_begun = true;
    if (piece.end_offset <= covered) continue;
    if (piece.begin_offset < covered) {
      if (!piece.in_ring) continue;
      piece.file_offset += covered - piece.begin_offset;
      piece.begin_offset = covered;
    }
    // A block within the chunk is missing.
    if (piece.begin_offset > covered) ++losses_.missing_chunks;
    covered = piece.end_offset;
    kept.push_back(piece);
  }
  stream.pieces = std::move(kept);
}

WriterCursor::WriterCursor(const TraceFile& file, const WriterStream& stream)
    : file_(&file), stream_(&stream) {}

WriterCursor::WriterCursor(const TraceFile& file, const WriterStream& stream,
                           const StreamPosition& from)
    : file_(&file), stream_(&stream), skipped_(from.records) {
  const auto begins_there = [&](const ChunkPiece& piece) {
    return piece.sequence == from.sequence && piece.begin_offset == from.begin_offset;
  };
  const auto begin = stream.pieces.begin();
  next_piece_ =
      static_cast<std::size_t>(std::find_if(begin, stream.pieces.end(), begins_there) - begin);
  found_ = next_piece_ != stream.pieces.size();
}

StreamPosition WriterCursor::position() const {
  const auto offset = static_cast<std::uint32_t>(next_ - image_.data());
  const auto next = std::lower_bound(image_.offsets.begin(), image_.offsets.end(), offset);
  const auto records = next - image_.offsets.begin();
  return {piece().sequence, piece().begin_offset, static_cast<std::uint64_t>(records)};
}

void WriterCursor::look_for(std::initializer_list<RecordKind> kinds) {
  wanted_ = std::make_unique<KindSet>();
  for (const RecordKind kind : kinds) wanted_->set(static_cast<std::size_t>(kind));
}

// Reads the next piece and lets next() continue in it; false at the end of the stream.
bool WriterCursor::load_next_piece() {
  if (!read_piece(image_)) return false;
  end_ = image_.data() + image_.bytes;
  next_ = passed_ == image_.offsets.size() ? end_ : image_.data() + image_.offsets[passed_];
  return true;
}

namespace {

// The bound of device ordinals that are believed; no driver has so many devices.
constexpr std::int32_t kMostDevices = 1024;

// True if the field holds a device ordinal, which its name and its encoding tell.
constexpr bool names_device(const Field& field) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"device", "destination_device", "location", "ordinal", "source_device"});
  return field.bytes == sizeof(std::int32_t) && field.encoding == Encoding::kSigned &&
         std::ranges::find(kNames, field.name) != kNames.end();
}

// Offsets of the fields that hold device ordinals, in the records of a kind; 0 ends the list.
using DeviceOffsets = std::array<std::uint16_t, 4>;

consteval std::array<DeviceOffsets, 256> find_device_offsets() {
  std::array<DeviceOffsets, 256> offsets{};
  for (const KindInfo& kind : kKinds) {
    std::size_t count = 0;
    for (const Field& field : kind.fields) {
      if (names_device(field))
        offsets[static_cast<std::size_t>(kind.kind)].at(count++) = field.offset;
    }
  }
  return offsets;
}
constexpr std::array<DeviceOffsets, 256> kDeviceOffsets = find_device_offsets();

// The analyzer keeps data for each device, which must not depend on how many numbers were written
// into a file: ordinals that no device has become kNoKnownDevice. Returns their number.
std::uint64_t forget_impossible_devices(Image& image) {
  std::uint64_t count = 0;
  for (const std::uint32_t offset : image.offsets) {
    std::byte* const record = image.data() + offset;
    for (const std::uint16_t at : kDeviceOffsets[static_cast<std::size_t>(record[0])]) {
      if (at == 0) break;
      std::int32_t device = 0;
      std::memcpy(&device, record + at, sizeof device);
      if (device < kMostDevices && device >= kNoKnownDevice) continue;
      std::memcpy(record + at, &kNoKnownDevice, sizeof kNoKnownDevice);
      ++count;
    }
  }
  return count;
}

}  // namespace

bool WriterCursor::next_piece(Image& image) {
  do {
    if (!read_piece(image)) return false;
  } while (passed_ == image.offsets.size());
  return true;
}

// Reads the next piece as far as possible, so the image may stay empty; false if there is no next
// piece.
bool WriterCursor::read_piece(Image& image) {
  if (next_piece_ == stream_->pieces.size()) return false;
  image.clear();
  const ChunkPiece& piece = stream_->pieces[next_piece_++];
  losses_before_piece_ = losses_;
  // If a ring chunk is damaged, the image has the records before the damage.
  if (piece.in_ring) {
    if (!read_ring(piece, image)) ++losses_.malformed_records;
  } else if (!read_packed(piece, image)) {
    ++losses_.corrupt_blocks;
  }
  losses_.malformed_records += forget_impossible_devices(image);
  passed_ = static_cast<std::size_t>(std::min<std::uint64_t>(skipped_, image.offsets.size()));
  skipped_ -= passed_;
  return true;
}

bool WriterCursor::read_packed(const ChunkPiece& piece, Image& image) {
  if (!load_payload(file_->file_, piece.file_offset, piece.stored_bytes, piece.column_bytes,
                    piece.payload_checksum, piece.codec)) {
    return false;
  }
  const bool may_be_left_out = wanted_ != nullptr && skipped_ == 0;
  if (may_be_left_out && !holds_any(*wanted_, workspace().columns)) return true;
  return unpack(*file_->schema_, workspace().columns, image, workspace().scratch,
                losses_.unknown_records);
}

bool WriterCursor::read_ring(const ChunkPiece& piece, Image& image) {
  std::vector<std::byte>& raw = workspace().stored;
  raw.resize(piece.end_offset - piece.begin_offset);
  return file_->ring_.read_at(piece.file_offset, raw.data(), raw.size()) &&
         convert(*file_->schema_, raw, image, losses_.unknown_records);
}

std::string_view tail_of(const RecordHeader& header) {
  const KindInfo* info = find_kind(header.kind);
  if (info == nullptr || !info->has_tail) return {};
  const char* begin = reinterpret_cast<const char*>(&header) + info->bytes;
  std::size_t length = header.words * kWordBytes - info->bytes;
  while (length > 0 && begin[length - 1] == '\0') --length;
  return {begin, length};
}

namespace {

struct FolderContent {
  std::vector<std::filesystem::path> folders;
  std::vector<std::filesystem::path> traces;
  std::vector<std::filesystem::path> snapshots;  // memory snapshots of PyTorch (*.pickle)
};

FolderContent list_folder(const std::filesystem::path& folder, std::error_code& error) {
  namespace fs = std::filesystem;
  FolderContent content;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    const fs::file_status status = it->status(ignored);
    if (fs::is_directory(status)) content.folders.push_back(it->path());
    if (!fs::is_regular_file(status)) continue;
    const fs::path suffix = unpacked_name(it->path()).extension();
    if (suffix == ".gmt") content.traces.push_back(it->path());
    if (suffix == ".pickle") content.snapshots.push_back(it->path());
  }
  return content;
}

}  // namespace

std::span<const std::uint64_t> python_frames_of(const Stack& stack) {
  const std::size_t words = stack.record.words - sizeof(Stack) / kWordBytes;
  const auto* begin = reinterpret_cast<const std::uint64_t*>(&stack + 1);
  return {begin, std::min<std::size_t>(words, stack.python_frames)};
}

std::span<const std::uint64_t> native_frames_of(const Stack& stack) {
  const std::size_t words = stack.record.words - sizeof(Stack) / kWordBytes;
  const std::span<const std::uint64_t> python = python_frames_of(stack);
  return {python.data() + python.size(),
          std::min<std::size_t>(words - python.size(), stack.native_frames)};
}

std::span<const std::byte> bytes_of(const Code& code) {
  const std::size_t room = code.record.words * kWordBytes - sizeof(Code);
  return {reinterpret_cast<const std::byte*>(&code + 1), std::min<std::size_t>(room, code.bytes)};
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
    FolderContent content = list_folder(input, error);
    if (error) {
      throw TraceError("Cannot read the folder " + input.string() + ": " + error.message() + ".");
    }
    for (const fs::path& folder : content.folders) {
      const FolderContent below = list_folder(folder, error);
      content.traces.insert(content.traces.end(), below.traces.begin(), below.traces.end());
      content.snapshots.insert(content.snapshots.end(), below.snapshots.begin(),
                               below.snapshots.end());
    }
    // Snapshots are taken only if the folder has no trace: mostly a snapshot beside a trace is of
    // the same process.
    if (content.traces.empty()) content.traces = std::move(content.snapshots);
    if (content.traces.empty()) {
      throw NoTrace(
          "There is no trace (*.gmt) and no snapshot of PyTorch (*.pickle) in the folder " +
          input.string() + ".");
    }
    // If a folder has a trace both plain and compressed, only the plain one is read.
    std::set<fs::path> names;
    std::sort(content.traces.begin(), content.traces.end());
    for (const fs::path& trace : content.traces) {
      if (names.insert(unpacked_name(trace)).second) found.insert(trace);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace gpumemtrace::trace
