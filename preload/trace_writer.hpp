// The packed trace file: packs pieces of chunks, compresses them, appends them. One thread at a
// time: the one that starts the recording, then the background thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "preload/files.hpp"
#include "trace/file_layout.hpp"

namespace gpumemtrace::preload {

class TraceWriter {
 public:
  // Makes `path` with header and schema; 0 or an errno value, and then no file.
  int create(const char* path, const trace::TraceId& id) noexcept;
  // Removes the file just made.
  void discard(const char* path) noexcept;

  // Appends records of a writer's chunk: bytes [begin, begin + image.size()) of its content.
  // 0 or an errno value; after a failure the file ends where it ended before.
  int append(std::uint32_t writer, std::uint32_t sequence, std::uint32_t begin,
             std::span<const std::byte> image) noexcept;

  std::uint64_t bytes() const noexcept { return size_; }

 private:
  struct Workspace;
  int write_beginning(const trace::TraceId& id) noexcept;
  int append_block(trace::BlockHeader& header, std::span<const std::byte> columns) noexcept;

  Workspace* workspace_ = nullptr;
  int descriptor_ = -1;
  FileIdentity identity_;
  std::uint64_t size_ = 0;
};

}  // namespace gpumemtrace::preload
