// SPDX-License-Identifier: Apache-2.0
#include "trace/file_writer.hpp"

#include <stdexcept>
#include <system_error>

#include "trace/checksum.hpp"

namespace gpumemtrace::trace {
namespace {

constexpr int kCompressionLevel = 3;

}  // namespace

FileWriter::FileWriter(OwnDescriptor file, FileHeader header, Codec codec)
    : file_(std::move(file)),
      codec_(codec),
      scratch_(std::make_unique<PackScratch>()),
      columns_(kMaxColumnBytes),
      stored_(ZSTD_compressBound(kMaxColumnBytes)),
      compressor_(ZSTD_createCCtx()) {
  header.checksum = crc32c(&header, offsetof(FileHeader, checksum));
  put(&header, sizeof header);
  BlockHeader block;
  block.type = BlockType::kSchema;
  write_block(block, std::span(columns_).first(write_schema(columns_)));
}

void FileWriter::write_chunk(std::uint32_t writer, std::uint32_t sequence,
                             std::span<const std::byte> image) {
  const PackResult packed = pack(image, columns_, *scratch_);
  if (packed.column_bytes == 0) throw std::logic_error("a chunk cannot be packed");
  BlockHeader block;
  block.writer = writer;
  block.sequence = sequence;
  block.end_offset = static_cast<std::uint32_t>(image.size());
  block.records = packed.records;
  block.first_time = packed.first_time;
  block.last_time = packed.last_time;
  write_block(block, std::span(columns_).first(packed.column_bytes));
}

void FileWriter::write_block(BlockHeader header, std::span<const std::byte> columns) {
  header.column_bytes = static_cast<std::uint32_t>(columns.size());
  header.codec = codec_;
  if (codec_ == Codec::kZstd) {
    const std::size_t stored = ZSTD_compressCCtx(compressor_.get(), stored_.data(), stored_.size(),
                                                 columns.data(), columns.size(), kCompressionLevel);
    if (ZSTD_isError(stored) != 0) throw std::runtime_error(ZSTD_getErrorName(stored));
    columns = std::span(stored_).first(stored);
  }
  header.header_bytes = sizeof header;
  header.stored_bytes = static_cast<std::uint32_t>(columns.size());
  header.payload_checksum = crc32c(columns.data(), columns.size());
  header.header_checksum = crc32c(&header, offsetof(BlockHeader, header_checksum));
  put(&header, sizeof header);
  put(columns.data(), columns.size());
}

void FileWriter::put(const void* data, std::size_t bytes) {
  if (!file_.write_at(bytes_, data, bytes)) {
    throw std::system_error(errno, std::generic_category(), "cannot write a trace");
  }
  bytes_ += bytes;
}

}  // namespace gpumemtrace::trace
