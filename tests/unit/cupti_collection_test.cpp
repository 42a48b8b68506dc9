// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "cupti/collection.hpp"
#include "tests/catch.hpp"
#include "tests/support/played_cupti.hpp"

namespace gpumemtrace::cupti::cupti_collection_test {
namespace {

using namespace stage;

TEST_CASE("a collection without a program's profiler takes what CUPTI completes", "[unit]") {
  Library& library = fresh_library();
  start(library);
  complete_buffer({copy_record(1, now(), 64), call_record(Kind::kDriver, 1, now(), 276)});
  read_all();
  CHECK(count_written(trace::RecordKind::kActivityCopy) == 1);
  CHECK(count_written(trace::RecordKind::kActivityCall) == 1);
  the_collection().write_notes(kRecorder);
  CHECK(last_written<trace::ActivityState>().mode == trace::ActivityMode::kCopies);
}

TEST_CASE("before anybody reads, completed buffers are not kept", "[unit]") {
  Library& library = fresh_library();
  REQUIRE(the_collection().start(library, Plan{}, kRecorder));
  for (std::size_t i = 0; i < 2 * Buffers::kCount; ++i) complete_buffer({copy_record(1, 1, 1)});
  CHECK_FALSE(the_collection().read_one(&kRecorder));
}

// A late start: CUPTI's buffers are being read, and other threads of the program copy.
TEST_CASE("a late start takes API records by kinds, and nothing that completes before its end",
          "[unit]") {
  Library& library = fresh_library();
  the_collection().set_reading(true);
  played.on_enable = [] { complete_buffer({copy_record(1, now(), 1)}); };
  Plan plan;
  plan.is_late = true;
  REQUIRE(the_collection().start(library, plan, kRecorder));
  played.on_enable = nullptr;
  CHECK(played.calls ==
        std::vector<std::string>{"enable 4", "enable 5", "enable 1", "enable 22", "enable 2"});
  CHECK_FALSE(the_collection().read_one(&kRecorder));
  complete_buffer({copy_record(2, now(), 2), call_record(Kind::kDriver, 2, now(), 276)});
  read_all();
  CHECK(count_written(trace::RecordKind::kActivityCopy) == 1);
  CHECK(count_written(trace::RecordKind::kActivityCall) == 1);
  the_collection().write_notes(kRecorder);
  CHECK(written.back().text.find("since the program first used CUPTI") == 0);
}

TEST_CASE("a library that is held by a tool, or too old, is not used", "[unit]") {
  Library& library = fresh_library();
  played.register_result = kMultipleSubscribers;
  CHECK_FALSE(the_collection().start(library, Plan{}, kRecorder));
  CHECK(the_collection().collecting() == nullptr);
  played.register_result = kSuccess;
  played.version = 17;
  CHECK_FALSE(the_collection().start(library, Plan{}, kRecorder));
  the_collection().write_notes(kRecorder);
  REQUIRE(written.size() == 2);
  CHECK(written[0].text.find("another tool") != std::string::npos);
  CHECK(written[1].text.find("older than CUDA 11.8") != std::string::npos);
}

TEST_CASE("records that CUPTI dropped are told to both", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  played.dropped = 5;
  the_collection().flush(false, kRecorder);
  CHECK(last_written<trace::ActivityDropped>().by_cupti == 5);
  std::size_t dropped = 0;
  played.dropped = 2;
  library.dropped_records(nullptr, 0, &dropped);
  CHECK(dropped == 7);
  the_collection().flush(false, kRecorder);
  CHECK(last_written<trace::ActivityDropped>().by_cupti == 2);
}

TEST_CASE("cuptiFinalize ends the collection, and the library is the program's again", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  CHECK(library.finalize() == kSuccess);
  CHECK(the_collection().collecting() == nullptr);
  the_collection().flush(false, kRecorder);
  the_collection().write_notes(kRecorder);
  CHECK(last_written<trace::ActivityState>().mode == trace::ActivityMode::kLost);
  library.register_callbacks(program_request, program_complete);
  CHECK(played.complete == program_complete);
  played.calls.clear();
  library.disable(Kind::kMemcpy);
  CHECK(played.calls == std::vector<std::string>{"disable 1"});
}

TEST_CASE("clocks are paired at every flush, and on both sides of an exchange", "[unit]") {
  Library& library = fresh_library();
  start(library);
  the_collection().flush(false, kRecorder);
  CHECK(last_written<trace::ActivityClock>().epoch == 0);
  const std::uint64_t before = now();
  library.register_clock(nullptr);
  const std::uint64_t after = now();
  the_collection().write_notes(kRecorder);
  std::vector<trace::ActivityClock> clocks;
  for (const Written& one : written) {
    if (one.kind != trace::RecordKind::kActivityClock) continue;
    clocks.emplace_back();
    std::memcpy(&clocks.back(), one.bytes.data(), sizeof clocks.back());
  }
  REQUIRE(clocks.size() == 3);
  CHECK(clocks[1].epoch == 0);
  CHECK(clocks[2].epoch == 1);
  for (std::size_t i : {std::size_t{1}, std::size_t{2}}) {
    CHECK(clocks[i].timestamp >= before);
    CHECK(clocks[i].timestamp < after);
  }
  the_collection().flush(false, kRecorder);
  CHECK(last_written<trace::ActivityClock>().epoch == 1);
  CHECK(count_written(trace::RecordKind::kActivityClock) == 4);
}

TEST_CASE("CUPTI is flushed before its clock is exchanged, where we collect", "[unit]") {
  Library& library = fresh_library();
  int flushes = 0;
  int flushes_before = -1;
  played.on_flush = [&] { ++flushes; };
  played.on_clock = [&] { flushes_before = flushes; };
  library.register_clock(nullptr);
  CHECK(flushes_before == 0);
  start(library);
  library.register_clock(nullptr);
  CHECK(flushes_before == 1);
  CHECK(flushes == 1);
}

TEST_CASE("each record that goes into an old CUPTI's spare buffer is counted", "[unit]") {
  Library& library = fresh_library();
  played.version = kVersionThatTakesNoBuffer - 1;
  start(library);
  library.register_callbacks(program_request, program_complete);
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0;
  std::size_t most = 0;
  do {
    played.request(&buffer, &bytes, &most);
  } while (bytes == Buffers::kBytes);
  CHECK(most == 1);
  played.complete(nullptr, 0, buffer, bytes, 0);
  complete_buffer({copy_record(1, now(), 1)});
  the_collection().flush(false, kRecorder);
  CHECK(last_written<trace::ActivityDropped>().by_recorder == 1);
  std::size_t dropped = 0;
  library.dropped_records(nullptr, 0, &dropped);
  CHECK(dropped == 1);
}

TEST_CASE("states and clocks for which there is no room are written later", "[unit]") {
  constexpr Recorder kFull = {
      no_ticks, [](const void*, std::size_t, const char*, std::size_t) { return false; }, wake};
  Library& library = fresh_library();
  start(library);
  library.register_clock(nullptr);
  the_collection().write_notes(kFull);
  the_collection().write_notes(kRecorder);
  CHECK(count_written(trace::RecordKind::kActivityState) == 1);
  CHECK(count_written(trace::RecordKind::kActivityClock) == 2);
  the_collection().write_notes(kRecorder);
  CHECK(written.size() == 3);
}

// Several threads complete buffers while the program's profiler comes and goes and a reader runs:
// the recorder loses no record, and CUPTI keeps no buffer of the program. A build with
// ThreadSanitizer also finds data races here.
TEST_CASE("everything may happen at the same time", "[unit]") {
  constexpr int kThreads = 3;
  constexpr std::uint32_t kBuffers = 300;
  Library& library = fresh_library();
  start(library);
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (std::uint32_t n = 0; n < kBuffers; ++n) {
        const std::uint32_t correlation = n * kThreads + static_cast<std::uint32_t>(i) + 1;
        complete_buffer({copy_record(correlation, now(), 1)});
        complete_buffer({call_record(Kind::kDriver, correlation, now(), 276)});
      }
      --running;
    });
  }
  std::thread program([&] {
    while (running.load() > 0) {
      library.register_callbacks(program_request, program_complete);
      library.enable_driver_function(276, 1);
      library.disable(Kind::kDriver);
      library.flush_all(0);
      library.disable(Kind::kRuntime);
      std::size_t dropped = 0;
      library.dropped_records(nullptr, 0, &dropped);
      library.register_clock(nullptr);
    }
  });
  while (running.load() > 0) {
    the_collection().flush(false, kRecorder);
    read_all();
  }
  for (std::thread& thread : threads) thread.join();
  program.join();
  library.disable(Kind::kDriver);
  library.flush_all(0);
  read_all();
  CHECK(count_written(trace::RecordKind::kActivityCopy) == kThreads * kBuffers);
  CHECK(count_written(trace::RecordKind::kActivityCall) == kThreads * kBuffers);
  CHECK(program_buffers_out == 0);
}

}  // namespace
}  // namespace gpumemtrace::cupti::cupti_collection_test
