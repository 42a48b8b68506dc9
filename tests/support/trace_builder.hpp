// SPDX-License-Identifier: Apache-2.0
// Writes small traces for tests of everything that reads them: each line of a test adds a call as
// the recorder would have written it. One tick of these traces is one nanosecond.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/temporary_folder.hpp"
#include "trace/file_layout.hpp"
#include "trace/file_writer.hpp"
#include "trace/records.hpp"
#include "trace/ring_layout.hpp"

namespace gpumemtrace::tests {

// The fields of a call beside its arguments. Times of 0 mean "after everything before".
struct Call {
  std::uint32_t writer = 1;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::uint16_t result = 0;
  std::uint16_t flags = 0;
  std::uint64_t caller = 0x1000;
  std::uint32_t context = 1;
  std::uint16_t api = 1;
  bool unfinished = false;
};

enum class Ending { kExit, kKilled };

// - Records of a writer stand in the order of the calls that added them.
// - A trace begins with a calibrated clock, one context (1) on device 0, and no module.
class TraceBuilder {
 public:
  static constexpr std::uint64_t kStartRealtimeNs = 1'700'000'000'000'000'000;
  static constexpr std::uint64_t kFirstTick = 1'000'000;

  explicit TraceBuilder(std::uint32_t process_id = 100) : process_id_(process_id) {
    clock(kFirstTick);
    context(1, 0);
  }

  // Adds any record: kind, length and, if it has none, time are filled in.
  template <class Record>
  void add(Record record, std::uint32_t writer = 1, std::string_view tail = {}) {
    trace::RecordHeader& header = header_of(record);
    if (header.time == 0) header.time = now_ += 10;
    trace::append_record(writers_[writer], record, tail);
  }

  // Adds a call record with its header filled in from `call`.
  template <class Record>
  void add_call(Record record, const Call& call) {
    const std::uint64_t start = call.start != 0 ? call.start : now_ += 10;
    std::uint64_t end = call.end != 0 ? call.end : start + 5;
    if (end > now_) now_ = end;
    if (call.unfinished) end = 0;
    record.call.record.time = start;
    record.call.record.result = call.result;
    record.call.record.flags = call.flags;
    record.call.record.api = call.api;
    record.call.end = end;
    record.call.caller = call.caller;
    record.call.context = trace::ContextId{call.context};
    add(record, call.writer);
  }

  void allocate(std::uint64_t address, std::uint64_t bytes,
                trace::MemoryKind memory = trace::MemoryKind::kDevice, const Call& call = {}) {
    trace::Allocation record;
    record.address = call.result == 0 ? address : 0;
    record.bytes = bytes;
    record.memory = memory;
    add_call(record, call);
  }
  void free(std::uint64_t address, trace::MemoryKind memory = trace::MemoryKind::kDevice,
            const Call& call = {}) {
    trace::Free record;
    record.address = address;
    record.memory = memory;
    add_call(record, call);
  }
  void map(trace::MappingOperation operation, std::uint64_t address, std::uint64_t bytes,
           std::uint64_t handle = 0, const Call& call = {}) {
    trace::Mapping record;
    record.operation = operation;
    record.address = address;
    record.bytes = bytes;
    record.handle = handle;
    add_call(record, call);
  }
  void copy(std::uint64_t destination, trace::EndType destination_type, std::uint64_t source,
            trace::EndType source_type, std::uint64_t bytes, const Call& call = {}) {
    trace::Copy record;
    record.destination = destination;
    record.destination_type = destination_type;
    record.source = source;
    record.source_type = source_type;
    record.bytes = bytes;
    add_call(record, call);
  }
  void context_call(trace::ContextOperation operation, std::uint32_t context,
                    std::uint32_t still_active = 0, const Call& call = {}) {
    trace::ContextCall record;
    record.operation = operation;
    record.handle_context = trace::ContextId{context};
    record.device = 0;
    record.still_active = still_active;
    add_call(record, call);
  }
  void graph(trace::GraphOperation operation, std::uint64_t graph, std::uint64_t executable = 0,
             std::uint64_t address = 0, std::uint64_t bytes = 0, std::uint64_t stream = 0) {
    trace::Graph record;
    record.operation = operation;
    record.graph = graph;
    record.executable = executable;
    record.address = address;
    record.bytes = bytes;
    record.stream = stream;
    add_call(record, {});
  }

  // Adds the record that gpumemtrace_step() makes.
  void step(std::uint64_t number) {
    trace::Annotation record;
    record.operation = trace::AnnotationOperation::kStep;
    record.source = trace::AnnotationSource::kApi;
    record.value = number;
    add(record);
  }

  // Allocates a block of the framework, or frees it if `bytes` is below zero. Keeps the framework's
  // own total.
  void block(std::uint64_t address, std::int64_t bytes, std::uint64_t reserved_bytes,
             std::int8_t device = 0) {
    framework_bytes_ += static_cast<std::uint64_t>(bytes);
    trace::Block record;
    record.address = address;
    record.bytes = bytes;
    record.allocated = framework_bytes_;
    record.reserved_bytes = reserved_bytes;
    record.device_type = 1;
    record.device = device;
    add(record);
  }
  void framework_oom(std::uint64_t requested_bytes, std::uint32_t writer = 1) {
    trace::FrameworkOom record;
    record.requested = requested_bytes;
    record.device_type = 1;
    record.device = 0;
    add(record, writer);
  }

  void context(std::uint32_t id, std::int32_t device, bool primary = true) {
    trace::Context record;
    record.id = trace::ContextId{id};
    record.device = device;
    record.primary = primary ? 1 : 0;
    record.handle = 0xc000 + id;
    add(record);
  }
  void device(std::int32_t ordinal, std::uint64_t uuid, std::uint64_t total_bytes) {
    trace::Device record;
    record.ordinal = ordinal;
    record.uuid_low = uuid;
    record.total_bytes = total_bytes;
    add(record, 1, "Test GPU");
  }
  void module(std::uint64_t begin, std::uint64_t end, std::string_view path) {
    trace::Module record;
    record.base = begin;
    record.begin = begin;
    record.end = end;
    add(record, 1, path);
  }
  void api(std::uint32_t id, std::string_view symbol, std::string_view runtime_name) {
    trace::ApiName record;
    record.id = id;
    std::string names(symbol);
    names += '\0';
    names += runtime_name;
    add(record, 1, names);
  }
  void requester(std::uint64_t caller) {
    trace::Requester record;
    record.caller = caller;
    add(record);
  }
  void text(trace::TextKey key, std::string_view value) {
    trace::Text record;
    record.key = key;
    add(record, 1, value);
  }
  void mark(trace::MarkKind kind, std::string_view name = {}) {
    trace::Mark record;
    record.mark = kind;
    add(record, 1, name);
  }
  void sample(std::uint64_t process_bytes, std::uint64_t other_bytes, std::int32_t device = 0) {
    trace::MemorySample record;
    record.source = trace::SampleSource::kNvmlProcess;
    record.process_bytes = process_bytes;
    record.other_bytes = other_bytes;
    record.device = device;
    add(record);
  }

  // now() is the time of the next record that has no time of its own; wait_until() changes it.
  std::uint64_t now() const { return now_; }
  void wait_until(std::uint64_t ticks) { now_ = ticks; }

  // Takes the records that each writer added since the last call, for a test that writes the trace
  // itself.
  std::map<std::uint32_t, std::vector<std::uint64_t>> take_words() {
    return std::exchange(writers_, {});
  }

  // Writes the trace and returns its path. A killed process leaves its ring behind.
  std::filesystem::path write(const std::filesystem::path& folder, Ending ending = Ending::kExit) {
    if (ending == Ending::kExit) mark(trace::MarkKind::kExit);
    clock(now_ + 1000);
    const std::filesystem::path path = folder / ("trace." + std::to_string(process_id_) + ".gmt");
    trace::FileHeader header;
    header.id = {process_id_, 1};
    header.process_id = process_id_;
    header.start_realtime_ns = kStartRealtimeNs + kFirstTick;
    header.ticks_per_second = 1'000'000'000;
    trace::OwnDescriptor output(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666));
    trace::FileWriter file(std::move(output), header, trace::Codec::kNone);
    for (const auto& [writer, words] : writers_) put_writer(file, writer, words);
    if (ending == Ending::kKilled) put_ring(path, header.id);
    return path;
  }

 private:
  template <class Record>
  static trace::RecordHeader& header_of(Record& record) {
    return reinterpret_cast<trace::RecordHeader&>(record);
  }

  void clock(std::uint64_t ticks) {
    trace::Clock record;
    record.record.time = ticks;
    record.monotonic_ns = ticks;
    record.realtime_ns = kStartRealtimeNs + ticks;
    add(record, 0);
  }

  static void put(std::ofstream& file, const void* data, std::size_t bytes) {
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  }

  // Writes a writer's records into as many chunks as they need.
  static void put_writer(trace::FileWriter& file, std::uint32_t writer,
                         std::span<const std::uint64_t> words) {
    constexpr std::size_t kImageBytes = 64 * 1024;
    trace::StreamWriter stream(file, writer, kImageBytes);
    while (!words.empty()) {
      const std::size_t length = reinterpret_cast<const std::uint8_t*>(words.data())[1];
      stream.add_words(words.first(length));
      words = words.subspan(length);
    }
    stream.finish();
  }

  static void put_ring(const std::filesystem::path& trace_path, const trace::TraceId& id) {
    std::filesystem::path path = trace_path;
    path += ".ring";
    std::ofstream file(path, std::ios::binary);
    trace::RingHeader ring;
    ring.id = id;
    put(file, &ring, sizeof ring);
    const std::string rest(trace::kRingHeaderBytes - sizeof ring, '\0');
    put(file, rest.data(), rest.size());
  }

  std::uint32_t process_id_;
  std::uint64_t now_ = kFirstTick;
  std::uint64_t framework_bytes_ = 0;
  std::map<std::uint32_t, std::vector<std::uint64_t>> writers_;
};

}  // namespace gpumemtrace::tests
