// SPDX-License-Identifier: Apache-2.0
// A trace file that grows as the recorder makes it grow, and is compacted as a checkpoint does.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "preload/checkpoint/checkpoint.hpp"
#include "tests/catch.hpp"
#include "tests/support/random_job.hpp"
#include "tests/support/trace_builder.hpp"

namespace gpumemtrace::tests {

// Packs records into the file as the recorder does: in pieces of chunks, one writer at a time.
class PackedTrace {
 public:
  explicit PackedTrace(const std::filesystem::path& path)
      : path_(path), writer_(std::make_unique<preload::TraceWriter>()) {
    REQUIRE(writer_->create(path.c_str(), {1, 2}) == 0);
  }

  void add(const JobRecord& record) {
    Stream& stream = streams_[record.writer];
    stream.words.insert(stream.words.end(), record.words.begin(), record.words.end());
  }

  void add(TraceBuilder& trace) {
    for (const auto& [writer, words] : trace.take_words()) {
      std::vector<std::uint64_t>& stream = streams_[writer].words;
      stream.insert(stream.end(), words.begin(), words.end());
    }
  }

  // Packs the records added since the last time. A chunk ends now and then; else the next piece
  // continues it.
  void pack() {
    for (auto& [id, stream] : streams_) {
      if (stream.words.empty()) continue;
      const auto image = std::as_bytes(std::span(stream.words));
      REQUIRE(writer_->append(id, stream.sequence, stream.offset, image) == 0);
      stream.offset += static_cast<std::uint32_t>(image.size());
      stream.words.clear();
      if (stream.offset > 8192) {
        ++stream.sequence;
        stream.offset = 0;
      }
    }
  }

  // Compacts all but the newest `keep_bytes`; `limit` is the begin of the first record that is not
  // packed.
  preload::CheckpointResult compact(std::uint64_t keep_bytes, std::uint64_t limit) {
    preload::CheckpointRequest request;
    request.path = path_.c_str();
    request.keep_bytes = keep_bytes;
    request.limit_ticks = limit;
    request.service_requests = [](void*) { return true; };
    int error = 0;
    const auto result = preload::make_checkpoint(*writer_, request, error);
    CHECK(error == 0);
    return result;
  }

  std::uint64_t bytes() const { return writer_->bytes(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  struct Stream {
    std::vector<std::uint64_t> words;
    std::uint32_t sequence = 0;
    std::uint32_t offset = 0;
  };
  std::filesystem::path path_;
  std::unique_ptr<preload::TraceWriter> writer_;
  std::map<std::uint32_t, Stream> streams_;
};

}  // namespace gpumemtrace::tests
