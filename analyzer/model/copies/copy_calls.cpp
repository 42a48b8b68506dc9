// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/copies/copy_calls.hpp"

namespace gpumemtrace::analyzer {
namespace {

bool is_asynchronous(std::uint16_t flags) { return (flags & trace::kFlagAsynchronous) != 0; }

}  // namespace

Location CopyCalls::locate(std::uint64_t address, trace::EndType said,
                           std::int32_t context_device) const {
  return ledger::locate(memory_.copy_locations, address, said, context_device,
                        memory_.statistics.misses_allocations());
}

std::uint32_t CopyCalls::add(const trace::Copy& call) {
  const std::int32_t context_device = memory_.contexts.device_of(call.call.context);
  const Location source = locate(call.source, call.source_type, context_device);
  const Location destination = locate(call.destination, call.destination_type, context_device);
  TransferKey key{.site = memory_.present.site_of(call.call)};
  key.direction = direction_of(source, destination);
  key.source = source.memory;
  key.destination = destination.memory;
  key.asynchronous = is_asynchronous(call.call.record.flags);
  key.device = destination.device >= 0 ? destination.device
               : source.device >= 0    ? source.device
                                       : context_device;
  // The parts of a batch share one call, so the first part alone counts its time.
  const std::uint64_t host_ticks = call.part == 0 ? host_ticks_of(call.call) : 0;
  const std::uint32_t row = transfers_.count(key, call.bytes, host_ticks);
  transfers_.row(row).times.add(call.call.record.time);
  transfers_.row(row).times.add(call.call.end);
  add_round_trip(call, key.direction, row, host_ticks);
  if (call.content != 0) add_content(call, row);
  add_repetition(call, transfers_.row(row));
  if (source.memory == MemoryClass::kPinned) add_pinned_use(call.source, call.bytes);
  if (destination.memory == MemoryClass::kPinned) add_pinned_use(call.destination, call.bytes);
  return row;
}

void CopyCalls::add_pinned_use(std::uint64_t address, std::uint64_t bytes) {
  const LiveAllocation* const live = memory_.live.find(ProcessMemory::Space::kAddresses, address);
  if (live != nullptr && level_of(memory_.accounts.group(live->group).key.kind) == Level::kHost) {
    pinned_use_.add(*live, bytes);
  }
}

// Counts the bytes of a copy with pageable memory at device addresses that earlier copies of the
// row had touched.
void CopyCalls::add_repetition(const trace::Copy& call, TransferRow& row) {
  const bool is_to_host = row.key.destination == MemoryClass::kPageable;
  if (!is_to_host && row.key.source != MemoryClass::kPageable) return;
  row.repeated_bytes +=
      row.device_ranges.add(is_to_host ? call.source : call.destination, call.bytes);
}

void CopyCalls::add_round_trip(const trace::Copy& call, Direction direction, std::uint32_t row,
                               std::uint64_t host_ticks) {
  if (direction == Direction::kDeviceToHost) {
    return round_trips_.add_copy_to_host({call.source, call.destination, call.bytes},
                                         {row, call.call.end, host_ticks, birth_of(call.source)});
  }
  if (direction != Direction::kHostToDevice) return;
  const std::optional<RoundTrips::CopyToHost> to_host =
      round_trips_.take_matching_copy_to_host({call.destination, call.source, call.bytes});
  if (!to_host) return;
  TransferRow& to_device = transfers_.row(row);
  if (to_device.returned.count == 0) to_device.to_host_row = to_host->row;
  const std::uint64_t start = call.call.record.time;
  const std::uint64_t born = birth_of(call.destination);
  const bool known = born != 0 && to_host->memory_born != 0;
  const bool same = known && born == to_host->memory_born;
  to_device.returned.add({1, call.bytes, host_ticks, to_host->host_ticks,
                          start > to_host->end_ticks ? start - to_host->end_ticks : 0,
                          same ? 1U : 0U, known && !same ? 1U : 0U});
}

std::uint64_t CopyCalls::birth_of(std::uint64_t address) {
  const LiveAllocation* live = memory_.framework.find_block(address);
  if (live == nullptr) live = memory_.live.find(ProcessMemory::Space::kAddresses, address);
  return live == nullptr ? 0 : live->born;
}

void CopyCalls::add_content(const trace::Copy& call, std::uint32_t row) {
  TransferRow& sent = transfers_.row(row);
  ++sent.hashed_count;
  if (repeated_copies_.comes_again(row, call.bytes, call.content)) {
    sent.repeats.add({1, call.bytes, host_ticks_of(call.call)});
  }
}

std::uint32_t CopyCalls::add(const trace::Set& call) {
  const std::int32_t context_device = memory_.contexts.device_of(call.call.context);
  const Location destination = locate(call.destination, trace::EndType::kDevice, context_device);
  TransferKey key{.site = memory_.present.site_of(call.call)};
  key.destination = destination.memory;
  key.asynchronous = is_asynchronous(call.call.record.flags);
  key.is_set = true;
  key.device = destination.device >= 0 ? destination.device : context_device;
  return transfers_.count(key, call.bytes, host_ticks_of(call.call));
}

// Counts the copies or sets of which a checkpoint has the sums. A location of -1 stands for the
// device of the context.
void CopyCalls::restore(const trace::Totals& totals) {
  if (totals.count == 0) return;
  std::int32_t context_device = totals.location;
  if (context_device == trace::kNoKnownDevice) context_device = kUnknownDevice;
  if (context_device == -1) context_device = memory_.contexts.device_of(totals.context);
  const auto end_of = [&](trace::Place place, std::int32_t device, trace::EndType said) {
    if (place == trace::Place::kUnknown || said == trace::EndType::kArray) {
      return ledger::locate({}, 0, said, context_device, memory_.statistics.misses_allocations());
    }
    return Location{ledger::class_of(place), device};
  };
  TransferKey key;
  key.site = ledger::site_of(totals);
  key.asynchronous = is_asynchronous(totals.record.flags);
  key.is_set = totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kSet);
  const Location destination =
      end_of(totals.destination, totals.destination_device,
             key.is_set ? trace::EndType::kDevice : totals.destination_type);
  key.destination = destination.memory;
  key.device = destination.device;
  if (!key.is_set) {
    const Location source = end_of(totals.source, totals.source_device, totals.source_type);
    key.direction = direction_of(source, destination);
    key.source = source.memory;
    if (key.device < 0) key.device = source.device;
  }
  if (key.device < 0) key.device = context_device;
  transfers_.restore(key, totals.bytes, totals.host_ticks, totals.count);
}

}  // namespace gpumemtrace::analyzer
