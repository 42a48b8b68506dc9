#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cupti/collection.hpp"
#include "tests/catch.hpp"
#include "tests/support/cupti_records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::cupti {
namespace {

using test_support::call_record;
using test_support::copy_record;
using test_support::CuptiRecord;

// --- A CUPTI of which the test says what happens in it

struct Played {
  Result register_result = kSuccess;
  std::uint32_t version = 130001;
  RequestFunction* request = nullptr;
  CompleteFunction* complete = nullptr;
  std::atomic<std::uint64_t> clock{1};
  std::vector<std::string> calls;
  std::atomic<std::size_t> dropped{0};
  std::function<void()> on_enable;
  std::function<void()> on_flush;  // what CUPTI has not told of yet
  std::function<void()> on_clock;
};
Played played;

Result play_register(RequestFunction* request, CompleteFunction* complete) {
  if (played.register_result != kSuccess) return played.register_result;
  played.request = request;
  played.complete = complete;
  return kSuccess;
}
Result play_enable(Kind kind) {
  played.calls.push_back("enable " + std::to_string(static_cast<int>(kind)));
  if (played.on_enable) played.on_enable();
  return kSuccess;
}
Result play_disable(Kind kind) {
  played.calls.push_back("disable " + std::to_string(static_cast<int>(kind)));
  return kSuccess;
}
Result play_function(CallbackId, std::uint8_t) { return kSuccess; }
Result play_period(std::uint32_t) { return kSuccess; }
Result play_flush(std::uint32_t) {
  if (played.on_flush) played.on_flush();
  return kSuccess;
}
Result play_version(std::uint32_t* version) {
  *version = played.version;
  return kSuccess;
}
Result play_timestamp(std::uint64_t* timestamp) {
  *timestamp = played.clock.fetch_add(10) + 5;
  return kSuccess;
}
Result play_dropped(Context, std::uint32_t, std::size_t* dropped) {
  *dropped = played.dropped.exchange(0);
  return kSuccess;
}
Result play_clock(TimestampFunction*) {
  if (played.on_clock) played.on_clock();
  return kSuccess;
}
Result play_finalize() { return kSuccess; }

Functions functions() {
  Functions made;
  made.cuptiActivityRegisterCallbacks = play_register;
  made.cuptiActivityEnable = play_enable;
  made.cuptiActivityDisable = play_disable;
  made.cuptiActivityEnableDriverApi = play_function;
  made.cuptiActivityEnableRuntimeApi = play_function;
  made.cuptiActivityFlushAll = play_flush;
  made.cuptiActivityFlushPeriod = play_period;
  made.cuptiActivityGetNumDroppedRecords = play_dropped;
  made.cuptiActivityRegisterTimestampCallback = play_clock;
  made.cuptiFinalize = play_finalize;
  made.cuptiGetVersion = play_version;
  made.cuptiGetTimestamp = play_timestamp;
  made.cuptiActivityGetNextRecord = test_support::next_record;
  return made;
}

// What CUPTI does with its records: asks for a buffer, until it gets one, fills and completes it.
void complete_buffer(const std::vector<CuptiRecord>& records) {
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0;
  std::size_t most = 0;
  for (;; std::this_thread::yield()) {
    played.request(&buffer, &bytes, &most);
    if (buffer != nullptr) break;
  }
  std::size_t used = 0;
  for (const CuptiRecord& record : records) {
    std::memcpy(buffer + used, record.bytes().data(), record.bytes().size());
    used += record.bytes().size();
  }
  played.complete(nullptr, 0, buffer, bytes, used);
}

// --- The recorder

struct Written {
  trace::RecordKind kind;
  std::vector<std::uint8_t> bytes;
  std::string text;
};
std::vector<Written> written;

std::uint64_t no_ticks() { return 1; }
bool write(const void* record, std::size_t bytes, const char* tail, std::size_t tail_bytes) {
  const auto* from = static_cast<const std::uint8_t*>(record);
  trace::RecordHeader header;
  std::memcpy(&header, record, sizeof header);
  written.push_back({header.kind, {from, from + bytes}, std::string(tail, tail_bytes)});
  return true;
}
void wake() {}
constexpr Recorder kRecorder = {no_ticks, write, wake};

std::size_t count_written(trace::RecordKind kind) {
  std::size_t count = 0;
  for (const Written& one : written) count += one.kind == kind ? 1 : 0;
  return count;
}

template <class Record>
Record last_written() {
  Record record;
  for (const Written& one : written) {
    if (one.kind == trace::kind_of<Record>()) std::memcpy(&record, one.bytes.data(), sizeof record);
  }
  return record;
}

// --- The program's profiler

std::atomic<std::uint64_t> records_got{0};
std::atomic<std::uint64_t> bytes_got{0};
std::atomic<std::size_t> program_buffer_bytes{4096};
std::atomic<int> program_buffers_out{0};
std::atomic<std::size_t> program_most_records{0};

void program_request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *bytes = program_buffer_bytes;
  *buffer = *bytes == 0 ? nullptr : static_cast<std::uint8_t*>(std::malloc(*bytes));
  *most_records = program_most_records;
  if (*buffer != nullptr) ++program_buffers_out;
}

void program_complete(Context, std::uint32_t, std::uint8_t* buffer, std::size_t,
                      std::size_t valid_bytes) {
  Functions walker;
  walker.cuptiActivityGetNextRecord = test_support::next_record;
  Walk walk(walker, buffer, valid_bytes);
  for (RawRecord record; walk.next(record);) {
    ++records_got;
    if (kind_of(record) == Kind::kMemcpy) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, record.bytes + layouts::Memcpy::kBytesCopied, sizeof bytes);
      bytes_got += bytes;
    }
  }
  --program_buffers_out;
  std::free(buffer);
}

Library& fresh_library() {
  static Library library;
  the_collection().reset();
  library.reset();
  library.found(functions(), 0, the_collection());
  played.register_result = kSuccess;
  played.version = 130001;
  played.calls.clear();
  played.dropped = 0;
  played.on_enable = played.on_flush = played.on_clock = nullptr;
  written.clear();
  records_got = bytes_got = 0;
  program_buffers_out = 0;
  program_buffer_bytes = 4096;
  program_most_records = 0;
  return library;
}

std::uint64_t now() { return played.clock.load(); }

void start(Library& library) {
  REQUIRE(the_collection().start(library, Plan{}, kRecorder));
  the_collection().set_reading(true);
}

void read_all() {
  while (the_collection().read_one(&kRecorder)) {
  }
}

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

// As when the library came late: buffers are read, and the program has other threads that copy.
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

TEST_CASE("the program gets the records of its kinds and no others", "[unit]") {
  Library& library = fresh_library();
  start(library);
  REQUIRE(library.register_callbacks(program_request, program_complete) == kSuccess);
  complete_buffer({copy_record(1, now(), 1)});
  CHECK(records_got == 0);
  library.enable(Kind::kMemcpy);
  complete_buffer({copy_record(2, now(), 2), call_record(Kind::kDriver, 2, now(), 276),
                   CuptiRecord(Kind::kMemset, 88).put(layouts::Memset::kStart, now())});
  library.flush_all(0);
  CHECK(records_got == 1);
  CHECK(bytes_got == 2);
  library.disable(Kind::kMemcpy);
  complete_buffer({call_record(Kind::kDriver, 3, now(), 276), copy_record(3, now() + 9, 3)});
  library.flush_all(0);
  CHECK(records_got == 1);
  read_all();
  CHECK(count_written(trace::RecordKind::kActivityCopy) == 3);
  CHECK(program_buffers_out == 0);
}

TEST_CASE("what both use stays on in CUPTI when the program switches it off", "[unit]") {
  Library& library = fresh_library();
  start(library);
  played.calls.clear();
  library.enable(Kind::kMemcpy);
  library.enable(Kind::kConcurrentKernel);
  library.disable(Kind::kMemcpy);
  library.disable(Kind::kRuntime);
  library.disable(Kind::kConcurrentKernel);
  CHECK(played.calls == std::vector<std::string>{"enable 1", "enable 10", "disable 10"});
}

TEST_CASE("when a copy was asked for decides, whichever buffer tells of it first", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  const std::uint64_t before = now();
  library.enable(Kind::kMemcpy);
  const std::uint64_t inside = now();
  library.disable(Kind::kMemcpy);
  const std::uint64_t after = now();
  // All three ran long after; the calls come in a later buffer.
  complete_buffer({copy_record(1, after + 50, 1), copy_record(2, after + 60, 2),
                   copy_record(3, after + 70, 4)});
  CHECK(records_got == 0);
  complete_buffer({call_record(Kind::kRuntime, 1, before, 31),
                   call_record(Kind::kRuntime, 2, inside, 31),
                   call_record(Kind::kRuntime, 3, after, 31)});
  library.flush_all(0);
  CHECK(records_got == 1);
  CHECK(bytes_got == 2);
}

TEST_CASE("a copy whose call never comes is decided by when it ran", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  library.enable(Kind::kMemcpy);
  complete_buffer({copy_record(1, now(), 1)});
  CHECK(records_got == 0);
  library.flush_all(0);
  CHECK(records_got == 1);
  // Or when the collection has flushed and the next buffer comes.
  complete_buffer({copy_record(2, now(), 1)});
  the_collection().flush(false, kRecorder);
  library.set_flush_period(10);
  CHECK(records_got == 1);
  complete_buffer({call_record(Kind::kRuntime, 9, now(), 31)});
  CHECK(records_got == 2);
}

// As with a function that copies and is newer than our list.
TEST_CASE("a copy that a flush brings without its call is the program's after that flush",
          "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  library.enable(Kind::kMemcpy);
  int flushes = 0;
  played.on_flush = [&] {
    if (++flushes == 1) complete_buffer({copy_record(1, now(), 1)});
  };
  library.flush_all(0);
  CHECK(records_got == 1);
  CHECK(flushes == 2);
  library.flush_all(0);
  CHECK(flushes == 3);
}

TEST_CASE("the program's buffers may be small, few or none", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  program_buffer_bytes = 500;
  library.enable(Kind::kConcurrentKernel);
  const CuptiRecord kernel(Kind::kConcurrentKernel, 216);
  complete_buffer({kernel, kernel, kernel, kernel, kernel});
  CHECK(records_got == 4);  // the fifth is in a buffer that is not full
  library.flush_all(0);
  CHECK(records_got == 5);
  program_buffer_bytes = 4096;
  program_most_records = 1;
  complete_buffer({kernel, kernel, kernel});
  CHECK(records_got == 7);
  program_buffer_bytes = 0;
  library.flush_all(0);
  CHECK(records_got == 8);
  complete_buffer({kernel, kernel});
  program_buffer_bytes = 100;  // smaller than a record
  complete_buffer({kernel});
  library.flush_all(0);
  CHECK(records_got == 8);
  std::size_t dropped = 0;
  library.dropped_records(nullptr, 0, &dropped);
  CHECK(dropped == 3);
  library.dropped_records(nullptr, 0, &dropped);
  CHECK(dropped == 0);
  library.disable(Kind::kConcurrentKernel);
  library.flush_all(0);
  CHECK(program_buffers_out == 0);
}

// PyTorch's profiler does not flush, and shows nothing, while none of its buffers is out.
TEST_CASE("while the program collects, a buffer of its own is out", "[unit]") {
  Library& library = fresh_library();
  start(library);
  complete_buffer({copy_record(1, now(), 1)});
  library.register_callbacks(program_request, program_complete);
  CHECK(program_buffers_out == 0);
  library.enable(Kind::kMemcpy);
  CHECK(program_buffers_out == 1);
  library.enable(Kind::kMemset);
  complete_buffer({call_record(Kind::kRuntime, 2, now(), 31), copy_record(2, now(), 1)});
  the_collection().flush(false, kRecorder);
  CHECK(program_buffers_out == 1);
  library.disable(Kind::kMemcpy);
  library.disable(Kind::kMemset);
  CHECK(program_buffers_out == 1);
  CHECK(records_got == 0);
  library.flush_all(0);
  CHECK(records_got == 1);
  CHECK(program_buffers_out == 0);
  // Flushed while it goes on, it is asked for another.
  library.enable(Kind::kMemcpy);
  complete_buffer({call_record(Kind::kRuntime, 3, now(), 31), copy_record(3, now(), 1)});
  library.flush_all(0);
  CHECK(records_got == 2);
  CHECK(program_buffers_out == 1);
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

TEST_CASE("a buffer of callbacks that were there before us goes to the program as it is",
          "[unit]") {
  Library& library = fresh_library();
  library.register_callbacks(program_request, program_complete);
  CHECK(played.complete == program_complete);
  std::uint8_t* buffer = nullptr;
  std::size_t bytes = 0;
  std::size_t most = 0;
  played.request(&buffer, &bytes, &most);
  start(library);
  CHECK(played.complete != program_complete);
  const CuptiRecord record = copy_record(1, 1, 77);
  std::memcpy(buffer, record.bytes().data(), record.bytes().size());
  played.complete(nullptr, 0, buffer, bytes, record.bytes().size());
  CHECK(bytes_got == 77);
  CHECK_FALSE(the_collection().read_one(&kRecorder));
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

TEST_CASE("what waits for its call is decided by the clock of its time", "[unit]") {
  Library& library = fresh_library();
  start(library);
  library.register_callbacks(program_request, program_complete);
  library.enable(Kind::kMemcpy);
  const std::uint64_t inside = now();
  library.disable(Kind::kMemcpy);
  const std::uint64_t long_after = now() + 1'000'000;
  complete_buffer({copy_record(1, inside, 1), copy_record(2, long_after, 2)});
  library.register_clock(nullptr);
  library.enable(Kind::kMemcpy);
  library.flush_all(0);
  CHECK(records_got == 1);
  CHECK(bytes_got == 1);
}

// Completions on several threads, a program that comes and goes, a reader: no record of ours is
// lost, no buffer of the program's stays out. ThreadSanitizer watches.
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
}  // namespace gpumemtrace::cupti
