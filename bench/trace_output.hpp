// SPDX-License-Identifier: Apache-2.0
// Writes a packed trace without a ring: records into chunks, chunks through the packer and the
// compressor into the file, as the recorder's background thread does.
#pragma once

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "trace/file_layout.hpp"
#include "trace/pack.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::bench {

// One file. Throws std::runtime_error if it cannot be written.
class TraceOutput {
 public:
  TraceOutput(const std::filesystem::path& path, std::uint64_t ticks_per_second);
  ~TraceOutput();
  TraceOutput(const TraceOutput&) = delete;
  TraceOutput& operator=(const TraceOutput&) = delete;

  void write_chunk(std::uint32_t writer, std::uint32_t sequence, std::span<const std::byte> image);

 private:
  void write_block(trace::BlockHeader header, std::span<const std::byte> columns);
  void put(const void* data, std::size_t bytes);

  std::filesystem::path path_;
  std::ofstream file_;
  std::unique_ptr<trace::PackScratch> scratch_;
  std::vector<std::byte> columns_;
  std::vector<std::byte> stored_;
  ZSTD_CCtx* compressor_ = nullptr;
};

// The records of one writer; finish() writes the last chunk.
class WriterOutput {
 public:
  WriterOutput(TraceOutput& output, std::uint32_t writer) : output_(&output), writer_(writer) {
    image_.reserve(kImageBytes);
  }

  // Fills in kind and length. The tail is padded to a word.
  template <class Record>
  void add(Record record, std::string_view tail = {}) {
    const std::size_t padded = (tail.size() + trace::kWordBytes - 1) / trace::kWordBytes;
    auto& header = reinterpret_cast<trace::RecordHeader&>(record);
    header.kind = trace::kind_of<Record>();
    header.words = static_cast<std::uint8_t>(sizeof(Record) / trace::kWordBytes + padded);
    const std::size_t begin = image_.size();
    const std::size_t bytes = header.words * trace::kWordBytes;
    if (begin + bytes > kImageBytes) {
      finish();
      return add(record, tail);
    }
    image_.resize(begin + bytes);
    std::memcpy(image_.data() + begin, &record, sizeof record);
    if (!tail.empty()) std::memcpy(image_.data() + begin + sizeof record, tail.data(), tail.size());
  }

  void finish() {
    if (image_.empty()) return;
    output_->write_chunk(writer_, sequence_++, image_);
    image_.clear();
  }

 private:
  // The bytes that a chunk of the ring holds.
  static constexpr std::size_t kImageBytes = trace::kMaxChunkBytes - 64;

  TraceOutput* output_;
  std::uint32_t writer_;
  std::uint32_t sequence_ = 0;
  std::vector<std::byte> image_;
};

}  // namespace gpumemtrace::bench
