// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/input_files.hpp"

#include <algorithm>
#include <set>

#include "tools/report_view/partial_file.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

// The partial reports in `folder` and in its direct subfolders: the folders that find_traces()
// searches for traces.
std::vector<fs::path> partials_in(const fs::path& folder) {
  constexpr auto kOptions = fs::directory_options::skip_permission_denied |
                            fs::directory_options::follow_directory_symlink;
  std::vector<fs::path> found;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, kOptions, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (entry.depth() > 0) entry.disable_recursion_pending();
    std::error_code ignored;
    if (has_partial_name(entry->path()) && entry->is_regular_file(ignored)) {
      found.push_back(entry->path());
    }
  }
  return found;
}

// False for a PyTorch snapshot beside partial reports that replaced traces: in most cases one of
// these reports covers the snapshot's process, which would count twice.
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

}  // namespace gpumemtrace::tools
