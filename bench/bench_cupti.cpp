// SPDX-License-Identifier: Apache-2.0
// Measures the cost of one record of CUPTI's after CUPTI has completed its buffer: the buffer is
// passed to the program's own profiler, and the record is read and handed to the recorder. The
// bench replaces CUPTI, so that CUPTI's own cost is not included.
//
//   bench_cupti [--rounds N]

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "bench/program.hpp"
#include "bench/results.hpp"
#include "bench/statistics.hpp"
#include "bench/stopwatch.hpp"
#include "cupti/collection.hpp"
#include "tests/support/cupti_records.hpp"

namespace gpumemtrace::bench {
namespace {

using namespace cupti;

RequestFunction* request = nullptr;
CompleteFunction* complete = nullptr;
std::uint64_t clock_now = 1;

Functions played_functions() {
  Functions made;
  made.cuptiActivityRegisterCallbacks = [](RequestFunction* ask, CompleteFunction* done) -> Result {
    request = ask;
    complete = done;
    return kSuccess;
  };
  made.cuptiActivityEnable = [](Kind) -> Result { return kSuccess; };
  made.cuptiActivityDisable = [](Kind) -> Result { return kSuccess; };
  made.cuptiActivityEnableDriverApi = [](CallbackId, std::uint8_t) -> Result { return kSuccess; };
  made.cuptiActivityEnableRuntimeApi = [](CallbackId, std::uint8_t) -> Result { return kSuccess; };
  made.cuptiActivityFlushAll = [](std::uint32_t) -> Result { return kSuccess; };
  made.cuptiGetVersion = [](std::uint32_t* version) -> Result {
    *version = 130001;
    return kSuccess;
  };
  made.cuptiGetTimestamp = [](std::uint64_t* timestamp) -> Result {
    *timestamp = clock_now++;
    return kSuccess;
  };
  made.cuptiActivityGetNextRecord = test_support::next_record;
  return made;
}

// Replaces the recorder: each record is copied to the place of the record before.
std::uint8_t written[512];
constexpr Recorder kRecorder = {
    [] { return static_cast<std::uint64_t>(ticks()); },
    [](const void* record, std::size_t bytes, const char*, std::size_t) {
      std::memcpy(written, record, bytes);
      return true;
    },
    [] {}};

// Replaces the program's profiler, which always gives the same buffer and does nothing with it.
std::uint8_t program_buffer[Buffers::kBytes];
void program_request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = program_buffer;
  *bytes = sizeof program_buffer;
  *most_records = 0;
}
void program_complete(Context, std::uint32_t, std::uint8_t*, std::size_t, std::size_t) {}

// One buffer full of copy records, each with the record of its call.
struct Content {
  std::vector<std::uint8_t> bytes;
  std::size_t records = 0;
};
Content make_content() {
  Content content;
  for (std::uint32_t i = 1; content.bytes.size() + 200 < Buffers::kBytes; ++i) {
    for (const auto& record : {test_support::call_record(Kind::kRuntime, i, 1000, 31),
                               test_support::copy_record(i, 1001, 64)}) {
      content.bytes.insert(content.bytes.end(), record.bytes().begin(), record.bytes().end());
      ++content.records;
    }
  }
  return content;
}

struct Times {
  std::vector<double> served;
  std::vector<double> read;
};

Times measure(const Content& content, std::size_t rounds) {
  Times times;
  const auto records = static_cast<double>(content.records);
  for (std::size_t round = 0; round < rounds; ++round) {
    std::uint8_t* buffer = nullptr;
    std::size_t bytes = 0;
    std::size_t most_records = 0;
    request(&buffer, &bytes, &most_records);
    std::memcpy(buffer, content.bytes.data(), content.bytes.size());
    const std::uint64_t begin = ticks();
    complete(nullptr, 0, buffer, bytes, content.bytes.size());
    const std::uint64_t served = ticks();
    the_collection().read_one(&kRecorder);
    times.served.push_back(static_cast<double>(served - begin) / records);
    times.read.push_back(static_cast<double>(ticks() - served) / records);
  }
  return times;
}

Row row(const std::string& what, const std::vector<double>& times, double ns_per_tick) {
  Row made;
  made.what = what;
  made.unit = "ns";
  made.measured = median(times) * ns_per_tick;
  made.beside = "CUPTI itself 600 ns a copy, measured elsewhere";
  return made;
}

std::vector<Row> measure_all(std::size_t rounds) {
  static Library library;
  library.found(played_functions(), 0, the_collection());
  the_collection().start(library, Plan{}, kRecorder);
  the_collection().set_reading(true);
  const double ns_per_tick = measure_ns_per_tick();
  const Content content = make_content();
  say("  without a profiler of the program's");
  const Times alone = measure(content, rounds);
  say("  with one");
  library.register_callbacks(program_request, program_complete);
  library.enable(Kind::kMemcpy);
  library.enable(Kind::kRuntime);
  const Times shared = measure(content, rounds);
  return {
      row("a record of CUPTI's, on CUPTI's thread", alone.served, ns_per_tick),
      row("the same, with a profiler of the program's that gets it", shared.served, ns_per_tick),
      row("the same record, on the background thread", alone.read, ns_per_tick)};
}

}  // namespace
}  // namespace gpumemtrace::bench

int main(int count, char** values) {
  using namespace gpumemtrace::bench;
  return run_program(count, values,
                     [](const Arguments& arguments) { print_rows(measure_all(arguments.rounds)); });
}
