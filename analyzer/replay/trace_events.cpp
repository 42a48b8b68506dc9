// SPDX-License-Identifier: Apache-2.0
#include "analyzer/replay/trace_events.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <new>
#include <utility>

#include "analyzer/order/merge.hpp"
#include "trace/ledger/live_memory.hpp"
#include "trace/order.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer::replay {

namespace {

bool has_blocks(const trace::TraceFile& file) {
  for (const trace::WriterStream& stream : file.writers()) {
    trace::WriterCursor cursor(file, stream);
    cursor.look_for({trace::RecordKind::kBlock});
    while (const trace::RecordHeader* record = cursor.next()) {
      if (record->kind == trace::RecordKind::kBlock) return true;
    }
  }
  return false;
}

}  // namespace

// Lowers the device's driver memory when nothing refers to physical memory any more.
struct TraceEvents::MappingOwner {
  TraceEvents& events;

  void on_handle_lost(const Piece&) const {}
  void on_joined(const Piece&, NoSegment) const {}
  void on_grown(const Piece&, NoSegment) const {}
  void on_shrunk(const Piece&, NoSegment) const {}
  void on_mapped(const Piece&) const {}
  void on_unmapped(const Piece&, const Piece&) const {}
  void on_unreferenced(const Piece& physical, const trace::CallHeader*) const {
    events.usage_[physical.device].driver_bytes -= physical.bytes;
  }
};

// Keeps the first reason for gaps; but a reason that concerns only the end of the trace is replaced
// by one that concerns an earlier part.
void TraceEvents::add_gap(const std::string& reason, bool is_end_only) {
  if (!gaps_.reason.empty() && (is_end_only || !gaps_.is_end_only)) return;
  gaps_ = {reason, is_end_only};
}

void TraceEvents::add_losses(const trace::ReadLosses& losses) {
  if (losses.corrupt_blocks + losses.truncated_tail + losses.missing_chunks +
          losses.malformed_records !=
      0) {
    add_gap("a part of the trace is damaged");
  }
}

void TraceEvents::apply(const trace::RecordHeader& record, std::uint32_t writer,
                        std::uint64_t ticks) {
  now_ = trace::next_model_time(now_, record.kind, ticks);
  if (writer == trace::kCheckpointWriter) {
    add_gap("the trace was bounded: its oldest part was compacted into a checkpoint");
  }
  if (trace::is_call(record.kind) && trace::as<trace::OtherCall>(record).call.end == 0) return;
  writer_ = writer;
  trace::dispatch(record, [this](const auto& typed) {
    if constexpr (requires { apply(typed); }) apply(typed);
  });
}

void TraceEvents::apply(const trace::Mark& mark) {
  if (mark.mark == trace::MarkKind::kStopped) add_gap("recording was paused");
  if (mark.mark == trace::MarkKind::kDisabled) add_gap("recording ended before the program", true);
}

void TraceEvents::apply(const trace::Gap& gap) {
  if (gap.allocations + gap.frees + gap.blocks + gap.others != 0) add_gap("events were lost");
}

void TraceEvents::apply(const trace::Graph& call) {
  if (call.operation != trace::GraphOperation::kBeginCapture) return;
  pass_to_allocators(&RecordedAllocator::record_capture);
}

void TraceEvents::read_texts(const trace::TraceFile& file) {
  std::map<trace::TextKey, std::string> texts;
  for (const trace::WriterStream& stream : file.writers()) {
    trace::WriterCursor cursor(file, stream);
    cursor.look_for({trace::RecordKind::kText, trace::RecordKind::kDevice});
    while (const trace::RecordHeader* record = cursor.next()) {
      if (record->kind == trace::RecordKind::kText) {
        texts[trace::as<trace::Text>(*record).key] += trace::tail_of(*record);
      }
      if (record->kind == trace::RecordKind::kDevice) apply(trace::as<trace::Device>(*record));
    }
  }
  using enum trace::TextKey;
  torch_version_ = texts[kTorchVersion];
  backend_ = texts[kTorchAllocator];
  const std::string& cuda_conf = texts[kTorchCudaAllocConf];
  const std::string& conf = cuda_conf.empty() ? texts[kTorchAllocConf] : cuda_conf;
  if (texts.contains(kTorchAllocatorOptions)) {
    set_options(texts[kTorchAllocatorOptions]);
  } else if (!conf.empty()) {
    set_options(conf);
  }
  // Older traces do not have PyTorch's version: there, only blocks show that PyTorch ran.
  is_without_torch_ = torch_version_.empty() && backend_ != "cudaMallocAsync" && !has_blocks(file);
}

void TraceEvents::apply(const trace::Allocation& call) {
  const ledger::Target target = ledger::target_of(call, contexts_, pools_);
  if (is_without_torch_ ||
      (target.kind == ledger::Kind::kStreamOrdered && backend_ == "cudaMallocAsync")) {
    add_own_block(call, target);
  }
  const bool is_physical = target.kind == ledger::Kind::kVmm;
  if (!is_physical && target.kind != ledger::Kind::kDevice &&
      target.kind != ledger::Kind::kPitched) {
    return;
  }
  const std::int32_t device = target.device;
  if (call.call.record.result == trace::kCudaOutOfMemory) {
    const DriverCall refused{DriverCall::Kind::kRefused, 0, call.bytes, call.call.stack};
    for (auto& [ordinal, seen] : devices_) {
      if (seen.recorded && (device < 0 || ordinal == device)) {
        seen.recorded->add_refusal(writer_, refused);
      }
    }
    driver_refused(device, call.bytes);
    return;
  }
  if (call.call.record.result != 0 || call.address == 0) return;
  usage_[device].driver_bytes += call.bytes;
  Piece piece{call.address, call.bytes, writer_, device, {}};
  if (is_physical) return virtual_memory_.create(piece, MappingOwner{*this});
  Piece* const known = allocations_.find(call.address);
  if ((call.call.record.flags & trace::kFlagEarlier) != 0) {
    piece.earlier = {call.address, call.bytes, static_cast<std::int64_t>(call.stream), call.pool};
  }
  *(known != nullptr ? known : allocations_.add(call.address)) = piece;
  if (piece.earlier) {
    const auto found = devices_.find(device);
    if (found != devices_.end() && found->second.recorded) {
      found->second.recorded->adopt(*piece.earlier);
    }
    return;
  }
  pass_to_allocators(
      &RecordedAllocator::add_allocation, writer_,
      DriverCall{DriverCall::Kind::kAllocated, call.address, call.bytes, call.call.stack});
}

void TraceEvents::apply(const trace::Free& call) {
  const ledger::FreeMeaning meaning = ledger::meaning_of(call);
  if (meaning == ledger::FreeMeaning::kReleasesHandle) {
    if (auto* const memory = virtual_memory_.release(call.address)) {
      virtual_memory_.end_if_unused(*memory, MappingOwner{*this}, &call.call);
    }
  }
  if (meaning != ledger::FreeMeaning::kTakesBack) return;
  if (const auto own = own_blocks_.find(call.address); own != own_blocks_.end()) {
    ++devices_.at(own->second.device).frees;
    end_own_block(own->second);
    own_blocks_.erase(own);
  }
  Piece piece;
  if (!allocations_.erase(call.address, piece)) return;
  usage_[piece.device].driver_bytes -= piece.bytes;
  pass_to_allocators(
      &RecordedAllocator::add_free, writer_,
      DriverCall{DriverCall::Kind::kFreed, call.address, piece.bytes, call.call.stack});
}

void TraceEvents::apply(const trace::Mapping& call) {
  if (call.call.record.result != 0) return;
  switch (call.operation) {
    case trace::MappingOperation::kReserve:
      virtual_memory_.reserve(call.address, call.bytes, {});
      pass_to_allocators(&RecordedAllocator::add_reservation, call.address, call.bytes);
      if ((call.call.record.flags & trace::kFlagEarlier) != 0) {
        earlier_spaces_[call.location][call.address] = static_cast<std::int64_t>(call.handle);
        give_earlier_spaces(call.location);
      }
      return;
    case trace::MappingOperation::kFreeReservation:
      (void)virtual_memory_.free_reservation(call.address, MappingOwner{*this});
      return pass_to_allocators(&RecordedAllocator::remove_reservation, call.address);
    case trace::MappingOperation::kRetainHandle:
      virtual_memory_.retain(call.handle, call.address);
      return;
    case trace::MappingOperation::kMap:
      if (auto* const memory = virtual_memory_.find(call.handle)) {
        (void)virtual_memory_.map(*memory,
                                  {call.address, call.bytes, writer_, memory->entry.device, {}},
                                  MappingOwner{*this});
      }
      return pass_to_allocators(
          &RecordedAllocator::add_mapping, writer_,
          DriverCall{DriverCall::Kind::kMapped, call.address, call.bytes, call.call.stack});
    case trace::MappingOperation::kUnmap:
      virtual_memory_.unmap(call.address, call.bytes, MappingOwner{*this}, &call.call);
      return pass_to_allocators(
          &RecordedAllocator::add_mapping, writer_,
          DriverCall{DriverCall::Kind::kUnmapped, call.address, call.bytes, call.call.stack});
    default:
      return;
  }
}

void TraceEvents::set_options(const std::string& text) {
  options_ = text;
  try {
    settings_ = changed_settings(settings_, text, rules());
    settings_error_.clear();
  } catch (const SettingError& error) {
    settings_error_ = error.what();
  }
}

void TraceEvents::apply(const trace::AllocatorSetting& setting) {
  if (setting.option == trace::AllocatorOption::kText) {
    const AllocatorSettings before = settings_;
    set_options(std::string(trace::tail_of(setting.record)));
    if (settings_ == before && settings_error_.empty()) return;
    for (auto& [ordinal, device] : devices_) {
      if (!device.recorded) continue;
      ++device.changes;
      device.recorded->change_settings(settings_);
      if (!settings_error_.empty()) device.recorded->report_mismatch(settings_error_);
    }
    return;
  }
  if (setting.option != trace::AllocatorOption::kMemoryFraction) return;
  usage_[setting.device].fraction = std::bit_cast<double>(setting.value);
  update_torch_limit(setting.device);
}

// An address or event belongs to one device of the process: the allocators of other devices ignore
// it.
void TraceEvents::apply(const trace::BlockWait& wait) {
  if (wait.address == 0) return pass_to_allocators(&RecordedAllocator::finish_wait, wait.event);
  pass_to_allocators(&RecordedAllocator::wait, wait.address, wait.event);
}

// Sets PyTorch's own limit, a fraction of the device, once both are known.
void TraceEvents::update_torch_limit(std::int32_t ordinal) {
  const Usage& usage = usage_[ordinal];
  const auto found = devices_.find(ordinal);
  if (!usage.fraction || usage.total_bytes == 0 || found == devices_.end()) return;
  DeviceEvents& device = found->second;
  if (!device.recorded) return;
  const bool is_all = !(*usage.fraction < 1);
  const auto allowed = is_all ? AllocatorSettings::kNoLimit
                              : static_cast<std::uint64_t>(std::llround(
                                    *usage.fraction * static_cast<double>(usage.total_bytes)));
  if (!device.allowed) device.allowed = {allowed, allowed, 1};
  device.allowed->fraction = *usage.fraction;
  device.allowed->least_bytes = std::min(device.allowed->least_bytes, allowed);
  device.allowed->most_bytes = std::max(device.allowed->most_bytes, allowed);
  device.recorded->set_allowed_bytes(allowed);
  device.out->add({EventKind::kAllowed, 0, 0, {}, allowed, allowed});
}

// Takes the recorded settings; if there are none, infers them from the first block, at `address`.
void TraceEvents::choose_settings(DeviceEvents& device, std::uint64_t address) {
  if (!options_) {
    const bool is_mapped = virtual_memory_.reservations().containing(address) != nullptr;
    if (device.backend == Backend::kAsync) {
      set_options("backend:cudaMallocAsync");
    } else if (is_mapped) {
      set_options("expandable_segments:True");
    }
  }
  device.options = options_.value_or("");
  device.settings = settings_;
  device.settings_error = settings_error_;
}

// The device's entry. The first block makes it, and gives the earlier driver calls to its
// allocator.
DeviceEvents& TraceEvents::device_of_block(std::int32_t device, std::uint64_t address) {
  const auto [found, is_new] = devices_.try_emplace(device);
  DeviceEvents& events = found->second;
  if (!is_new) return events;
  events.device = device;
  events.is_without_torch = is_without_torch_;
  events.backend =
      is_without_torch_ || backend_ == "cudaMallocAsync" ? Backend::kAsync : Backend::kNative;
  events.rules = rules();
  events.facts.total_bytes = usage_[device].total_bytes;
  if (!is_without_torch_) choose_settings(events, address);
  events.out = std::make_unique<EventBuffer>(sinks_(events));
  if (events.backend == Backend::kNative) {
    events.recorded =
        std::make_unique<RecordedAllocator>(events.settings, rules(), *python_frames_, *events.out);
    const std::uint64_t allowed = events.settings.allowed_bytes(usage_[device].total_bytes);
    if (allowed != 0) events.recorded->set_allowed_bytes(allowed);
    if (!events.settings_error.empty()) events.recorded->report_mismatch(events.settings_error);
    give_earlier_calls(device, *events.recorded);
    give_earlier_spaces(device);
    update_torch_limit(device);
  }
  return events;
}

// Tells the device's allocator, once it exists, the address spaces of expandable segments from
// before recording. The handle of such a reservation is the number of its stream.
void TraceEvents::give_earlier_spaces(std::int32_t ordinal) {
  const auto device = devices_.find(ordinal);
  if (device == devices_.end() || !device->second.recorded) return;
  for (const auto& [address, stream] : earlier_spaces_[ordinal]) {
    device->second.recorded->adopt_space(address, stream);
  }
  earlier_spaces_.erase(ordinal);
}

// Passes on the driver memory that exists when the replayed allocator is made: any of it may hold
// segments.
void TraceEvents::give_earlier_calls(std::int32_t device, RecordedAllocator& recorded) {
  for (const auto& reservation : virtual_memory_.reservations().ranges()) {
    recorded.add_reservation(reservation.address, reservation.size_bytes);
  }
  allocations_.for_each([&](const Piece& piece) {
    if (piece.earlier) {
      if (piece.device == device) recorded.adopt(*piece.earlier);
      return;
    }
    recorded.add_allocation(piece.writer,
                            {DriverCall::Kind::kAllocated, piece.address, piece.bytes, {}});
  });
  for (const auto& [piece, physical] : virtual_memory_.mappings().ranges()) {
    recorded.add_mapping(piece.writer, {DriverCall::Kind::kMapped, piece.address, piece.bytes, {}});
  }
}

void TraceEvents::apply(const trace::Block& block) {
  if (block.device_type != trace::kCudaDeviceType || block.address == 0) return;
  DeviceEvents& device = device_of_block(block.device, block.address);
  if (!device.recorded) return;
  if ((block.record.flags & trace::kFlagEarlier) != 0) {
    device.recorded->adopt(writer_, block);
    update_driver_limit(block.device);
  } else if (block.bytes > 0) {
    ++device.requests;
    device.recorded->mark_segment(block.address);
    update_driver_limit(block.device);
    device.recorded->replay_allocation(writer_, block);
  } else {
    update_driver_limit(block.device);
    device.recorded->replay_free(block);
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

// Makes a driver allocation a request of the program: without PyTorch's native allocator, the
// driver itself is the allocator.
void TraceEvents::add_own_block(const trace::Allocation& call, const ledger::Target& target) {
  const bool is_of_pool = target.kind == ledger::Kind::kStreamOrdered;
  if (!is_of_pool && target.kind != ledger::Kind::kDevice &&
      target.kind != ledger::Kind::kPitched) {
    return;
  }
  const std::int32_t ordinal = target.device;
  if (call.call.record.result == trace::kCudaOutOfMemory) {
    if (const auto found = devices_.find(ordinal); found != devices_.end()) ++found->second.refused;
    return;
  }
  const bool is_captured =
      is_without_torch_ && (call.call.record.flags & trace::kFlagCaptured) != 0;
  if (call.call.record.result != 0 || call.address == 0 || is_captured) return;
  DeviceEvents& device = device_of_block(ordinal, call.address);
  const auto [stream, is_new] = streams_.try_emplace({ordinal, call.stream}, device.streams);
  if (is_new) ++device.streams;
  const std::uint32_t slot = slots_[ordinal].take();
  const std::uint64_t driver_bytes = is_of_pool ? 0 : call.bytes;
  own_blocks_[call.address] = {slot, ordinal, driver_bytes, target.kind, call.call.context};
  usage_[ordinal].own_blocks_bytes += driver_bytes;
  ++device.requests;
  device.out->add(
      {EventKind::kRequest, stream->second, slot, call.call.stack, call.bytes, call.bytes});
}

void TraceEvents::end_own_block(const OwnBlock& block) {
  usage_[block.device].own_blocks_bytes -= block.driver_bytes;
  slots_[block.device].give_back(block.slot);
  devices_.at(block.device).out->add({EventKind::kFree, 0, block.slot, {}, 0, 0});
}

void TraceEvents::apply(const trace::ContextCall& call) {
  if (ledger::end_of(call) == ledger::EndedBy::kNothing) return;
  std::erase_if(own_blocks_, [&](const auto& entry) {
    const auto& [address, block] = entry;
    if (!contexts_.ends_with(call, block.kind, block.device, block.context)) return false;
    end_own_block(block);
    Piece piece;
    if (allocations_.erase(address, piece)) usage_[piece.device].driver_bytes -= piece.bytes;
    return true;
  });
}

void TraceEvents::apply(const trace::Pool& call) {
  if (call.call.record.result != 0) return;
  (void)pools_.apply_call(call, now_);
  // The backend cudaMallocAsync empties its cache by trimming the pool.
  if (call.operation != trace::PoolOperation::kTrim) return;
  const auto found = devices_.find(contexts_.device_of(call.call.context));
  if (found == devices_.end() || found->second.recorded) return;
  found->second.out->add({EventKind::kEmptyCache, 0, 0, {}, 0, 0});
}

void TraceEvents::apply(const trace::PoolSample& sample) {
  (void)pools_.apply_sample(sample, now_);
}

// Derives the bytes in use that no recorded call explains from the device's free memory.
void TraceEvents::apply(const trace::MemorySample& sample) {
  if (sample.source != trace::SampleSource::kMemGetInfo || sample.total_bytes == 0) return;
  Usage& usage = usage_[sample.device];
  usage.total_bytes = sample.total_bytes;
  update_torch_limit(sample.device);
  const std::uint64_t used = sample.total_bytes - std::min(sample.free_bytes, sample.total_bytes);
  const std::uint64_t known = usage.driver_bytes + pools_.sums_of(sample.device).reserved_bytes;
  const std::uint64_t before = std::exchange(usage.unseen_bytes, used > known ? used - known : 0);
  const auto device = devices_.find(sample.device);
  if (!usage.has_sample && device != devices_.end() && usage.unseen_bytes > before) {
    // Memory that this first sample reveals is taken to have been in use at the peak as well.
    device->second.facts.other_at_peak += usage.unseen_bytes - before;
  }
  if (usage.refused_before_sample && !usage.has_sample) {
    unseen_before_sample_[sample.device] = usage.unseen_bytes;
  }
  usage.has_sample = true;
  update_driver_limit(sample.device);
}

// Takes a refusal by the driver as a lower bound for the bytes in use that no call shows.
void TraceEvents::driver_refused(std::int32_t device, std::uint64_t bytes) {
  Usage& usage = usage_[device];
  const std::uint64_t least = usage.total_bytes - std::min(usage.total_bytes, bytes) + 1;
  usage.refused_before_sample = usage.refused_before_sample || !usage.has_sample;
  if (usage.total_bytes == 0) return;
  const std::uint64_t known = usage.driver_bytes + usage.unseen_bytes;
  if (known < least) usage.unseen_bytes += least - known;
  update_driver_limit(device);
}

// Updates the bytes that the driver has for segments, as far as the trace shows.
void TraceEvents::update_driver_limit(std::int32_t ordinal) {
  const auto found = devices_.find(ordinal);
  if (found == devices_.end()) return;
  DeviceEvents& device = found->second;
  Usage& usage = usage_[ordinal];
  device.facts.total_bytes = usage.total_bytes;
  device.facts.knows_other = usage.has_sample;
  const std::uint64_t segments =
      device.recorded ? device.recorded->segment_bytes() : usage.own_blocks_bytes;
  const std::uint64_t others =
      usage.driver_bytes - std::min(segments, usage.driver_bytes) + usage.unseen_bytes;
  if (!device.recorded) {
    device.facts.other_at_peak = std::max(device.facts.other_at_peak, others);
    return;
  }
  if (segments >= device.facts.segments_peak) {
    device.facts.segments_peak = segments;
    device.facts.other_at_peak = others;
  }
  if (usage.total_bytes == 0) return;
  // Requests that were met did fit, even if the last sample shows less room.
  const std::uint64_t limit =
      std::max(segments, usage.total_bytes - std::min(others, usage.total_bytes));
  if (limit == usage.limit) return;
  usage.limit = limit;
  device.out->add({EventKind::kLimit, 0, 0, {}, limit, limit});
}

void TraceEvents::finish() {
  // The ledger (contexts_ and the others) grows with live allocations, and may have failed to get
  // memory.
  if (contexts_.failed() || pools_.failed() || virtual_memory_.failed()) throw std::bad_alloc();
  for (auto& [ordinal, device] : devices_) {
    update_driver_limit(ordinal);
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
  events.add_losses(merge.losses());
  return events;
}

}  // namespace gpumemtrace::analyzer::replay
