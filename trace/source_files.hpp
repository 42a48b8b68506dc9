// SPDX-License-Identifier: Apache-2.0
// Traces and rings that were compressed as a whole after they were recorded: NAME.gmt.gz by gzip,
// NAME.gmt.zst by zstd. Traces are read in any order, so such a file is decompressed into a
// nameless file in the folder for temporary files, which is gone when its descriptor is closed.
#pragma once

#include <array>
#include <filesystem>
#include <vector>

#include "trace/own_descriptor.hpp"

namespace gpumemtrace::trace {

// The suffixes of a compressed file's name.
inline constexpr std::array<const char*, 2> kPackedSuffixes = {".gz", ".zst"};

struct UnpackedFile {
  // the file itself, or its decompressed content; if it is not open, errno says why
  OwnDescriptor file;
  // false: the compressed file is damaged or cut, and `file` has the part before the damage
  bool is_whole = true;
  // false: there was no room to decompress the file, or the result was too large for a trace
  bool has_room = true;
};

// Opens a file and decompresses it if it is compressed, which its first bytes show, not its name.
// Does not wait for a writer if the path is a named pipe.
[[nodiscard]] UnpackedFile open_unpacked(const std::filesystem::path& path);

// The path without the suffix .gz or .zst.
[[nodiscard]] std::filesystem::path unpacked_name(const std::filesystem::path& path);

// The possible paths of a trace's ring: plain as recorded, or compressed.
[[nodiscard]] std::vector<std::filesystem::path> ring_names(const std::filesystem::path& trace);

// A ring that a running process still writes is copied, because the recorder reuses its chunks.
//
// True if the process that made the ring still records into it. Asks the kernel alone, about the
// recorder's lock on the ring.
[[nodiscard]] bool has_recorder(const OwnDescriptor& ring);

// Copies the chunks that hold records into a ring file in memory of the same layout. Chunks that
// the recorder reuses meanwhile are left out: their records are in the packed file by then, so a
// reader that opens the packed file after this misses nothing. The result is not open if there is
// no memory.
OwnDescriptor copy_live_ring(const OwnDescriptor& ring);

}  // namespace gpumemtrace::trace
