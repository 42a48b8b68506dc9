// SPDX-License-Identifier: Apache-2.0
#include "tools/traces/record_text.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "analyzer/base/printable.hpp"
#include "tools/base/text.hpp"
#include "trace/reader.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::tools {
namespace {

using trace::RecordKind;

// Names of an enumeration's values, separated by spaces, from the value `first` on.
struct ValueNames {
  RecordKind kind;  // kNone: in every kind
  std::string_view field;
  std::uint64_t first;
  std::string_view names;
};

// CUPTI's own enumerations, cupti_activity.h.
constexpr std::string_view kCopyKinds =
    "unknown host_to_device device_to_host host_to_array array_to_host array_to_array "
    "array_to_device device_to_array device_to_device host_to_host peer";
constexpr std::string_view kMemoryKinds =
    "unknown pageable pinned device array managed device_static managed_static";

constexpr auto kValueNames = std::to_array<ValueNames>({
    {RecordKind::kNone, "memory", 0,
     "unknown device pitched managed stream_ordered pinned registered array mipmapped_array "
     "physical physical_host"},
    {RecordKind::kMapping, "operation", 1,
     "reserve free_reservation map unmap set_access retain_handle export import multicast_create "
     "multicast_bind multicast_unbind map_array"},
    {RecordKind::kPool, "operation", 1,
     "create destroy trim set_attribute set_current get_default get_current export import"},
    {RecordKind::kRange, "operation", 1,
     "prefetch advise attach discard discard_and_prefetch stream_write decompress"},
    {RecordKind::kContextCall, "operation", 1,
     "create destroy set_current push pop retain_primary release_primary reset_primary "
     "green_create green_destroy enable_peer disable_peer set_limit"},
    {RecordKind::kGraph, "operation", 1,
     "add_allocation add_free add_copy add_set instantiate launch destroy_executable destroy trim "
     "begin_capture end_capture set_node upload clone"},
    {RecordKind::kImport, "operation", 1,
     "ipc_export ipc_open ipc_close external_import external_map external_map_array "
     "external_destroy pool_export_pointer pool_import_pointer graphics_map graphics_unmap "
     "graphics_pointer"},
    {RecordKind::kCopy, "destination_type", 0, "unknown host device array unified"},
    {RecordKind::kCopy, "source_type", 0, "unknown host device array unified"},
    {RecordKind::kNone, "framework", 0, "unknown pytorch"},
    {RecordKind::kMemorySample, "source", 0, "none memgetinfo nvml_process nvml_device"},
    {RecordKind::kProcessSample, "relation", 0, "other this descendant"},
    {RecordKind::kText, "key", 0,
     "none executable command_line host boot_id rank local_rank world_size job tool_version "
     "driver_version process_id parent_process_id clock_source torch_version torch_allocator "
     "simulated_driver note thread_library python_version python_stacks_off "
     "native_stacks_off suppression torch_cuda_alloc_conf torch_alloc_conf "
     "torch_allocator_options attempt run"},
    {RecordKind::kAllocatorSetting, "option", 1, "text memory_fraction"},
    {RecordKind::kCode, "text", 1, "name file line_table"},
    {RecordKind::kMark, "mark", 1, "user started stopped exit disabled exec"},
    {RecordKind::kAnnotation, "operation", 1, "step mark push pop start end"},
    {RecordKind::kTensor, "role", 0, "unknown parameter gradient optimizer_state buffer"},
    {RecordKind::kAnnotation, "source", 0, "unknown api nvtx"},
    {RecordKind::kActivityCall, "domain", 1, "driver runtime"},
    {RecordKind::kActivityCopy, "copy_kind", 0, kCopyKinds},
    {RecordKind::kActivityCopy, "source_kind", 0, kMemoryKinds},
    {RecordKind::kActivityCopy, "destination_kind", 0, kMemoryKinds},
    {RecordKind::kActivitySet, "memory_kind", 0, kMemoryKinds},
    {RecordKind::kActivityMemory, "memory_kind", 0, kMemoryKinds},
    {RecordKind::kActivityMemory, "operation", 0, "invalid allocation release"},
    {RecordKind::kActivityMemory, "pool_type", 0, "invalid local imported"},
    {RecordKind::kActivityPool, "operation", 0, "invalid created destroyed trimmed"},
    {RecordKind::kActivityPool, "pool_type", 0, "invalid local imported"},
    {RecordKind::kActivityManaged, "counter", 0,
     "unknown bytes_to_device bytes_to_host cpu_fault gpu_fault thrashing throttling remote_map "
     "bytes_between_devices"},
    {RecordKind::kActivityState, "mode", 0, "off copies full lost"},
});

// By bit.
constexpr auto kFlagNames = std::to_array<std::string_view>(
    {"by_pointer", "captured", "estimated", "asynchronous", "per_thread_stream", "segment", "cut",
     "collected", "stream", "autograd"});

// Fields that people compare as addresses or handles.
constexpr auto kHexadecimalFields = std::to_array<std::string_view>(
    {"address", "caller", "handle", "event", "stream", "pool", "destination", "content", "graph",
     "executable", "base", "begin", "uuid_low", "uuid_high"});

std::string_view nth_word(std::string_view words, std::uint64_t index) {
  while (index > 0 && !words.empty()) {
    const std::size_t space = words.find(' ');
    words.remove_prefix(space == std::string_view::npos ? words.size() : space + 1);
    --index;
  }
  return words.substr(0, words.find(' '));
}

std::string_view name_of_value(RecordKind kind, std::string_view field, std::uint64_t value) {
  for (const ValueNames& row : kValueNames) {
    const bool matches = row.field == field && (row.kind == RecordKind::kNone || row.kind == kind);
    if (matches) return value < row.first ? "" : nth_word(row.names, value - row.first);
  }
  return {};
}

bool is_hexadecimal(RecordKind kind, std::string_view field) {
  // A copy's source is an address, a sample's source is a word.
  if (field == "source") return kind == RecordKind::kCopy;
  // The destination of managed memory is a device.
  if (field == "destination") return kind != RecordKind::kActivityManaged;
  // A module ends at an address, a call ends at a time.
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

// A zero byte becomes a space: it stands between two words.
std::string quoted(std::string_view text) {
  return "\"" + replaced(text, {{'\0', " "}, {'"', "\\x22"}, {'\\', "\\x5c"}}) + "\"";
}

// A stack's frames as code object and instruction, or as address; a line table is no text.
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
  return " " + quoted(trace::tail_of(record));
}

// "captured|asynchronous"; bits without a name as a number.
std::string flags_text(std::uint64_t flags) {
  std::string text;
  for (std::size_t bit = 0; flags >> bit != 0; ++bit) {
    if ((flags >> bit & 1) == 0) continue;
    text += text.empty() ? "" : "|";
    text += bit < kFlagNames.size() ? std::string(kFlagNames[bit]) : std::to_string(1ULL << bit);
  }
  return text;
}

// Left out: a value that is always the same or belongs to another field.
bool says_nothing(const trace::RecordHeader& record, const trace::Field& field) {
  if (field.name == "flags") return record.flags == 0;
  if (record.kind == trace::RecordKind::kBlock) {
    if (field.name == "stream") return (record.flags & trace::kFlagStream) == 0;
    if (field.name == "requested") return trace::as<trace::Block>(record).requested == 0;
  }
  if (field.name == "api" || field.name == "result") return !trace::is_call(record.kind);
  return field.name == "time" || field.name == "reserved";
}

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
  if (const std::string_view name = name_of_value(record.kind, field.name, value); !name.empty()) {
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
    if (says_nothing(record, field)) continue;
    text += ' ';
    text += field_text(record, field, dictionary);
  }
  if (info->has_tail) text += tail_text(record);
  return analyzer::printable(text);
}

}  // namespace gpumemtrace::tools
