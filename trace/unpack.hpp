// SPDX-License-Identifier: Apache-2.0
// The reading side of pack(): parses the schema of a file, and decodes columns into records of this
// version's layout. May allocate; the reader uses it, never the recorder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trace/file_layout.hpp"
#include "trace/image.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::trace {

// The bound of a block's image in bytes. It is larger than a chunk, because structs of this version
// may be larger than those of the version that wrote the file.
inline constexpr std::size_t kMaxImageBytes = 4 * kMaxChunkBytes;

// The kinds and fields that a file describes, mapped by name to the structs of this version. Fields
// that only the file has are skipped, fields that only this version has are 0.
class FileSchema {
 public:
  struct FieldMap {
    std::uint16_t file_offset = 0;
    std::uint8_t file_bytes = 0;
    Encoding encoding = Encoding::kPlain;
    bool wanted = false;
    std::uint16_t offset = 0;  // offset in the struct of this version
    std::uint8_t bytes = 0;
  };
  struct KindMap {
    bool in_file = false;
    bool has_tail = false;
    std::uint16_t file_bytes = 0;
    const KindInfo* ours = nullptr;  // nullptr: this version does not know the kind
    std::vector<FieldMap> fields;    // the kind's fields in the order in which the file lists them
  };

  // Parses a schema payload; nullopt if it is malformed.
  [[nodiscard]] static std::optional<FileSchema> parse(std::span<const std::byte> payload);

  const KindMap& kind(std::uint8_t number) const { return kinds_[number]; }

 private:
  std::array<KindMap, 256> kinds_;
};

// Working memory of unpack(), reused from block to block. The reader has one for each thread.
struct UnpackScratch {
  std::vector<std::uint32_t> grouped;  // offsets of records, grouped by kind
  std::array<std::uint32_t, 257> begin_of_kind{};
  std::vector<std::uint64_t> tail_words;  // words of each record's tail, grouped by kind
};

// True if the columns hold records of any of the kinds. Also true if they are malformed, which
// unpack() then reports.
[[nodiscard]] bool holds_any(const KindSet& kinds, std::span<const std::byte> columns);

// Decodes columns to records. False if the columns are malformed; then `image` is empty.
// `unknown_records` counts records of kinds that this version does not know; they are left out.
[[nodiscard]] bool unpack(const FileSchema& schema, std::span<const std::byte> columns,
                          Image& image, UnpackScratch& scratch, std::uint64_t& unknown_records);

// Converts the raw records of a ring chunk from the file's layout to that of this version. At the
// first bytes that are no record it stops and returns false; the records before are in `image`.
[[nodiscard]] bool convert(const FileSchema& schema, std::span<const std::byte> raw, Image& image,
                           std::uint64_t& unknown_records);

}  // namespace gpumemtrace::trace
