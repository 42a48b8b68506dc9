// SPDX-License-Identifier: Apache-2.0
// Traces and rings that were packed as a whole after they were recorded: NAME.gmt.gz by gzip,
// NAME.gmt.zst by zstd. Traces are read in any order, so such a file is unpacked into one without a
// name in the folder for temporary files, and goes with its descriptor.
#pragma once

#include <array>
#include <filesystem>
#include <vector>

#include "trace/own_descriptor.hpp"

namespace gpumemtrace::trace {

// The suffixes of a packed file's name.
inline constexpr std::array<const char*, 2> kPackedSuffixes = {".gz", ".zst"};

struct UnpackedFile {
  OwnDescriptor file;    // the file itself if it is not packed; not open where errno says why
  bool is_whole = true;  // false: the packed file is damaged or cut, and this is what came before
  bool has_room = true;  // false: there was no room to unpack it, or it grew beyond all measure
};

// Recognizes packed files by their first bytes, not by their name. Does not wait for a writer if
// the path is a named pipe.
[[nodiscard]] UnpackedFile open_unpacked(const std::filesystem::path& path);

// The path without the suffix of a packer.
[[nodiscard]] std::filesystem::path unpacked_name(const std::filesystem::path& path);

// The possible paths of a trace's ring: as it was recorded, or packed.
[[nodiscard]] std::vector<std::filesystem::path> ring_names(const std::filesystem::path& trace);

// The ring of a process that is still running: a copy of one time, to read at leisure.
//
// True if the process that made the ring still records into it. Asks the kernel alone.
[[nodiscard]] bool has_recorder(const OwnDescriptor& ring);

// A copy in memory, laid out as the ring is, of the chunks that hold records; without chunks that
// are reused meanwhile, because their records are in the packed file by then. So opening the packed
// file after this misses nothing. Not open if there is no memory.
OwnDescriptor copy_live_ring(const OwnDescriptor& ring);

}  // namespace gpumemtrace::trace
