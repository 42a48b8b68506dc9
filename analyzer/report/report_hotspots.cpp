// SPDX-License-Identifier: Apache-2.0
// Sites whose copies cost more than they must: transfers.hotspots[].
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "analyzer/findings/rule_table.hpp"
#include "analyzer/report/link.hpp"
#include "analyzer/report/sections.hpp"
#include "analyzer/report/site_key.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Copies that look alike to the reader: one site, one kind.
struct CopyKey {
  Identity identity;
  TransferKey kind;    // without its site
  bool waits = false;  // the calling thread, until the copy is complete
  friend auto operator<=>(const CopyKey&, const CopyKey&) = default;
};

struct CopySums {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t host_ticks = 0;
  Extremes times;
  bool single_ones_are_gone = false;
  Returns returned;
  CallSite down_at;  // the ways down of what came back
  std::uint64_t hashed_count = 0;
  Repeats repeats;
  std::uint64_t repeated_bytes = 0;
  std::string stack;  // of the way there that copied most
  std::uint64_t most_bytes = 0;
  GpuTimes gpu;
  // Most of it at device addresses that it has copied to or from before.
  [[nodiscard]] bool is_a_loop() const { return repeated_bytes >= bytes / 2; }
  [[nodiscard]] std::uint64_t mean_bytes() const { return count == 0 ? 0 : bytes / count; }
};

bool between_host_and_device(const TransferKey& key) {
  return key.direction == Direction::kHostToDevice || key.direction == Direction::kDeviceToHost;
}

bool has_pageable_end(const TransferKey& key) {
  return key.source == MemoryClass::kPageable || key.destination == MemoryClass::kPageable;
}

// The driver returns from a copy to pageable memory only when it is complete, whatever it is
// called.
bool copy_waits(const TransferKey& key) {
  return !key.asynchronous ||
         (key.direction == Direction::kDeviceToHost && key.destination == MemoryClass::kPageable);
}

// What CUPTI's records say of a site's copies, as far as they say it.
struct GpuView {
  std::uint64_t time_ns = 0;  // sum of the copies; 0 = no records
  std::optional<std::uint64_t> overlapped_ns;
  std::optional<double> bytes_per_s;
  std::optional<double> link_bytes_per_s;

  [[nodiscard]] std::optional<double> link_share() const {
    if (!bytes_per_s || !link_bytes_per_s || *bytes_per_s > *link_bytes_per_s) return std::nullopt;
    return *bytes_per_s / *link_bytes_per_s;
  }
  [[nodiscard]] std::optional<double> overlapped_share() const {
    if (!overlapped_ns || time_ns == 0) return std::nullopt;
    return static_cast<double>(*overlapped_ns) / static_cast<double>(time_ns);
  }
};

GpuView view_of(const ReportProcess& process, const TransferKey& key, const GpuTimes& gpu) {
  GpuView view;
  if (gpu.records == 0) return view;
  const Clock& clock = process.process->clock();
  view.time_ns = clock.duration_ns(gpu.ticks);
  if (process.model().activity().has_kernels()) {
    view.overlapped_ns = clock.duration_ns(gpu.overlapped_ticks);
  }
  const std::uint64_t busy_ns = clock.duration_ns(gpu.busy_ticks);
  if (busy_ns != 0) {
    view.bytes_per_s = static_cast<double>(gpu.bytes) * 1e9 / static_cast<double>(busy_ns);
  }
  const auto& devices = process.model().memory().devices.devices();
  const auto device = devices.find(key.device);
  if (device != devices.end()) {
    view.link_bytes_per_s = link_bytes_per_second(device->second, key.direction);
  }
  return view;
}

bool is_slow(const CopySums& sums, const GpuView& gpu, const Thresholds& thresholds) {
  return sums.mean_bytes() >= thresholds.bytes(Threshold::kLowBandwidthMeanBytes) &&
         sums.bytes >= thresholds.bytes(Threshold::kPageableBytes) && gpu.link_share() &&
         *gpu.link_share() < thresholds[Threshold::kLowBandwidthShare];
}

bool is_not_hidden(const CopySums& sums, const GpuView& gpu, const Thresholds& thresholds) {
  return sums.mean_bytes() >= thresholds.bytes(Threshold::kNotHiddenMeanBytes) &&
         sums.bytes >= thresholds.bytes(Threshold::kPageableBytes) && gpu.overlapped_share() &&
         *gpu.overlapped_share() < thresholds[Threshold::kNotHiddenShare];
}

// What was sent again and again, not what a second pass over the data brings.
bool is_repeated(const CopySums& sums, const Thresholds& thresholds) {
  const std::uint64_t contents = sums.hashed_count - sums.repeats.count;
  return sums.repeats.count != 0 &&
         sums.repeats.bytes >= thresholds.bytes(Threshold::kRepeatedBytes) &&
         sums.hashed_count >= contents * thresholds.count(Threshold::kRepeatedTimes);
}

// A module that is moved is made once, and the program waits for it in any case.
bool moves_a_module(const ReportContext& context, const ReportProcess& process,
                    const CopySums& sums) {
  if (sums.stack.empty()) return false;
  const auto frames = context.names_of(process).frames_of(stack_id(sums.stack));
  return std::any_of(frames.begin(), frames.end(), [](const StackFrame& frame) {
    return frame.file.ends_with("/torch/nn/modules/module.py") &&
           frame.function.ends_with("_apply");
  });
}

// At most one rule a site: the one whose remedy helps most.
Rule rule_for(const CopyKey& copies, const CopySums& sums, const GpuView& gpu,
              const Thresholds& thresholds) {
  const TransferKey& key = copies.kind;
  if (!between_host_and_device(key)) return Rule::kCount;
  if (is_repeated(sums, thresholds)) return Rule::kRepeatedCopies;
  if (sums.returned.count >= thresholds.count(Threshold::kPingPongCount) &&
      sums.returned.bytes >= thresholds.bytes(Threshold::kPingPongBytes)) {
    return Rule::kPingPong;
  }
  const bool small = sums.mean_bytes() <= thresholds.bytes(Threshold::kSmallMeanBytes);
  const bool pageable = key.asynchronous && has_pageable_end(key) && !small;
  if (pageable && sums.is_a_loop() && sums.bytes >= thresholds.bytes(Threshold::kPageableBytes)) {
    return Rule::kPageableCopies;
  }
  if (is_slow(sums, gpu, thresholds)) return Rule::kLowBandwidth;
  if (copies.waits) {
    const bool many = sums.count >= thresholds.count(Threshold::kSynchronousCount);
    return many && !pageable ? Rule::kSynchronousCopies : Rule::kCount;
  }
  const bool many = sums.count >= thresholds.count(Threshold::kSmallCount);
  if (small && many) return Rule::kSmallCopies;
  return is_not_hidden(sums, gpu, thresholds) ? Rule::kCopiesNotHidden : Rule::kCount;
}

// What the remedy could save at most.
std::uint64_t time_lost_ns(const ReportProcess& process, Rule rule, const CopySums& sums,
                           const GpuView& gpu) {
  const Clock& clock = process.process->clock();
  switch (rule) {
    case Rule::kLowBandwidth: {
      const std::uint64_t busy_ns = clock.duration_ns(sums.gpu.busy_ticks);
      const double at_best_ns = static_cast<double>(sums.gpu.bytes) * 1e9 / *gpu.link_bytes_per_s;
      return busy_ns - std::min(busy_ns, static_cast<std::uint64_t>(at_best_ns));
    }
    case Rule::kRepeatedCopies:
      return clock.duration_ns(sums.repeats.host_ticks);
    case Rule::kCopiesNotHidden:
      return gpu.time_ns - std::min(gpu.time_ns, *gpu.overlapped_ns);
    default:
      return clock.duration_ns(sums.host_ticks);
  }
}

// What so many copies need by themselves: a call of its own for each, and the bytes.
std::uint64_t needed_ns(std::uint64_t count, std::uint64_t bytes, std::uint64_t bytes_per_ns) {
  constexpr std::uint64_t kCallNs = 10'000;
  return count * kCallNs + bytes / bytes_per_ns;
}

// Of the time lost, what does not merely wait for work that the GPU has to do in any case: a copy
// of four bytes that waits for the kernels of a step takes as long as the step. At most, that is on
// a slow machine.
std::uint64_t own_time_ns(const ReportProcess& process, const CopyKey& copies, Rule rule,
                          const CopySums& sums, std::uint64_t lost_ns) {
  constexpr std::uint64_t kPageableBytesPerNs = 4;
  constexpr std::uint64_t kPinnedBytesPerNs = 12;
  switch (rule) {
    case Rule::kPingPong: {
      const Returns& trips = sums.returned;
      const std::uint64_t in_calls_ns =
          std::min(process.duration_ns(trips.up_ticks + trips.down_ticks),
                   needed_ns(2 * trips.count, 2 * trips.bytes, kPageableBytesPerNs));
      if (has_pageable_end(copies.kind)) return in_calls_ns;
      // Calls that do not wait take less time than their copies.
      return std::max(in_calls_ns, needed_ns(2 * trips.count, 2 * trips.bytes, kPinnedBytesPerNs));
    }
    case Rule::kPageableCopies:
    case Rule::kSynchronousCopies:
    case Rule::kSmallCopies:
      return std::min(lost_ns, needed_ns(sums.count, sums.bytes, kPageableBytesPerNs));
    default:
      return lost_ns;
  }
}

// From a site's first copy to the end of its last. When those were that a checkpoint replaced is
// not known: theirs is the whole run.
std::uint64_t loop_ns(const ReportProcess& process, const CopySums& sums) {
  const RunStatistics& run = process.model().statistics();
  const std::uint64_t first = sums.single_ones_are_gone ? run.first_time : sums.times.least;
  const std::uint64_t last = sums.single_ones_are_gone ? run.last_time : sums.times.most;
  return last > first ? process.duration_ns(last - first) : 0;
}

// Whether advice in PyTorch's words helps the site's author.
bool speaks_pytorch(const ReportProcess& process, const Identity& identity) {
  return identity.owner == "pytorch" || (identity.is_python && uses_pytorch(process));
}

std::string advice_for(Rule rule, const TransferKey& key, bool pytorch) {
  const bool up = key.direction == Direction::kHostToDevice;
  switch (rule) {
    case Rule::kRepeatedCopies:
      return pytorch ? "Copy the tensor to the GPU once, before the loop, and use that one."
                     : "Copy the data once, before the loop, and keep the buffer on the GPU.";
    case Rule::kPageableCopies:
      if (pytorch) {
        return up ? "Copy from pinned memory (DataLoader(pin_memory=True), tensor.pin_memory()) "
                    "with non_blocking=True; the calls then return at once."
                  : "Copy into a pinned buffer (torch.empty(..., pin_memory=True)) with "
                    "non_blocking=True; the calls then return at once.";
      }
      return std::string(up ? "Copy from" : "Copy into") +
             " pinned memory (cudaMallocHost, cuMemHostAlloc): this buffer on the host is "
             "pageable, "
             "no call of CUDA allocated it. The calls then return at once.";
    case Rule::kSynchronousCopies:
      if (up) {
        return pytorch ? "Copy from pinned memory with non_blocking=True, or copy once before the "
                         "loop."
                       : "Use an asynchronous copy from pinned memory, or copy once before the "
                         "loop.";
      }
      return pytorch ? "Keep the value on the GPU (no .item(), .cpu() or print in the loop) and "
                       "read it every so many rounds."
                     : "Keep the result on the GPU and read it every so many rounds, or copy it "
                       "asynchronously to pinned memory.";
    case Rule::kPingPong:
      return "Keep the data on the GPU between the two copies, or copy only what the host changed: "
             "both ways would be saved. Where memory is offloaded on purpose, suppress this.";
    case Rule::kLowBandwidth:
      if (has_pageable_end(key)) {
        return pytorch ? "Copy from or to pinned memory (pin_memory=True): pageable memory goes "
                         "through a buffer of the driver."
                       : "Allocate the host buffer with cudaMallocHost or cuMemHostAlloc: pageable "
                         "memory goes through a buffer of the driver.";
      }
      return "Run the process on the CPUs next to the GPU (nvidia-smi topo -m, numactl), and see "
             "whether its link runs at full width (nvidia-smi -q).";
    case Rule::kCopiesNotHidden:
      return pytorch
                 ? "Copy for the next round on a stream of its own (torch.cuda.Stream) from "
                   "pinned memory with non_blocking=True while this round's kernels run."
                 : "Copy for the next round on a stream of its own from pinned memory while this "
                   "round's kernels run.";
    default:
      return "Gather the pieces in one buffer and copy it once; a call costs more than these "
             "bytes.";
  }
}

std::optional<double> rounded(const std::optional<double>& value, double parts) {
  if (!value) return std::nullopt;
  return std::round(*value * parts) / parts;
}

void add_returns(rows::Hotspot& row, const ReportProcess& process, const Returns& returned) {
  row.returned_count = returned.count;
  row.returned_bytes = returned.bytes;
  row.returned_host_ns = process.duration_ns(returned.up_ticks + returned.down_ticks);
  row.returned_up_ns = process.duration_ns(returned.up_ticks);
  row.returned_away_ns = process.duration_ns(returned.away_ticks);
  row.returned_to_same_memory = returned.to_same_memory;
  row.returned_to_new_memory = returned.to_new_memory;
}

rows::Hotspot hotspot_row(const ReportContext& context, const ReportProcess& process, Rule rule,
                          const CopyKey& copies, const CopySums& sums, const GpuView& gpu) {
  const TransferKey& key = copies.kind;
  rows::Hotspot row;
  row.rule = rule;
  row.process = process.id;
  row.device = context.device_id(process, key.device);
  row.direction = key.direction;
  row.count = sums.count;
  row.bytes = sums.bytes;
  row.time_lost_ns = time_lost_ns(process, rule, sums, gpu);
  row.own_time_ns = own_time_ns(process, copies, rule, sums, row.time_lost_ns);
  row.loop_ns = loop_ns(process, sums);
  row.origin = origin_with_stack(copies.identity, sums.stack);
  row.advice = advice_for(rule, key, speaks_pytorch(process, copies.identity));
  row.api = copies.identity.api;
  row.source_memory = key.source;
  row.destination_memory = key.destination;
  row.mean_bytes = sums.mean_bytes();
  add_returns(row, process, sums.returned);
  row.down_at = location_of(context, process, sums.down_at);
  if (sums.hashed_count != 0) {
    row.repeated_count = sums.repeats.count;
    row.repeated_bytes = sums.repeats.bytes;
  }
  if (sums.gpu.records != 0) row.gpu_time_ns = gpu.time_ns;
  row.bandwidth_bytes_per_s = rounded(gpu.bytes_per_s, 1);
  row.link_share = rounded(gpu.link_share(), 1e4);
  row.overlapped_ns = gpu.overlapped_ns;
  row.is_exact = !process.inexact.copies;
  return row;
}

std::map<CopyKey, CopySums> copies_by_site(const ReportContext& context,
                                           const ReportProcess& process) {
  std::map<CopyKey, CopySums> copies;
  for (const TransferRow& row : process.model().transfers().rows()) {
    if (row.key.is_set || row.key.in_graph) continue;
    CopyKey key{context.identity_of_site(process, row.key.site), row.key};
    key.waits =
        copy_waits(row.key) || (row.key.direction == Direction::kDeviceToHost &&
                                context.names_of(process).waits_for_copy(row.key.site.stack));
    const std::string stack = take_stack(key.identity);
    key.identity.api = process.model().program().dictionary().function_of(row.key.site);
    key.kind.site = CallSite{};
    CopySums& sums = copies[key];
    if (sums.count == 0 || row.bytes > sums.most_bytes) {
      sums.most_bytes = row.bytes;
      sums.stack = stack;
    }
    sums.count += row.count;
    sums.bytes += row.bytes;
    sums.host_ticks += row.host_ticks;
    sums.times.add(row.times);
    sums.single_ones_are_gone |= row.single_ones_are_gone;
    if (sums.returned.count == 0 && row.returned.count != 0) {
      sums.down_at = process.model().transfers().rows()[row.down_row].key.site;
    }
    sums.returned.add(row.returned);
    sums.hashed_count += row.hashed_count;
    sums.repeats.add(row.repeats);
    sums.repeated_bytes += row.repeated_bytes;
    sums.gpu.add(row.gpu);
  }
  return copies;
}

}  // namespace

std::vector<rows::Hotspot> report_hotspots(const ReportContext& context,
                                           const Thresholds& thresholds) {
  std::vector<rows::Hotspot> list;
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [copies, sums] : copies_by_site(context, process)) {
      const GpuView gpu = view_of(process, copies.kind, sums.gpu);
      const Rule rule = rule_for(copies, sums, gpu, thresholds);
      if (rule == Rule::kCount) continue;
      if (rule == Rule::kPageableCopies && moves_a_module(context, process, sums)) continue;
      list.push_back(hotspot_row(context, process, rule, copies, sums, gpu));
    }
  }
  sort_rows(list, &rows::Hotspot::bytes);
  return list;
}

}  // namespace gpumemtrace::analyzer
