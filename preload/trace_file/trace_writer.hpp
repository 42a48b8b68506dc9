// SPDX-License-Identifier: Apache-2.0
// The packed trace file: packs pieces of chunks, compresses them, appends them. One thread at a
// time: the one that starts the recording, then the background thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "preload/base/own_file.hpp"
#include "trace/file_layout.hpp"

namespace gpumemtrace::preload {

// One open file of packed blocks.
struct PackedFile {
  OwnFile file;
  std::uint64_t bytes = 0;
};

// - create() makes the trace, append() adds to it.
// - A checkpoint is written to a second file, the replacement, which then takes the trace's place:
//   begin_replacement() ... finish_replacement() or drop_replacement(). append() goes on with the
//   trace meanwhile.
// - All return 0 or an errno value; after a failure a file ends where it ended before.
class TraceWriter {
 public:
  // Makes the file `path` with header and schema; leaves no file behind if that fails.
  [[nodiscard]] int create(const char* path, const trace::TraceId& id) noexcept;
  // Removes the file that create() has made.
  void discard(const char* path) noexcept;

  // Appends records of a writer's chunk: bytes [begin, begin + image.size()) of its content.
  [[nodiscard]] int append(std::uint32_t writer, std::uint32_t sequence, std::uint32_t begin,
                           std::span<const std::byte> image) noexcept;

  std::uint64_t bytes() const noexcept { return trace_.bytes; }
  const OwnFile& file() const noexcept { return trace_.file; }
  // Changes that others than this writer have made to the trace file.
  [[nodiscard]] FileState state() const noexcept { return trace_.file.state(trace_.bytes); }

  [[nodiscard]] int begin_replacement(const char* path) noexcept;
  [[nodiscard]] int append_to_replacement(trace::BlockType type, std::uint32_t writer,
                                          std::uint32_t sequence, std::uint32_t begin,
                                          std::span<const std::byte> image) noexcept;
  // Notes in the replacement that its checkpoint has the writer's records up to offset `end` of the
  // chunk `sequence`.
  [[nodiscard]] int append_compacted(std::uint32_t writer, std::uint32_t sequence,
                                     std::uint32_t end) noexcept;
  // Copies bytes of the trace, in whole blocks.
  [[nodiscard]] int copy_to_replacement(std::uint64_t offset, std::uint64_t bytes) noexcept;
  // The replacement becomes the trace: a reader finds the old or the new file, whole.
  [[nodiscard]] int finish_replacement(const char* replacement_path, const char* path) noexcept;
  void drop_replacement(const char* path) noexcept;

 private:
  struct Workspace;
  [[nodiscard]] int make_workspace() noexcept;
  [[nodiscard]] int write_beginning(PackedFile& file) noexcept;
  [[nodiscard]] int append_image(PackedFile& file, trace::BlockType type, std::uint32_t writer,
                                 std::uint32_t sequence, std::uint32_t begin,
                                 std::span<const std::byte> image) noexcept;
  [[nodiscard]] int append_block(PackedFile& file, trace::BlockHeader& header,
                                 std::span<const std::byte> columns) noexcept;
  [[nodiscard]] int write_block(PackedFile& file, trace::BlockHeader& header,
                                std::size_t stored) noexcept;

  Workspace* workspace_ = nullptr;
  trace::FileHeader header_;
  PackedFile trace_;
  PackedFile replacement_;
};

}  // namespace gpumemtrace::preload
