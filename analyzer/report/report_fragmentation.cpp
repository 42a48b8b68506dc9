// SPDX-License-Identifier: Apache-2.0
// The layout of the framework's and the pools' free memory.
#include <algorithm>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMostPins = 10;

std::optional<double> external_share(const Fragmentation& fragmentation) {
  if (fragmentation.free_bytes == 0) return std::nullopt;
  return 1.0 - static_cast<double>(fragmentation.largest_free_bytes) /
                   static_cast<double>(fragmentation.free_bytes);
}

// A snapshot of the framework on a device.
struct Looked {
  rows::SnapshotAt at;
  std::uint64_t time = 0;
};

rows::Fragmentation framework_row(const ReportContext& context, const ReportProcess& process,
                                  std::int32_t device, Looked looked,
                                  const Fragmentation& fragmentation) {
  auto row = context.row_on<rows::Fragmentation>(process, device);
  row.level = Level::kFramework;
  row.at = looked.at;
  row.time_ns = process.time_ns(looked.time);
  row.reserved_bytes = fragmentation.reserved_bytes;
  row.allocated_bytes = fragmentation.allocated_bytes;
  row.free_bytes = fragmentation.free_bytes;
  row.largest_free_bytes = fragmentation.largest_free_bytes;
  row.releasable_bytes = fragmentation.releasable_bytes;
  row.unusable_bytes = fragmentation.stranded_bytes;
  row.external_fragmentation = external_share(fragmentation);
  row.pinned_by = pinning_blocks(context, process, fragmentation.pins, kMostPins);
  row.is_exact = !(process.inexact.memory || process.inexact.framework);
  return row;
}

void add_framework(const ReportContext& context, const ReportProcess& process,
                   const FrameworkDevice& framework, std::vector<rows::Fragmentation>& list) {
  using rows::SnapshotAt;
  const ProcessModel& model = process.model();
  const std::int32_t device = framework.device;
  const auto add = [&](Looked looked, const Fragmentation& fragmentation) {
    list.push_back(framework_row(context, process, device, looked, fragmentation));
  };
  const PeakSnapshot& peak = framework.blocks->peak;
  if (peak.happened() && !peak.is_restored()) {
    add({SnapshotAt::kPeak, peak.time()}, model.memory().fragmentation_at(peak, device));
  }
  for (const OomSnapshot& snapshot : model.snapshots()) {
    if (snapshot.device != device || !snapshot.fragmentation) continue;
    add({SnapshotAt::kOom, snapshot.parts.time}, *snapshot.fragmentation);
  }
  if (framework.worst.happened()) {
    add({SnapshotAt::kWorst, framework.worst.time()},
        model.memory().fragmentation_at(framework.worst, device));
  }
  add({SnapshotAt::kEnd, model.statistics().last_time},
      model.memory().fragmentation_at(PeakSnapshot::now(), device));
}

// The pools of one device.
struct DevicePools {
  bool sampled = true;           // the driver was asked about all of them
  std::uint64_t peak_bytes = 0;  // sum of the highest points, which may be at different times
};

// The driver reports how much a pool holds, not its layout.
rows::Fragmentation pool_row(const ReportContext& context, const ReportProcess& process,
                             std::int32_t device, Looked looked, std::uint64_t used_bytes,
                             rows::OptionalNumber reserved_bytes) {
  auto row = context.row_on<rows::Fragmentation>(process, device);
  row.level = Level::kPool;
  row.at = looked.at;
  row.time_ns = process.time_ns(looked.time);
  row.reserved_bytes = reserved_bytes;
  row.allocated_bytes = used_bytes;
  if (reserved_bytes) row.free_bytes = *reserved_bytes - used_bytes;
  return row;
}

void add_pools(const ReportContext& context, const ReportProcess& process,
               std::vector<rows::Fragmentation>& list) {
  const ProcessModel& model = process.model();
  std::map<std::int32_t, DevicePools> devices;
  for (const PoolState& pool : model.memory().pools.pools()) {
    if (pool.device < 0 || pool.is_imported) continue;
    DevicePools& pools = devices[pool.device];
    pools.sampled = pools.sampled && pool.sampled;
    pools.peak_bytes += pool.reserved_peak_bytes;
  }
  for (const auto& [device, pools] : devices) {
    const PoolSums& sums = model.memory().pools.sums_of(device);
    if (pools.sampled && sums.most.time != 0) {
      rows::Fragmentation peak =
          pool_row(context, process, device, {rows::SnapshotAt::kPeak, sums.most.time},
                   sums.most.used_bytes, sums.most.reserved_bytes);
      // They may have held more between two samples.
      const bool was_seen = sums.most.reserved_bytes == pools.peak_bytes;
      peak.is_exact = !process.inexact.memory && was_seen;
      list.push_back(std::move(peak));
    }
    rows::Fragmentation end = pool_row(
        context, process, device, {rows::SnapshotAt::kEnd, model.statistics().last_time},
        sums.used_bytes,
        pools.sampled ? rows::OptionalNumber(sums.reserved_bytes) : rows::OptionalNumber());
    end.is_exact = !process.inexact.memory;
    list.push_back(std::move(end));
  }
}

}  // namespace

std::vector<rows::PinningBlocks> pinning_blocks(const ReportContext& context,
                                                const ReportProcess& process,
                                                const std::map<std::uint32_t, Pin>& pins,
                                                std::size_t most) {
  std::map<Identity, Pin> by_identity;
  for (const auto* entry : largest_first(pins, &Pin::stranded_bytes)) {
    const auto& [group, pin] = *entry;
    Pin& sum = by_identity[context.identity_of(process, {group, false})];
    sum.held_bytes += pin.held_bytes;
    sum.stranded_bytes += pin.stranded_bytes;
  }
  std::vector<rows::PinningBlocks> list;
  for (const auto& [identity, pin] : by_identity) {
    list.push_back({pin.held_bytes, pin.stranded_bytes, origin_of(identity)});
  }
  sort_rows(list, &rows::PinningBlocks::bytes_unusable);
  list.resize(std::min(list.size(), most));
  return list;
}

std::vector<rows::Fragmentation> report_fragmentation(const ReportContext& context) {
  std::vector<rows::Fragmentation> list;
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [device, framework] : process.model().memory().framework.devices()) {
      add_framework(context, process, framework, list);
    }
    add_pools(context, process, list);
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
