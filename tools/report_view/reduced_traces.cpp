// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/reduced_traces.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <exception>
#include <map>
#include <utility>

#include "analyzer/base/machine.hpp"
#include "analyzer/base/parallel.hpp"
#include "analyzer/json/report_json.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/input_file.hpp"
#include "tools/base/messages.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/sizes.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/partial_file.hpp"
#include "trace/own_descriptor.hpp"
#include "trace/reader.hpp"
#include "trace/source_files.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;
using analyzer::rows::Partial;

// Opens and locks a trace, after waiting for other processes that reduce it. The result is not open
// if one of them has deleted the trace.
trace::OwnDescriptor lock_trace(const fs::path& path) {
  trace::OwnDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open() && errno != ENOENT) throw Failure("it cannot be opened");
  // Some network file systems have no flock(); then the trace is reduced without a lock.
  while (file.is_open() && flock(file.number(), LOCK_EX) != 0 && errno == EINTR) continue;
  struct stat status = {};
  const bool is_there = file.is_open() && fstat(file.number(), &status) == 0 && status.st_nlink > 0;
  return is_there ? std::move(file) : trace::OwnDescriptor();
}

// Throws Failure for a trace that its process may still write. If the trace has a ring and no
// recorded end, the process was killed, or still runs on the machine that recorded the trace.
void require_ended(const fs::path& path) {
  const trace::TraceFile file(path);
  if (file.still_running()) throw Failure("its process still runs");
  const bool is_known = !file.has_ring() || file.exit_seen() || file.ended_by_signal() != 0;
  if (!is_known &&
      recorded_text(path, trace::TextKey::kBootId) != analyzer::boot_id_of_this_machine()) {
    throw Failure("its process may still run on the machine that recorded it");
  }
}

// True if the file contains `bytes`, and the partial report read from them serializes to the same
// bytes.
bool has_partial_bytes(const fs::path& path, const std::string& bytes) {
  try {
    std::string found = text_of_file(path);
    if (found != bytes) return false;
    const std::string text = unpacked_partial(std::move(found));
    return partial_file_bytes(analyzer::partial_of_text(text)) == bytes;
  } catch (const std::exception&) {
    return false;
  }
}

// The name for the trace's partial report: the first that no file has, or whose file already
// contains exactly `bytes`.
fs::path partial_name(const fs::path& trace, const std::string& bytes) {
  for (std::size_t number = 1;; ++number) {
    fs::path name = trace;
    if (number > 1) name += format_text(".{}", number);
    name += kPartialSuffix;
    std::error_code ignored;
    if (!fs::exists(fs::symlink_status(name, ignored)) || has_partial_bytes(name, bytes))
      return name;
  }
}

std::uint64_t bytes_in(const fs::path& file) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(file, error);
  return error ? 0 : bytes;
}

void delete_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  if (error) throw Failure(format_text("{} cannot be deleted: {}", file.string(), error.message()));
}

struct ReducedTrace {
  fs::path partial;  // empty: another process has just reduced the trace
  std::uint64_t trace_bytes = 0;
  std::uint64_t partial_bytes = 0;
};

// Writes the partial report of one trace, and then deletes the trace if `deletes` is set. Throws
// Failure with the reason for which the trace stays.
ReducedTrace reduce_trace(const fs::path& trace, const LoadOptions& load, bool deletes) {
  const trace::OwnDescriptor lock = lock_trace(trace);
  if (!lock.is_open()) return {};
  require_ended(trace);
  Partial partial = load_traces_partially({trace}, load);
  if (!is_complete(partial.report)) {
    throw Failure("it misses events: " + missing_in_short(partial.report));
  }
  partial.processes.front().path = trace.filename().string();
  const std::string bytes = partial_file_bytes(partial);
  ReducedTrace reduced{partial_name(trace, bytes), bytes_in(trace), bytes.size()};
  const std::vector<fs::path> rings = trace::ring_names(trace);
  for (const fs::path& ring : rings) reduced.trace_bytes += bytes_in(ring);
  write_private_durably(reduced.partial, bytes);
  if (!has_partial_bytes(reduced.partial, bytes)) {
    delete_file(reduced.partial);
    throw Failure(reduced.partial.string() + " does not hold what was written to it");
  }
  if (deletes) {
    delete_file(trace);
    for (const fs::path& ring : rings) delete_file(ring);
  }
  return reduced;
}

}  // namespace

std::string recorded_text(const fs::path& trace, trace::TextKey key) {
  const trace::TraceFile file(trace);
  for (const trace::WriterStream& stream : file.writers()) {
    trace::WriterCursor cursor(file, stream);
    cursor.look_for({trace::RecordKind::kText});
    while (const trace::RecordHeader* record = cursor.next()) {
      if (record->kind == trace::RecordKind::kText && trace::as<trace::Text>(*record).key == key) {
        return std::string(trace::tail_of(*record));
      }
    }
  }
  return {};
}

Reduction reduce_traces(const std::vector<fs::path>& traces, LoadOptions load, bool deletes) {
  load.allows_progress_line = false;
  std::vector<ReducedTrace> outcomes(traces.size());
  std::vector<std::string> reasons(traces.size());
  analyzer::in_parallel(traces.size(), [&](std::size_t i) {
    try {
      outcomes[i] = reduce_trace(traces[i], load, deletes);
    } catch (const std::exception& failure) {
      reasons[i] = failure.what();
    }
  });
  Reduction reduction;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    if (!reasons[i].empty()) {
      reduction.kept.push_back({traces[i], reasons[i]});
    } else if (!outcomes[i].partial.empty()) {
      reduction.partials.push_back(outcomes[i].partial);
      reduction.trace_bytes += outcomes[i].trace_bytes;
      reduction.partial_bytes += outcomes[i].partial_bytes;
    }
  }
  return reduction;
}

void say_reduced(const Reduction& reduction, bool deletes) {
  if (reduction.partials.empty()) return;
  const bool is_one = reduction.partials.size() == 1;
  say(format_text("reduced {} ({}) to {} ({}){}",
                  count_of(reduction.partials.size(), "trace", "traces"),
                  size_text(reduction.trace_bytes),
                  is_one ? reduction.partials.front().filename().string() : "partial reports",
                  size_text(reduction.partial_bytes),
                  !deletes ? ""
                  : is_one ? " and deleted it"
                           : " and deleted them"));
}

void warn_of_kept(const Reduction& reduction) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const KeptTrace& trace : reduction.kept) {
    by_reason[trace.reason].push_back(trace.path.string());
  }
  constexpr std::size_t kMostNamed = 4;
  for (auto& [reason, paths] : by_reason) {
    const std::size_t others = paths.size() - std::min(paths.size(), kMostNamed);
    paths.resize(paths.size() - others);
    warn(format_text("kept {}{}: {}", joined(paths),
                     others == 0 ? "" : format_text(" and {} more", others), reason));
  }
}

}  // namespace gpumemtrace::tools
