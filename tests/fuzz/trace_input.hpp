// SPDX-License-Identifier: Apache-2.0
// An input of fuzz_reader: a trace file and its ring.
//
//   options (1 byte) | bytes of the file part (2) | file part | ring part
//   file part: FileHeader | blocks
//   ring part: RingHeader | chunk | chunk | ...     chunk: ChunkHeader | length (2) | content
//
// Chunks stand in an input without the zeros behind their content, and the schema block of this
// version is inserted on request, so that mutations fall on bytes that matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

namespace gpumemtrace::tests {

inline constexpr std::uint8_t kKeepChecksums = 1;  // if not set, checksums are made to fit
inline constexpr std::uint8_t kKeepLengths = 2;    // if not set, lengths of a block fit each other
inline constexpr std::uint8_t kKeepRingId = 4;     // if not set, the ring gets this trace's id
inline constexpr std::uint8_t kOwnSchema = 8;      // the schema of this version is put first
inline constexpr std::uint8_t kCutRing = 16;       // the ring ends inside the last content

// The bytes of a file with holes.
struct SparseFile {
  std::vector<std::pair<std::uint64_t, std::vector<std::byte>>> parts;
  std::uint64_t bytes = 0;
};

struct TraceInput {
  std::vector<std::byte> file;
  SparseFile ring;  // 0 bytes: there is no ring
};

// Expands an input for the reader; never fails.
TraceInput expand_input(std::span<const std::byte> input);

// The reverse of expand_input(). `file` has no schema block if the options ask for one; `ring` is
// as RawTrace makes it, or empty.
std::vector<std::byte> make_input(std::uint8_t options, std::span<const std::byte> file,
                                  std::span<const std::byte> ring);

// Throws std::runtime_error if the folder cannot be written to.
void write_input(const TraceInput& input, const std::filesystem::path& trace);

}  // namespace gpumemtrace::tests
