// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/trace_events.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "analyzer/order/merge.hpp"
#include "trace/checkpoint_records.hpp"
#include "trace/order.hpp"

namespace gpumemtrace::analyzer::replay {
void TraceEvents::note_gap(const std::string& reason, bool is_end_only) {
  if (!gaps_.reason.empty() && (is_end_only || !gaps_.is_end_only)) return;
  gaps_ = {reason, is_end_only};
}

void TraceEvents::note_losses(const trace::ReadLosses& losses) {
  if (losses.corrupt_blocks + losses.truncated_tail + losses.missing_chunks +
          losses.malformed_records !=
      0) {
    note_gap("a part of the trace is damaged");
  }
}

void TraceEvents::apply(const trace::RecordHeader& record, std::uint32_t writer,
                        std::uint64_t ticks) {
  now_ = trace::next_model_time(now_, record.kind, ticks);
  if (writer == trace::kCheckpointWriter) {
    note_gap("the trace was bounded: its oldest part was compacted into a checkpoint");
  }
  if (trace::is_call(record.kind) && trace::as<trace::OtherCall>(record).call.end == 0) return;
  writer_ = writer;
  trace::dispatch(record, [this](const auto& typed) {
    if constexpr (requires { apply(typed); }) apply(typed);
  });
}

void TraceEvents::apply(const trace::Mark& mark) {
  if (mark.mark == trace::MarkKind::kStopped) note_gap("recording was paused");
  if (mark.mark == trace::MarkKind::kDisabled) note_gap("recording ended before the program", true);
}

void TraceEvents::apply(const trace::Gap& gap) {
  if (gap.allocations + gap.frees + gap.blocks + gap.others != 0) note_gap("events were lost");
}

void TraceEvents::apply(const trace::Graph& call) {
  if (call.operation != trace::GraphOperation::kBeginCapture) return;
  for_each_recorded([](std::int32_t, RecordedAllocator& recorded) { recorded.note_capture(); });
}

void TraceEvents::read_texts(const trace::TraceFile& file) {
  for (const trace::WriterStream& stream : file.writers()) {
    trace::WriterCursor cursor(file, stream);
    cursor.look_for({trace::RecordKind::kText});
    while (const trace::RecordHeader* record = cursor.next()) {
      if (record->kind == trace::RecordKind::kText) apply_text(trace::as<trace::Text>(*record));
    }
  }
}

void TraceEvents::apply_text(const trace::Text& text) {
  const std::string_view value = trace::tail_of(text.record);
  switch (text.key) {
    case trace::TextKey::kTorchVersion:
      torch_version_ += value;
      return;
    case trace::TextKey::kTorchAllocator:
      backend_ += value;
      return;
    case trace::TextKey::kTorchCudaAllocConf:
      cuda_conf_ += value;
      return;
    case trace::TextKey::kTorchAllocConf:
      conf_ += value;
      return;
    default:
      return;
  }
}

std::int32_t TraceEvents::device_of(const trace::CallHeader& call) const {
  const auto found = contexts_.find(call.context);
  return found == contexts_.end() ? -1 : found->second;
}

void TraceEvents::apply(const trace::Allocation& call) {
  const bool is_physical = call.memory == trace::MemoryKind::kPhysical;
  const bool is_device =
      call.memory == trace::MemoryKind::kDevice || call.memory == trace::MemoryKind::kPitched;
  if (call.memory == trace::MemoryKind::kStreamOrdered && backend_ == "cudaMallocAsync") {
    return add_async(call);
  }
  if (!is_physical && !is_device) return;
  const std::int32_t device =
      is_physical && call.location >= 0 ? call.location : device_of(call.call);
  if (call.call.record.result == trace::kCudaOutOfMemory) {
    const DriverCall refused{DriverCall::Kind::kRefused, 0, call.bytes, call.call.stack};
    for_each_recorded([&](std::int32_t ordinal, RecordedAllocator& recorded) {
      if (device < 0 || ordinal == device) recorded.add_refusal(writer_, refused);
    });
    driver_refused(device, call.bytes);
    return;
  }
  if (call.call.record.result != 0) return;
  usage_[device].driver_bytes += call.bytes;
  if (is_physical) {
    handles_[call.address] = {writer_, call.bytes, device};
    return;
  }
  allocations_[call.address] = {writer_, call.bytes, device};
  const DriverCall allocated{DriverCall::Kind::kAllocated, call.address, call.bytes,
                             call.call.stack};
  for_each_recorded([&](std::int32_t, RecordedAllocator& recorded) {
    recorded.add_allocation(writer_, allocated);
  });
}

void TraceEvents::apply(const trace::Free& call) {
  if (call.call.record.result != 0 || call.address == 0) return;
  if (const auto async = async_blocks_.find(call.address); async != async_blocks_.end()) {
    const auto [slot, device] = async->second;
    async_blocks_.erase(async);
    unused_slots_[device].push_back(slot);
    devices_.at(device).out->add({EventKind::kFree, 0, slot, 0, 0, 0});
    return;
  }
  auto& pieces = call.memory == trace::MemoryKind::kPhysical ? handles_ : allocations_;
  const auto found = pieces.find(call.address);
  if (found == pieces.end()) return;
  const Piece piece = found->second;
  pieces.erase(found);
  usage_[piece.device].driver_bytes -= piece.bytes;
  if (&pieces == &handles_) return;
  const DriverCall freed{DriverCall::Kind::kFreed, call.address, piece.bytes, call.call.stack};
  for_each_recorded(
      [&](std::int32_t, RecordedAllocator& recorded) { recorded.add_free(writer_, freed); });
}

void TraceEvents::apply(const trace::Mapping& call) {
  if (call.call.record.result != 0) return;
  switch (call.operation) {
    case trace::MappingOperation::kReserve: {
      reservations_[call.address] = {writer_, call.bytes, -1};
      return for_each_recorded([&](std::int32_t, RecordedAllocator& recorded) {
        recorded.add_reservation(call.address, call.bytes);
      });
    }
    case trace::MappingOperation::kFreeReservation: {
      reservations_.erase(call.address);
      return for_each_recorded([&](std::int32_t, RecordedAllocator& recorded) {
        recorded.remove_reservation(call.address);
      });
    }
    case trace::MappingOperation::kMap:
    case trace::MappingOperation::kUnmap: {
      const bool is_map = call.operation == trace::MappingOperation::kMap;
      if (is_map) {
        const auto handle = handles_.find(call.handle);
        mappings_[call.address] = {writer_, call.bytes,
                                   handle == handles_.end() ? -1 : handle->second.device};
      }
      const DriverCall changed{is_map ? DriverCall::Kind::kMapped : DriverCall::Kind::kUnmapped,
                               call.address, call.bytes, call.call.stack};
      for_each_recorded([&](std::int32_t, RecordedAllocator& recorded) {
        recorded.add_mapping(writer_, changed);
      });
      if (!is_map) mappings_.erase(call.address);
      return;
    }
    default:
      return;
  }
}

void TraceEvents::choose_settings(DeviceEvents& device, std::uint64_t address) const {
  device.options = cuda_conf_.empty() ? conf_ : cuda_conf_;
  const auto reservation = reservations_.upper_bound(address);
  const bool is_mapped =
      reservation != reservations_.begin() &&
      address - std::prev(reservation)->first < std::prev(reservation)->second.bytes;
  if (device.options.empty() && is_mapped) device.options = "expandable_segments:True";
  if (device.options.empty() && device.backend == Backend::kAsync) {
    device.options = "backend:cudaMallocAsync";
  }
  try {
    device.settings = parse_settings(device.options, rules());
  } catch (const SettingError& error) {
    device.settings_error = error.what();
  }
}

DeviceEvents& TraceEvents::device_of_block(std::int32_t device, std::uint64_t address) {
  const auto [found, is_new] = devices_.try_emplace(device);
  DeviceEvents& events = found->second;
  if (!is_new) return events;
  events.device = device;
  events.backend = backend_ == "cudaMallocAsync" ? Backend::kAsync : Backend::kNative;
  events.rules = rules();
  events.facts.total_bytes = usage_[device].total_bytes;
  choose_settings(events, address);
  events.out = std::make_unique<EventBuffer>(sinks_(events));
  if (events.backend == Backend::kNative) {
    events.recorded = std::make_unique<RecordedAllocator>(events.settings, rules(), *events.out);
    const std::uint64_t allowed = events.settings.allowed_bytes(usage_[device].total_bytes);
    if (allowed != 0) events.recorded->set_allowed_bytes(allowed);
    if (!events.settings_error.empty()) events.recorded->give_up(events.settings_error);
    give_earlier_calls(*events.recorded, device);
  }
  return events;
}

void TraceEvents::give_earlier_calls(RecordedAllocator& recorded, std::int32_t) const {
  for (const auto& [address, piece] : reservations_) recorded.add_reservation(address, piece.bytes);
  for (const auto& [address, piece] : allocations_) {
    recorded.add_allocation(piece.writer, {DriverCall::Kind::kAllocated, address, piece.bytes, 0});
  }
  for (const auto& [address, piece] : mappings_) {
    recorded.add_mapping(piece.writer, {DriverCall::Kind::kMapped, address, piece.bytes, 0});
  }
}

void TraceEvents::apply(const trace::Block& block) {
  if (block.device_type != trace::kCudaDeviceType || block.address == 0) return;
  DeviceEvents& device = device_of_block(block.device, block.address);
  if (!device.recorded) return;
  if (block.bytes > 0) {
    ++device.requests;
    device.recorded->mark_segment(block.address);
    update(block.device);
    device.recorded->hand_out(writer_, block);
  } else {
    update(block.device);
    device.recorded->take_back(block);
  }
}

void TraceEvents::apply(const trace::FrameworkOom& oom) {
  if (oom.device_type != trace::kCudaDeviceType) return;
  const auto found = devices_.find(oom.device);
  if (found == devices_.end() || !found->second.recorded) return;
  ++found->second.refused;
  if (found->second.refusals.size() < kMostRefusals) {
    found->second.refusals.push_back({now_, oom.requested});
  }
  found->second.recorded->refuse(writer_, oom);
}

void TraceEvents::add_async(const trace::Allocation& call) {
  if (call.call.record.result != 0 || call.address == 0) return;
  const std::int32_t ordinal = device_of(call.call);
  DeviceEvents& device = device_of_block(ordinal, call.address);
  const auto [stream, is_new] = streams_.try_emplace({ordinal, call.stream}, device.streams);
  if (is_new) ++device.streams;
  std::vector<std::uint32_t>& unused = unused_slots_[ordinal];
  std::uint32_t slot = 0;
  if (unused.empty()) {
    slot = slots_[ordinal]++;
  } else {
    slot = unused.back();
    unused.pop_back();
  }
  async_blocks_[call.address] = {slot, ordinal};
  ++device.requests;
  device.out->add(
      {EventKind::kRequest, stream->second, slot, call.call.stack, call.bytes, call.bytes});
}

// The backend empties its cache so.
void TraceEvents::apply(const trace::Pool& call) {
  if (call.operation != trace::PoolOperation::kTrim || call.call.record.result != 0) return;
  const auto found = devices_.find(device_of(call.call));
  if (found == devices_.end() || found->second.recorded) return;
  found->second.out->add({EventKind::kEmptyCache, 0, 0, 0, 0, 0});
}

void TraceEvents::apply(const trace::PoolSample& sample) {
  std::uint64_t& reserved = pools_[sample.pool];
  Usage& usage = usage_[sample.device];
  usage.pool_bytes += sample.reserved_current - reserved;
  reserved = sample.reserved_current;
}

void TraceEvents::apply(const trace::MemorySample& sample) {
  if (sample.source != trace::SampleSource::kMemGetInfo || sample.total_bytes == 0) return;
  Usage& usage = usage_[sample.device];
  usage.total_bytes = sample.total_bytes;
  const std::uint64_t used = sample.total_bytes - std::min(sample.free_bytes, sample.total_bytes);
  const std::uint64_t known = usage.driver_bytes + usage.pool_bytes;
  const std::uint64_t before = std::exchange(usage.unseen_bytes, used > known ? used - known : 0);
  const auto device = devices_.find(sample.device);
  if (!usage.has_sample && device != devices_.end() && usage.unseen_bytes > before) {
    // It lay there at the peak as well.
    device->second.facts.other_at_peak += usage.unseen_bytes - before;
  }
  if (usage.refused_before_sample && !usage.has_sample) {
    told_late_[sample.device] = usage.unseen_bytes;
  }
  usage.has_sample = true;
  update(sample.device);
}

// The driver said no: what is in use that no call tells of is at least so much.
void TraceEvents::driver_refused(std::int32_t device, std::uint64_t bytes) {
  Usage& usage = usage_[device];
  const std::uint64_t least = usage.total_bytes - std::min(usage.total_bytes, bytes) + 1;
  usage.refused_before_sample = usage.refused_before_sample || !usage.has_sample;
  if (usage.total_bytes == 0) return;
  const std::uint64_t known = usage.driver_bytes + usage.unseen_bytes;
  if (known < least) usage.unseen_bytes += least - known;
  update(device);
}

// How much the driver has for segments, as far as the trace tells.
void TraceEvents::update(std::int32_t ordinal) {
  const auto found = devices_.find(ordinal);
  if (found == devices_.end()) return;
  DeviceEvents& device = found->second;
  Usage& usage = usage_[ordinal];
  device.facts.total_bytes = usage.total_bytes;
  device.facts.knows_other = usage.has_sample;
  if (!device.recorded) {
    device.facts.other_at_peak =
        std::max(device.facts.other_at_peak, usage.driver_bytes + usage.unseen_bytes);
    return;
  }
  const std::uint64_t segments = device.recorded->segment_bytes();
  const std::uint64_t others =
      usage.driver_bytes - std::min(segments, usage.driver_bytes) + usage.unseen_bytes;
  if (segments >= device.facts.segments_peak) {
    device.facts.segments_peak = segments;
    device.facts.other_at_peak = others;
  }
  if (usage.total_bytes == 0) return;
  // What was met fits, whatever the last sample says.
  const std::uint64_t limit =
      std::max(segments, usage.total_bytes - std::min(others, usage.total_bytes));
  if (limit == usage.limit) return;
  usage.limit = limit;
  device.out->add({EventKind::kLimit, 0, 0, 0, limit, limit});
}

void TraceEvents::finish() {
  for (auto& [ordinal, device] : devices_) {
    update(ordinal);
    if (device.recorded) {
      device.recorded->finish();
    } else {
      device.out->flush();
    }
  }
}

TraceEvents read_events(const trace::TraceFile& file, const TraceEvents::Sinks& sinks,
                        const TraceEvents::Unseen& unseen) {
  TraceEvents events(file, sinks, unseen);
  ProcessMerge merge(file);
  while (merge.next_key() != ProcessMerge::kNoMore) {
    merge.run_until(trace::kLastOrderKey, ~std::uint64_t{0}, events);
  }
  events.finish();
  events.note_losses(merge.losses());
  return events;
}

}  // namespace gpumemtrace::analyzer::replay
