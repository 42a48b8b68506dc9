// SPDX-License-Identifier: Apache-2.0
// Reads a trace: the packed file and, beside it, the rest of the ring.
//
// Hostile input is expected: nothing here trusts a length. Memory is bounded by one image (of at
// most kMaxImageBytes, with the offsets of its records) a cursor, a few words a block and the
// working memory of one block a thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "trace/file_layout.hpp"
#include "trace/image.hpp"
#include "trace/own_descriptor.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::trace {

// The file cannot be used at all: missing, unreadable, not a trace. One sentence for the user.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A folder that can be read and holds no trace.
class NoTrace : public TraceError {
 public:
  using TraceError::TraceError;
};

// Damage found while reading, by the rows of stats.def.
struct ReadLosses {
  std::uint64_t corrupt_blocks = 0;
  std::uint64_t truncated_tail = 0;
  std::uint64_t missing_chunks = 0;
  std::uint64_t malformed_records = 0;
  std::uint64_t unknown_records = 0;
};

// The kinds and fields of a file, mapped to the structs of this version.
class FileSchema;
struct ChunkHeader;
struct RingHeader;

// A piece of one writer's stream: a block of the packed file or a span of a ring chunk.
struct ChunkPiece {
  std::uint64_t file_offset = 0;  // of the payload (packed) or of the content's begin (ring)
  std::uint32_t sequence = 0;
  std::uint32_t begin_offset = 0;
  std::uint32_t end_offset = 0;
  std::uint32_t records = 0;  // 0 = not known (ring)
  std::uint32_t column_bytes = 0;
  std::uint32_t stored_bytes = 0;
  std::uint32_t payload_checksum = 0;
  Codec codec = Codec::kNone;
  bool in_ring = false;
};

struct WriterStream {
  std::uint32_t writer = 0;  // kCheckpointWriter: records that stand for compacted ones
  // The checkpoint has the writer's records up to here; end 0 = nothing.
  std::uint32_t compacted_sequence = 0;
  std::uint32_t compacted_end = 0;
  std::vector<ChunkPiece> pieces;  // in the order of recording
};

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// A position in a writer's stream. It holds for every later opening of the same file, however much
// of the ring has been packed by then: a packed piece begins at the end of the one before.
struct StreamPosition {
  std::uint32_t sequence = 0;      // of the chunk
  std::uint32_t begin_offset = 0;  // of a piece of it
  std::uint64_t records = 0;       // from there on that come before the place
};

// One trace, opened. Not copyable; cursors borrow it and must not outlive it.
class TraceFile {
 public:
  // Opens `path` (the .gmt file) and its ring if there is one. Throws TraceError.
  explicit TraceFile(const std::filesystem::path& path);
  // Reads a trace without a ring from an open file, as one in memory is; `path` is its name for
  // people. Throws TraceError.
  TraceFile(OwnDescriptor file, const std::filesystem::path& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const FileHeader& header() const { return header_; }
  const std::vector<WriterStream>& writers() const { return writers_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  // The file's identity, whatever its name: the same as long as data is only appended to it.
  [[nodiscard]] FileIdentity identity() const { return identity_; }
  [[nodiscard]] bool has_ring() const { return ring_.is_open(); }
  // The ring's own counters; zero if there is no ring.
  std::uint64_t dropped(std::size_t drop_class) const { return dropped_[drop_class]; }
  std::uint64_t calls_taken_for_parts() const { return calls_taken_for_parts_; }
  [[nodiscard]] bool exit_seen() const { return exit_seen_; }
  // The signal that ended the process, if `gpumemtrace run` saw it; else 0.
  int ended_by_signal() const { return ended_by_signal_; }
  // The ring holds nothing that the packed file does not have, and never will.
  [[nodiscard]] bool ring_is_spent() const;
  // A process still holds the trace open for writing.
  [[nodiscard]] bool still_running() const { return still_running_; }
  // Losses known after opening; cursors add to their own.
  const ReadLosses& losses() const { return losses_; }

 private:
  friend class WriterCursor;
  using Writers = std::map<std::uint32_t, WriterStream>;
  void open_ring(RingHeader& header);
  void read(const RingHeader& ring);
  void read_header();
  void read_blocks(Writers& writers);
  void read_block(const BlockHeader& block, std::uint64_t payload, Writers& writers);
  [[nodiscard]] bool read_schema(const BlockHeader& block, std::uint64_t payload);
  [[nodiscard]] std::optional<std::uint64_t> find_block_header(std::uint64_t offset) const;
  void read_ring(const RingHeader& header, Writers& writers);
  void read_chunks(Writers& writers);
  void read_chunk(const ChunkHeader& chunk, std::uint64_t content, Writers& writers);
  void order_pieces(WriterStream& stream);

  std::filesystem::path path_;
  OwnDescriptor file_;
  OwnDescriptor ring_;  // a copy of it if the process is still running
  std::uint64_t file_bytes_ = 0;
  FileIdentity identity_;
  std::uint64_t ring_bytes_ = 0;
  FileHeader header_;
  std::unique_ptr<FileSchema> schema_;
  std::vector<WriterStream> writers_;
  ReadLosses losses_;
  std::array<std::uint64_t, 5> dropped_{};
  std::uint64_t calls_taken_for_parts_ = 0;
  bool tail_is_cut_ = false;
  bool exit_seen_ = false;
  bool end_is_marked_ = false;
  int ended_by_signal_ = 0;
  bool still_running_ = false;
};

// Iterates over one writer's records in the order in which its threads made them.
// The record that next() returns is a struct of records.hpp in this version's layout, 8-byte
// aligned, valid until the following next(). One thread at a time.
class WriterCursor {
 public:
  WriterCursor(const TraceFile& file, const WriterStream& stream);
  // Resumes at the position of another cursor on the same file, which may have been opened since.
  // If the stream has no such position, found() is false and there is nothing to read.
  WriterCursor(const TraceFile& file, const WriterStream& stream, const StreamPosition& from);
  [[nodiscard]] bool found() const { return found_; }

  // From now on whole blocks that have no record of these kinds are left out, at a fraction of what
  // reading them takes. Records of other kinds are still among what next() returns.
  void look_for(std::initializer_list<RecordKind> kinds);

  // nullptr at the end of the stream.
  const RecordHeader* next() {
    while (next_ == end_) {
      if (!load_next_piece()) return nullptr;
    }
    const auto* header = reinterpret_cast<const RecordHeader*>(next_);
    next_ += header->words * kWordBytes;
    return header;
  }
  // The records of the next piece that has any, for callers that do not call next() for each
  // record: they are in `image`, which is the caller's. Records before index passed() are before
  // the position at which the cursor began. False at the end of the stream.
  [[nodiscard]] bool next_piece(Image& image);
  [[nodiscard]] std::size_t passed() const { return passed_; }
  // The piece that was read last; only if one was.
  [[nodiscard]] const ChunkPiece& piece() const { return stream_->pieces[next_piece_ - 1]; }
  // Behind the record that next() returned last; only if a piece was read.
  [[nodiscard]] StreamPosition position() const;
  [[nodiscard]] bool is_last_piece() const { return next_piece_ == stream_->pieces.size(); }
  // Damage found so far, and the part of it that was found before the piece().
  const ReadLosses& losses() const { return losses_; }
  [[nodiscard]] const ReadLosses& losses_before_piece() const { return losses_before_piece_; }

 private:
  [[nodiscard]] bool load_next_piece();
  [[nodiscard]] bool read_piece(Image& image);
  // False if the piece is damaged. Leaves the image empty if no record of it is wanted.
  [[nodiscard]] bool read_packed(const ChunkPiece& piece, Image& image);
  [[nodiscard]] bool read_ring(const ChunkPiece& piece, Image& image);

  const TraceFile* file_;
  const WriterStream* stream_;
  std::size_t next_piece_ = 0;
  std::uint64_t skipped_ = 0;  // records that are still to be left out
  std::size_t passed_ = 0;
  bool found_ = true;
  Image image_;                      // the piece that next() reads
  const std::byte* next_ = nullptr;  // in the image
  const std::byte* end_ = nullptr;
  std::unique_ptr<KindSet> wanted_;  // nullptr: all
  ReadLosses losses_;
  ReadLosses losses_before_piece_;
};

// Bytes after the struct, without the padding zeros at the end. Empty for kinds without tail.
std::string_view tail_of(const RecordHeader& header);

// The words after a stack's struct: its Python frames.
std::span<const std::uint64_t> python_frames_of(const Stack& stack);
// The words after those: return addresses.
std::span<const std::uint64_t> native_frames_of(const Stack& stack);

// The bytes after a code text's struct, as many as the struct gives.
std::span<const std::byte> bytes_of(const Code& code);

// All traces below `inputs`, sorted: files as they are; in folders (at most one level down) *.gmt,
// or *.pickle if there are none. Throws TraceError for a path that does not exist and for a folder
// that cannot be read, NoTrace for one that holds none. Unreadable folders in it are left out.
std::vector<std::filesystem::path> find_traces(const std::vector<std::filesystem::path>& inputs);

}  // namespace gpumemtrace::trace
