#include "preload/trace_writer.hpp"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <new>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "preload/clock.hpp"
#include "trace/checksum.hpp"
#include "trace/pack.hpp"

namespace gpumemtrace::preload {
namespace {

// Level 3 packs a GPT-2 training's events to half the size of level 1 at a cost that the
// background thread does not notice.
constexpr int kCompressionLevel = 3;
constexpr std::size_t kCompressorBytes = 4 << 20;

}  // namespace

// Mapped, not allocated: the recorder never uses the program's malloc.
struct TraceWriter::Workspace {
  trace::PackScratch scratch;
  std::byte columns[trace::kMaxColumnBytes];
  // A whole block, so that it reaches the file in one write.
  std::byte block[sizeof(trace::BlockHeader) + ZSTD_COMPRESSBOUND(trace::kMaxColumnBytes)];
  alignas(64) std::byte compressor_memory[kCompressorBytes];
  ZSTD_CCtx* compressor = nullptr;
};

int TraceWriter::create(const char* path, const trace::TraceId& id) noexcept {
  descriptor_ = create_file(path);
  if (descriptor_ < 0) return errno;
  const int error = write_beginning(id);
  if (error != 0) discard(path);
  return error;
}

void TraceWriter::discard(const char* path) noexcept {
  close(descriptor_);
  unlink(path);
}

int TraceWriter::write_beginning(const trace::TraceId& id) noexcept {
  if (!identify(descriptor_, identity_)) return EIO;
  void* memory = mmap(nullptr, sizeof(Workspace), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return ENOMEM;
  // The mapping is zeros already; storing them again would touch every page of it.
  workspace_ = static_cast<Workspace*>(memory);
  workspace_->compressor =
      ZSTD_initStaticCCtx(workspace_->compressor_memory, sizeof workspace_->compressor_memory);

  trace::FileHeader header;
  header.id = id;
  header.start_realtime_ns = clock_ns(CLOCK_REALTIME);
  header.process_id = static_cast<std::uint32_t>(getpid());
  header.checksum = trace::crc32c(&header, offsetof(trace::FileHeader, checksum));
  if (const int error = write_at(descriptor_, 0, &header, sizeof header); error != 0) return error;
  size_ = sizeof header;

  const std::size_t bytes = trace::write_schema(workspace_->columns);
  trace::BlockHeader block;
  block.type = trace::BlockType::kSchema;
  return append_block(block, std::span<const std::byte>(workspace_->columns, bytes));
}

int TraceWriter::append(std::uint32_t writer, std::uint32_t sequence, std::uint32_t begin,
                        std::span<const std::byte> image) noexcept {
  const trace::PackResult packed = trace::pack(image, workspace_->columns, workspace_->scratch);
  if (packed.column_bytes == 0) return EILSEQ;
  trace::BlockHeader block;
  block.writer = writer;
  block.sequence = sequence;
  block.begin_offset = begin;
  block.end_offset = begin + static_cast<std::uint32_t>(image.size());
  block.records = packed.records;
  block.first_time = packed.first_time;
  block.last_time = packed.last_time;
  return append_block(block, std::span<const std::byte>(workspace_->columns, packed.column_bytes));
}

int TraceWriter::append_block(trace::BlockHeader& header,
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
  header.header_bytes = sizeof header;
  header.column_bytes = static_cast<std::uint32_t>(columns.size());
  header.stored_bytes = static_cast<std::uint32_t>(stored);
  header.payload_checksum = trace::crc32c(payload, stored);
  header.header_checksum = trace::crc32c(&header, offsetof(trace::BlockHeader, header_checksum));
  memcpy(workspace_->block, &header, sizeof header);

  // A program that closed our descriptor may own the number by now.
  FileIdentity now;
  if (!identify(descriptor_, now) || !(now == identity_)) return EBADF;
  if (const int error = write_at(descriptor_, size_, workspace_->block, sizeof header + stored);
      error != 0) {
    [[maybe_unused]] const int ignored = ftruncate(descriptor_, static_cast<off_t>(size_));
    return error;
  }
  size_ += sizeof header + stored;
  return 0;
}

}  // namespace gpumemtrace::preload
