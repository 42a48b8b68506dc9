// SPDX-License-Identifier: Apache-2.0
// The files that inputs stand for: traces, and partial reports of traces that may be gone.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/rows/partial.hpp"

namespace gpumemtrace::tools {

// A text at the begin of every partial report.
inline constexpr std::string_view kPartialMark = "\"format\": \"gpumemtrace-partial\"";
// The end of a partial report's name, by which it is found in a folder.
inline constexpr std::string_view kPartialSuffix = ".part.json";

struct InputFiles {
  std::vector<std::filesystem::path> traces;    // sorted
  std::vector<std::filesystem::path> partials;  // sorted
};

// Partial reports are those that are named, and those in folders where traces are looked for.
// Throws as trace::find_traces() does; a folder may hold partial reports alone.
[[nodiscard]] InputFiles find_input_files(const std::vector<std::filesystem::path>& inputs);

// By its first bytes.
[[nodiscard]] bool is_partial_report(const std::filesystem::path& path);

// The bytes of a file. Throws Failure.
[[nodiscard]] std::string text_of_file(const std::filesystem::path& path);

// A trace that is named there without a folder lay beside the partial report: its path is that of
// the file. Throws Failure.
[[nodiscard]] analyzer::rows::Partial read_partial(const std::filesystem::path& path);

}  // namespace gpumemtrace::tools
