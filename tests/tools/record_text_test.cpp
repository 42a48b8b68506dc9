// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/record_text.hpp"

#include <cstring>
#include <vector>

#include "tests/catch.hpp"
#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::tools::record_text_test {
namespace {

trace::Allocation allocation_of_4096_bytes() {
  trace::Allocation record;
  record.call.record.kind = trace::RecordKind::kAllocation;
  record.call.record.words = sizeof(record) / trace::kWordBytes;
  record.call.record.api = 7;
  record.call.record.flags = trace::kFlagByPointer | trace::kFlagAsynchronous;
  record.call.record.time = 1'500;
  record.call.end = 2'500;
  record.address = 0x7f0000200000;
  record.bytes = 4096;
  record.memory = trace::MemoryKind::kDevice;
  return record;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Returns the word for `value` in the text of a record whose other fields are zero.
std::string word_of(trace::RecordKind kind, std::string_view field, std::uint64_t value) {
  const trace::KindInfo& info = *trace::find_kind(kind);
  std::vector<std::uint64_t> words(info.bytes / trace::kWordBytes);
  auto* const bytes = reinterpret_cast<char*>(words.data());
  auto* const header = reinterpret_cast<trace::RecordHeader*>(bytes);
  header->kind = kind;
  header->words = static_cast<std::uint8_t>(words.size());
  for (const trace::Field& column : info.fields) {
    if (column.name == field) std::memcpy(bytes + column.offset, &value, column.bytes);
  }
  const std::string text = record_text(*header, {});
  const std::string before = " " + std::string(field) + "=";
  const std::size_t begin = text.find(before);
  if (begin == std::string::npos) return "(no such field)";
  const std::size_t word = begin + before.size();
  return text.substr(word, text.find_first_of(" \n", word) - word);
}

template <class Enum>
std::string word_of(trace::RecordKind kind, std::string_view field, Enum value) {
  return word_of(kind, field, static_cast<std::uint64_t>(value));
}

}  // namespace

TEST_CASE("the first and the last value of each enumeration have their own words", "[unit]") {
  using trace::RecordKind;
  const auto words = [](RecordKind kind, std::string_view field, auto first, auto last) {
    return word_of(kind, field, first) + " " + word_of(kind, field, last);
  };
  CHECK(words(RecordKind::kAllocation, "memory", trace::MemoryKind::kUnknown,
              trace::MemoryKind::kPhysicalHost) == "unknown physical_host");
  CHECK(words(RecordKind::kMapping, "operation", trace::MappingOperation::kReserve,
              trace::MappingOperation::kMapArray) == "reserve map_array");
  CHECK(words(RecordKind::kPool, "operation", trace::PoolOperation::kCreate,
              trace::PoolOperation::kImport) == "create import");
  CHECK(words(RecordKind::kRange, "operation", trace::RangeOperation::kPrefetch,
              trace::RangeOperation::kDecompress) == "prefetch decompress");
  CHECK(words(RecordKind::kContextCall, "operation", trace::ContextOperation::kCreate,
              trace::ContextOperation::kSetLimit) == "create set_limit");
  CHECK(words(RecordKind::kGraph, "operation", trace::GraphOperation::kAddAllocation,
              trace::GraphOperation::kClone) == "add_allocation clone");
  CHECK(words(RecordKind::kImport, "operation", trace::ImportOperation::kIpcExport,
              trace::ImportOperation::kGraphicsPointer) == "ipc_export graphics_pointer");
  CHECK(words(RecordKind::kCopy, "destination_type", trace::EndType::kUnknown,
              trace::EndType::kUnified) == "unknown unified");
  CHECK(words(RecordKind::kCopy, "source_type", trace::EndType::kUnknown,
              trace::EndType::kUnified) == "unknown unified");
  CHECK(words(RecordKind::kMemorySample, "source", trace::SampleSource::kNone,
              trace::SampleSource::kNvmlDevice) == "none nvml_device");
  CHECK(words(RecordKind::kProcessSample, "relation", trace::ProcessRelation::kOther,
              trace::ProcessRelation::kDescendant) == "other descendant");
  CHECK(words(RecordKind::kText, "key", trace::TextKey::kExecutable, trace::TextKey::kRun) ==
        "executable run");
  CHECK(words(RecordKind::kClock, "realtime_state", trace::RealtimeState::kNotAsked,
              trace::RealtimeState::kUnsynchronized) == "not_asked unsynchronized");
  CHECK(words(RecordKind::kAllocatorSetting, "option", trace::AllocatorOption::kText,
              trace::AllocatorOption::kMemoryFraction) == "text memory_fraction");
  CHECK(words(RecordKind::kCode, "text", trace::CodeText::kName, trace::CodeText::kLineTable) ==
        "name line_table");
  CHECK(words(RecordKind::kMark, "mark", trace::MarkKind::kUser, trace::MarkKind::kExec) ==
        "user exec");
  CHECK(words(RecordKind::kAnnotation, "operation", trace::AnnotationOperation::kStep,
              trace::AnnotationOperation::kEnd) == "step end");
  CHECK(words(RecordKind::kAnnotation, "source", trace::AnnotationSource::kApi,
              trace::AnnotationSource::kNvtx) == "api nvtx");
  CHECK(words(RecordKind::kActivityCall, "domain", trace::ActivityDomain::kDriver,
              trace::ActivityDomain::kRuntime) == "driver runtime");
  CHECK(words(RecordKind::kActivityState, "mode", trace::ActivityMode::kOff,
              trace::ActivityMode::kLost) == "off lost");
  // These numbers are those of cupti_activity.h.
  CHECK(words(RecordKind::kActivityCopy, "copy_kind", 1, 10) == "host_to_device peer");
  CHECK(words(RecordKind::kActivitySet, "memory_kind", 1, 7) == "pageable managed_static");
  CHECK(words(RecordKind::kActivityMemory, "operation", 1, 2) == "allocation release");
  CHECK(words(RecordKind::kActivityMemory, "pool_type", 1, 2) == "local imported");
  CHECK(words(RecordKind::kActivityPool, "operation", 1, 3) == "created trimmed");
  CHECK(words(RecordKind::kActivityPool, "pool_type", 1, 2) == "local imported");
  CHECK(words(RecordKind::kActivityManaged, "counter", 1, 8) ==
        "bytes_to_device bytes_between_devices");
}

TEST_CASE("CUPTI's records are read in words, and their times as they are", "[unit]") {
  trace::ActivityCopy copy;
  copy.record.kind = trace::RecordKind::kActivityCopy;
  copy.record.words = sizeof copy / trace::kWordBytes;
  copy.start = 1'700'000'000'000'000'123;
  copy.copy_kind = 1;
  copy.source_kind = 1;
  copy.destination_kind = 3;
  const std::string copy_text = record_text(copy.record, {});
  CHECK(has(copy_text, "activity_copy start=1700000000000000123"));
  CHECK(has(copy_text, "copy_kind=host_to_device source_kind=pageable destination_kind=device"));
  CHECK(has(copy_text, "source_device=-1"));
  trace::ActivityManaged managed;
  managed.record.kind = trace::RecordKind::kActivityManaged;
  managed.record.words = sizeof managed / trace::kWordBytes;
  managed.counter = 3;
  managed.destination = -1;
  CHECK(has(record_text(managed.record, {}), "counter=cpu_fault source=-1 destination=-1"));
}

TEST_CASE("a call is one line with its function, time, duration and memory", "[unit]") {
  const trace::Allocation record = allocation_of_4096_bytes();
  RecordDictionary dictionary;
  dictionary.api_names[7] = "cuMemAlloc_v2";
  dictionary.clock = analyzer::Clock({{1'000, 70'000, 0, 0}, {2'000, 71'000, 0, 0}}, 0);
  dictionary.clock.set_origin(70'000);
  const std::string text = record_text(record.call.record, dictionary);
  CHECK(text.starts_with("0.000000500 s  allocation api=cuMemAlloc_v2 result=0"));
  CHECK(has(text, "flags=by_pointer|asynchronous"));
  CHECK(has(text, "took=0.000001000 s"));
  CHECK(has(text, "address=0x7f0000200000 bytes=4096"));
  CHECK(has(text, "memory=device location=-1"));
}

TEST_CASE("a call that never returned is unfinished", "[unit]") {
  trace::Allocation record = allocation_of_4096_bytes();
  record.call.end = 0;
  CHECK(has(record_text(record.call.record, {}), "took=unfinished"));
}

TEST_CASE("a function whose name the trace lacks is shown by its number", "[unit]") {
  const trace::Allocation record = allocation_of_4096_bytes();
  CHECK(has(record_text(record.call.record, {}), "allocation api=7 result=0"));
}

TEST_CASE("a text that would break the line or the terminal is escaped", "[unit]") {
  struct MarkWithName {
    trace::Mark mark;
    char name[8];
  };
  MarkWithName record = {};
  record.mark.record.kind = trace::RecordKind::kMark;
  record.mark.record.words = sizeof(record) / trace::kWordBytes;
  record.mark.mark = trace::MarkKind::kUser;
  std::memcpy(record.name, "a\n\x1b[1mb", 8);
  const std::string text = record_text(record.mark.record, {});
  CHECK(has(text, "mark=user \"a\\x0a\\x1b[1mb\""));
}

TEST_CASE("a record of a kind that is not known is said to be so", "[unit]") {
  trace::RecordHeader record;
  record.kind = static_cast<trace::RecordKind>(200);
  CHECK(has(record_text(record, {}), "kind 200 that this version does not know"));
}

}  // namespace gpumemtrace::tools::record_text_test
