// SPDX-License-Identifier: Apache-2.0
// Replaces traces by partial reports, which are much smaller.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/report_view/report_input.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::tools {

// The text of the trace's first Text record with the key; empty if there is none. Throws
// trace::TraceError.
[[nodiscard]] std::string recorded_text(const std::filesystem::path& trace, trace::TextKey key);

struct KeptTrace {
  std::filesystem::path path;
  std::string reason;  // why the trace is not reduced, or was not deleted
};

struct Reduction {
  std::vector<std::filesystem::path> partials;  // partial reports, in the order of their traces
  std::uint64_t trace_bytes = 0;                // size of the reduced traces, with their rings
  std::uint64_t partial_bytes = 0;
  std::vector<KeptTrace> kept;
};

// Writes the partial report of each trace beside it: NAME.gmt.part.json.zst. If that file exists
// with other content it stays, and NAME.gmt.2.part.json.zst is written instead.
//
// - A trace that its process may still write, or that misses events, is kept.
// - A trace and its ring are deleted only if `deletes` is set, and only after the partial report
//   was written, synced, read back from the file and found to be the same.
// - Several processes may reduce the same traces: each waits for the others. A trace that another
//   process has deleted is in neither list of the result.
[[nodiscard]] Reduction reduce_traces(const std::vector<std::filesystem::path>& traces,
                                      LoadOptions load, bool deletes);

// Says on stderr how much was reduced.
void say_reduced(const Reduction& reduction, bool deletes);
// Says on stderr which traces were kept, and why.
void warn_of_kept(const Reduction& reduction);

}  // namespace gpumemtrace::tools
