// SPDX-License-Identifier: Apache-2.0
// Reads the recorder's own packed file back, for a checkpoint: finds its blocks, decodes them, and
// merges the writers' records in the order in which they took effect.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/base/own_file.hpp"
#include "trace/file_layout.hpp"
#include "trace/ledger/mapped_array.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {

using ledger::MappedArray;

struct PackedBlock {
  std::uint64_t offset = 0;  // the header's offset in the file
  trace::BlockHeader header;
  bool is_compacted = false;

  std::uint64_t file_bytes() const noexcept { return sizeof header + header.stored_bytes; }
};

// All blocks in the order of the file.
class PackedIndex {
 public:
  // Reads the headers of blocks in [from, to) of the file. 0 or an errno value.
  [[nodiscard]] int scan(const OwnFile& file, std::uint64_t from, std::uint64_t to) noexcept;

  MappedArray<PackedBlock>& blocks() noexcept { return blocks_; }
  std::uint64_t end() const noexcept { return end_; }

 private:
  MappedArray<PackedBlock> blocks_;
  std::uint64_t end_ = 0;
};

// One writer's blocks.
struct PackedStream {
  std::uint32_t first = 0;  // index into PackedStreams::order_
  std::uint32_t next = 0;   // index of the loaded block, or of the block to load if none is loaded
  std::uint32_t end = 0;
  bool is_loaded = false;
  std::uint32_t position = 0;  // the head's offset in the image: records before it were taken
  std::uint32_t image_bytes = 0;
  std::uint64_t key = 0;       // the head's order key, never less than an earlier record's key
  std::byte* image = nullptr;  // room for the largest chunk
};

// - Call start(), then head() and advance() until head() is nullptr: no record up to the cut, which
//   is the time `cut_ticks`, is left.
// - The head of a stream is its first record that was not yet taken.
// - All functions with an int return 0 or an errno value.
class PackedStreams {
 public:
  PackedStreams() noexcept = default;
  ~PackedStreams();
  PackedStreams(const PackedStreams&) = delete;
  PackedStreams& operator=(const PackedStreams&) = delete;

  // `index` and `file` are borrowed, and the indexed blocks must stay in the file as they are.
  [[nodiscard]] int start(PackedIndex& index, const OwnFile& file,
                          std::uint64_t cut_ticks) noexcept;
  const trace::RecordHeader* head() const noexcept {
    if (heap_.empty()) return nullptr;
    const PackedStream& stream = streams_[heap_[0]];
    return reinterpret_cast<const trace::RecordHeader*>(stream.image + stream.position);
  }
  std::uint64_t head_key() const noexcept { return streams_[heap_[0]].key; }
  std::uint32_t head_writer() const noexcept { return writer_of(streams_[heap_[0]]); }
  // True if the next advance() loads a block, which takes a while.
  [[nodiscard]] bool is_at_block_end() const noexcept {
    const PackedStream& stream = streams_[heap_[0]];
    return stream.position + head()->words * trace::kWordBytes == stream.image_bytes;
  }
  [[nodiscard]] int advance() noexcept;

  const MappedArray<PackedStream>& streams() const noexcept { return streams_; }
  const PackedBlock& block_at(std::uint32_t place) const noexcept {
    return index_->blocks()[order_[place]];
  }
  // Marks the stream's loaded block as compacted: its rest was written to the new file.
  void mark_compacted(const PackedStream& stream) noexcept {
    index_->blocks()[order_[stream.next]].is_compacted = true;
  }
  std::uint32_t writer_of(const PackedStream& stream) const noexcept {
    return block_at(stream.first).header.writer;
  }

 private:
  struct Workspace;
  [[nodiscard]] int sort_blocks() noexcept;
  [[nodiscard]] int make_streams() noexcept;
  // Sets the stream's head; `has_no_record_left` is true if no record up to the cut is left.
  [[nodiscard]] int find_head(PackedStream& stream, bool& has_no_record_left) noexcept;
  [[nodiscard]] int load(PackedStream& stream) noexcept;
  static void unload(PackedStream& stream) noexcept;
  [[nodiscard]] bool is_before(std::uint32_t a, std::uint32_t b) const noexcept;
  void sink_front() noexcept;

  PackedIndex* index_ = nullptr;
  const OwnFile* file_ = nullptr;
  std::uint64_t last_key_ = 0;  // the greatest order key up to the cut
  std::uint64_t cut_ticks_ = 0;
  Workspace* workspace_ = nullptr;
  MappedArray<std::uint32_t> order_;  // indexes of blocks, sorted by writer, sequence, offset
  MappedArray<PackedStream> streams_;
  MappedArray<std::uint32_t> heap_;  // indexes of streams that have a head, the first head in front
};

}  // namespace gpumemtrace::preload
