// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/packed_streams.hpp"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "preload/base/file_thread.hpp"
#include "preload/base/map_zeros.hpp"
#include "trace/decode.hpp"
#include "trace/order.hpp"
#include "trace/payload.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::size_t kDecompressorBytes = 512 << 10;

bool holds_records(const PackedBlock& block) noexcept {
  return block.header.type == trace::BlockType::kRecords ||
         block.header.type == trace::BlockType::kCheckpoint;
}

}  // namespace

struct PackedStreams::Workspace {
  trace::DecodeScratch scratch;
  std::byte columns[trace::kMaxColumnBytes];
  std::byte stored[ZSTD_COMPRESSBOUND(trace::kMaxColumnBytes)];
  alignas(64) std::byte decompressor_memory[kDecompressorBytes];
  ZSTD_DCtx* decompressor;
};

int PackedIndex::scan(const OwnFile& file, std::uint64_t from, std::uint64_t to) noexcept {
  return file_thread::run([&]() noexcept {
    for (end_ = from; end_ < to;) {
      PackedBlock block;
      block.offset = end_;
      if (const int error = file.read_at(end_, &block.header, sizeof block.header); error != 0) {
        return error;
      }
      if (!trace::checks_out(block.header)) return EILSEQ;
      if (!blocks_.push(block)) return ENOMEM;
      end_ += block.file_bytes();
    }
    return 0;
  });
}

PackedStreams::~PackedStreams() {
  for (PackedStream& stream : streams_) unload(stream);
  if (workspace_ != nullptr) munmap(workspace_, sizeof(Workspace));
}

int PackedStreams::start(PackedIndex& index, const OwnFile& file,
                         std::uint64_t cut_ticks) noexcept {
  index_ = &index;
  file_ = &file;
  cut_ticks_ = cut_ticks;
  last_key_ = trace::last_key_of_ticks(cut_ticks);
  workspace_ = static_cast<Workspace*>(map_zeros(sizeof(Workspace)));
  if (workspace_ == nullptr) return ENOMEM;
  workspace_->decompressor =
      ZSTD_initStaticDCtx(workspace_->decompressor_memory, sizeof workspace_->decompressor_memory);
  if (workspace_->decompressor == nullptr) return ENOMEM;
  if (const int error = sort_blocks(); error != 0) return error;
  return make_streams();
}

int PackedStreams::sort_blocks() noexcept {
  const MappedArray<PackedBlock>& blocks = index_->blocks();
  for (std::uint32_t i = 0; i < blocks.size(); ++i) {
    if (holds_records(blocks[i]) && !order_.push(i)) return ENOMEM;
  }
  std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) noexcept {
    const trace::BlockHeader& left = blocks[a].header;
    const trace::BlockHeader& right = blocks[b].header;
    if (left.writer != right.writer) return left.writer < right.writer;
    if (left.sequence != right.sequence) return left.sequence < right.sequence;
    return left.begin_offset < right.begin_offset;
  });
  return 0;
}

int PackedStreams::make_streams() noexcept {
  for (std::uint32_t i = 0; i < order_.size(); ++i) {
    if (streams_.empty() || block_at(i).header.writer != writer_of(streams_.back())) {
      PackedStream stream;
      stream.first = stream.next = i;
      if (!streams_.push(stream)) return ENOMEM;
    }
    streams_.back().end = i + 1;
  }
  for (std::uint32_t i = 0; i < streams_.size(); ++i) {
    bool has_no_record_left = false;
    if (const int error = find_head(streams_[i], has_no_record_left); error != 0) return error;
    if (!has_no_record_left && !heap_.push(i)) return ENOMEM;
  }
  std::sort(heap_.begin(), heap_.end(),
            [&](std::uint32_t a, std::uint32_t b) noexcept { return is_before(a, b); });
  return 0;
}

// Orders by key; at the same key, by writer, as the analyzer does.
bool PackedStreams::is_before(std::uint32_t a, std::uint32_t b) const noexcept {
  return streams_[a].key != streams_[b].key ? streams_[a].key < streams_[b].key : a < b;
}

int PackedStreams::advance() noexcept {
  PackedStream& stream = streams_[heap_[0]];
  stream.position += static_cast<std::uint32_t>(head()->words * trace::kWordBytes);
  bool has_no_record_left = false;
  if (const int error = find_head(stream, has_no_record_left); error != 0) return error;
  if (has_no_record_left) {
    heap_[0] = heap_.back();
    heap_.erase(heap_.size() - 1, heap_.size());
  }
  if (!heap_.empty()) sink_front();
  return 0;
}

void PackedStreams::sink_front() noexcept {
  std::size_t i = 0;
  for (;;) {
    std::size_t smallest = i;
    for (const std::size_t child : {2 * i + 1, 2 * i + 2}) {
      if (child < heap_.size() && is_before(heap_[child], heap_[smallest])) smallest = child;
    }
    if (smallest == i) return;
    std::swap(heap_[i], heap_[smallest]);
    i = smallest;
  }
}

// Goes to the next block at the end of the loaded one, which is compacted as a whole then.
int PackedStreams::find_head(PackedStream& stream, bool& has_no_record_left) noexcept {
  if (stream.is_loaded && stream.position == stream.image_bytes) {
    index_->blocks()[order_[stream.next]].is_compacted = true;
    ++stream.next;
    stream.is_loaded = false;
    stream.position = 0;
  }
  if (!stream.is_loaded) {
    has_no_record_left =
        stream.next == stream.end || block_at(stream.next).header.first_time > cut_ticks_;
    if (has_no_record_left) {
      unload(stream);
      return 0;
    }
    if (const int error = load(stream); error != 0) return error;
  }
  const auto* record = reinterpret_cast<const trace::RecordHeader*>(stream.image + stream.position);
  stream.key = std::max(stream.key, trace::order_key(*record));
  has_no_record_left = stream.key > last_key_;
  return 0;
}

int PackedStreams::load(PackedStream& stream) noexcept {
  const PackedBlock& source = block_at(stream.next);
  const trace::BlockHeader& header = source.header;
  const std::uint32_t image_bytes = header.end_offset - header.begin_offset;
  if (!trace::is_plausible(header) || image_bytes > trace::kMaxChunkBytes) return EILSEQ;
  if (stream.image == nullptr) {
    stream.image = static_cast<std::byte*>(map_zeros(trace::kMaxChunkBytes));
  }
  if (stream.image == nullptr) return ENOMEM;
  if (const int error =
          file_->read_at(source.offset + sizeof header, workspace_->stored, header.stored_bytes);
      error != 0) {
    return error;
  }
  const std::span columns(workspace_->columns, header.column_bytes);
  if (!trace::open_payload(header.codec, header.payload_checksum,
                           std::span(workspace_->stored, header.stored_bytes), columns,
                           workspace_->decompressor) ||
      !trace::decode(columns, std::span(stream.image, image_bytes), workspace_->scratch)) {
    return EILSEQ;
  }
  stream.image_bytes = image_bytes;
  stream.is_loaded = true;
  stream.position = 0;
  return 0;
}

void PackedStreams::unload(PackedStream& stream) noexcept {
  if (stream.image != nullptr) munmap(stream.image, trace::kMaxChunkBytes);
  stream.image = nullptr;
}

}  // namespace gpumemtrace::preload
