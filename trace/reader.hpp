// SPDX-License-Identifier: Apache-2.0
// Reads a trace: the packed file and, beside it, the rest of the ring.
//
// Hostile input is expected: nothing here trusts a length. The reader's memory is bounded: for each
// cursor one image (of at most kMaxImageBytes, with the offsets of its records), for each block a
// few words, and for each thread the working memory of one block.
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

// The file cannot be used at all: missing, unreadable, not a trace. what() is one sentence for the
// user.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A folder that can be read and holds no trace.
class NoTrace : public TraceError {
 public:
  using TraceError::TraceError;
};

// Counts of the damage found while reading, named as the rows of stats.def.
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

// A piece of one writer's stream of records: a block of the packed file or a span of a ring chunk.
struct ChunkPiece {
  // offset of the payload (packed file) or of the first byte of the piece's content (ring)
  std::uint64_t file_offset = 0;
  std::uint32_t sequence = 0;
  std::uint32_t begin_offset = 0;
  std::uint32_t end_offset = 0;
  std::uint32_t records = 0;  // 0 = the number of records is not known: the piece is in the ring
  std::uint32_t column_bytes = 0;
  std::uint32_t stored_bytes = 0;
  std::uint32_t payload_checksum = 0;
  Codec codec = Codec::kNone;
  bool in_ring = false;
};

struct WriterStream {
  // number of the writer; kCheckpointWriter for the records that stand for compacted ones
  std::uint32_t writer = 0;
  // A checkpoint stands for the writer's records up to this chunk and this offset in its content;
  // compacted_end 0 = for none.
  std::uint32_t compacted_sequence = 0;
  std::uint32_t compacted_end = 0;
  std::vector<ChunkPiece> pieces;  // the pieces of the stream in the order of recording
};

struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// A position in a writer's stream of records. It stays valid when the same file is opened again,
// however much of the ring has been packed by then: a packed piece begins at the end of the one
// before.
struct StreamPosition {
  std::uint32_t sequence = 0;      // number of the chunk among its writer's chunks
  std::uint32_t begin_offset = 0;  // offset of the piece in the chunk
  std::uint64_t records = 0;       // the number of records from the piece's begin to the position
};

// One trace, opened. Not copyable; cursors keep a pointer to it and must not outlive it.
class TraceFile {
 public:
  // Opens `path` (the .gmt file) and its ring if there is one. Throws TraceError.
  explicit TraceFile(const std::filesystem::path& path);
  // Reads a trace without a ring from a file that is open already, such as one in memory; `path` is
  // its name in messages. Throws TraceError.
  TraceFile(OwnDescriptor file, const std::filesystem::path& path);
  ~TraceFile();
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const FileHeader& header() const { return header_; }
  const std::vector<WriterStream>& writers() const { return writers_; }
  std::uint64_t file_bytes() const { return file_bytes_; }
  // The device and inode of the file: the same as long as data is only appended to it, whatever its
  // name.
  [[nodiscard]] FileIdentity identity() const { return identity_; }
  [[nodiscard]] bool has_ring() const { return ring_.is_open(); }
  // The counter of dropped records in the ring's header; zero if there is no ring.
  std::uint64_t dropped(std::size_t drop_class) const { return dropped_[drop_class]; }
  std::uint64_t calls_taken_for_parts() const { return calls_taken_for_parts_; }
  [[nodiscard]] bool exit_seen() const { return exit_seen_; }
  // The signal that ended the process, if `gpumemtrace run` saw it; else 0.
  int ended_by_signal() const { return ended_by_signal_; }
  // True if the ring holds no records that the packed file does not have, and never will.
  [[nodiscard]] bool ring_is_spent() const;
  // True if a process still holds the trace open for writing.
  [[nodiscard]] bool still_running() const { return still_running_; }
  // Damage found when the trace was opened; each cursor counts the damage that it finds itself.
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
  OwnDescriptor ring_;  // the ring file, or a copy of it if the process is still running
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
  // Resumes at the position of another cursor, which may have read the same file when it was opened
  // earlier. If the stream has no such position, found() is false and there is nothing to read.
  WriterCursor(const TraceFile& file, const WriterStream& stream, const StreamPosition& from);
  [[nodiscard]] bool found() const { return found_; }

  // From now on the cursor skips whole blocks that have no record of these kinds, at a fraction of
  // the time that reading them takes. next() still returns records of other kinds in the blocks
  // that it reads.
  void look_for(std::initializer_list<RecordKind> kinds);

  // The next record; nullptr at the end of the stream.
  const RecordHeader* next() {
    while (next_ == end_) {
      if (!load_next_piece()) return nullptr;
    }
    const auto* header = reinterpret_cast<const RecordHeader*>(next_);
    next_ += header->words * kWordBytes;
    return header;
  }
  // Reads the next piece that has records into the caller's `image`, for callers that do not call
  // next() for each record. Records with an index below passed() are before the position at which
  // the cursor began. False at the end of the stream.
  [[nodiscard]] bool next_piece(Image& image);
  [[nodiscard]] std::size_t passed() const { return passed_; }
  // The piece that was read last; only valid once a piece was read.
  [[nodiscard]] const ChunkPiece& piece() const { return stream_->pieces[next_piece_ - 1]; }
  // The position behind the record that next() returned last; only valid once a piece was read.
  [[nodiscard]] StreamPosition position() const;
  [[nodiscard]] bool is_last_piece() const { return next_piece_ == stream_->pieces.size(); }
  // The damage found so far; losses_before_piece(): the damage found before piece() was read.
  const ReadLosses& losses() const { return losses_; }
  [[nodiscard]] const ReadLosses& losses_before_piece() const { return losses_before_piece_; }

 private:
  [[nodiscard]] bool load_next_piece();
  [[nodiscard]] bool read_piece(Image& image);
  // Reads a block of the packed file; false if it is damaged. Leaves the image empty if no record
  // of the block is wanted.
  [[nodiscard]] bool read_packed(const ChunkPiece& piece, Image& image);
  [[nodiscard]] bool read_ring(const ChunkPiece& piece, Image& image);

  const TraceFile* file_;
  const WriterStream* stream_;
  std::size_t next_piece_ = 0;
  std::uint64_t skipped_ = 0;  // number of records that are still to be skipped
  std::size_t passed_ = 0;
  bool found_ = true;
  Image image_;                      // the records of the piece that next() reads
  const std::byte* next_ = nullptr;  // address of the next record in the image
  const std::byte* end_ = nullptr;
  std::unique_ptr<KindSet> wanted_;  // the kinds that look_for() asked for; nullptr: all
  ReadLosses losses_;
  ReadLosses losses_before_piece_;
};

// The tail of a record: the bytes after its struct, without the padding zeros at the end. Empty for
// kinds without tail.
std::string_view tail_of(const RecordHeader& header);

// The Python frames of a stack: the words after its struct.
std::span<const std::uint64_t> python_frames_of(const Stack& stack);
// The native frames of a stack, return addresses: the words after its Python frames.
std::span<const std::uint64_t> native_frames_of(const Stack& stack);

// The bytes of the text after the struct of a Code record, as many as the struct says.
std::span<const std::byte> bytes_of(const Code& code);

// Finds all traces below `inputs`, sorted: files are taken as they are; in folders (at most one
// level down) *.gmt is looked for, or *.pickle if there is none. Throws TraceError for a path that
// does not exist and for a folder that cannot be read, NoTrace for one that holds no trace.
// Unreadable folders below `inputs` are left out.
std::vector<std::filesystem::path> find_traces(const std::vector<std::filesystem::path>& inputs);

}  // namespace gpumemtrace::trace
