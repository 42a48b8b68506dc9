// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "analyzer/base/clock.hpp"
#include "analyzer/snapshot/open_trace.hpp"
#include "tools/base/text.hpp"
#include "tools/commands/command.hpp"
#include "tools/traces/record_text.hpp"
#include "trace/reader.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr const char* kDumpFooter =
    R"TEXT(One record a line, thread by thread, each thread's records in the order in which it made
them: time since the first record, kind, then every field as name=value.

Examples:
  gpumemtrace dump job.gmt | less
  gpumemtrace dump job.gmt --kind allocation --kind free

Exit codes: 0 done, 1 the trace cannot be read, 2 usage.)TEXT";

struct DumpOptions {
  std::filesystem::path trace;
  std::vector<std::string> kinds;  // kinds of records to print; empty: all
};

// Reads the function names and clock records of all threads before any record is printed, because a
// record may need one that lies in another thread's stream.
RecordDictionary read_dictionary(const trace::TraceFile& file) {
  RecordDictionary dictionary;
  std::vector<analyzer::ClockPoint> calibrations;
  std::uint64_t first_time = std::numeric_limits<std::uint64_t>::max();
  for (const trace::WriterStream& stream : file.writers()) {
    trace::WriterCursor cursor(file, stream);
    while (const trace::RecordHeader* record = cursor.next()) {
      first_time = std::min(first_time, record->time);
      if (record->kind == trace::RecordKind::kApiName) {
        const std::string_view names = trace::tail_of(*record);
        dictionary.api_names[static_cast<std::uint16_t>(trace::as<trace::ApiName>(*record).id)] =
            names.substr(0, names.find('\0'));
      } else if (record->kind == trace::RecordKind::kClock) {
        const auto& clock = trace::as<trace::Clock>(*record);
        calibrations.push_back(
            {record->time, clock.monotonic_ns, clock.realtime_ns, clock.uncertainty_ticks});
      }
    }
  }
  dictionary.clock = analyzer::Clock(std::move(calibrations), file.header().ticks_per_second);
  dictionary.clock.set_origin(dictionary.clock.to_monotonic_ns(first_time));
  return dictionary;
}

bool is_wanted_kind(const trace::RecordHeader& record, const std::vector<std::string>& kinds) {
  if (kinds.empty()) return true;
  const trace::KindInfo* const info = trace::find_kind(record.kind);
  return info != nullptr && std::ranges::find(kinds, info->name) != kinds.end();
}

int dump(const DumpOptions& options) {
  const std::unique_ptr<trace::TraceFile> opened = analyzer::snapshot::open_trace(options.trace);
  const trace::TraceFile& file = *opened;
  const RecordDictionary dictionary = read_dictionary(file);
  for (const trace::WriterStream& stream : file.writers()) {
    print_text(stdout, "# writer {}\n", stream.writer);
    trace::WriterCursor cursor(file, stream);
    while (const trace::RecordHeader* record = cursor.next()) {
      if (is_wanted_kind(*record, options.kinds)) {
        print_text(stdout, "{}\n", record_text(*record, dictionary));
      }
    }
  }
  return 0;
}

}  // namespace

Action define_dump(CommandLine& line, const std::vector<std::string>&) {
  line.footer(kDumpFooter);
  auto options = std::make_shared<DumpOptions>();
  line.option("TRACE", options->trace, "The trace, NAME.gmt; its ring is found beside it.")
      .required()
      .value_name("");
  std::vector<std::string> kinds;
  for (const trace::KindInfo& info : trace::kKinds) kinds.emplace_back(info.name);
  line.option("--kind", options->kinds,
              "Only records of this kind; may be given several times.\nKinds: " + joined(kinds))
      .value_name("KIND")
      .one_of(kinds);
  return [options] { return dump(*options); };
}

}  // namespace gpumemtrace::tools
