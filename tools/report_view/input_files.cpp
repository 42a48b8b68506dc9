// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/input_files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "analyzer/base/input_error.hpp"
#include "analyzer/json/report_json.hpp"
#include "analyzer/json/row_values.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;
using analyzer::rows::Partial;

// In the folder and in those in it, as find_traces() looks for traces.
std::vector<fs::path> partials_in(const fs::path& folder) {
  constexpr auto kOptions = fs::directory_options::skip_permission_denied |
                            fs::directory_options::follow_directory_symlink;
  std::vector<fs::path> found;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, kOptions, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry.depth() > 0) entry.disable_recursion_pending();
    std::error_code ignored;
    if (entry->path().string().ends_with(kPartialSuffix) && entry->is_regular_file(ignored)) {
      found.push_back(entry->path());
    }
  }
  return found;
}

// False for a snapshot of PyTorch in a folder whose traces were reduced: it is mostly of the same
// process as one of them.
bool counts_beside(const fs::path& trace, const std::vector<fs::path>& partials) {
  return trace.extension() != ".pickle" ||
         std::ranges::none_of(partials, [](const fs::path& partial) {
           return partial.filename().string().find(".gmt.") != std::string::npos;
         });
}

}  // namespace

InputFiles find_input_files(const std::vector<fs::path>& inputs) {
  std::set<fs::path> traces;
  std::set<fs::path> partials;
  for (const fs::path& input : inputs) {
    if (is_partial_report(input)) {
      partials.insert(input);
      continue;
    }
    const std::vector<fs::path> found = partials_in(input);
    partials.insert(found.begin(), found.end());
    try {
      for (const fs::path& trace : trace::find_traces({input})) {
        if (counts_beside(trace, found)) traces.insert(trace);
      }
    } catch (const trace::NoTrace&) {
      if (found.empty()) throw;
    }
  }
  return {{traces.begin(), traces.end()}, {partials.begin(), partials.end()}};
}

bool is_partial_report(const fs::path& path) {
  constexpr std::size_t kMarkSearchBytes = 256;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string begin(kMarkSearchBytes, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  return begin.find(kPartialMark) != std::string::npos;
}

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path);
  if (!file) {
    throw Failure(format_text("cannot open {}: {}", path.string(), std::strerror(errno)));
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Partial read_partial(const fs::path& path) {
  const std::string text = text_of_file(path);
  try {
    const auto mark = analyzer::row_of_text<analyzer::FileMark>(text, "partial report");
    if (mark.format != Partial::kFormat || mark.version != Partial::kVersion) {
      throw Failure(
          format_text("{} is no partial report of version {}; make one with `gpumemtrace analyze "
                      "--partial TRACE -o {}`",
                      path.string(), Partial::kVersion, path.filename().string()));
    }
    Partial partial = analyzer::partial_of_text(text);
    partial.source = path.string();
    for (analyzer::rows::PartialProcess& process : partial.processes) {
      const fs::path trace = process.path;
      if (!trace.has_parent_path()) process.path = (path.parent_path() / trace).string();
    }
    return partial;
  } catch (const analyzer::InputError& error) {
    throw Failure(
        format_text("{} is no complete partial report ({}); make it again with "
                    "`gpumemtrace analyze --partial`",
                    path.string(), error.what()));
  }
}

}  // namespace gpumemtrace::tools
