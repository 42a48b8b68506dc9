// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/record_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/base/printable.hpp"
#include "tools/base/text.hpp"
#include "trace/reader.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::tools {
namespace {

using trace::RecordKind;

// The compiler's spelling of an enumerator, such as "kMapArray"; empty if the value has none.
template <auto kValue>
constexpr std::string_view spelling() {
  // GCC and Clang give a text such as "... [with auto kValue = ...::kMapArray; ...]".
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("kValue = ") + sizeof "kValue = " - 1);
  text = text.substr(0, text.find_first_of(";]"));
  return text.starts_with('(') ? std::string_view() : text.substr(text.rfind(':') + 1);
}

template <class Enum, std::size_t... kValues>
constexpr auto spellings_of(std::index_sequence<kValues...>) {
  return std::array{spelling<static_cast<Enum>(kValues)>()...};
}

// The name of an enumerator in snake case, such as "map_array" for kMapArray; empty if the
// enumeration has no such value.
template <class Enum>
std::string name_in(std::uint64_t value) {
  static constexpr auto kSpellings = spellings_of<Enum>(std::make_index_sequence<64>());
  std::string name;
  if (value >= kSpellings.size() || kSpellings[value].empty()) return name;
  for (const char letter : kSpellings[value].substr(1)) {
    const bool is_capital = letter >= 'A' && letter <= 'Z';
    if (is_capital && !name.empty()) name += '_';
    name += is_capital ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  return name;
}

// The word of a list at the position `value`; empty behind its end.
template <const std::string_view& kWords>
std::string word_in(std::uint64_t value) {
  std::string_view words = kWords;
  for (; value > 0 && !words.empty(); --value) {
    const std::size_t space = words.find(' ');
    words.remove_prefix(space == std::string_view::npos ? words.size() : space + 1);
  }
  return std::string(words.substr(0, words.find(' ')));
}

// CUPTI's own enumerations, cupti_activity.h.
constexpr std::string_view kCopyKinds =
    "unknown host_to_device device_to_host host_to_array array_to_host array_to_array "
    "array_to_device device_to_array device_to_device host_to_host peer";
constexpr std::string_view kMemoryKinds =
    "unknown pageable pinned device array managed device_static managed_static";
constexpr std::string_view kMemoryOperations = "invalid allocation release";
constexpr std::string_view kPoolOperations = "invalid created destroyed trimmed";
constexpr std::string_view kPoolTypes = "invalid local imported";
constexpr std::string_view kManagedCounters =
    "unknown bytes_to_device bytes_to_host cpu_fault gpu_fault thrashing throttling remote_map "
    "bytes_between_devices";
// The values of trace::SampleSource; "memgetinfo" is the function cuMemGetInfo.
constexpr std::string_view kSampleSources = "none memgetinfo nvml_process nvml_device";

struct ValueNames {
  RecordKind kind;  // kNone: the row is for records of every kind
  std::string_view field;
  std::string (*name)(std::uint64_t value);
};

constexpr auto kValueNames = std::to_array<ValueNames>({
    {RecordKind::kNone, "memory", name_in<trace::MemoryKind>},
    {RecordKind::kMapping, "operation", name_in<trace::MappingOperation>},
    {RecordKind::kPool, "operation", name_in<trace::PoolOperation>},
    {RecordKind::kRange, "operation", name_in<trace::RangeOperation>},
    {RecordKind::kContextCall, "operation", name_in<trace::ContextOperation>},
    {RecordKind::kGraph, "operation", name_in<trace::GraphOperation>},
    {RecordKind::kImport, "operation", name_in<trace::ImportOperation>},
    {RecordKind::kCopy, "destination_type", name_in<trace::EndType>},
    {RecordKind::kCopy, "source_type", name_in<trace::EndType>},
    {RecordKind::kNone, "framework", name_in<trace::Framework>},
    {RecordKind::kMemorySample, "source", word_in<kSampleSources>},
    {RecordKind::kSource, "source", name_in<trace::SourceKind>},
    {RecordKind::kProcessSample, "relation", name_in<trace::ProcessRelation>},
    {RecordKind::kClock, "realtime_state", name_in<trace::RealtimeState>},
    {RecordKind::kText, "key", name_in<trace::TextKey>},
    {RecordKind::kAllocatorSetting, "option", name_in<trace::AllocatorOption>},
    {RecordKind::kCode, "text", name_in<trace::CodeText>},
    {RecordKind::kMark, "mark", name_in<trace::MarkKind>},
    {RecordKind::kAnnotation, "operation", name_in<trace::AnnotationOperation>},
    {RecordKind::kTensor, "role", name_in<trace::TensorRole>},
    {RecordKind::kAnnotation, "source", name_in<trace::AnnotationSource>},
    {RecordKind::kActivityCall, "domain", name_in<trace::ActivityDomain>},
    {RecordKind::kActivityCopy, "copy_kind", word_in<kCopyKinds>},
    {RecordKind::kActivityCopy, "source_kind", word_in<kMemoryKinds>},
    {RecordKind::kActivityCopy, "destination_kind", word_in<kMemoryKinds>},
    {RecordKind::kActivitySet, "memory_kind", word_in<kMemoryKinds>},
    {RecordKind::kActivityMemory, "memory_kind", word_in<kMemoryKinds>},
    {RecordKind::kActivityMemory, "operation", word_in<kMemoryOperations>},
    {RecordKind::kActivityMemory, "pool_type", word_in<kPoolTypes>},
    {RecordKind::kActivityPool, "operation", word_in<kPoolOperations>},
    {RecordKind::kActivityPool, "pool_type", word_in<kPoolTypes>},
    {RecordKind::kActivityManaged, "counter", word_in<kManagedCounters>},
    {RecordKind::kActivityState, "mode", name_in<trace::ActivityMode>},
});

// Names of flags, in the order of their bits.
constexpr auto kFlagNames = std::to_array<std::string_view>(
    {"by_pointer", "captured", "estimated", "asynchronous", "per_thread_stream", "segment", "cut",
     "collected", "stream", "autograd"});

// Fields printed in hexadecimal, because people compare them as addresses or handles.
constexpr auto kHexadecimalFields = std::to_array<std::string_view>(
    {"address", "caller", "handle", "event", "stream", "pool", "destination", "content", "graph",
     "executable", "base", "begin", "uuid_low", "uuid_high"});

std::string name_of_value(RecordKind kind, std::string_view field, std::uint64_t value) {
  for (const ValueNames& row : kValueNames) {
    const bool matches = row.field == field && (row.kind == RecordKind::kNone || row.kind == kind);
    if (matches) return row.name(value);
  }
  return {};
}

bool is_hexadecimal(RecordKind kind, std::string_view field) {
  // `source` is an address in Copy records; in others it is a device or an enumerator.
  if (field == "source") return kind == RecordKind::kCopy;
  // `destination` is a device in ActivityManaged records, an address in those of calls.
  if (field == "destination") return kind != RecordKind::kActivityManaged;
  // The end of a module is an address, the end of a call is a time.
  if (field == "end") return kind == RecordKind::kModule;
  return std::ranges::find(kHexadecimalFields, field) != kHexadecimalFields.end();
}

std::int64_t sign_extend(std::uint64_t value, unsigned bytes) {
  const unsigned shift = 64 - 8 * bytes;
  return static_cast<std::int64_t>(value << shift) >> shift;
}

std::string seconds_text(std::uint64_t ns) {
  constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
  return format_text("{}.{:09} s", ns / kNsPerSecond, ns % kNsPerSecond);
}

// Quotes text; a zero byte, which separates two words, becomes a space.
std::string quoted_text(std::string_view text) {
  return "\"" + replaced(text, {{'\0', " "}, {'"', "\\x22"}, {'\\', "\\x5c"}}) + "\"";
}

// The text after a record's fields. A stack's Python frames are code object and instruction, its
// native frames addresses; a line table is not printed.
std::string tail_text(const trace::RecordHeader& record) {
  if (record.kind == RecordKind::kStack) {
    std::string frames;
    for (const std::uint64_t frame : trace::python_frames_of(trace::as<trace::Stack>(record))) {
      frames += format_text(" {}+{}", frame >> 32, frame & 0xffff'ffff);
    }
    for (const std::uint64_t frame : trace::native_frames_of(trace::as<trace::Stack>(record))) {
      frames += format_text(" {:#x}", frame);
    }
    return frames;
  }
  if (record.kind == RecordKind::kCode &&
      trace::as<trace::Code>(record).text == trace::CodeText::kLineTable) {
    return {};
  }
  return " " + quoted_text(trace::tail_of(record));
}

// Flags as names: "captured|asynchronous"; a bit without a name is printed as a number.
std::string flags_text(std::uint64_t flags) {
  std::string text;
  for (std::size_t bit = 0; flags >> bit != 0; ++bit) {
    if ((flags >> bit & 1) == 0) continue;
    text += text.empty() ? "" : "|";
    text += bit < kFlagNames.size() ? std::string(kFlagNames[bit]) : std::to_string(1ULL << bit);
  }
  return text;
}

// True for a field that is not printed: its value is always the same, or is part of another field.
bool is_not_printed(const trace::RecordHeader& record, const trace::Field& field) {
  if (field.name == "flags") return record.flags == 0;
  if (record.kind == trace::RecordKind::kBlock) {
    if (field.name == "stream") return (record.flags & trace::kFlagStream) == 0;
    if (field.name == "requested") return trace::as<trace::Block>(record).requested == 0;
  }
  if (field.name == "api" || field.name == "result") return !trace::is_call(record.kind);
  return field.name == "time" || field.name == "reserved";
}

// A field as NAME=VALUE. The end of a call is shown as its duration: "took=0.000012000 s".
std::string field_text(const trace::RecordHeader& record, const trace::Field& field,
                       const RecordDictionary& dictionary) {
  const std::uint64_t value =
      trace::load_field(reinterpret_cast<const std::byte*>(&record), field.offset, field.bytes);
  if (field.name == "api") {
    const auto name = dictionary.api_names.find(static_cast<std::uint16_t>(value));
    return name == dictionary.api_names.end() ? format_text("api={}", value)
                                              : "api=" + name->second;
  }
  if (field.encoding == trace::Encoding::kAfterStart) {
    if (value == 0) return "took=unfinished";
    return "took=" + seconds_text(dictionary.clock.duration_ns(value - record.time));
  }
  if (field.name == "flags") return "flags=" + flags_text(value);
  if (is_hexadecimal(record.kind, field.name)) return format_text("{}={:#x}", field.name, value);
  if (const std::string name = name_of_value(record.kind, field.name, value); !name.empty()) {
    return format_text("{}={}", field.name, name);
  }
  if (field.encoding == trace::Encoding::kSigned) {
    return format_text("{}={}", field.name, sign_extend(value, field.bytes));
  }
  return format_text("{}={}", field.name, value);
}

}  // namespace

std::string record_text(const trace::RecordHeader& record, const RecordDictionary& dictionary) {
  const trace::KindInfo* const info = trace::find_kind(record.kind);
  std::string text = seconds_text(dictionary.clock.to_job_ns(record.time)) + "  ";
  if (info == nullptr) {
    return text + format_text("kind {} that this version does not know",
                              static_cast<unsigned>(record.kind));
  }
  text += info->name;
  for (const trace::Field& field : info->fields) {
    if (is_not_printed(record, field)) continue;
    text += ' ';
    text += field_text(record, field, dictionary);
  }
  if (info->has_tail) text += tail_text(record);
  return analyzer::printable(text);
}

}  // namespace gpumemtrace::tools
