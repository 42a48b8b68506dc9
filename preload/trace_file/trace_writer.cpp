// SPDX-License-Identifier: Apache-2.0
#include "preload/trace_file/trace_writer.hpp"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "preload/base/clock.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/base/map_zeros.hpp"
#include "trace/checksum.hpp"
#include "trace/pack.hpp"

namespace gpumemtrace::preload {
namespace {

// At zstd's level 2, traces of trainings become 1.4 % larger than at level 3, in 26 % less time;
// level 1 is no faster.
constexpr int kCompressionLevel = 2;
constexpr std::size_t kCompressorBytes = 4 << 20;

}  // namespace

// Mapped, not allocated: the recorder never uses the program's malloc.
struct TraceWriter::Workspace {
  trace::PackScratch scratch;
  std::byte columns[trace::kMaxColumnBytes];
  // Room for a whole block, so that the block reaches the file in one write.
  std::byte block[sizeof(trace::BlockHeader) + ZSTD_COMPRESSBOUND(trace::kMaxColumnBytes)];
  alignas(64) std::byte compressor_memory[kCompressorBytes];
  ZSTD_CCtx* compressor = nullptr;
};

int TraceWriter::create(const char* path, const trace::TraceId& id) noexcept {
  if (const int error = trace_.file.create(path); error != 0) return error;
  header_.id = id;
  header_.start_realtime_ns = clock_ns(CLOCK_REALTIME);
  header_.process_id = static_cast<std::uint32_t>(getpid());
  header_.checksum = trace::crc32c(&header_, offsetof(trace::FileHeader, checksum));
  int error = make_workspace();
  if (error == 0) error = write_beginning(trace_);
  if (error != 0) discard(path);
  return error;
}

void TraceWriter::discard(const char* path) noexcept {
  trace_.file.close();
  unlink(path);
}

int TraceWriter::make_workspace() noexcept {
  // The workspace's constructor does not run: storing zeros again would touch every page.
  workspace_ = static_cast<Workspace*>(map_zeros(sizeof(Workspace)));
  if (workspace_ == nullptr) return ENOMEM;
  workspace_->compressor =
      ZSTD_initStaticCCtx(workspace_->compressor_memory, sizeof workspace_->compressor_memory);
  return 0;
}

int TraceWriter::write_beginning(PackedFile& file) noexcept {
  if (const int error = file.file.write_at(0, &header_, sizeof header_); error != 0) {
    return error;
  }
  file.bytes = sizeof header_;
  const std::size_t bytes = trace::write_schema(workspace_->columns);
  trace::BlockHeader block;
  block.type = trace::BlockType::kSchema;
  return append_block(file, block, std::span<const std::byte>(workspace_->columns, bytes));
}

int TraceWriter::append(std::uint32_t writer, std::uint32_t sequence, std::uint32_t begin,
                        std::span<const std::byte> image) noexcept {
  return append_image(trace_, trace::BlockType::kRecords, writer, sequence, begin, image);
}

// Packs a piece of a chunk into columns and appends them. EILSEQ: `image` cannot be packed.
int TraceWriter::append_image(PackedFile& file, trace::BlockType type, std::uint32_t writer,
                              std::uint32_t sequence, std::uint32_t begin,
                              std::span<const std::byte> image) noexcept {
  const trace::PackResult packed = trace::pack(image, workspace_->columns, workspace_->scratch);
  if (packed.column_bytes == 0) return EILSEQ;
  trace::BlockHeader block;
  block.type = type;
  block.writer = writer;
  block.sequence = sequence;
  block.begin_offset = begin;
  block.end_offset = begin + static_cast<std::uint32_t>(image.size());
  block.records = packed.records;
  block.first_time = packed.first_time;
  block.last_time = packed.last_time;
  return append_block(file, block,
                      std::span<const std::byte>(workspace_->columns, packed.column_bytes));
}

int TraceWriter::append_block(PackedFile& file, trace::BlockHeader& header,
                              std::span<const std::byte> columns) noexcept {
  std::byte* payload = workspace_->block + sizeof header;
  std::size_t stored = 0;
  if (workspace_->compressor != nullptr) {
    const std::size_t compressed =
        ZSTD_compressCCtx(workspace_->compressor, payload, sizeof workspace_->block - sizeof header,
                          columns.data(), columns.size(), kCompressionLevel);
    if (ZSTD_isError(compressed) == 0 && compressed < columns.size()) {
      stored = compressed;
      header.codec = trace::Codec::kZstd;
    }
  }
  if (stored == 0) {
    memcpy(payload, columns.data(), columns.size());
    stored = columns.size();
  }
  header.column_bytes = static_cast<std::uint32_t>(columns.size());
  return write_block(file, header, stored);
}

// Completes the header and writes it with the payload that stands in the workspace.
int TraceWriter::write_block(PackedFile& file, trace::BlockHeader& header,
                             std::size_t stored) noexcept {
  header.header_bytes = sizeof header;
  header.stored_bytes = static_cast<std::uint32_t>(stored);
  header.payload_checksum = trace::crc32c(workspace_->block + sizeof header, stored);
  header.header_checksum = trace::crc32c(&header, offsetof(trace::BlockHeader, header_checksum));
  memcpy(workspace_->block, &header, sizeof header);

  if (const int error = file.file.write_at(file.bytes, workspace_->block, sizeof header + stored);
      error != 0) {
    [[maybe_unused]] const int ignored = file.file.truncate(file.bytes);
    return error;
  }
  file.bytes += sizeof header + stored;
  return 0;
}

int TraceWriter::begin_replacement(const char* path) noexcept {
  unlink(path);  // a file of a process that was killed while it made a checkpoint
  replacement_ = PackedFile{};
  if (const int error = replacement_.file.create(path); error != 0) return error;
  return write_beginning(replacement_);
}

int TraceWriter::append_to_replacement(trace::BlockType type, std::uint32_t writer,
                                       std::uint32_t sequence, std::uint32_t begin,
                                       std::span<const std::byte> image) noexcept {
  return append_image(replacement_, type, writer, sequence, begin, image);
}

int TraceWriter::append_compacted(std::uint32_t writer, std::uint32_t sequence,
                                  std::uint32_t end) noexcept {
  trace::BlockHeader block;
  block.type = trace::BlockType::kCompacted;
  block.writer = writer;
  block.sequence = sequence;
  block.end_offset = end;
  return write_block(replacement_, block, /*payload_bytes=*/0);
}

int TraceWriter::copy_to_replacement(std::uint64_t offset, std::uint64_t bytes) noexcept {
  return file_thread::run([&]() noexcept {
    while (bytes > 0) {
      const std::size_t wanted = std::min<std::uint64_t>(bytes, sizeof workspace_->block);
      if (const int error = trace_.file.read_at(offset, workspace_->block, wanted); error != 0) {
        return error;
      }
      if (const int error =
              replacement_.file.write_at(replacement_.bytes, workspace_->block, wanted);
          error != 0) {
        return error;
      }
      replacement_.bytes += wanted;
      offset += wanted;
      bytes -= wanted;
    }
    return 0;
  });
}

int TraceWriter::finish_replacement(const char* replacement_path, const char* path) noexcept {
  // The user who moved or removed the trace does not want another one in its place.
  FileIdentity now;
  if (!identify(path, now) || !(now == trace_.file.identity())) return ENOENT;
  if (rename(replacement_path, path) != 0) return errno;
  trace_.file.close();
  trace_ = replacement_;
  replacement_ = PackedFile{};
  return 0;
}

void TraceWriter::drop_replacement(const char* path) noexcept {
  replacement_.file.close();
  replacement_ = PackedFile{};
  unlink(path);
}

}  // namespace gpumemtrace::preload
