// SPDX-License-Identifier: Apache-2.0
// The order in which records took effect, and the errors of a free after which its memory is gone
// all the same. Code that replays a trace needs both: the analyzer, and the recorder if it makes a
// checkpoint.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "trace/records.hpp"
#include "trace/schema.hpp"

namespace gpumemtrace::trace {

// The most ticks by which the free of an address may come after the next allocation of the same
// address in the trace: clocks of different cores disagree by less (20 us of a counter of 3 GHz).
inline constexpr std::uint64_t kReorderWindowTicks = 60'000;

namespace order {

// The time at which records of a kind take effect. Calls that hand memory out take effect when they
// return, all others when they begin; at the same tick, calls that free memory come first.
using Effect = std::uint8_t;
inline constexpr Effect kAtEnd = 1;
inline constexpr Effect kFrees = 2;
inline constexpr Effect kAsRecordSays = 4;

constexpr std::array<Effect, 256> make_table() {
  std::array<Effect, 256> table{};
  table[static_cast<std::size_t>(RecordKind::kAllocation)] = kAtEnd;
  table[static_cast<std::size_t>(RecordKind::kGraph)] = kAtEnd;
  table[static_cast<std::size_t>(RecordKind::kPool)] = kAtEnd;
  table[static_cast<std::size_t>(RecordKind::kFree)] = kFrees;
  table[static_cast<std::size_t>(RecordKind::kBlock)] = kAsRecordSays;
  table[static_cast<std::size_t>(RecordKind::kMapping)] = kAsRecordSays;
  table[static_cast<std::size_t>(RecordKind::kImport)] = kAsRecordSays;
  return table;
}
inline constexpr std::array<Effect, 256> kByKind = make_table();

// Every kind of record is long enough that CallHeader::end can be read from it, also the kinds that
// are no calls.
static_assert(std::all_of(kKinds.begin(), kKinds.end(), [](const KindInfo& kind) {
  return kind.bytes >= offsetof(CallHeader, end) + sizeof(CallHeader::end);
}));

// The effect of a record of a kind whose effect depends on the record (kAsRecordSays).
inline Effect effect_of(const RecordHeader& record) noexcept {
  if (record.kind == RecordKind::kBlock) {
    return reinterpret_cast<const Block&>(record).bytes < 0 ? kFrees : 0;
  }
  bool at_end = false;
  if (record.kind == RecordKind::kMapping) {
    const auto operation = reinterpret_cast<const Mapping&>(record).operation;
    at_end =
        operation != MappingOperation::kUnmap && operation != MappingOperation::kFreeReservation;
  } else {
    const auto operation = reinterpret_cast<const Import&>(record).operation;
    at_end = operation == ImportOperation::kIpcOpen ||
             operation == ImportOperation::kExternalImport ||
             operation == ImportOperation::kExternalMap ||
             operation == ImportOperation::kPoolImportPointer;
  }
  return at_end ? kAtEnd : 0;
}

}  // namespace order

// True if the call takes effect when it returns, and not when it begins.
[[nodiscard]] inline bool takes_effect_at_end(const RecordHeader& record) noexcept {
  order::Effect effect = order::kByKind[static_cast<std::size_t>(record.kind)];
  if ((effect & order::kAsRecordSays) != 0) effect = order::effect_of(record);
  return (effect & order::kAtEnd) != 0;
}

inline constexpr std::uint64_t kLastOrderKey = ~std::uint64_t{0} - 1;

// The sort key of a record: the time at which it took effect; at the same tick, frees come first.
// Computed without a branch: if threads take turns, a processor could not predict which of their
// records is an allocation.
inline std::uint64_t order_key(const RecordHeader& record) noexcept {
  order::Effect effect = order::kByKind[static_cast<std::size_t>(record.kind)];
  if ((effect & order::kAsRecordSays) != 0) effect = order::effect_of(record);
  const std::uint64_t end = reinterpret_cast<const CallHeader&>(record).end;
  const std::uint64_t at_end = static_cast<std::uint64_t>(end != 0) & effect & order::kAtEnd;
  const std::uint64_t ticks = record.time ^ ((record.time ^ end) & (std::uint64_t{0} - at_end));
  const std::uint64_t key = ((ticks << 1) | 1) - (effect / order::kFrees);
  return key < kLastOrderKey ? key : kLastOrderKey;
}
constexpr std::uint64_t ticks_of_key(std::uint64_t key) noexcept { return key >> 1; }
constexpr std::uint64_t last_key_of_ticks(std::uint64_t ticks) noexcept { return (ticks << 1) | 1; }

// Returns the next model time: the ticks at which a record took effect, made strictly increasing so
// that no two events share a time. A checkpoint's records that stand for compacted calls are no
// events and may share one.
inline std::uint64_t next_model_time(std::uint64_t now, RecordKind kind,
                                     std::uint64_t ticks) noexcept {
  const bool stands_for_others = kind >= RecordKind::kDriverTaken && kind <= RecordKind::kCardPoint;
  const std::uint64_t earliest = now + static_cast<std::uint64_t>(!stands_for_others);
  return earliest > ticks ? earliest : ticks;
}

inline constexpr std::uint16_t kCudaSuccess = 0;
inline constexpr std::uint16_t kCudaOutOfMemory = 2;

// True if the CUresult of a call does not tell of the call itself: CUDA repeats the error of an
// earlier launch on every later call, or the driver or the context is gone already. A free that
// fails so leaves nothing alive.
[[nodiscard]] constexpr bool is_error_of_another_call(std::uint16_t result) noexcept {
  switch (result) {
    case 4:    // DEINITIALIZED
    case 214:  // ECC_UNCORRECTABLE
    case 700:  // ILLEGAL_ADDRESS
    case 702:  // LAUNCH_TIMEOUT
    case 709:  // CONTEXT_IS_DESTROYED
    case 710:  // ASSERT
    case 714:  // HARDWARE_STACK_ERROR
    case 715:  // ILLEGAL_INSTRUCTION
    case 716:  // MISALIGNED_ADDRESS
    case 717:  // INVALID_ADDRESS_SPACE
    case 718:  // INVALID_PC
    case 719:  // LAUNCH_FAILED
      return true;
    default:
      return false;
  }
}

}  // namespace gpumemtrace::trace
