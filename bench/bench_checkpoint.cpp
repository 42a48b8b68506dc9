// SPDX-License-Identifier: Apache-2.0
// Measures the cost of compacting the older half of a trace into a checkpoint.
//
//   bench_checkpoint [--folder DIR] [EVENTS...]      default: 10000000
//
// A trace of PyTorch blocks is written once as the recorder writes it. A child process compacts it,
// whose processor time and peak memory are then the checkpoint's alone.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/child_usage.hpp"
#include "bench/program.hpp"
#include "bench/results.hpp"
#include "bench/synthetic_trace.hpp"
#include "preload/checkpoint/checkpoint.hpp"
#include "preload/trace_file/trace_writer.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::bench {
namespace {

// Reads the records of one writer of the trace piece by piece (WriterCursor::next_piece()).
struct Pieces {
  Pieces(const trace::TraceFile& file, const trace::WriterStream& stream)
      : writer(stream.writer), cursor(file, stream) {
    load();
  }
  void load() {
    has_piece = cursor.next_piece(image);
    ++sequence;
  }
  [[nodiscard]] std::uint64_t time() const {
    return reinterpret_cast<const trace::RecordHeader*>(image.words.data())->time;
  }

  std::uint32_t writer;
  trace::WriterCursor cursor;
  trace::Image image;
  bool has_piece = false;
  std::uint32_t sequence = 0;
};

// Appends all pieces of the trace file `path` to `writer`, in the order of their times.
void copy_records(const std::filesystem::path& path, preload::TraceWriter& writer) {
  const trace::TraceFile file(path);
  std::vector<Pieces> streams;
  streams.reserve(file.writers().size());
  for (const trace::WriterStream& stream : file.writers()) streams.emplace_back(file, stream);
  for (;;) {
    Pieces* earliest = nullptr;
    for (Pieces& stream : streams) {
      if (!stream.has_piece) continue;
      if (earliest == nullptr || stream.time() < earliest->time()) earliest = &stream;
    }
    if (earliest == nullptr) return;
    const std::span<const std::byte> image(earliest->image.data(), earliest->image.bytes);
    if (writer.append(earliest->writer, earliest->sequence, 0, image) != 0) {
      throw std::runtime_error("the trace cannot be written");
    }
    earliest->load();
  }
}

void compact_older_half(const std::filesystem::path& path, preload::TraceWriter& writer) {
  preload::CheckpointRequest request;
  request.path = path.c_str();
  request.keep_bytes = writer.bytes() / 2;
  request.limit_ticks = ~std::uint64_t{0};
  request.service_requests = [](void*) { return true; };
  int error = 0;
  if (preload::make_checkpoint(writer, request, error) != preload::CheckpointResult::kDone) {
    throw std::runtime_error("the checkpoint was not made");
  }
}

void add_rows(std::uint64_t events, const std::filesystem::path& folder, std::vector<Row>& rows) {
  const std::filesystem::path path = folder / "trace.gmt";
  preload::TraceWriter writer;
  if (writer.create(path.c_str(), {1, 2}) != 0) {
    throw std::runtime_error("there is no room for the trace");
  }
  const SyntheticTrace trace =
      write_synthetic_trace(folder / "synthetic.gmt", Pattern::kTraining, events);
  copy_records(trace.path, writer);
  std::filesystem::remove(trace.path);
  const double whole_bytes = static_cast<double>(writer.bytes());
  const Usage usage = measure_child([&] { compact_older_half(path, writer); });
  const std::string title = std::to_string(events) + " PyTorch blocks";
  Row speed;
  speed.what = "compacting the older half of " + title;
  speed.unit = "M records/s a core";
  speed.measured = static_cast<double>(trace.events) / 2 / usage.processor_s / 1e6;
  speed.context = {{"wall_s", usage.wall_s},
                   {"processor_s", usage.processor_s},
                   {"trace_bytes", whole_bytes},
                   {"left_bytes", static_cast<double>(std::filesystem::file_size(path))}};
  Row memory;
  memory.what = "memory of a checkpoint, " + title;
  memory.unit = "MiB";
  memory.measured = usage.peak_mib;
  rows.push_back(speed);
  rows.push_back(memory);
  std::filesystem::remove(path);
}

std::vector<Row> measure_all(const Arguments& arguments) {
  const tests::TemporaryFolder folder(arguments.folder);
  std::vector<Row> rows;
  std::vector<std::string> sizes = arguments.others;
  if (sizes.empty()) sizes = {"10000000"};
  for (const std::string& size : sizes) {
    say("  " + size + " events");
    add_rows(std::stoull(size), folder.path(), rows);
  }
  return rows;
}

}  // namespace
}  // namespace gpumemtrace::bench

int main(int count, char** values) {
  using namespace gpumemtrace::bench;
  return run_program(count, values,
                     [](const Arguments& arguments) { print_rows(measure_all(arguments)); });
}
