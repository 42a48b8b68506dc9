// SPDX-License-Identifier: Apache-2.0
// Writes a packed trace without a ring, for records that were not recorded but made of other data.
// The recorder has a writer of its own (preload/trace_file/trace_writer.hpp), which neither
// allocates nor throws.
#pragma once

#include <zstd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/file_layout.hpp"
#include "trace/own_descriptor.hpp"
#include "trace/pack.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::trace {

// Appends the record to `words` and fills in its kind and length. The tail is padded to a word.
template <class Record>
void append_record(std::vector<std::uint64_t>& words, const Record& record,
                   std::string_view tail = {}) {
  const std::size_t begin = words.size();
  words.resize(begin + sizeof(Record) / kWordBytes + (tail.size() + kWordBytes - 1) / kWordBytes);
  auto* out = reinterpret_cast<std::byte*>(words.data() + begin);
  std::memcpy(out, &record, sizeof record);
  if (!tail.empty()) std::memcpy(out + sizeof record, tail.data(), tail.size());
  out[0] = static_cast<std::byte>(kind_of<Record>());
  out[1] = static_cast<std::byte>(words.size() - begin);
}

// Writes one trace file from its beginning on. All functions throw std::system_error if the file
// cannot be written.
class FileWriter {
 public:
  // Writes header and schema. The header's checksum is filled in.
  FileWriter(OwnDescriptor file, FileHeader header, Codec codec);

  // Writes one block: the records of a whole chunk.
  void write_chunk(std::uint32_t writer, std::uint32_t sequence, std::span<const std::byte> image);
  // Returns the file's descriptor; after this, nothing may be written.
  [[nodiscard]] OwnDescriptor take_file() { return std::move(file_); }

 private:
  struct ContextDeleter {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };

  void write_block(BlockHeader header, std::span<const std::byte> columns);
  void put(const void* data, std::size_t bytes);

  OwnDescriptor file_;
  std::uint64_t bytes_ = 0;
  Codec codec_;
  std::unique_ptr<PackScratch> scratch_;
  std::vector<std::byte> columns_;
  std::vector<std::byte> stored_;
  std::unique_ptr<ZSTD_CCtx, ContextDeleter> compressor_;
};

// Collects the records of one writer and writes them in chunks; finish() writes the last chunk.
class StreamWriter {
 public:
  // The bytes of records that the largest chunk of the ring holds.
  static constexpr std::size_t kLargestImage = kMaxChunkBytes - 64;

  StreamWriter(FileWriter& file, std::uint32_t writer, std::size_t image_bytes = kLargestImage)
      : file_(&file), writer_(writer), image_words_(image_bytes / kWordBytes) {
    words_.reserve(image_words_);
  }

  // Adds the record as append_record() does.
  template <class Record>
  void add(const Record& record, std::string_view tail = {}) {
    const std::size_t begin = words_.size();
    append_record(words_, record, tail);
    if (words_.size() > image_words_) write_up_to(begin);
  }
  // Adds the words of a record that already has its kind, its length and its tail.
  void add_words(std::span<const std::uint64_t> record) {
    const std::size_t begin = words_.size();
    words_.insert(words_.end(), record.begin(), record.end());
    if (words_.size() > image_words_) write_up_to(begin);
  }

  void finish() {
    if (!words_.empty()) write_up_to(words_.size());
  }

 private:
  void write_up_to(std::size_t end) {
    file_->write_chunk(writer_, sequence_++, std::as_bytes(std::span(words_).first(end)));
    words_.erase(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(end));
  }

  FileWriter* file_;
  std::uint32_t writer_;
  std::uint32_t sequence_ = 0;
  std::size_t image_words_;
  std::vector<std::uint64_t> words_;
};

}  // namespace gpumemtrace::trace
