// SPDX-License-Identifier: Apache-2.0
// Copies and memory sets.
#include "analyzer/model/process/process.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::analyzer {

using ledger::locate;

namespace {

// Calls that failed moved nothing; captured ones move when their graph is launched.
bool moved_something(const trace::CallHeader& call) {
  return call.record.result == trace::kCudaSuccess &&
         (call.record.flags & trace::kFlagCaptured) == 0;
}

bool is_asynchronous(const trace::CallHeader& call) {
  return (call.record.flags & trace::kFlagAsynchronous) != 0;
}

}  // namespace

void ProcessModel::await_activity(const trace::CallHeader& call, CallWork work,
                                  const ActivityJoin::CallSize& size, std::uint32_t row) {
  if (activity_.is_on() && !in_checkpoint_) {
    activity_.join().add_call(writer_, call, work, size, row);
  }
}

void ProcessModel::apply_copy(const trace::Copy& call) {
  if (!moved_something(call.call)) {
    return await_activity(call.call, CallWork::kCopy, {0, call.part}, PendingCall::kNothing);
  }
  note_phase(call.call.stack, false);
  const std::int32_t context_device = contexts_.device_of(call.call.context);
  const Location source =
      locate(address_map_, call.source, call.source_type, context_device, blind());
  const Location destination =
      locate(address_map_, call.destination, call.destination_type, context_device, blind());
  TransferKey key{.site = site_of(call.call)};
  key.direction = direction_of(source, destination);
  key.source = source.memory;
  key.destination = destination.memory;
  key.asynchronous = is_asynchronous(call.call);
  key.device = destination.device >= 0 ? destination.device
               : source.device >= 0    ? source.device
                                       : context_device;
  if (key.direction == Direction::kHostToDevice) note_upload(call);
  steps_.count_transfer(call.bytes);
  // The parts of a batch share one call and so one time.
  const std::uint64_t host_ticks = call.part == 0 ? host_ticks_of(call.call) : 0;
  const std::uint32_t row = transfers_.count(key, call.bytes, host_ticks);
  note_round_trip(call, key.direction, row, host_ticks);
  if (call.content != 0) note_content(call, row);
  note_repetition(call, transfers_.row(row));
  await_activity(call.call, CallWork::kCopy, {call.bytes, call.part}, row);
}

void ProcessModel::note_repetition(const trace::Copy& call, TransferRow& row) {
  const bool down = row.key.destination == MemoryClass::kPageable;
  if (!down && row.key.source != MemoryClass::kPageable) return;
  row.repeated_bytes += row.device_ranges.add(down ? call.source : call.destination, call.bytes);
}

void ProcessModel::note_round_trip(const trace::Copy& call, Direction direction, std::uint32_t row,
                                   std::uint64_t host_ticks) {
  if (direction == Direction::kDeviceToHost) {
    return round_trips_.went_down({call.source, call.destination, call.bytes},
                                  {row, call.call.end, host_ticks, birth_of(call.source)});
  }
  if (direction != Direction::kHostToDevice) return;
  const std::optional<RoundTrips::Down> down =
      round_trips_.comes_back({call.destination, call.source, call.bytes});
  if (!down) return;
  TransferRow& up = transfers_.row(row);
  if (up.returned.count == 0) up.down_row = down->row;
  const std::uint64_t start = call.call.record.time;
  const std::uint64_t born = birth_of(call.destination);
  const bool known = born != 0 && down->memory_born != 0;
  const bool same = known && born == down->memory_born;
  up.returned.add({1, call.bytes, host_ticks, down->host_ticks,
                   start > down->end_ticks ? start - down->end_ticks : 0, same ? 1U : 0U,
                   known && !same ? 1U : 0U});
}

std::uint64_t ProcessModel::birth_of(std::uint64_t address) {
  const LiveAllocation* live = framework_.find_block(address);
  if (live == nullptr) live = memory_.find(Memory::Space::kAddresses, address);
  return live == nullptr ? 0 : live->born;
}

void ProcessModel::note_content(const trace::Copy& call, std::uint32_t row) {
  TransferRow& sent = transfers_.row(row);
  ++sent.hashed_count;
  if (repeated_copies_.comes_again(row, call.bytes, call.content)) {
    sent.repeats.add({1, call.bytes, host_ticks_of(call.call)});
  }
}

void ProcessModel::apply_set(const trace::Set& call) {
  if (!moved_something(call.call)) {
    return await_activity(call.call, CallWork::kSet, {}, PendingCall::kNothing);
  }
  const std::int32_t context_device = contexts_.device_of(call.call.context);
  const Location destination =
      locate(address_map_, call.destination, trace::EndType::kDevice, context_device, blind());
  TransferKey key{.site = site_of(call.call)};
  key.destination = destination.memory;
  key.asynchronous = is_asynchronous(call.call);
  key.is_set = true;
  key.device = destination.device >= 0 ? destination.device : context_device;
  const std::uint32_t row = transfers_.count(key, call.bytes, host_ticks_of(call.call));
  await_activity(call.call, CallWork::kSet, {call.bytes, 0}, row);
}

}  // namespace gpumemtrace::analyzer
