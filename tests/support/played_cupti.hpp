// SPDX-License-Identifier: Apache-2.0
// A stage on which tests collect CUPTI's records without CUPTI: a CUPTI that does what the test
// says, a recorder that keeps the written records, and a program with a profiler of its own.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cupti/collection.hpp"
#include "tests/catch.hpp"
#include "tests/support/cupti_records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::cupti::stage {

using test_support::call_record;
using test_support::copy_record;
using test_support::CuptiRecord;

// --- CUPTI

struct Played {
  Result register_result = kSuccess;
  std::uint32_t version = 130001;
  RequestFunction* request = nullptr;
  CompleteFunction* complete = nullptr;
  std::atomic<std::uint64_t> clock{1};
  std::vector<std::string> calls;
  std::atomic<std::size_t> dropped{0};
  std::function<void()> on_enable;
  std::function<void()> on_flush;  // delivers what CUPTI still has
  std::function<void()> on_clock;
  std::function<void()> on_finalize;
};
inline Played played;

inline Result play_register(RequestFunction* request, CompleteFunction* complete) {
  if (played.register_result != kSuccess) return played.register_result;
  played.request = request;
  played.complete = complete;
  return kSuccess;
}
inline Result play_enable(Kind kind) {
  played.calls.push_back("enable " + std::to_string(static_cast<int>(kind)));
  if (played.on_enable) played.on_enable();
  return kSuccess;
}
inline Result play_disable(Kind kind) {
  played.calls.push_back("disable " + std::to_string(static_cast<int>(kind)));
  return kSuccess;
}
inline Result play_function(CallbackId, std::uint8_t) { return kSuccess; }
inline Result play_period(std::uint32_t) { return kSuccess; }
inline Result play_flush(std::uint32_t) {
  if (played.on_flush) played.on_flush();
  return kSuccess;
}
inline Result play_version(std::uint32_t* version) {
  *version = played.version;
  return kSuccess;
}
inline Result play_timestamp(std::uint64_t* timestamp) {
  *timestamp = played.clock.fetch_add(10) + 5;
  return kSuccess;
}
inline Result play_dropped(Context, std::uint32_t, std::size_t* dropped) {
  *dropped = played.dropped.exchange(0);
  return kSuccess;
}
inline Result play_clock(TimestampFunction*) {
  if (played.on_clock) played.on_clock();
  return kSuccess;
}
inline Result play_finalize() {
  if (played.on_finalize) played.on_finalize();
  return kSuccess;
}

inline Functions functions() {
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

// Plays CUPTI with its records: asks for buffers until it gets one, fills it and completes it.
inline void complete_buffer(const std::vector<CuptiRecord>& records) {
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
inline std::vector<Written> written;

inline std::uint64_t no_ticks() { return 1; }
inline bool write(const void* record, std::size_t bytes, const char* tail, std::size_t tail_bytes) {
  const auto* from = static_cast<const std::uint8_t*>(record);
  trace::RecordHeader header;
  std::memcpy(&header, record, sizeof header);
  written.push_back({header.kind, {from, from + bytes}, std::string(tail, tail_bytes)});
  return true;
}
inline void wake() {}
inline constexpr Recorder kRecorder = {no_ticks, write, wake};

inline std::size_t count_written(trace::RecordKind kind) {
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

inline std::atomic<std::uint64_t> records_got{0};
inline std::atomic<std::uint64_t> bytes_got{0};
inline std::atomic<std::size_t> program_buffer_bytes{4096};
inline std::atomic<int> program_buffers_out{0};
inline std::atomic<std::size_t> program_most_records{0};
inline std::mutex program_mutex;
inline std::set<std::uint8_t*> program_buffers;  // the profiler's buffers that CUPTI holds

inline void program_request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *bytes = program_buffer_bytes;
  *buffer = *bytes == 0 ? nullptr : static_cast<std::uint8_t*>(std::malloc(*bytes));
  *most_records = program_most_records;
  if (*buffer == nullptr) return;
  ++program_buffers_out;
  const std::lock_guard lock(program_mutex);
  program_buffers.insert(*buffer);
}

inline void program_complete(Context, std::uint32_t, std::uint8_t* buffer, std::size_t,
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
  {
    const std::lock_guard lock(program_mutex);
    program_buffers.erase(buffer);
  }
  std::free(buffer);
}

inline Library& fresh_library() {
  static Library library;
  the_collection().reset();
  library.reset();
  for (std::uint8_t* buffer : program_buffers) std::free(buffer);  // buffers of the previous test
  program_buffers.clear();
  library.found(functions(), 0, the_collection());
  played.register_result = kSuccess;
  played.version = 130001;
  played.calls.clear();
  played.dropped = 0;
  played.on_enable = played.on_flush = played.on_clock = played.on_finalize = nullptr;
  written.clear();
  records_got = bytes_got = 0;
  program_buffers_out = 0;
  program_buffer_bytes = 4096;
  program_most_records = 0;
  return library;
}

inline std::uint64_t now() { return played.clock.load(); }

inline void start(Library& library) {
  REQUIRE(the_collection().start(library, Plan{}, kRecorder));
  the_collection().set_reading(true);
}

inline void read_all() {
  while (the_collection().read_one(&kRecorder)) {
  }
}

}  // namespace gpumemtrace::cupti::stage
