// SPDX-License-Identifier: Apache-2.0
// What each record kind consists of: the table that packer, reader, `dump` and docs/format.md walk.
// The table is checked at compile time against the structs of the records: every byte of a struct
// belongs to exactly one field.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "trace/activity_records.hpp"
#include "trace/checkpoint_records.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::trace {

struct KindInfo {
  RecordKind kind = RecordKind::kNone;
  std::string_view name;
  std::uint16_t bytes = 0;  // of the struct, without tail
  bool has_tail = false;    // text or bytes follow the struct, padded with zeros to a word
  std::span<const Field> fields;
};

namespace schema {

#define GPUMEMTRACE_FIELD(Record, member, encoding) \
  Field { #member, offsetof(Record, member), sizeof(Record::member), Encoding::encoding }
#define GPUMEMTRACE_NESTED_FIELD(Record, name, path, type, encoding) \
  Field { name, offsetof(Record, path), sizeof(type), Encoding::encoding }

// `kind` and `words` are structure, not columns: the packer writes them on their own.
#define GPUMEMTRACE_HEADER_FIELDS(Record, path)                                       \
  GPUMEMTRACE_NESTED_FIELD(Record, "api", path.api, std::uint16_t, kPlain),           \
      GPUMEMTRACE_NESTED_FIELD(Record, "result", path.result, std::uint16_t, kPlain), \
      GPUMEMTRACE_NESTED_FIELD(Record, "flags", path.flags, std::uint16_t, kPlain),   \
      GPUMEMTRACE_NESTED_FIELD(Record, "time", path.time, std::uint64_t, kTime)

#define GPUMEMTRACE_CALL_FIELDS(Record)                                               \
  GPUMEMTRACE_HEADER_FIELDS(Record, call.record),                                     \
      GPUMEMTRACE_NESTED_FIELD(Record, "end", call.end, std::uint64_t, kAfterStart),  \
      GPUMEMTRACE_NESTED_FIELD(Record, "caller", call.caller, std::uint64_t, kDelta), \
      GPUMEMTRACE_NESTED_FIELD(Record, "stack", call.stack, std::uint32_t, kDelta),   \
      GPUMEMTRACE_NESTED_FIELD(Record, "context", call.context, std::uint32_t, kPlain)

inline constexpr auto kAllocation = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(Allocation),
    GPUMEMTRACE_FIELD(Allocation, address, kDelta),
    GPUMEMTRACE_FIELD(Allocation, bytes, kPlain),
    GPUMEMTRACE_FIELD(Allocation, stream, kDelta),
    GPUMEMTRACE_FIELD(Allocation, pool, kDelta),
    GPUMEMTRACE_FIELD(Allocation, memory, kPlain),
    GPUMEMTRACE_FIELD(Allocation, location, kSigned),
});
inline constexpr auto kFree = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(Free),
    GPUMEMTRACE_FIELD(Free, address, kDelta),
    GPUMEMTRACE_FIELD(Free, stream, kDelta),
    GPUMEMTRACE_FIELD(Free, memory, kPlain),
    GPUMEMTRACE_FIELD(Free, reserved, kPlain),
});
inline constexpr auto kMapping = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(Mapping),
    GPUMEMTRACE_FIELD(Mapping, address, kDelta),
    GPUMEMTRACE_FIELD(Mapping, bytes, kPlain),
    GPUMEMTRACE_FIELD(Mapping, offset, kPlain),
    GPUMEMTRACE_FIELD(Mapping, handle, kDelta),
    GPUMEMTRACE_FIELD(Mapping, operation, kPlain),
    GPUMEMTRACE_FIELD(Mapping, location, kSigned),
});
inline constexpr auto kPool = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(Pool),
    GPUMEMTRACE_FIELD(Pool, pool, kDelta),
    GPUMEMTRACE_FIELD(Pool, value, kPlain),
    GPUMEMTRACE_FIELD(Pool, operation, kPlain),
    GPUMEMTRACE_FIELD(Pool, attribute, kPlain),
    GPUMEMTRACE_FIELD(Pool, device, kSigned),
    GPUMEMTRACE_FIELD(Pool, reserved, kPlain),
});
inline constexpr auto kCopy = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(Copy),
    GPUMEMTRACE_FIELD(Copy, destination, kDelta),
    GPUMEMTRACE_FIELD(Copy, source, kDelta),
    GPUMEMTRACE_FIELD(Copy, bytes, kPlain),
    GPUMEMTRACE_FIELD(Copy, stream, kDelta),
    GPUMEMTRACE_FIELD(Copy, destination_type, kPlain),
    GPUMEMTRACE_FIELD(Copy, source_type, kPlain),
    GPUMEMTRACE_FIELD(Copy, dimensions, kPlain),
    GPUMEMTRACE_FIELD(Copy, part, kPlain),
    GPUMEMTRACE_FIELD(Copy, content, kPlain),
});
inline constexpr auto kSet = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(Set),
    GPUMEMTRACE_FIELD(Set, destination, kDelta),
    GPUMEMTRACE_FIELD(Set, bytes, kPlain),
    GPUMEMTRACE_FIELD(Set, stream, kDelta),
    GPUMEMTRACE_FIELD(Set, value, kPlain),
    GPUMEMTRACE_FIELD(Set, element_bytes, kPlain),
});
inline constexpr auto kRange = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(Range),
    GPUMEMTRACE_FIELD(Range, address, kDelta),
    GPUMEMTRACE_FIELD(Range, bytes, kPlain),
    GPUMEMTRACE_FIELD(Range, stream, kDelta),
    GPUMEMTRACE_FIELD(Range, operation, kPlain),
    GPUMEMTRACE_FIELD(Range, value, kSigned),
    GPUMEMTRACE_FIELD(Range, part, kPlain),
    GPUMEMTRACE_FIELD(Range, reserved, kPlain),
});
inline constexpr auto kContextCall = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(ContextCall),
    GPUMEMTRACE_FIELD(ContextCall, handle, kDelta),
    GPUMEMTRACE_FIELD(ContextCall, value, kPlain),
    GPUMEMTRACE_FIELD(ContextCall, operation, kPlain),
    GPUMEMTRACE_FIELD(ContextCall, device, kSigned),
    GPUMEMTRACE_FIELD(ContextCall, still_active, kPlain),
    GPUMEMTRACE_FIELD(ContextCall, handle_context, kPlain),
});
inline constexpr auto kGraph = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(Graph),
    GPUMEMTRACE_FIELD(Graph, graph, kDelta),
    GPUMEMTRACE_FIELD(Graph, executable, kDelta),
    GPUMEMTRACE_FIELD(Graph, address, kDelta),
    GPUMEMTRACE_FIELD(Graph, bytes, kPlain),
    GPUMEMTRACE_FIELD(Graph, stream, kDelta),
    GPUMEMTRACE_FIELD(Graph, operation, kPlain),
    GPUMEMTRACE_FIELD(Graph, device, kSigned),
});
inline constexpr auto kImport = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(Import),
    GPUMEMTRACE_FIELD(Import, address, kDelta),
    GPUMEMTRACE_FIELD(Import, bytes, kPlain),
    GPUMEMTRACE_FIELD(Import, handle, kDelta),
    GPUMEMTRACE_FIELD(Import, operation, kPlain),
    GPUMEMTRACE_FIELD(Import, reserved, kPlain),
});
inline constexpr auto kOtherCall = std::to_array<Field>({
    GPUMEMTRACE_CALL_FIELDS(OtherCall),
    GPUMEMTRACE_FIELD(OtherCall, argument, kDelta),
});
inline constexpr auto kBlock = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Block, record),
    GPUMEMTRACE_FIELD(Block, address, kDelta),
    GPUMEMTRACE_FIELD(Block, bytes, kSigned),
    GPUMEMTRACE_FIELD(Block, allocated, kDelta),
    GPUMEMTRACE_FIELD(Block, reserved_bytes, kDelta),
    GPUMEMTRACE_FIELD(Block, stack, kDelta),
    GPUMEMTRACE_FIELD(Block, device_type, kPlain),
    GPUMEMTRACE_FIELD(Block, device, kSigned),
    GPUMEMTRACE_FIELD(Block, framework, kPlain),
    GPUMEMTRACE_FIELD(Block, stream, kDelta),
    GPUMEMTRACE_FIELD(Block, requested, kPlain),
});
inline constexpr auto kFrameworkOom = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(FrameworkOom, record),
    GPUMEMTRACE_FIELD(FrameworkOom, requested, kPlain),
    GPUMEMTRACE_FIELD(FrameworkOom, allocated, kPlain),
    GPUMEMTRACE_FIELD(FrameworkOom, reserved_bytes, kPlain),
    GPUMEMTRACE_FIELD(FrameworkOom, stack, kDelta),
    GPUMEMTRACE_FIELD(FrameworkOom, device_type, kPlain),
    GPUMEMTRACE_FIELD(FrameworkOom, device, kSigned),
    GPUMEMTRACE_FIELD(FrameworkOom, framework, kPlain),
});
inline constexpr auto kClock = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Clock, record),
    GPUMEMTRACE_FIELD(Clock, monotonic_ns, kPlain),
    GPUMEMTRACE_FIELD(Clock, realtime_ns, kPlain),
    GPUMEMTRACE_FIELD(Clock, uncertainty_ticks, kPlain),
    GPUMEMTRACE_FIELD(Clock, background_cpu_ns, kPlain),
});
inline constexpr auto kMemorySample = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(MemorySample, record),
    GPUMEMTRACE_FIELD(MemorySample, free_bytes, kPlain),
    GPUMEMTRACE_FIELD(MemorySample, total_bytes, kPlain),
    GPUMEMTRACE_FIELD(MemorySample, process_bytes, kPlain),
    GPUMEMTRACE_FIELD(MemorySample, other_bytes, kPlain),
    GPUMEMTRACE_FIELD(MemorySample, source, kPlain),
    GPUMEMTRACE_FIELD(MemorySample, device, kSigned),
});
inline constexpr auto kPoolSample = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(PoolSample, record),
    GPUMEMTRACE_FIELD(PoolSample, pool, kPlain),
    GPUMEMTRACE_FIELD(PoolSample, reserved_current, kPlain),
    GPUMEMTRACE_FIELD(PoolSample, reserved_high, kPlain),
    GPUMEMTRACE_FIELD(PoolSample, used_current, kPlain),
    GPUMEMTRACE_FIELD(PoolSample, used_high, kPlain),
    GPUMEMTRACE_FIELD(PoolSample, device, kSigned),
    GPUMEMTRACE_FIELD(PoolSample, reserved, kPlain),
});
inline constexpr auto kThread = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Thread, record),
    GPUMEMTRACE_FIELD(Thread, thread_id, kPlain),
    GPUMEMTRACE_FIELD(Thread, pthread_self, kPlain),
    GPUMEMTRACE_FIELD(Thread, writer, kPlain),
    GPUMEMTRACE_FIELD(Thread, reserved, kPlain),
});
inline constexpr auto kContext = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Context, record),
    GPUMEMTRACE_FIELD(Context, handle, kPlain),
    GPUMEMTRACE_FIELD(Context, id, kPlain),
    GPUMEMTRACE_FIELD(Context, device, kSigned),
    GPUMEMTRACE_FIELD(Context, primary, kPlain),
    GPUMEMTRACE_FIELD(Context, reserved, kPlain),
});
inline constexpr auto kDevice = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Device, record),
    GPUMEMTRACE_FIELD(Device, total_bytes, kPlain),
    GPUMEMTRACE_FIELD(Device, uuid_low, kPlain),
    GPUMEMTRACE_FIELD(Device, uuid_high, kPlain),
    GPUMEMTRACE_FIELD(Device, ordinal, kSigned),
    GPUMEMTRACE_FIELD(Device, reserved, kPlain),
    GPUMEMTRACE_FIELD(Device, pcie_generation, kPlain),
    GPUMEMTRACE_FIELD(Device, pcie_width, kPlain),
});
inline constexpr auto kModule = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Module, record),
    GPUMEMTRACE_FIELD(Module, base, kDelta),
    GPUMEMTRACE_FIELD(Module, begin, kDelta),
    GPUMEMTRACE_FIELD(Module, end, kDelta),
    GPUMEMTRACE_FIELD(Module, unloaded, kPlain),
    GPUMEMTRACE_FIELD(Module, build_id_0, kPlain),
    GPUMEMTRACE_FIELD(Module, build_id_1, kPlain),
    GPUMEMTRACE_FIELD(Module, build_id_2, kPlain),
    GPUMEMTRACE_FIELD(Module, build_id_bytes, kPlain),
    GPUMEMTRACE_FIELD(Module, reserved, kPlain),
});
inline constexpr auto kApiName = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ApiName, record),
    GPUMEMTRACE_FIELD(ApiName, id, kDelta),
    GPUMEMTRACE_FIELD(ApiName, record_kind, kPlain),
});
inline constexpr auto kText = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Text, record),
    GPUMEMTRACE_FIELD(Text, key, kPlain),
    GPUMEMTRACE_FIELD(Text, part, kPlain),
});
inline constexpr auto kUnwrapped = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Unwrapped, record),
    GPUMEMTRACE_FIELD(Unwrapped, address, kPlain),
});
inline constexpr auto kRequester = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Requester, record),
    GPUMEMTRACE_FIELD(Requester, caller, kPlain),
});
inline constexpr auto kStack = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Stack, record),
    GPUMEMTRACE_FIELD(Stack, id, kPlain),
    GPUMEMTRACE_FIELD(Stack, python_frames, kPlain),
    GPUMEMTRACE_FIELD(Stack, python_version, kPlain),
    GPUMEMTRACE_FIELD(Stack, native_frames, kPlain),
});
inline constexpr auto kCode = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Code, record),
    GPUMEMTRACE_FIELD(Code, id, kPlain),
    GPUMEMTRACE_FIELD(Code, first_line, kPlain),
    GPUMEMTRACE_FIELD(Code, text, kPlain),
    GPUMEMTRACE_FIELD(Code, part, kPlain),
    GPUMEMTRACE_FIELD(Code, bytes, kPlain),
    GPUMEMTRACE_FIELD(Code, reserved, kPlain),
});
inline constexpr auto kMark = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Mark, record),
    GPUMEMTRACE_FIELD(Mark, mark, kPlain),
    GPUMEMTRACE_FIELD(Mark, reserved, kPlain),
});
inline constexpr auto kAnnotation = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Annotation, record),
    GPUMEMTRACE_FIELD(Annotation, value, kPlain),
    GPUMEMTRACE_FIELD(Annotation, operation, kPlain),
    GPUMEMTRACE_FIELD(Annotation, name, kPlain),
    GPUMEMTRACE_FIELD(Annotation, domain, kPlain),
    GPUMEMTRACE_FIELD(Annotation, source, kPlain),
    GPUMEMTRACE_FIELD(Annotation, reserved, kPlain),
});
inline constexpr auto kWaitingStack = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(WaitingStack, record),
    GPUMEMTRACE_FIELD(WaitingStack, thread_id, kPlain),
    GPUMEMTRACE_FIELD(WaitingStack, stack, kPlain),
    GPUMEMTRACE_FIELD(WaitingStack, reserved, kPlain),
});
inline constexpr auto kName = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Name, record),
    GPUMEMTRACE_FIELD(Name, id, kPlain),
    GPUMEMTRACE_FIELD(Name, reserved, kPlain),
});
inline constexpr auto kTensor = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Tensor, record),
    GPUMEMTRACE_FIELD(Tensor, address, kDelta),
    GPUMEMTRACE_FIELD(Tensor, bytes, kPlain),
    GPUMEMTRACE_FIELD(Tensor, role, kPlain),
    GPUMEMTRACE_FIELD(Tensor, name, kDelta),
    GPUMEMTRACE_FIELD(Tensor, state, kPlain),
    GPUMEMTRACE_FIELD(Tensor, layer, kPlain),
});
inline constexpr auto kGap = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Gap, record),
    GPUMEMTRACE_FIELD(Gap, since, kPlain),
    GPUMEMTRACE_FIELD(Gap, allocations, kPlain),
    GPUMEMTRACE_FIELD(Gap, frees, kPlain),
    GPUMEMTRACE_FIELD(Gap, copies, kPlain),
    GPUMEMTRACE_FIELD(Gap, blocks, kPlain),
    GPUMEMTRACE_FIELD(Gap, others, kPlain),
    GPUMEMTRACE_FIELD(Gap, stacks, kPlain),
    GPUMEMTRACE_FIELD(Gap, parts, kPlain),
});
inline constexpr auto kTotals = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Totals, record),
    GPUMEMTRACE_FIELD(Totals, caller, kDelta),
    GPUMEMTRACE_FIELD(Totals, pool, kDelta),
    GPUMEMTRACE_FIELD(Totals, count, kPlain),
    GPUMEMTRACE_FIELD(Totals, freed, kPlain),
    GPUMEMTRACE_FIELD(Totals, failed, kPlain),
    GPUMEMTRACE_FIELD(Totals, bytes, kPlain),
    GPUMEMTRACE_FIELD(Totals, largest_bytes, kPlain),
    GPUMEMTRACE_FIELD(Totals, host_ticks, kPlain),
    GPUMEMTRACE_FIELD(Totals, stack, kDelta),
    GPUMEMTRACE_FIELD(Totals, context, kPlain),
    GPUMEMTRACE_FIELD(Totals, kind, kPlain),
    GPUMEMTRACE_FIELD(Totals, memory, kPlain),
    GPUMEMTRACE_FIELD(Totals, location, kSigned),
    GPUMEMTRACE_FIELD(Totals, source_device, kSigned),
    GPUMEMTRACE_FIELD(Totals, destination_device, kSigned),
    GPUMEMTRACE_FIELD(Totals, source_type, kPlain),
    GPUMEMTRACE_FIELD(Totals, destination_type, kPlain),
    GPUMEMTRACE_FIELD(Totals, source, kPlain),
    GPUMEMTRACE_FIELD(Totals, destination, kPlain),
    GPUMEMTRACE_FIELD(Totals, last_time, kPlain),
    GPUMEMTRACE_FIELD(Totals, first_freed_time, kPlain),
    GPUMEMTRACE_FIELD(Totals, freed_caller, kDelta),
    GPUMEMTRACE_FIELD(Totals, freed_stack, kDelta),
    GPUMEMTRACE_FIELD(Totals, freed_api, kPlain),
    GPUMEMTRACE_FIELD(Totals, freed_flags, kPlain),
    GPUMEMTRACE_FIELD(Totals, freed_at, kPlain),
    GPUMEMTRACE_FIELD(Totals, reserved, kPlain),
});
inline constexpr auto kPeak = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Peak, record),
    GPUMEMTRACE_FIELD(Peak, peak_time, kPlain),
    GPUMEMTRACE_FIELD(Peak, bytes, kPlain),
    GPUMEMTRACE_FIELD(Peak, pool, kPlain),
    GPUMEMTRACE_FIELD(Peak, scope, kPlain),
    GPUMEMTRACE_FIELD(Peak, memory, kPlain),
    GPUMEMTRACE_FIELD(Peak, device, kSigned),
    GPUMEMTRACE_FIELD(Peak, source, kPlain),
    GPUMEMTRACE_FIELD(Peak, framework_allocated, kPlain),
    GPUMEMTRACE_FIELD(Peak, pool_used, kPlain),
    GPUMEMTRACE_FIELD(Peak, pool_reserved, kPlain),
    GPUMEMTRACE_FIELD(Peak, sample_time, kPlain),
    GPUMEMTRACE_FIELD(Peak, sample_free, kPlain),
    GPUMEMTRACE_FIELD(Peak, sample_total, kPlain),
    GPUMEMTRACE_FIELD(Peak, sample_process, kPlain),
    GPUMEMTRACE_FIELD(Peak, sample_other, kPlain),
    GPUMEMTRACE_FIELD(Peak, sample_physical, kPlain),
});
inline constexpr auto kPeakHolder = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(PeakHolder, record),
    GPUMEMTRACE_FIELD(PeakHolder, caller, kDelta),
    GPUMEMTRACE_FIELD(PeakHolder, bytes, kPlain),
    GPUMEMTRACE_FIELD(PeakHolder, count, kPlain),
    GPUMEMTRACE_FIELD(PeakHolder, stack, kDelta),
    GPUMEMTRACE_FIELD(PeakHolder, memory, kPlain),
});
inline constexpr auto kCheckpoint = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(Checkpoint, record),
    GPUMEMTRACE_FIELD(Checkpoint, folds, kPlain),
    GPUMEMTRACE_FIELD(Checkpoint, records, kPlain),
    GPUMEMTRACE_FIELD(Checkpoint, events, kPlain),
    GPUMEMTRACE_FIELD(Checkpoint, order_repaired, kPlain),
    GPUMEMTRACE_FIELD(Checkpoint, live_address_allocated, kPlain),
    GPUMEMTRACE_FIELD(Checkpoint, inexact, kPlain),
    GPUMEMTRACE_FIELD(Checkpoint, activity_records, kPlain),
    GPUMEMTRACE_FIELD(Checkpoint, first_time, kPlain),
});
inline constexpr auto kRefusedFree = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(RefusedFree, record),
    GPUMEMTRACE_FIELD(RefusedFree, caller, kDelta),
    GPUMEMTRACE_FIELD(RefusedFree, count, kPlain),
    GPUMEMTRACE_FIELD(RefusedFree, bytes, kPlain),
    GPUMEMTRACE_FIELD(RefusedFree, first_time, kPlain),
    GPUMEMTRACE_FIELD(RefusedFree, last_time, kPlain),
    GPUMEMTRACE_FIELD(RefusedFree, offset_bytes, kPlain),
    GPUMEMTRACE_FIELD(RefusedFree, allocated_caller, kDelta),
    GPUMEMTRACE_FIELD(RefusedFree, freed_caller, kDelta),
    GPUMEMTRACE_FIELD(RefusedFree, stack, kDelta),
    GPUMEMTRACE_FIELD(RefusedFree, what, kPlain),
    GPUMEMTRACE_FIELD(RefusedFree, allocated_stack, kDelta),
    GPUMEMTRACE_FIELD(RefusedFree, freed_stack, kDelta),
    GPUMEMTRACE_FIELD(RefusedFree, allocated_api, kPlain),
    GPUMEMTRACE_FIELD(RefusedFree, allocated_flags, kPlain),
    GPUMEMTRACE_FIELD(RefusedFree, freed_api, kPlain),
    GPUMEMTRACE_FIELD(RefusedFree, freed_flags, kPlain),
});
inline constexpr auto kRecentFree = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(RecentFree, record),
    GPUMEMTRACE_FIELD(RecentFree, address, kDelta),
    GPUMEMTRACE_FIELD(RecentFree, caller, kDelta),
    GPUMEMTRACE_FIELD(RecentFree, stack, kDelta),
    GPUMEMTRACE_FIELD(RecentFree, reserved, kPlain),
});

inline constexpr auto kActivityCall = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivityCall, record),
    GPUMEMTRACE_FIELD(ActivityCall, start, kDelta),
    GPUMEMTRACE_FIELD(ActivityCall, end, kDelta),
    GPUMEMTRACE_FIELD(ActivityCall, correlation, kDelta),
    GPUMEMTRACE_FIELD(ActivityCall, thread_id, kPlain),
    GPUMEMTRACE_FIELD(ActivityCall, function, kPlain),
    GPUMEMTRACE_FIELD(ActivityCall, returned, kPlain),
    GPUMEMTRACE_FIELD(ActivityCall, domain, kPlain),
    GPUMEMTRACE_FIELD(ActivityCall, library, kPlain),
    GPUMEMTRACE_FIELD(ActivityCall, reserved, kPlain),
});
inline constexpr auto kActivityCopy = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivityCopy, record),
    GPUMEMTRACE_FIELD(ActivityCopy, start, kDelta),
    GPUMEMTRACE_FIELD(ActivityCopy, end, kDelta),
    GPUMEMTRACE_FIELD(ActivityCopy, bytes, kPlain),
    GPUMEMTRACE_FIELD(ActivityCopy, graph_node, kDelta),
    GPUMEMTRACE_FIELD(ActivityCopy, copies, kPlain),
    GPUMEMTRACE_FIELD(ActivityCopy, correlation, kDelta),
    GPUMEMTRACE_FIELD(ActivityCopy, context, kPlain),
    GPUMEMTRACE_FIELD(ActivityCopy, stream, kPlain),
    GPUMEMTRACE_FIELD(ActivityCopy, device, kSigned),
    GPUMEMTRACE_FIELD(ActivityCopy, source_device, kSigned),
    GPUMEMTRACE_FIELD(ActivityCopy, destination_device, kSigned),
    GPUMEMTRACE_FIELD(ActivityCopy, copy_kind, kPlain),
    GPUMEMTRACE_FIELD(ActivityCopy, source_kind, kPlain),
    GPUMEMTRACE_FIELD(ActivityCopy, destination_kind, kPlain),
    GPUMEMTRACE_FIELD(ActivityCopy, is_asynchronous, kPlain),
    GPUMEMTRACE_FIELD(ActivityCopy, library, kPlain),
    GPUMEMTRACE_FIELD(ActivityCopy, reserved, kPlain),
});
inline constexpr auto kActivitySet = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivitySet, record),
    GPUMEMTRACE_FIELD(ActivitySet, start, kDelta),
    GPUMEMTRACE_FIELD(ActivitySet, end, kDelta),
    GPUMEMTRACE_FIELD(ActivitySet, bytes, kPlain),
    GPUMEMTRACE_FIELD(ActivitySet, graph_node, kDelta),
    GPUMEMTRACE_FIELD(ActivitySet, correlation, kDelta),
    GPUMEMTRACE_FIELD(ActivitySet, context, kPlain),
    GPUMEMTRACE_FIELD(ActivitySet, stream, kPlain),
    GPUMEMTRACE_FIELD(ActivitySet, device, kSigned),
    GPUMEMTRACE_FIELD(ActivitySet, value, kPlain),
    GPUMEMTRACE_FIELD(ActivitySet, memory_kind, kPlain),
    GPUMEMTRACE_FIELD(ActivitySet, library, kPlain),
});
inline constexpr auto kActivityMemory = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivityMemory, record),
    GPUMEMTRACE_FIELD(ActivityMemory, timestamp, kDelta),
    GPUMEMTRACE_FIELD(ActivityMemory, address, kDelta),
    GPUMEMTRACE_FIELD(ActivityMemory, bytes, kPlain),
    GPUMEMTRACE_FIELD(ActivityMemory, pool, kDelta),
    GPUMEMTRACE_FIELD(ActivityMemory, operation, kPlain),
    GPUMEMTRACE_FIELD(ActivityMemory, memory_kind, kPlain),
    GPUMEMTRACE_FIELD(ActivityMemory, pool_type, kPlain),
    GPUMEMTRACE_FIELD(ActivityMemory, correlation, kDelta),
    GPUMEMTRACE_FIELD(ActivityMemory, context, kPlain),
    GPUMEMTRACE_FIELD(ActivityMemory, stream, kPlain),
    GPUMEMTRACE_FIELD(ActivityMemory, device, kSigned),
    GPUMEMTRACE_FIELD(ActivityMemory, is_asynchronous, kPlain),
    GPUMEMTRACE_FIELD(ActivityMemory, library, kPlain),
});
inline constexpr auto kActivityPool = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivityPool, record),
    GPUMEMTRACE_FIELD(ActivityPool, timestamp, kDelta),
    GPUMEMTRACE_FIELD(ActivityPool, pool, kDelta),
    GPUMEMTRACE_FIELD(ActivityPool, reserved_bytes, kPlain),
    GPUMEMTRACE_FIELD(ActivityPool, used_bytes, kPlain),
    GPUMEMTRACE_FIELD(ActivityPool, release_threshold, kPlain),
    GPUMEMTRACE_FIELD(ActivityPool, operation, kPlain),
    GPUMEMTRACE_FIELD(ActivityPool, pool_type, kPlain),
    GPUMEMTRACE_FIELD(ActivityPool, correlation, kDelta),
    GPUMEMTRACE_FIELD(ActivityPool, device, kSigned),
    GPUMEMTRACE_FIELD(ActivityPool, library, kPlain),
    GPUMEMTRACE_FIELD(ActivityPool, reserved, kPlain),
});
inline constexpr auto kActivityManaged = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivityManaged, record),
    GPUMEMTRACE_FIELD(ActivityManaged, start, kDelta),
    GPUMEMTRACE_FIELD(ActivityManaged, end, kDelta),
    GPUMEMTRACE_FIELD(ActivityManaged, address, kDelta),
    GPUMEMTRACE_FIELD(ActivityManaged, value, kPlain),
    GPUMEMTRACE_FIELD(ActivityManaged, counter, kPlain),
    GPUMEMTRACE_FIELD(ActivityManaged, source, kSigned),
    GPUMEMTRACE_FIELD(ActivityManaged, destination, kSigned),
    GPUMEMTRACE_FIELD(ActivityManaged, access, kPlain),
    GPUMEMTRACE_FIELD(ActivityManaged, library, kPlain),
    GPUMEMTRACE_FIELD(ActivityManaged, reserved, kPlain),
});
inline constexpr auto kActivityOverhead = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivityOverhead, record),
    GPUMEMTRACE_FIELD(ActivityOverhead, start, kDelta),
    GPUMEMTRACE_FIELD(ActivityOverhead, end, kDelta),
    GPUMEMTRACE_FIELD(ActivityOverhead, overhead, kPlain),
    GPUMEMTRACE_FIELD(ActivityOverhead, library, kPlain),
});
inline constexpr auto kActivityKernel = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivityKernel, record),
    GPUMEMTRACE_FIELD(ActivityKernel, start, kDelta),
    GPUMEMTRACE_FIELD(ActivityKernel, end, kDelta),
    GPUMEMTRACE_FIELD(ActivityKernel, graph_node, kDelta),
    GPUMEMTRACE_FIELD(ActivityKernel, correlation, kDelta),
    GPUMEMTRACE_FIELD(ActivityKernel, context, kPlain),
    GPUMEMTRACE_FIELD(ActivityKernel, stream, kPlain),
    GPUMEMTRACE_FIELD(ActivityKernel, device, kSigned),
    GPUMEMTRACE_FIELD(ActivityKernel, library, kPlain),
    GPUMEMTRACE_FIELD(ActivityKernel, reserved, kPlain),
});
inline constexpr auto kActivityClock = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivityClock, record),
    GPUMEMTRACE_FIELD(ActivityClock, timestamp, kDelta),
    GPUMEMTRACE_FIELD(ActivityClock, uncertainty_ticks, kPlain),
    GPUMEMTRACE_FIELD(ActivityClock, epoch, kPlain),
    GPUMEMTRACE_FIELD(ActivityClock, library, kPlain),
});
inline constexpr auto kActivityState = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivityState, record),
    GPUMEMTRACE_FIELD(ActivityState, version, kPlain),
    GPUMEMTRACE_FIELD(ActivityState, returned, kPlain),
    GPUMEMTRACE_FIELD(ActivityState, mode, kPlain),
    GPUMEMTRACE_FIELD(ActivityState, is_shared, kPlain),
    GPUMEMTRACE_FIELD(ActivityState, library, kPlain),
    GPUMEMTRACE_FIELD(ActivityState, reserved, kPlain),
});
inline constexpr auto kActivityDropped = std::to_array<Field>({
    GPUMEMTRACE_HEADER_FIELDS(ActivityDropped, record),
    GPUMEMTRACE_FIELD(ActivityDropped, by_cupti, kPlain),
    GPUMEMTRACE_FIELD(ActivityDropped, by_recorder, kPlain),
});

#undef GPUMEMTRACE_CALL_FIELDS
#undef GPUMEMTRACE_HEADER_FIELDS
#undef GPUMEMTRACE_NESTED_FIELD
#undef GPUMEMTRACE_FIELD

// Never defined: a call of one of them while compiling is the error message.
void a_field_is_missing_doubled_or_out_of_order();
void the_last_bytes_of_the_record_are_in_no_field();
void two_fields_of_one_name();
void two_rows_for_one_kind();
void more_fields_than_the_limit();

// Every byte but `kind` and `words` is covered, in order, without a hole.
template <class Record, std::size_t kCount>
consteval KindInfo describe(RecordKind kind, std::string_view name,
                            const std::array<Field, kCount>& fields, bool has_tail = false) {
  static_assert(std::is_trivially_copyable_v<Record> && std::is_standard_layout_v<Record>);
  static_assert(sizeof(Record) % kWordBytes == 0);
  std::size_t expected_offset = 2;
  for (const Field& field : fields) {
    if (field.offset != expected_offset) a_field_is_missing_doubled_or_out_of_order();
    expected_offset += field.bytes;
    for (const Field* other = &field + 1; other != fields.data() + kCount; ++other) {
      if (other->name == field.name) two_fields_of_one_name();
    }
  }
  if (expected_offset != sizeof(Record)) the_last_bytes_of_the_record_are_in_no_field();
  return {kind, name, sizeof(Record), has_tail, std::span<const Field>(fields)};
}

}  // namespace schema

inline constexpr std::array kKinds = {
    schema::describe<Allocation>(RecordKind::kAllocation, "allocation", schema::kAllocation),
    schema::describe<Free>(RecordKind::kFree, "free", schema::kFree),
    schema::describe<Mapping>(RecordKind::kMapping, "mapping", schema::kMapping),
    schema::describe<Pool>(RecordKind::kPool, "pool", schema::kPool),
    schema::describe<Copy>(RecordKind::kCopy, "copy", schema::kCopy),
    schema::describe<Set>(RecordKind::kSet, "set", schema::kSet),
    schema::describe<Range>(RecordKind::kRange, "range", schema::kRange),
    schema::describe<ContextCall>(RecordKind::kContextCall, "context_call", schema::kContextCall),
    schema::describe<Graph>(RecordKind::kGraph, "graph", schema::kGraph),
    schema::describe<Import>(RecordKind::kImport, "import", schema::kImport),
    schema::describe<OtherCall>(RecordKind::kOtherCall, "other_call", schema::kOtherCall),
    schema::describe<Block>(RecordKind::kBlock, "block", schema::kBlock),
    schema::describe<FrameworkOom>(RecordKind::kFrameworkOom, "framework_oom",
                                   schema::kFrameworkOom),
    schema::describe<Clock>(RecordKind::kClock, "clock", schema::kClock),
    schema::describe<MemorySample>(RecordKind::kMemorySample, "memory_sample",
                                   schema::kMemorySample),
    schema::describe<PoolSample>(RecordKind::kPoolSample, "pool_sample", schema::kPoolSample),
    schema::describe<Thread>(RecordKind::kThread, "thread", schema::kThread, true),
    schema::describe<Context>(RecordKind::kContext, "context", schema::kContext),
    schema::describe<Device>(RecordKind::kDevice, "device", schema::kDevice, true),
    schema::describe<Module>(RecordKind::kModule, "module", schema::kModule, true),
    schema::describe<ApiName>(RecordKind::kApiName, "api_name", schema::kApiName, true),
    schema::describe<Text>(RecordKind::kText, "text", schema::kText, true),
    schema::describe<Unwrapped>(RecordKind::kUnwrapped, "unwrapped", schema::kUnwrapped, true),
    schema::describe<Requester>(RecordKind::kRequester, "requester", schema::kRequester),
    schema::describe<Stack>(RecordKind::kStack, "stack", schema::kStack, true),
    schema::describe<Code>(RecordKind::kCode, "code", schema::kCode, true),
    schema::describe<Mark>(RecordKind::kMark, "mark", schema::kMark, true),
    schema::describe<Gap>(RecordKind::kGap, "gap", schema::kGap),
    schema::describe<Annotation>(RecordKind::kAnnotation, "annotation", schema::kAnnotation),
    schema::describe<WaitingStack>(RecordKind::kWaitingStack, "waiting_stack",
                                   schema::kWaitingStack),
    schema::describe<Name>(RecordKind::kName, "name", schema::kName, true),
    schema::describe<Tensor>(RecordKind::kTensor, "tensor", schema::kTensor),
    schema::describe<Totals>(RecordKind::kTotals, "totals", schema::kTotals),
    schema::describe<Peak>(RecordKind::kPeak, "peak", schema::kPeak),
    schema::describe<PeakHolder>(RecordKind::kPeakHolder, "peak_holder", schema::kPeakHolder),
    schema::describe<Checkpoint>(RecordKind::kCheckpoint, "checkpoint", schema::kCheckpoint),
    schema::describe<RefusedFree>(RecordKind::kRefusedFree, "refused_free", schema::kRefusedFree),
    schema::describe<RecentFree>(RecordKind::kRecentFree, "recent_free", schema::kRecentFree),
    schema::describe<ActivityCall>(RecordKind::kActivityCall, "activity_call",
                                   schema::kActivityCall),
    schema::describe<ActivityCopy>(RecordKind::kActivityCopy, "activity_copy",
                                   schema::kActivityCopy),
    schema::describe<ActivitySet>(RecordKind::kActivitySet, "activity_set", schema::kActivitySet),
    schema::describe<ActivityMemory>(RecordKind::kActivityMemory, "activity_memory",
                                     schema::kActivityMemory),
    schema::describe<ActivityPool>(RecordKind::kActivityPool, "activity_pool",
                                   schema::kActivityPool),
    schema::describe<ActivityManaged>(RecordKind::kActivityManaged, "activity_managed",
                                      schema::kActivityManaged),
    schema::describe<ActivityOverhead>(RecordKind::kActivityOverhead, "activity_overhead",
                                       schema::kActivityOverhead),
    schema::describe<ActivityKernel>(RecordKind::kActivityKernel, "activity_kernel",
                                     schema::kActivityKernel),
    schema::describe<ActivityClock>(RecordKind::kActivityClock, "activity_clock",
                                    schema::kActivityClock),
    schema::describe<ActivityState>(RecordKind::kActivityState, "activity_state",
                                    schema::kActivityState, true),
    schema::describe<ActivityDropped>(RecordKind::kActivityDropped, "activity_dropped",
                                      schema::kActivityDropped),
};

// Room for kinds that later versions add.
inline constexpr std::size_t kKindLimit = 64;
inline constexpr std::size_t kMaxFields = 40;

namespace schema {
consteval std::array<std::int8_t, 256> index_kinds() {
  std::array<std::int8_t, 256> index{};
  for (std::int8_t& entry : index) entry = -1;
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    std::int8_t& entry = index[static_cast<std::size_t>(kKinds[i].kind)];
    if (entry != -1) two_rows_for_one_kind();
    if (kKinds[i].fields.size() > kMaxFields) more_fields_than_the_limit();
    entry = static_cast<std::int8_t>(i);
  }
  return index;
}
inline constexpr std::array<std::int8_t, 256> kIndex = index_kinds();
}  // namespace schema

// All record structs. Their kinds have the same names.
// clang-format off
#define GPUMEMTRACE_RECORDS(X) \
  X(Allocation) X(Free) X(Mapping) X(Pool) X(Copy) X(Set) X(Range) X(ContextCall) X(Graph) \
  X(Import) X(OtherCall) X(Block) X(FrameworkOom) X(Clock) X(MemorySample) X(PoolSample) \
  X(Thread) X(Context) X(Device) X(Module) X(ApiName) X(Text) X(Unwrapped) X(Requester) \
  X(Stack) X(Code) X(Mark) X(Gap) X(Annotation) X(WaitingStack) X(Name) X(Tensor) X(Totals) \
  X(Peak) X(PeakHolder) X(Checkpoint) X(RefusedFree) X(RecentFree) X(ActivityCall) \
  X(ActivityCopy) X(ActivitySet) X(ActivityMemory) X(ActivityPool) X(ActivityManaged) \
  X(ActivityOverhead) X(ActivityKernel) X(ActivityClock) X(ActivityState) X(ActivityDropped)
// clang-format on

// The kind of a record struct.
template <class Record>
consteval RecordKind kind_of();
#define GPUMEMTRACE_KIND_OF(Record)        \
  template <>                              \
  consteval RecordKind kind_of<Record>() { \
    return RecordKind::k##Record;          \
  }
GPUMEMTRACE_RECORDS(GPUMEMTRACE_KIND_OF)
#undef GPUMEMTRACE_KIND_OF

// The typed view of a record; the kind must match.
template <class Record>
[[nodiscard]] const Record& as(const RecordHeader& header) noexcept {
  return reinterpret_cast<const Record&>(header);
}

// Calls visit(record) with the struct of the record's kind; with the header alone where this
// version does not know the kind.
template <class Visit>
decltype(auto) dispatch(const RecordHeader& record, Visit&& visit) {
#define GPUMEMTRACE_VISIT(Record) \
  case RecordKind::k##Record:     \
    return visit(as<Record>(record));
  switch (record.kind) {
    GPUMEMTRACE_RECORDS(GPUMEMTRACE_VISIT)
    case RecordKind::kNone:
      break;
  }
#undef GPUMEMTRACE_VISIT
  return visit(record);
}

// nullptr for a kind that this version does not know.
constexpr const KindInfo* find_kind(RecordKind kind) {
  const std::int8_t index = schema::kIndex[static_cast<std::size_t>(kind)];
  return index < 0 ? nullptr : &kKinds[static_cast<std::size_t>(index)];
}

// True for kinds whose struct begins with a CallHeader.
[[nodiscard]] constexpr bool is_call(RecordKind kind) {
  return kind >= RecordKind::kAllocation && kind <= RecordKind::kOtherCall;
}

// Unsigned value of a field of a record in memory, zero-extended.
inline std::uint64_t load_field(const std::byte* record, std::uint16_t offset,
                                std::uint8_t bytes) noexcept {
  std::uint64_t value = 0;
  switch (bytes) {
    case 1: {
      value = static_cast<std::uint8_t>(record[offset]);
      break;
    }
    case 2: {
      std::uint16_t narrow;
      __builtin_memcpy(&narrow, record + offset, 2);
      value = narrow;
      break;
    }
    case 4: {
      std::uint32_t narrow;
      __builtin_memcpy(&narrow, record + offset, 4);
      value = narrow;
      break;
    }
    default: {
      __builtin_memcpy(&value, record + offset, 8);
      break;
    }
  }
  return value;
}

inline void store_field(std::byte* record, std::uint16_t offset, std::uint8_t bytes,
                        std::uint64_t value) noexcept {
  switch (bytes) {
    case 1: {
      record[offset] = static_cast<std::byte>(value);
      break;
    }
    case 2: {
      const auto narrow = static_cast<std::uint16_t>(value);
      __builtin_memcpy(record + offset, &narrow, 2);
      break;
    }
    case 4: {
      const auto narrow = static_cast<std::uint32_t>(value);
      __builtin_memcpy(record + offset, &narrow, 4);
      break;
    }
    default: {
      __builtin_memcpy(record + offset, &value, 8);
      break;
    }
  }
}

}  // namespace gpumemtrace::trace
