// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/job_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "analyzer/base/parallel.hpp"
#include "analyzer/base/trace_id.hpp"
#include "tools/base/failure.hpp"
#include "tools/report_view/input_files.hpp"
#include "tools/report_view/partial_file.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

// The id of a trace; empty if the file cannot be read, which the analysis of that file reports.
std::string id_of(const fs::path& trace) {
  try {
    return analyzer::trace_id_text(trace::TraceFile(trace).header().id);
  } catch (const trace::TraceError&) {
    return {};
  }
}

InputFiles find_files(const std::vector<fs::path>& inputs) {
  try {
    return find_input_files(inputs);
  } catch (const trace::TraceError& error) {
    throw Failure(error.what());
  }
}

// A key that is equal for a trace and its partial report, also if they were given by different
// paths of the file, or if the file was moved.
std::pair<fs::path, std::string> moved_key(const fs::path& path, const std::string& id) {
  return {id.empty() ? path : path.filename(), id};
}

// Removes partial reports whose traces are all inputs themselves.
void drop_needless(JobParts& parts) {
  std::set<std::pair<fs::path, std::string>> at_hand;
  for (const InputTrace& trace : parts.traces) at_hand.insert(moved_key(trace.path, trace.id));
  std::erase_if(parts.partials, [&](const analyzer::rows::Partial& partial) {
    const auto is_at_hand = [&](const analyzer::rows::PartialProcess& process) {
      return at_hand.contains(moved_key(process.path, process.trace));
    };
    return !partial.processes.empty() && partial.unreadable_traces.empty() &&
           std::ranges::all_of(partial.processes, is_at_hand);
  });
}

}  // namespace

JobParts read_parts(const std::vector<fs::path>& inputs) {
  const InputFiles files = find_files(inputs);
  const std::set<fs::path> named(inputs.begin(), inputs.end());
  const bool has_partials = !files.partials.empty();
  JobParts parts;
  for (const fs::path& trace : files.traces) {
    parts.traces.push_back({trace, has_partials ? id_of(trace) : "", named.contains(trace)});
  }
  parts.partials.resize(files.partials.size());
  analyzer::in_parallel(files.partials.size(), [&](std::size_t i) {
    parts.partials[i] = read_partial(files.partials[i]);
  });
  drop_needless(parts);
  return parts;
}

std::vector<fs::path> paths_of(const std::vector<InputTrace>& traces) {
  std::vector<fs::path> paths;
  for (const InputTrace& trace : traces) paths.push_back(trace.path);
  return paths;
}

std::vector<InputTrace> traces_of(const JobParts& parts, const std::vector<fs::path>& inputs) {
  const std::set<fs::path> named(inputs.begin(), inputs.end());
  std::vector<InputTrace> traces = parts.traces;
  for (const auto& partial : parts.partials) {
    for (const auto& process : partial.processes) {
      traces.push_back({process.path, process.trace, named.contains(partial.source)});
    }
  }
  std::ranges::stable_sort(traces, {}, &InputTrace::key);
  const auto repeated = std::ranges::unique(traces, {}, &InputTrace::key);
  traces.erase(repeated.begin(), repeated.end());
  return traces;
}

void leave_out(const StaleTraces& stale, JobParts& parts) {
  std::erase_if(parts.traces,
                [&](const InputTrace& trace) { return stale.keys.contains(trace.key()); });
  std::erase_if(parts.partials, [&](const analyzer::rows::Partial& partial) {
    const auto count = std::ranges::count_if(partial.processes, [&](const auto& process) {
      return stale.keys.contains({process.path, process.trace});
    });
    if (count != 0 && count != std::ssize(partial.processes)) {
      throw Failure(partial.source +
                    " has traces of an earlier run and of the newest; give --all-runs");
    }
    return count != 0;
  });
}

}  // namespace gpumemtrace::tools
