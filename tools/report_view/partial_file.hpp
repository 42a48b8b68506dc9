// SPDX-License-Identifier: Apache-2.0
// Files of partial reports: JSON, packed by zstd because it repeats itself. A frame that zstd skips
// stands in front, with the mark by which such a file is known without unpacking it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "analyzer/rows/partial.hpp"

namespace gpumemtrace::tools {

// A text at the begin of every partial report.
inline constexpr std::string_view kPartialMark = "\"format\": \"gpumemtrace-partial\"";
// The end of the name that we give to a partial report.
inline constexpr std::string_view kPartialSuffix = ".part.json.zst";

// True for names that end like those of partial reports, packed (.part.json.zst) or unpacked
// (.part.json): by them, partial reports are found in a folder.
[[nodiscard]] bool has_partial_name(const std::filesystem::path& path);

// True for a file that is a partial report by its name or by its first bytes.
[[nodiscard]] bool is_partial_report(const std::filesystem::path& path);

// The bytes of a file that holds the partial report.
[[nodiscard]] std::string partial_file_bytes(const analyzer::rows::Partial& partial);

// The JSON in a file's bytes, which may be packed or not. Throws analyzer::InputError.
[[nodiscard]] std::string unpacked_partial(std::string bytes);

// Reads a partial report from its file. A trace that the report names without a folder is taken to
// lie in the folder of that file. Throws Failure.
[[nodiscard]] analyzer::rows::Partial read_partial(const std::filesystem::path& path);

}  // namespace gpumemtrace::tools
