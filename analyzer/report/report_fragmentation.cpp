// SPDX-License-Identifier: Apache-2.0
// Free memory that requests cannot use: the blocks that keep it so, the segments of one process,
// and failed requests.
#include <algorithm>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMostPins = 10;

// The share of the free memory that is outside of the largest free piece; no value if nothing is
// free.
std::optional<double> external_share(const Fragmentation& fragmentation) {
  if (fragmentation.free_bytes == 0) return std::nullopt;
  return 1.0 - static_cast<double>(fragmentation.largest_free_bytes) /
                   static_cast<double>(fragmentation.free_bytes);
}

// The moment at which the framework's memory on a device was looked at.
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

// Adds rows for the framework's memory on one device: at its peak, at each failed request, when
// most free memory was unusable (`most_stranded_moment`), and at the end.
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
  if (framework.most_stranded_moment.happened()) {
    add({SnapshotAt::kWorst, framework.most_stranded_moment.time()},
        model.memory().fragmentation_at(framework.most_stranded_moment, device));
  }
  add({SnapshotAt::kEnd, model.statistics().last_time},
      model.memory().fragmentation_at(PeakSnapshot::now(), device));
}

// The pools of one device.
struct DevicePools {
  bool sampled = true;           // true if the driver was asked about each pool
  std::uint64_t peak_bytes = 0;  // the sum of the pools' peaks, which may be at different times
};

// A row for the driver's pools of a device. The driver reports how much a pool holds, not its
// layout.
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
      // Pools may have held more between two samples of the driver.
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

// Sums `pins`, the blocks that keep free memory unusable, by owner and site, and keeps the `most`
// rows with most unusable memory.
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
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Fragmentation>& list) {
    for (const auto& [device, framework] : process.model().memory().framework.devices()) {
      add_framework(context, process, framework, list);
    }
    add_pools(context, process, list);
  };
  return context.gather<rows::Fragmentation>(add_rows);
}

namespace {

constexpr std::size_t kMostPinsOfSegment = 3;

// The framework of one process on one device, whose segments the report shows.
struct MappedDevice {
  const ReportProcess* process = nullptr;
  const FrameworkDevice* framework = nullptr;
  const OomSnapshot* failure = nullptr;  // the device's first failed request; nullptr if none
};

const OomSnapshot* first_failure(const ProcessModel& model, std::int32_t device) {
  for (const OomSnapshot& snapshot : model.snapshots()) {
    if (snapshot.device == device && snapshot.segments) return &snapshot;
  }
  return nullptr;
}

// The device with the most reserved bytes of those that had a failed request, or of all if none had
// one. A map of every device's segments would be larger than all the rest of the report.
MappedDevice most_telling_device(const ReportContext& context) {
  MappedDevice mapped;
  const auto rank_of = [](const MappedDevice& one) {
    return std::pair(one.failure != nullptr, one.framework->reserved_peak_bytes);
  };
  for (const ReportProcess& process : context.processes()) {
    for (const auto& [ordinal, framework] : process.model().memory().framework.devices()) {
      const MappedDevice one{&process, &framework, first_failure(process.model(), ordinal)};
      if (mapped.process == nullptr || rank_of(one) > rank_of(mapped)) mapped = one;
    }
  }
  return mapped;
}

class SegmentRows {
 public:
  SegmentRows(const ReportContext& context, const MappedDevice& mapped)
      : context_(context),
        process_(*mapped.process),
        blank_(context.row_on<rows::Segment>(process_, mapped.framework->device)) {}

  void add(rows::SnapshotAt at, std::uint64_t time, const SegmentMap& map) {
    blank_.at = at;
    blank_.time_ns = process_.known_time_ns(time);
    for (const MappedSegment& segment : map.segments) {
      rows::Segment row = blank_;
      row.address = segment.address;
      row.bytes = segment.bytes;
      row.allocated_bytes = segment.allocated_bytes;
      row.unusable_bytes = segment.stranded_bytes;
      row.pinned_by = pinning_blocks(context_, process_, segment.pins, kMostPinsOfSegment);
      for (const SegmentRun& run : segment.runs) {
        row.runs.push_back({run.bytes, run.allocated_bytes, static_cast<Category>(run.category)});
      }
      list_.push_back(std::move(row));
    }
    if (map.further_segments == 0) return;
    rows::Segment rest = blank_;
    rest.segments = map.further_segments;
    rest.bytes = map.further_bytes;
    rest.allocated_bytes = map.further_allocated_bytes;
    rest.unusable_bytes = map.further_stranded_bytes;
    list_.push_back(std::move(rest));
  }
  [[nodiscard]] std::vector<rows::Segment> take() { return std::move(list_); }

 private:
  const ReportContext& context_;
  const ReportProcess& process_;
  rows::Segment blank_;
  std::vector<rows::Segment> list_;
};

}  // namespace

std::optional<rows::TellingSegments> report_segments(const ReportContext& context) {
  const MappedDevice mapped = most_telling_device(context);
  if (mapped.process == nullptr) return std::nullopt;
  const HolderSums& holders = mapped.process->model().holders();
  const std::int32_t device = mapped.framework->device;
  SegmentRows list(context, mapped);
  const PeakSnapshot& peak = mapped.framework->blocks->peak;
  if (peak.happened() && !peak.is_restored()) {
    list.add(rows::SnapshotAt::kPeak, peak.time(), holders.segments_at(peak, device));
  }
  const PeakSnapshot& most_stranded = mapped.framework->most_stranded_moment;
  if (most_stranded.bytes() != 0 && most_stranded.time() != peak.time()) {
    list.add(rows::SnapshotAt::kWorst, most_stranded.time(),
             holders.segments_at(most_stranded, device));
  }
  if (mapped.failure != nullptr) {
    list.add(rows::SnapshotAt::kOom, mapped.failure->parts.time, *mapped.failure->segments);
  }
  return rows::TellingSegments{mapped.process->id, mapped.failure != nullptr,
                               mapped.framework->reserved_peak_bytes, list.take()};
}

namespace {

// The device's free bytes by the driver's last sample and by what the process itself has taken or
// freed since then.
rows::OptionalNumber device_free_bytes(const OomSnapshot& snapshot) {
  const DriverSample& sample = snapshot.sample;
  if (sample.time == 0) return std::nullopt;
  const std::uint64_t taken = snapshot.parts.physical() - sample.physical_bytes;
  if (sample.source == trace::SampleSource::kNone) {  // the size of the card is not known
    return taken == 0 ? rows::OptionalNumber(sample.free_bytes) : std::nullopt;
  }
  if (sample.total_bytes == 0) return std::nullopt;
  const std::uint64_t free = sample.free_bytes - taken;
  return free > sample.total_bytes ? std::nullopt : rows::OptionalNumber(free);
}

// The free memory that the failed request saw: inside the framework's segments if there are any,
// else on the device by the driver's last sample.
void add_free_memory(rows::Oom& row, const OomSnapshot& snapshot) {
  row.device_free_bytes = device_free_bytes(snapshot);
  if (snapshot.fragmentation && snapshot.fragmentation->reserved_bytes != 0) {
    row.free_bytes = snapshot.fragmentation->free_bytes;
    row.largest_free_bytes = snapshot.fragmentation->largest_free_bytes;
    const bool is_enough_in_sum = *row.free_bytes >= row.requested_bytes;
    row.verdict = is_enough_in_sum ? rows::OomVerdict::kFragmented : rows::OomVerdict::kExhausted;
    return;
  }
  row.free_bytes = row.device_free_bytes;
  if (row.free_bytes && *row.free_bytes < row.requested_bytes) {
    row.verdict = rows::OomVerdict::kExhausted;
  }
}

// True if the process allocated on the same level and device after its failed request. No value if
// it did not end by exit, if several requests failed (the time of the last one is not kept), or if
// a device that matters is not known.
std::optional<bool> survived(const ReportProcess& process, const OomRow& failures) {
  if (process.end != rows::TraceEnd::kExit || failures.count != 1) return std::nullopt;
  const OomIncident& failure = failures.first;
  bool is_known = true;
  for (const Group& group : process.model().accounts().groups()) {
    const GroupKey& key = group.key;
    if (group.last_time <= failure.time || level_of(key.kind) != failure.level) continue;
    if (key.device == kUnknownDevice || failure.device == kUnknownDevice) {
      is_known = false;
    } else if (key.device == failure.device) {
      return true;
    }
  }
  return is_known ? std::optional(false) : std::nullopt;
}

// Fills in the free bytes, the parts of the memory in use, and the holders at the first failed
// request with a snapshot.
void add_snapshot(rows::Oom& row, const ReportContext& context, const ReportProcess& process,
                  const OomSnapshot& snapshot) {
  add_free_memory(row, snapshot);
  row.composition = compose_snapshot(context, process, snapshot);
  std::uint64_t total_bytes = 0;
  for (const auto& [holder, tally] : snapshot.holders) total_bytes += tally.bytes;
  row.holders = holder_rows(context.tally(process, snapshot.holders), total_bytes);
}

rows::Oom oom_row(const ReportContext& context, const ReportProcess& process,
                  const OomRow& failures) {
  const OomIncident& first = failures.first;
  auto row = context.row_on<rows::Oom>(process, first.device);
  row.level = first.level;
  row.time_ns = process.time_ns(first.time);
  row.step = process.model().program().steps().step_at(first.time);
  row.outcome = failures.outcome;
  row.survived = survived(process, failures);
  row.count = failures.count;
  row.attempts = failures.attempts;
  row.lost_ns = process.duration_ns(failures.lost_ticks);
  row.requested_bytes = first.requested_bytes;
  row.flushed_bytes = failures.flushed_bytes;
  if (first.snapshot != 0) {
    add_snapshot(row, context, process, process.model().snapshots()[first.snapshot - 1]);
  }
  row.origin = origin_of(context.identity_of_site(process, first.site));
  if (first.level == Level::kFramework) row.origin.owner = framework_with_blocks().owner;
  row.is_exact = !is_inexact(process, first.level);
  return row;
}

}  // namespace

std::vector<rows::Oom> report_oom(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Oom>& list) {
    for (const OomRow& failures : process.model().memory().out_of_memory.rows()) {
      list.push_back(oom_row(context, process, failures));
    }
  };
  return context.gather<rows::Oom>(add_rows);
}

}  // namespace gpumemtrace::analyzer
