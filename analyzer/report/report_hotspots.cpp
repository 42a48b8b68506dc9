// SPDX-License-Identifier: Apache-2.0
// Sites whose copies cost more than they must: transfers.hotspots[].
#include <algorithm>
#include <optional>
#include <string>

#include "analyzer/findings/rule_table.hpp"
#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_copies.hpp"
#include "analyzer/report/site_key.hpp"
#include "analyzer/stacks/pytorch_frames.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::uint64_t mean_bytes(const TransferRow& sum) {
  return sum.count == 0 ? 0 : sum.bytes / sum.count;
}

// True if the site copies most bytes to or from device addresses that it has copied to or from
// before.
bool has_repeated_addresses(const TransferRow& sum) { return sum.repeated_bytes >= sum.bytes / 2; }

bool between_host_and_device(const TransferKey& key) {
  return key.direction == Direction::kHostToDevice || key.direction == Direction::kDeviceToHost;
}

bool has_pageable_end(const TransferKey& key) {
  return key.source == MemoryClass::kPageable || key.destination == MemoryClass::kPageable;
}

// True if the call returns only after the copy. A copy from the device to pageable memory does so
// even if the program calls an asynchronous function.
bool copy_waits(const TransferKey& key) {
  return !key.asynchronous ||
         (key.direction == Direction::kDeviceToHost && key.destination == MemoryClass::kPageable);
}

bool is_slow(const TransferRow& sum, const GpuView& gpu, const Thresholds& thresholds) {
  return mean_bytes(sum) >= thresholds.bytes(Threshold::kLowBandwidthMeanBytes) &&
         sum.bytes >= thresholds.bytes(Threshold::kPageableBytes) && gpu.link_share() &&
         *gpu.link_share() < thresholds[Threshold::kLowBandwidthShare];
}

bool is_not_hidden(const TransferRow& sum, const GpuView& gpu, const Thresholds& thresholds) {
  return mean_bytes(sum) >= thresholds.bytes(Threshold::kNotHiddenMeanBytes) &&
         sum.bytes >= thresholds.bytes(Threshold::kPageableBytes) && gpu.overlapped_share() &&
         *gpu.overlapped_share() < thresholds[Threshold::kNotHiddenShare];
}

// True if the site sent equal content again and again, more often than a second pass over the data
// would.
bool is_repeated(const TransferRow& sum, const Thresholds& thresholds) {
  const std::uint64_t contents = sum.hashed_count - sum.repeats.count;
  return sum.repeats.count != 0 &&
         sum.repeats.bytes >= thresholds.bytes(Threshold::kRepeatedBytes) &&
         (contents == 0 ||
          sum.hashed_count / contents >= thresholds.count(Threshold::kRepeatedTimes));
}

// True if the copy moves a module, as Module.to() does: a program does so once, and waits for the
// copy in any case.
bool moves_a_module(const ReportContext& context, const ReportProcess& process,
                    const std::string& stack) {
  if (stack.empty()) return false;
  const auto frames = context.names_of(process).frames_of(stack_id(stack));
  return std::ranges::any_of(
      frames, [](const StackFrame& frame) { return is_module_move(frame.file, frame.function); });
}

// The rule that a site's copies break; if several do, the one whose remedy helps most. Rule::kCount
// if none does.
Rule rule_for(const TransferRow& sum, bool waits, const GpuView& gpu,
              const Thresholds& thresholds) {
  const TransferKey& key = sum.key;
  if (!between_host_and_device(key)) return Rule::kCount;
  if (is_repeated(sum, thresholds)) return Rule::kRepeatedCopies;
  if (sum.returned.count >= thresholds.count(Threshold::kPingPongCount) &&
      sum.returned.bytes >= thresholds.bytes(Threshold::kPingPongBytes)) {
    return Rule::kPingPong;
  }
  const bool small = mean_bytes(sum) <= thresholds.bytes(Threshold::kSmallMeanBytes);
  const bool pageable = key.asynchronous && has_pageable_end(key) && !small;
  if (pageable && has_repeated_addresses(sum) &&
      sum.bytes >= thresholds.bytes(Threshold::kPageableBytes)) {
    return Rule::kPageableCopies;
  }
  if (is_slow(sum, gpu, thresholds)) return Rule::kLowBandwidth;
  if (waits) {
    const bool many = sum.count >= thresholds.count(Threshold::kSynchronousCount);
    return many && !pageable ? Rule::kSynchronousCopies : Rule::kCount;
  }
  const bool many = sum.count >= thresholds.count(Threshold::kSmallCount);
  if (small && many) return Rule::kSmallCopies;
  return is_not_hidden(sum, gpu, thresholds) ? Rule::kCopiesNotHidden : Rule::kCount;
}

// The longest time that the rule's remedy could save.
std::uint64_t time_lost_ns(const ReportProcess& process, Rule rule, const TransferRow& sum,
                           const GpuView& gpu) {
  switch (rule) {
    case Rule::kLowBandwidth: {
      const double at_best_ns = static_cast<double>(sum.gpu.bytes) * 1e9 / *gpu.link_bytes_per_s;
      return *gpu.busy_ns - std::min(*gpu.busy_ns, static_cast<std::uint64_t>(at_best_ns));
    }
    case Rule::kRepeatedCopies:
      return process.duration_ns(sum.repeats.host_ticks);
    case Rule::kCopiesNotHidden:
      return *gpu.time_ns - std::min(*gpu.time_ns, *gpu.overlapped_ns);
    default:
      return process.duration_ns(sum.host_ticks);
  }
}

// The time that `count` copies need without waiting: the cost of each call, and of the bytes.
std::uint64_t needed_ns(std::uint64_t count, std::uint64_t bytes, std::uint64_t bytes_per_ns) {
  constexpr std::uint64_t kCallNs = 10'000;
  return count * kCallNs + bytes / bytes_per_ns;
}

// The part of `lost_ns` that the copies take themselves, at most: without the wait for kernels that
// must run in any case. (A copy of four bytes that waits for the kernels of a step takes as long as
// the step.) The constants are those of a slow machine.
std::uint64_t own_time_ns(const ReportProcess& process, Rule rule, const TransferRow& sum,
                          std::uint64_t lost_ns) {
  constexpr std::uint64_t kPageableBytesPerNs = 4;
  constexpr std::uint64_t kPinnedBytesPerNs = 12;
  switch (rule) {
    case Rule::kPingPong: {
      const Returns& trips = sum.returned;
      const std::uint64_t in_calls_ns =
          std::min(process.duration_ns(trips.to_device_ticks + trips.to_host_ticks),
                   needed_ns(2 * trips.count, 2 * trips.bytes, kPageableBytesPerNs));
      if (has_pageable_end(sum.key)) return in_calls_ns;
      // Calls that do not wait for their copies take less time than the copies.
      return std::max(in_calls_ns, needed_ns(2 * trips.count, 2 * trips.bytes, kPinnedBytesPerNs));
    }
    case Rule::kPageableCopies:
    case Rule::kSynchronousCopies:
    case Rule::kSmallCopies:
      return std::min(lost_ns, needed_ns(sum.count, sum.bytes, kPageableBytesPerNs));
    default:
      return lost_ns;
  }
}

// The time from a site's first copy to the end of its last copy. If a checkpoint replaced single
// copies, their times are not known, and the whole run counts.
std::uint64_t loop_ns(const ReportProcess& process, const TransferRow& sum) {
  const RunStatistics& run = process.model().statistics();
  const std::uint64_t first = sum.has_restored_sums ? run.first_time : sum.times.least;
  const std::uint64_t last = sum.has_restored_sums ? run.last_time : sum.times.most;
  return last > first ? process.duration_ns(last - first) : 0;
}

// The advice on copies in the words of the framework that the site's author uses.
const CopyAdvice& copy_advice(const ReportProcess& process, const Identity& identity) {
  const bool is_in_framework = identity.is_python && loads_framework_with_blocks(process);
  return is_in_framework ? framework_with_blocks().copies : framework_named(identity.owner).copies;
}

std::string_view advice_for(Rule rule, const TransferKey& key, const CopyAdvice& advice) {
  const bool up = key.direction == Direction::kHostToDevice;
  switch (rule) {
    case Rule::kRepeatedCopies:
      return advice.copy_once;
    case Rule::kPageableCopies:
      return up ? advice.pin_source : advice.pin_destination;
    case Rule::kSynchronousCopies:
      return up ? advice.send_without_wait : advice.read_seldom;
    case Rule::kPingPong:
      return "Keep the data on the GPU between the two copies, or copy only what the host changed: "
             "both ways would be saved. Where memory is offloaded on purpose, suppress this.";
    case Rule::kLowBandwidth:
      if (has_pageable_end(key)) return advice.pin_for_bandwidth;
      return "Run the process on the CPUs next to the GPU (nvidia-smi topo -m, numactl), and see "
             "whether its link runs at full width (nvidia-smi -q).";
    case Rule::kCopiesNotHidden:
      return advice.overlap_with_kernels;
    default:
      return "Gather the pieces in one buffer and copy it once; a call costs more than these "
             "bytes.";
  }
}

// Fills in the round trips: data that was copied to the host and back to the GPU.
void add_returns(rows::Hotspot& row, const ReportProcess& process, const Returns& returned) {
  row.returned_count = returned.count;
  row.returned_bytes = returned.bytes;
  row.returned_host_ns = process.duration_ns(returned.to_device_ticks + returned.to_host_ticks);
  row.returned_up_ns = process.duration_ns(returned.to_device_ticks);
  row.returned_away_ns = process.duration_ns(returned.away_ticks);
  row.returned_to_same_memory = returned.to_same_memory;
  row.returned_to_new_memory = returned.to_new_memory;
}

rows::Hotspot hotspot_row(const ReportContext& context, const ReportProcess& process, Rule rule,
                          const SiteCopiesKey& key, const SiteCopies& copies, const GpuView& gpu) {
  const TransferRow& sum = copies.sum;
  auto row = context.row_on<rows::Hotspot>(process, sum.key.device);
  row.rule = rule;
  row.direction = sum.key.direction;
  row.count = sum.count;
  row.bytes = sum.bytes;
  row.time_lost_ns = time_lost_ns(process, rule, sum, gpu);
  row.own_time_ns = own_time_ns(process, rule, sum, row.time_lost_ns);
  row.loop_ns = loop_ns(process, sum);
  row.origin = origin_with_stack(key.identity, copies.stack);
  row.advice = advice_for(rule, sum.key, copy_advice(process, key.identity));
  row.api = key.identity.api;
  row.source_memory = sum.key.source;
  row.destination_memory = sum.key.destination;
  row.mean_bytes = mean_bytes(sum);
  add_returns(row, process, sum.returned);
  if (sum.returned.count != 0) {
    const TransferRow& to_host = process.model().transfers().rows()[sum.to_host_row];
    row.down_at = location_of(context, process, to_host.key.site);
  }
  if (sum.hashed_count != 0) {
    row.repeated_count = sum.repeats.count;
    row.repeated_bytes = sum.repeats.bytes;
  }
  row.gpu_time_ns = gpu.time_ns;
  row.bandwidth_bytes_per_s = rounded(gpu.bytes_per_s, 1);
  row.link_share = rounded(gpu.link_share(), 1e4);
  row.overlapped_ns = gpu.overlapped_ns;
  row.is_exact = !process.inexact.copies;
  return row;
}

CopiesBySite copies_by_site(const ReportContext& context, const ReportProcess& process) {
  CopiesBySite copies;
  for (const TransferRow& row : process.model().transfers().rows()) {
    if (row.key.is_set || row.key.in_graph) continue;
    const bool waits =
        copy_waits(row.key) || (row.key.direction == Direction::kDeviceToHost &&
                                context.names_of(process).waits_for_copy(row.key.site.stack));
    add_to_site(copies, context, process, row, waits);
  }
  return copies;
}

}  // namespace

std::vector<rows::Hotspot> report_hotspots(const ReportContext& context,
                                           const Thresholds& thresholds) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Hotspot>& list) {
    for (const auto& [key, copies] : copies_by_site(context, process)) {
      const GpuView gpu = gpu_view(process, copies.sum);
      const Rule rule = rule_for(copies.sum, key.waits, gpu, thresholds);
      if (rule == Rule::kCount) continue;
      if (rule == Rule::kPageableCopies && moves_a_module(context, process, copies.stack)) continue;
      list.push_back(hotspot_row(context, process, rule, key, copies, gpu));
    }
  };
  return context.gather<rows::Hotspot>(add_rows);
}

}  // namespace gpumemtrace::analyzer
