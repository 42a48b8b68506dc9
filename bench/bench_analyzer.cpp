// SPDX-License-Identifier: Apache-2.0
// Measures the size of traces on disk and the time in which the analyzer makes reports of them.
//
//   bench_analyzer [--folder DIR] [EVENTS...]      default: 1000000 10000000 100000000
//
// Each trace is written once and read by a child process, whose processor time and peak memory are
// then the reader's or the analyzer's alone. The traces are removed at the end.

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "analyzer/analyze.hpp"
#include "analyzer/json/report_json.hpp"
#include "bench/child_usage.hpp"
#include "bench/program.hpp"
#include "bench/results.hpp"
#include "bench/synthetic_trace.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::bench {
namespace {

// The number of events of each trace.
std::vector<std::uint64_t> sizes_of(const Arguments& arguments) {
  if (arguments.others.empty()) return {1'000'000, 10'000'000, 100'000'000};
  std::vector<std::uint64_t> sizes;
  for (const std::string& size : arguments.others) sizes.push_back(std::stoull(size));
  return sizes;
}

void read_all_records(const std::filesystem::path& path) {
  const trace::TraceFile file(path);
  std::uint64_t records = 0;
  for (const trace::WriterStream& stream : file.writers()) {
    trace::WriterCursor cursor(file, stream);
    while (cursor.next() != nullptr) ++records;
  }
  if (records == 0) throw std::runtime_error("the trace has no records");
}

Row bytes_row(const std::string& name, const SyntheticTrace& trace) {
  Row row;
  row.what = "trace at rest, " + name;
  row.unit = "bytes/event";
  row.measured = static_cast<double>(trace.file_bytes) / static_cast<double>(trace.events);
  row.at_most = 8;
  row.beside = "memray 3.8 per allocation, CUPTI about 200 raw";
  row.context = {{"events", static_cast<double>(trace.events)}};
  return row;
}

Row decode_row(const std::string& name, const SyntheticTrace& trace) {
  const Usage usage = measure_child([&] { read_all_records(trace.path); });
  Row row;
  row.what = "decoding, " + name;
  row.unit = "M events/s a core";
  row.measured = static_cast<double>(trace.events) / usage.processor_s / 1e6;
  row.context = {{"peak_mib", usage.peak_mib}, {"wall_s", usage.wall_s}};
  return row;
}

void add_analysis_rows(const std::string& name, const SyntheticTrace& trace,
                       std::vector<Row>& rows) {
  const Usage usage = measure_child([&] {
    const std::string report = analyzer::to_text(analyzer::analyze({trace.path}, {}));
    if (report.empty()) throw std::runtime_error("the report is empty");
  });
  Row speed;
  speed.what = "analyzer to a full report, " + name;
  speed.unit = "M events/s a core";
  speed.measured = static_cast<double>(trace.events) / usage.processor_s / 1e6;
  speed.at_least = 20;
  speed.beside = "PyTorch's viewer stops near 0.6 M events";
  speed.context = {{"wall_s", usage.wall_s}, {"processor_s", usage.processor_s}};
  rows.push_back(speed);
  Row memory;
  memory.what = "analyzer's peak memory, " + name;
  memory.unit = "MiB";
  memory.measured = usage.peak_mib;
  memory.at_most = 1024;
  rows.push_back(memory);
}

// The cost of predicting other allocator settings: analyses of the same trace with the prediction,
// less those without it.
Row what_if_row(const std::string& name, const SyntheticTrace& trace) {
  const auto usage_of = [&](bool with_settings) {
    return measure_child([&] {
      analyzer::Options options;
      if (with_settings) options.what_if.emplace();
      const analyzer::rows::Report report = analyzer::analyze({trace.path}, options);
      if (!with_settings) return;
      const analyzer::rows::WhatIfRecorded& recorded = report.what_if.value().at(0).recorded;
      if (recorded.proven != true) {
        throw std::runtime_error(recorded.first_mismatch.value_or("nothing was replayed"));
      }
    });
  };
  const Usage without = usage_of(false);
  const Usage with = usage_of(true);
  Row row;
  row.what = "usual allocator settings, " + name;
  row.unit = "analyses";
  row.measured = with.processor_s / without.processor_s - 1;
  row.at_most = 10;
  row.context = {{"processor_s", with.processor_s - without.processor_s},
                 {"wall", with.wall_s / without.wall_s - 1},
                 {"peak_mib", with.peak_mib}};
  return row;
}

std::string millions(std::uint64_t events) {
  return events % 1'000'000 == 0 ? std::to_string(events / 1'000'000) + " M events"
                                 : std::to_string(events) + " events";
}

std::vector<Row> measure_all(const Arguments& arguments) {
  const tests::TemporaryFolder folder(arguments.folder);
  std::vector<Row> rows;
  const auto measure_one = [&](const std::string& name, Pattern pattern, std::uint64_t events) {
    const std::string title = name + ", " + millions(events);
    say("  " + title);
    const SyntheticTrace trace =
        write_synthetic_trace(folder.path() / "bench.gmt", pattern, events);
    rows.push_back(bytes_row(title, trace));
    rows.push_back(decode_row(title, trace));
    add_analysis_rows(title, trace, rows);
    std::filesystem::remove(trace.path);
  };
  const std::vector<std::uint64_t> sizes = sizes_of(arguments);
  for (const std::uint64_t events : sizes) {
    measure_one("PyTorch blocks", Pattern::kTraining, events);
  }
  const std::uint64_t most = sizes.size() > 1 ? sizes[1] : sizes[0];
  const SyntheticTrace varying =
      write_synthetic_trace(folder.path() / "bench.gmt", Pattern::kVaryingShapes, most);
  rows.push_back(what_if_row("varying shapes, " + millions(most), varying));
  std::filesystem::remove(varying.path);
  measure_one("stream-ordered calls", Pattern::kAsyncBackend, most);
  measure_one("64 threads", Pattern::kManyThreads, most);
  measure_one("copies with CUPTI's records", Pattern::kCopies, most);
  return rows;
}

}  // namespace
}  // namespace gpumemtrace::bench

int main(int count, char** values) {
  using namespace gpumemtrace::bench;
  return run_program(count, values,
                     [](const Arguments& arguments) { print_rows(measure_all(arguments)); });
}
