// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "analyzer/base/row_text.hpp"
#include "tools/base/text.hpp"
#include "tools/export/exports.hpp"

namespace gpumemtrace::tools {
namespace {

using analyzer::rows::Process;
using analyzer::rows::Report;

// Perfetto's trace manifest, version 1: perfetto.dev/docs/reference/perfetto-manifest.

struct Machine {
  std::string name;

  GPUMEMTRACE_FIELDS(name)
};

struct ManifestFile {
  std::string path;
  Machine machine;

  GPUMEMTRACE_FIELDS(path, machine)
};

struct ManifestBody {
  std::uint64_t version = 1;
  std::vector<ManifestFile> files;
  analyzer::rows::NamedNumbers attributes;

  GPUMEMTRACE_FIELDS(version, files, attributes)
};

struct Manifest {
  ManifestBody perfetto_manifest;

  GPUMEMTRACE_FIELDS(perfetto_manifest)
};

// The name of a process's file in the archive: "rank3.p4.pftrace".
std::string file_of(const Process& process) {
  const std::string rank = process.rank ? format_text("rank{}.", *process.rank) : "";
  return format_text("{}{}.pftrace", rank, process.id);
}

// The manifest of the archive. Each host is a machine, because processes of two hosts can have the
// same PID. All files use one clock, the time of day; attributes say when each process began, and
// the greatest error of its host's clock.
std::string manifest_of(const Report& report, std::uint64_t job_start_unix_ns) {
  ManifestBody body;
  body.attributes.emplace_back("gpumemtrace.job_start_unix_ns", job_start_unix_ns);
  for (const Process& process : report.processes) {
    const std::string file = file_of(process);
    body.files.push_back({file, {process.host.value_or("host of " + process.id)}});
    if (process.start_unix_ns) {
      body.attributes.emplace_back(format_text("gpumemtrace.{}.start_ns", file),
                                   *process.start_unix_ns - job_start_unix_ns);
    }
    if (process.time_of_day_error.max_ns) {
      body.attributes.emplace_back(format_text("gpumemtrace.{}.max_clock_error_ns", file),
                                   *process.time_of_day_error.max_ns);
    }
  }
  return analyzer::json_text(Manifest{std::move(body)}, analyzer::JsonLayout::kIndented) + "\n";
}

// The header of a member of a tar archive, as POSIX has it (pax, "ustar Interchange Format").
struct TarHeader {
  std::array<char, 100> name = {};
  std::array<char, 8> mode = {};
  std::array<char, 8> user = {};
  std::array<char, 8> group = {};
  std::array<char, 12> bytes = {};
  std::array<char, 12> modified = {};
  std::array<char, 8> checksum = {};
  char type = '0';  // the type of a regular file
  std::array<char, 100> link = {};
  std::array<char, 6> magic = {'u', 's', 't', 'a', 'r', '\0'};
  std::array<char, 2> version = {'0', '0'};
  std::array<char, 247> rest = {};
};
constexpr std::size_t kTarBlock = 512;
static_assert(sizeof(TarHeader) == kTarBlock);

template <std::size_t kBytes>
void put_octal(std::array<char, kBytes>& field, std::uint64_t value) {
  const std::string digits = format_text("{:0{}o}", value, kBytes - 1);
  std::ranges::copy(digits, field.begin());
}

void add_member(std::string& archive, const std::string& name, const std::string& content) {
  TarHeader header;
  std::ranges::copy(name, header.name.begin());
  put_octal(header.mode, 0644);
  put_octal(header.user, 0);
  put_octal(header.group, 0);
  put_octal(header.bytes, content.size());
  put_octal(header.modified, 0);
  header.checksum.fill(' ');  // the checksum counts its own field as spaces
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&header);
  put_octal(header.checksum, std::accumulate(bytes, bytes + kTarBlock, std::uint64_t{0}));
  archive.append(reinterpret_cast<const char*>(&header), kTarBlock);
  archive += content;
  archive.resize((archive.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
}

}  // namespace

std::string perfetto_archive(const Report& report, std::uint64_t job_start_unix_ns) {
  std::string archive;
  add_member(archive, "perfetto_manifest.json", manifest_of(report, job_start_unix_ns));
  for (const Process& process : report.processes) {
    add_member(archive, file_of(process), perfetto_trace(report, job_start_unix_ns, &process));
  }
  archive.append(2 * kTarBlock, '\0');
  return archive;
}

}  // namespace gpumemtrace::tools
