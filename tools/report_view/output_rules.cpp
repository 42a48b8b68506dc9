// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/output_rules.hpp"

#include <sys/stat.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>

#include "tools/base/failure.hpp"
#include "tools/base/output_file.hpp"
#include "tools/base/text.hpp"
#include "tools/report_view/input_files.hpp"
#include "trace/file_layout.hpp"
#include "trace/reader.hpp"
#include "trace/ring_layout.hpp"
#include "trace/source_files.hpp"

namespace gpumemtrace::tools {
namespace {

namespace fs = std::filesystem;

// The number of bytes at a file's start that are searched for the mark of our own files.
constexpr std::size_t kMarkSearchBytes = 4096;

[[noreturn]] void refuse_output(const fs::path& output, std::string_view why) {
  throw Failure(format_text("{} {}", output.string(), why), ExitCode::kUsage);
}

std::optional<struct stat> status_of(const fs::path& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

std::string begin_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(kMarkSearchBytes, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(file.gcount()));
  return begin;
}

bool is_trace(const std::string& begin) {
  std::uint64_t magic = 0;
  if (begin.size() < sizeof magic) return false;
  std::memcpy(&magic, begin.data(), sizeof magic);
  return magic == trace::kFileMagic || magic == trace::kRingMagic;
}

// The inputs in a folder; empty if the folder cannot be read, an error that its reader reports.
InputFiles files_in(const fs::path& folder) {
  try {
    return find_input_files({folder});
  } catch (const trace::TraceError&) {
    return {};
  }
}

}  // namespace

void OutputRules::reads(const fs::path& input) {
  const std::optional<struct stat> status = status_of(input);
  if (!status) return;
  if (S_ISDIR(status->st_mode)) {
    const InputFiles files = files_in(input);
    reads(files.traces);
    reads(files.partials);
    return;
  }
  read_.emplace(status->st_dev, status->st_ino);
  for (const fs::path& name : trace::ring_names(input)) {
    const auto ring = status_of(name);
    if (ring) read_.emplace(ring->st_dev, ring->st_ino);
  }
}

void OutputRules::reads(const std::vector<fs::path>& inputs) {
  for (const fs::path& input : inputs) reads(input);
}

void OutputRules::require_writable(const fs::path& output, std::string_view own_mark) {
  if (is_stdout(output)) return;
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(fs::absolute(output, ignored), ignored);
  const std::optional<struct stat> status = status_of(output);
  // Several outputs may go to one device or pipe, such as /dev/stderr.
  if (status && !S_ISREG(status->st_mode)) return;
  if (!written_.insert(whole).second)
    refuse_output(output, "is to hold two outputs; name another file");
  if (!status) return;
  if (read_.contains({status->st_dev, status->st_ino})) {
    refuse_output(output, "is read by this command, which would overwrite it; name another file");
  }
  const std::string begin = begin_of(output);
  if (is_trace(begin))
    refuse_output(output, "is a trace, which is never overwritten; name another file");
  const bool is_own = !own_mark.empty() && begin.find(own_mark) != std::string::npos;
  if (force_ || is_own || status->st_size == 0 || fs::is_symlink(output, ignored)) return;
  refuse_output(output,
                "is there already and holds something else; name another file, or add --force");
}

}  // namespace gpumemtrace::tools
