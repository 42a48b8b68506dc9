// SPDX-License-Identifier: Apache-2.0
// The peaks of each card, and the composition of a device's memory.
#include <algorithm>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

using rows::CardPart;
using rows::CardPartKind;

// Fills in the parts of one row; they sum to its bytes.
class PartList {
 public:
  explicit PartList(rows::CardPeak& row) : row_(row), rest_(row.bytes) {}

  // At most the rest.
  void add(const rows::OptionalText& process, CardPartKind what, std::uint64_t bytes,
           const rows::OptionalText& owner = std::nullopt) {
    const std::uint64_t part = std::min(bytes, rest_);
    rest_ -= part;
    if (part != 0) row_.parts.push_back({process, what, owner, part});
  }
  void add_rest(CardPartKind what) { add(std::nullopt, what, rest_); }

 private:
  rows::CardPeak& row_;
  std::uint64_t rest_;
};

void add_calls(const ReportContext& context, const ReportProcess& process, std::int32_t ordinal,
               const HeldOnCard& held, PartList& list) {
  std::uint64_t segment_bytes = 0;
  std::uint64_t known_bytes = 0;
  std::map<std::string, std::uint64_t> by_owner;
  for (const auto& [holder, tally] :
       process.model().holders().at(held.holders, Level::kDriver, ordinal)) {
    known_bytes += tally.bytes;
    std::uint64_t& sum =
        holder.segment ? segment_bytes : by_owner[context.identity_of(process, holder).owner];
    sum += tally.bytes;
  }
  const Parts& parts = held.parts;
  const std::uint64_t framework_allocated = std::min(segment_bytes, parts.framework_allocated);
  const std::uint64_t pool_used = std::min(parts.pool_used, parts.pool_reserved);
  list.add(process.id, CardPartKind::kFrameworkAllocated, framework_allocated);
  list.add(process.id, CardPartKind::kFrameworkCached, segment_bytes - framework_allocated);
  list.add(process.id, CardPartKind::kPoolUsed, pool_used);
  list.add(process.id, CardPartKind::kPoolCached, parts.pool_reserved - pool_used);
  by_owner[""] += parts.driver - std::min(parts.driver, known_bytes);
  for (const auto& [owner, bytes] : by_owner) {
    list.add(process.id, CardPartKind::kAllocated, bytes, rows::text_or_none(owner));
  }
  list.add(process.id, CardPartKind::kRounding, held.rounding_bytes);
}

std::uint64_t driver_bytes(const HeldOnCard& held) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(held.driver_bytes, 0));
}

struct Card {
  const ReportContext& context;
  const rows::OptionalText& id;
  const CardCurves& curves;
  std::uint64_t total_bytes = 0;
  bool is_inexact = false;
  bool leaves_managed_open = false;  // NVML counts it for no process, and nothing else tells it
};

bool allocates_managed(const ReportProcess& process) {
  const std::vector<UsageRow>& rows = process.model().accounts().rows();
  return std::ranges::any_of(
      rows, [](const UsageRow& row) { return row.kind == Kind::kManaged && row.allocations != 0; });
}

// The process whose managed memory is on the card, if it is one alone.
rows::OptionalText process_with_managed(const Card& card) {
  rows::OptionalText id;
  for (const CardMember& member : card.curves.members()) {
    if (!member.has_managed) continue;
    if (id) return std::nullopt;
    id = card.context.processes()[member.process].id;
  }
  return id;
}

rows::CardPeak peak_row(const Card& card, rows::PeakOf of, const CardCurves::Curve& curve,
                        bool tells_processes) {
  const ledger::CurveBounds bounds = curve.bounds();
  const CardPoint& point = curve.highest();
  const auto& processes = card.context.processes();
  rows::CardPeak row;
  // If the job's curve is not known, the card's stands for it: without the known bytes of others.
  const bool is_cards = of == rows::PeakOf::kJob && &curve == &card.curves.of_card();
  const std::uint64_t others = is_cards && tells_processes ? point.other_bytes : 0;
  row.device = card.id;
  row.of = of;
  row.bytes = bounds.bytes - std::min(bounds.bytes, others);
  row.low_bytes = bounds.low_bytes - std::min(bounds.low_bytes, others);
  row.high_bytes = bounds.high_bytes - std::min(bounds.high_bytes, others);
  // Without a sample of the driver its own bytes are not known.
  if (!curve.was_sampled()) row.high_bytes = std::max(row.high_bytes, card.total_bytes);
  row.is_exact = bounds.is_exact && !card.is_inexact;
  if (point.time != 0) row.time_ns = processes[point.process].time_ns(point.time);
  PartList list(row);
  const auto& members = card.curves.members();
  for (std::size_t i = 0; i < members.size(); ++i) {
    add_calls(card.context, processes[members[i].process], members[i].ordinal, point.held[i], list);
  }
  if (!tells_processes) {
    list.add_rest(CardPartKind::kNotSeparable);
    return row;
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    list.add(processes[members[i].process].id, CardPartKind::kDriver, driver_bytes(point.held[i]));
  }
  list.add(std::nullopt, CardPartKind::kDriver, point.untraced_bytes);
  list.add(process_with_managed(card), CardPartKind::kManaged, point.managed_bytes);
  if (of == rows::PeakOf::kJob) {
    list.add_rest(CardPartKind::kNotSeparable);
  } else {
    if (!point.is_partial) {
      list.add(std::nullopt, CardPartKind::kOtherProcesses, point.other_bytes);
    }
    list.add_rest(card.leaves_managed_open || point.is_partial ? CardPartKind::kNotSeparable
                                                               : CardPartKind::kNoProcess);
  }
  return row;
}

// NVML counts managed memory on the card for no process: the job holds at least NVML's number.
void leave_managed_open(const CardCurves::Curve& curve, rows::CardPeak& job) {
  job.low_bytes = std::min(job.high_bytes, curve.bounds().low_bytes);
  job.is_exact = job.is_exact && job.low_bytes == job.high_bytes;
}

// The job holds a part of the memory in use on the card. Its own curve can lie above: at NVML's
// sample a call was running whose memory NVML had counted already. That memory went to the driver's
// part.
void limit(rows::CardPeak& job, std::uint64_t most_bytes) {
  job.low_bytes = std::min(job.low_bytes, most_bytes);
  job.high_bytes = std::min(job.high_bytes, most_bytes);
  std::uint64_t too_much = job.bytes - std::min(job.bytes, job.high_bytes);
  job.bytes -= too_much;
  for (CardPart& part : job.parts) {
    if (part.what != CardPartKind::kDriver) continue;
    const std::uint64_t taken = std::min(part.bytes, too_much);
    part.bytes -= taken;
    too_much -= taken;
  }
  job.bytes += too_much;
  job.high_bytes = std::max(job.high_bytes, job.bytes);
  std::erase_if(job.parts, [](const CardPart& part) { return part.bytes == 0; });
}

}  // namespace

rows::OptionalText card_peaks_reason(const ReportContext& context) {
  if (context.devices().empty()) return "No memory of a device was recorded.";
  const auto is_of_source = [](const ReportContext::PhysicalDevice& device) {
    return device.seen_as.front().first->process->preview().source.has_value();
  };
  if (std::ranges::none_of(context.devices(), is_of_source)) return std::nullopt;
  return "A snapshot of PyTorch has PyTorch's part of a card alone.";
}

std::vector<rows::CardPeak> report_card_peaks(const ReportContext& context) {
  std::vector<rows::CardPeak> list;
  for (const ReportContext::PhysicalDevice& device : context.devices()) {
    const DeviceState& first = *device.seen_as.front().second;
    const CardCurves& curves = first.total().curves;
    if (curves.of_card().highest().time == 0) continue;
    // A file of another tool does not have what else was on the card.
    if (device.seen_as.front().first->process->preview().source) continue;
    const rows::OptionalText id = device.id;
    Card card{context, id, curves, first.total_bytes};
    for (const auto& [process, state] : device.seen_as) {
      card.is_inexact = card.is_inexact || process->inexact.memory || !state->curves_are_whole;
      card.leaves_managed_open = card.leaves_managed_open || allocates_managed(*process);
    }
    card.leaves_managed_open = card.leaves_managed_open && !curves.managed().is_known;
    const bool tells_processes = curves.of_job().was_sampled();
    list.push_back(peak_row(card, rows::PeakOf::kCard, curves.of_card(), tells_processes));
    const std::uint64_t most_bytes = list.back().high_bytes;
    rows::CardPeak job =
        tells_processes && !card.leaves_managed_open
            ? peak_row(card, rows::PeakOf::kJob, curves.of_job(), true)
            : peak_row(card, rows::PeakOf::kJob, curves.of_card(), tells_processes);
    if (tells_processes && card.leaves_managed_open) leave_managed_open(curves.of_job(), job);
    limit(job, most_bytes);
    list.push_back(std::move(job));
  }
  return list;
}

namespace {

std::string_view name_of(trace::SampleSource source) {
  switch (source) {
    case trace::SampleSource::kNvmlProcess:
      return "nvml_process";
    case trace::SampleSource::kMemGetInfo:
      return "cumemgetinfo";
    case trace::SampleSource::kNvmlDevice:
      return "nvml_device";
    case trace::SampleSource::kNone:
      break;
  }
  return "none";
}

struct ComposedSnapshot {
  rows::SnapshotAt at;
  Parts parts;
  DriverSample sample;
};

// The bytes in the driver's sample beyond those of the process's calls just then. The sample and
// the calls are not simultaneous to the nanosecond: a negative difference is not known.
rows::OptionalNumber outside_calls(const DriverSample& sample, std::uint64_t driver_bytes) {
  if (driver_bytes < sample.physical_bytes) return std::nullopt;
  return driver_bytes - sample.physical_bytes;
}

// Fills in the driver's numbers, so that all parts sum to its total. Bytes that it counts for the
// process beyond its allocations are the context and its modules; changes between the sample and
// the peak cannot be attributed.
void add_driver_number(rows::Composition& row, const ReportProcess& process,
                       const DriverSample& sample, std::uint64_t explained) {
  row.source = name_of(sample.source);
  if (sample.source == trace::SampleSource::kNone) return;
  row.sample_time_ns = process.time_ns(sample.time);
  // Without NVML's numbers of processes, contexts and other processes cannot be told apart.
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
  // Blocks without their driver allocation in the trace explain nothing of the driver's number.
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

// The sample that is nearer to the peak in time.
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
