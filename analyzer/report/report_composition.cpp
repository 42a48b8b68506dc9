// SPDX-License-Identifier: Apache-2.0
// The composition of a device's memory as one process knows it.
#include <algorithm>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

struct ComposedSnapshot {
  rows::SnapshotAt at;
  Parts parts;
  DriverSample sample;
};

// The bytes that the driver counts in its sample beyond those of the process's own calls. The
// sample and the calls are not simultaneous to the nanosecond: if the difference is negative, the
// number is not known.
rows::OptionalNumber outside_calls(const DriverSample& sample, std::uint64_t driver_bytes) {
  if (driver_bytes < sample.physical_bytes) return std::nullopt;
  return driver_bytes - sample.physical_bytes;
}

// Fills in the driver's numbers, so that all parts sum to the driver's total. Bytes that the driver
// counts for the process beyond its allocations are the context and its modules; changes between
// the sample and the peak cannot be attributed.
void add_driver_number(rows::Composition& row, const ReportProcess& process,
                       const DriverSample& sample, std::uint64_t explained) {
  row.source = name_of(sample.source);
  if (sample.source == trace::SampleSource::kNone) return;
  row.sample_time_ns = process.time_ns(sample.time);
  // Without NVML's numbers for each process, this process's context cannot be told apart from other
  // processes.
  std::uint64_t number = sample.in_use_bytes();
  if (sample.source == trace::SampleSource::kNvmlProcess) {
    const std::uint64_t context =
        sample.process_bytes - std::min(sample.process_bytes, sample.physical_bytes);
    number = sample.process_bytes + sample.other_bytes;
    explained += context + sample.other_bytes;
    row.context_and_modules = context;
    row.other_processes = sample.other_bytes;
  }
  row.unattributed = static_cast<std::int64_t>(number - explained);
  row.driver_bytes = number;
  row.outside_calls = outside_calls(sample, number);
}

rows::Composition compose(const ReportContext& context, const ReportProcess& process,
                          std::int32_t device, const ComposedSnapshot& moment,
                          const Holders& driver) {
  const Parts& parts = moment.parts;
  std::uint64_t segment_bytes = 0;
  std::map<std::string, std::uint64_t> by_owner;
  for (const auto& [holder, tally] : driver) {
    if (holder.segment) {
      segment_bytes += tally.bytes;
    } else {
      by_owner[context.identity_of(process, holder).owner] += tally.bytes;
    }
  }
  // Blocks of the framework whose driver allocation is not in the trace explain no part of the
  // driver's number.
  const std::uint64_t framework_allocated = std::min(segment_bytes, parts.framework_allocated);
  std::uint64_t explained = segment_bytes + parts.pool_reserved;
  rows::Composition row;
  for (const auto& [owner, bytes] : by_owner) {
    row.other.push_back({rows::text_or_none(owner), bytes});
    explained += bytes;
  }
  sort_rows(row.other, &rows::OwnersBytes::bytes);
  row.process = process.id;
  row.device = context.device_id(process, device);
  row.at = moment.at;
  row.time_ns = process.time_ns(parts.time);
  row.framework_allocated = framework_allocated;
  row.framework_cached = segment_bytes - framework_allocated;
  row.pool_used = parts.pool_used;
  row.pool_cached = parts.pool_reserved - parts.pool_used;
  add_driver_number(row, process, moment.sample, explained);
  row.is_exact = !(process.inexact.memory || process.inexact.framework);
  return row;
}

// The driver's sample that is nearer to the peak in time.
const DriverSample& nearer_sample(const DeviceState& state) {
  const DriverSample& before = state.before_peak;
  const DriverSample& after = state.after_peak;
  if (before.time == 0 || after.time == 0) return before.time == 0 ? after : before;
  const std::uint64_t peak = state.physical_peak.time();
  return peak - before.time <= after.time - peak ? before : after;
}

}  // namespace

rows::Composition compose_snapshot(const ReportContext& context, const ReportProcess& process,
                                   const OomSnapshot& snapshot) {
  return compose(context, process, snapshot.device,
                 {rows::SnapshotAt::kOom, snapshot.parts, snapshot.sample},
                 snapshot.driver_holders);
}

std::vector<rows::Composition> report_composition(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Composition>& list) {
    const ProcessModel& model = process.model();
    for (const auto& [device, state] : model.memory().devices.devices()) {
      if (device < 0) continue;
      if (!state.physical_peak.happened() && state.last_sample.time == 0) continue;
      if (state.physical_peak.happened()) {
        const Holders held = model.holders().at(state.physical_peak, Level::kDriver, device);
        list.push_back(compose(context, process, device,
                               {rows::SnapshotAt::kDriverPeak, state.at_peak, nearer_sample(state)},
                               held));
      }
      for (const OomSnapshot& snapshot : model.snapshots()) {
        if (snapshot.device == device) {
          list.push_back(compose_snapshot(context, process, snapshot));
        }
      }
      list.push_back(
          compose(context, process, device,
                  {rows::SnapshotAt::kEnd, model.memory().parts_now(device), state.last_sample},
                  sum_by_holder(model.memory().live_now(Level::kDriver, device))));
    }
  };
  return context.gather<rows::Composition>(add_rows);
}

}  // namespace gpumemtrace::analyzer
