// SPDX-License-Identifier: Apache-2.0
#include "bench/trace_output.hpp"

#include <stdexcept>
#include <string>

#include "trace/checksum.hpp"

namespace gpumemtrace::bench {
namespace {

constexpr int kCompressionLevel = 3;  // as preload/trace_file/trace_writer.cpp

}  // namespace

TraceOutput::TraceOutput(const std::filesystem::path& path, std::uint64_t ticks_per_second)
    : path_(path),
      file_(path, std::ios::binary | std::ios::trunc),
      scratch_(std::make_unique<trace::PackScratch>()),
      columns_(trace::kMaxColumnBytes),
      stored_(ZSTD_compressBound(trace::kMaxColumnBytes)),
      compressor_(ZSTD_createCCtx()) {
  trace::FileHeader header;
  header.id = {1, static_cast<std::uint64_t>(std::hash<std::string>{}(path.string()))};
  header.start_realtime_ns = 1'700'000'000'000'000'000;
  header.ticks_per_second = ticks_per_second;
  header.process_id = 1;
  header.checksum = trace::crc32c(&header, offsetof(trace::FileHeader, checksum));
  put(&header, sizeof header);
  trace::BlockHeader block;
  block.type = trace::BlockType::kSchema;
  write_block(block, std::span(columns_).first(trace::write_schema(columns_)));
}

TraceOutput::~TraceOutput() { ZSTD_freeCCtx(compressor_); }

void TraceOutput::write_chunk(std::uint32_t writer, std::uint32_t sequence,
                              std::span<const std::byte> image) {
  const trace::PackResult packed = trace::pack(image, columns_, *scratch_);
  if (packed.column_bytes == 0) throw std::runtime_error("a synthetic chunk cannot be packed");
  trace::BlockHeader block;
  block.writer = writer;
  block.sequence = sequence;
  block.end_offset = static_cast<std::uint32_t>(image.size());
  block.records = packed.records;
  block.first_time = packed.first_time;
  block.last_time = packed.last_time;
  write_block(block, std::span(columns_).first(packed.column_bytes));
}

void TraceOutput::write_block(trace::BlockHeader header, std::span<const std::byte> columns) {
  const std::size_t stored = ZSTD_compressCCtx(compressor_, stored_.data(), stored_.size(),
                                               columns.data(), columns.size(), kCompressionLevel);
  if (ZSTD_isError(stored) != 0) throw std::runtime_error(ZSTD_getErrorName(stored));
  header.codec = trace::Codec::kZstd;
  header.header_bytes = sizeof header;
  header.column_bytes = static_cast<std::uint32_t>(columns.size());
  header.stored_bytes = static_cast<std::uint32_t>(stored);
  header.payload_checksum = trace::crc32c(stored_.data(), stored);
  header.header_checksum = trace::crc32c(&header, offsetof(trace::BlockHeader, header_checksum));
  put(&header, sizeof header);
  put(stored_.data(), stored);
}

void TraceOutput::put(const void* data, std::size_t bytes) {
  file_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  if (!file_) {
    throw std::runtime_error("cannot write " + path_.string() +
                             ": is the disk full? Choose another place with --folder.");
  }
}

}  // namespace gpumemtrace::bench
