// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/trace_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

#include "analyzer/snapshot/open_trace.hpp"
#include "trace/file_layout.hpp"
#include "trace/own_descriptor.hpp"
#include "trace/reader.hpp"
#include "trace/ring_layout.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTraceSuffix = ".gmt";
constexpr std::string_view kDefaultNameStart = "gpumemtrace-";

// The folder and the file names that an output pattern can stand for.
struct SearchSpace {
  fs::path folder;
  std::string name_start;    // common start of every name in `folder`
  std::ptrdiff_t depth = 0;  // levels of folders below `folder`
};

// Only the pattern's text before its first '%' is fixed: it gives the folder and the start of the
// names.
SearchSpace search_space(const std::string& pattern) {
  if (pattern.empty()) return {".", std::string(kDefaultNameStart), 1};
  std::string fixed = pattern.substr(0, pattern.find('%'));
  // If NAME.gmt exists, the recording library writes NAME.2.gmt, so that ".gmt" is no fixed part.
  if (fixed.ends_with(kTraceSuffix)) fixed.resize(fixed.size() - kTraceSuffix.size());
  const fs::path fixed_path(fixed);
  return {
      fixed_path.has_parent_path() ? fixed_path.parent_path() : ".", fixed_path.filename().string(),
      std::count(pattern.begin() + static_cast<std::ptrdiff_t>(fixed.size()), pattern.end(), '/')};
}

std::optional<trace::FileHeader> read_header(const fs::path& path) {
  trace::FileHeader header;
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char*>(&header), sizeof(header))) return std::nullopt;
  if (header.magic != trace::kFileMagic) return std::nullopt;
  return header;
}

}  // namespace

std::vector<WrittenTrace> find_written_traces(const std::string& pattern,
                                              std::uint64_t since_realtime_ns) {
  const SearchSpace space = search_space(pattern);
  std::vector<WrittenTrace> found;
  std::error_code error;
  fs::recursive_directory_iterator entries(space.folder,
                                           fs::directory_options::skip_permission_denied, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    const fs::path& path = entries->path();
    const bool possible =
        entries.depth() > 0 || path.filename().string().starts_with(space.name_start);
    if (!possible || entries.depth() >= space.depth) entries.disable_recursion_pending();
    std::error_code ignored;
    if (!possible || !entries->is_regular_file(ignored)) continue;
    const std::optional<trace::FileHeader> header = read_header(path);
    if (!header || header->start_realtime_ns < since_realtime_ns) continue;
    found.push_back(
        {path.lexically_normal(), header->process_id, header->start_realtime_ns, bytes_of(path)});
  }
  std::ranges::sort(found, {}, &WrittenTrace::path);
  return found;
}

fs::path ring_of(const fs::path& trace) { return fs::path(trace.string() + ".ring"); }

std::uint64_t bytes_of(const fs::path& trace) {
  std::uint64_t total = 0;
  for (const fs::path& part : {trace, ring_of(trace)}) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(part, error);
    if (!error) total += bytes;
  }
  return total;
}

namespace {

// The last trace of a process. After exec, the same PID has a trace for each program; the last one
// saw the end of the process.
const WrittenTrace* last_trace_of(const std::vector<WrittenTrace>& traces, pid_t process) {
  const WrittenTrace* last = nullptr;
  for (const WrittenTrace& trace : traces) {
    if (trace.process_id != static_cast<std::uint32_t>(process)) continue;
    if (last == nullptr || trace.start_realtime_ns > last->start_realtime_ns) last = &trace;
  }
  return last;
}

}  // namespace

void record_end(const std::vector<WrittenTrace>& traces, const ChildEnd& end) {
  const WrittenTrace* const trace = last_trace_of(traces, end.process_id);
  if (trace == nullptr) return;
  const trace::OwnDescriptor ring(open(ring_of(trace->path).c_str(), O_RDWR | O_CLOEXEC));
  trace::RingHeader header;
  if (!ring.read_at(0, &header, sizeof header) || header.magic != trace::kRingMagic ||
      header.process_id != trace->process_id) {
    return;
  }
  const std::uint32_t ended_by =
      end.signal == 0 ? trace::kEndedByExit : static_cast<std::uint32_t>(end.signal);
  [[maybe_unused]] const ssize_t written = pwrite(ring.number(), &ended_by, sizeof ended_by,
                                                  offsetof(trace::RingHeader, ended_by_signal));
}

void remove_spent_rings(std::vector<WrittenTrace>& traces) {
  for (WrittenTrace& trace : traces) {
    try {
      if (!analyzer::snapshot::open_trace(trace.path)->ring_is_spent()) continue;
    } catch (const trace::TraceError&) {
      continue;  // the analysis of the trace reports the error
    }
    std::error_code ignored;
    std::filesystem::remove(ring_of(trace.path), ignored);
    trace.bytes = bytes_of(trace.path);
  }
}

}  // namespace gpumemtrace::tools
