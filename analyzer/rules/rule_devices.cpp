// SPDX-License-Identifier: Apache-2.0
// Rules on the processes of each device, and on pools that a trace cannot see into.
#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "analyzer/frameworks/frameworks.hpp"
#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"
#include "analyzer/rules/sentences.hpp"

namespace gpumemtrace::analyzer {
namespace {

bool is_on_device(const rows::Peak& row) {
  return (row.level == Level::kDriver || row.level == Level::kPool) && row.device;
}

// Driver and pool memory of each process on each device, at its peak.
using BytesByDevice = std::map<std::string, std::uint64_t>;
std::map<std::string, BytesByDevice> bytes_by_process(const rows::Report& report) {
  std::map<std::string, BytesByDevice> bytes;
  for (const rows::Peak& row : report.peak) {
    if (is_on_device(row)) bytes[row.process][*row.device] += row.bytes;
  }
  return bytes;
}

std::string main_device_of(const BytesByDevice& devices) {
  std::string largest;
  std::uint64_t most = 0;
  for (const auto& [device, bytes] : devices) {
    if (bytes > most) largest = device;
    most = std::max(most, bytes);
  }
  return largest;
}

// The largest holder with a known line at the process's peaks of driver and pool memory on the
// device; nullptr if there is none.
const rows::Origin* largest_holder(const rows::Report& report, const std::string& process,
                                   const std::string& device) {
  const rows::Holder* largest = nullptr;
  for (const rows::Peak& row : report.peak) {
    if (!is_on_device(row) || row.process != process || row.device != device) continue;
    for (const rows::Holder& holder : row.holders) {
      if (!holder.origin.site) continue;
      if (largest == nullptr || holder.bytes > largest->bytes) largest = &holder;
    }
  }
  return largest == nullptr ? nullptr : &largest->origin;
}

// A process of a local rank that uses the device of another local rank.
struct RankOnForeignDevice {
  const rows::Process& process;
  const rows::Process& owner;  // the process that owns the device
  std::string device;
  std::string own_device;
};

rows::Finding finding_of(const RankOnForeignDevice& rank) {
  rows::Finding finding = finding_of_rule(Rule::kWrongDevice);
  finding.process = rank.process.id;
  finding.device = rank.device;
  finding.evidence.add("local_rank", rank.process.local_rank);
  finding.evidence.add("own_device", rank.own_device);
  finding.evidence.add("rank_of_the_device", rank.owner.local_rank);
  return finding;
}

Sentence sentence_of(const rows::Finding& finding, const RankOnForeignDevice& rank) {
  const FrameworkInfo& framework =
      rank.process.torch ? framework_with_blocks() : framework_named("");
  return sentence_on(finding)
      .set("local_rank", rank.process.local_rank)
      .set("owner_rank", rank.owner.local_rank)
      .set("own_device", rank.own_device)
      .set("choose", framework.choose_device);
}

// The peak of the driver's own memory, such as that of a context, for the process on the device; 0
// if the driver does not give it by process.
std::uint64_t driver_bytes_of(const rows::Report& report, const std::string& process,
                              const std::string& device) {
  for (const rows::DriverMemory& row : report.driver_memory) {
    if (row.process == process && row.device == device) return row.peak_bytes.value_or(0);
  }
  return 0;
}

rows::Finding finding_of_memory(const rows::Report& report, const RankOnForeignDevice& rank,
                                std::uint64_t held) {
  rows::Finding finding = finding_of(rank);
  finding.level = Level::kDriver;
  const rows::Origin* const holder = largest_holder(report, rank.process.id, rank.device);
  if (holder != nullptr) finding.origin = *holder;
  const std::uint64_t context = driver_bytes_of(report, rank.process.id, rank.device);
  finding.bytes = held + context;
  finding.saves.bytes = finding.bytes;
  finding.evidence.add("allocated_bytes", held);
  finding.evidence.add("context_bytes", rows::number_or_none(context));
  const Sentence sentence = sentence_of(finding, rank)
                                .set("held_bytes", held)
                                .set("context_bytes", rows::number_or_none(context));
  fill_texts(sentences::kWrongDevice, sentence, finding);
  // The process and the device's owner both have most of their memory on this device.
  if (rank.device == rank.own_device) finding.title = sentence(sentences::kSameDevice);
  return finding;
}

// The processes with a local rank, and the owner of each device.
struct LocalRanks {
  std::map<std::string, BytesByDevice> bytes;
  std::map<std::uint64_t, const rows::Process*> by_rank;
  std::map<std::string, const rows::Process*> owner_of_device;

  // The process that owns the device; nullptr if none does, or if `process` itself does.
  [[nodiscard]] const rows::Process* other_owner(const std::string& device,
                                                 const rows::Process& process) const {
    const auto owner = owner_of_device.find(device);
    return owner == owner_of_device.end() || owner->second == &process ? nullptr : owner->second;
  }
};

// The local ranks of the report. A device belongs to the lowest local rank that has more memory
// there than on any other device.
LocalRanks local_ranks_of(const rows::Report& report) {
  LocalRanks ranks;
  ranks.bytes = bytes_by_process(report);
  for (const rows::Process& process : report.processes) {
    if (!process.local_rank || !ranks.bytes.contains(process.id)) continue;
    ranks.by_rank.emplace(*process.local_rank, &process);
  }
  for (const auto& [rank, process] : ranks.by_rank) {
    ranks.owner_of_device.emplace(main_device_of(ranks.bytes.at(process->id)), process);
  }
  return ranks;
}

void find_wrong_devices(const rows::Report& report, const LocalRanks& ranks, Findings& findings) {
  for (const auto& [rank, process] : ranks.by_rank) {
    const BytesByDevice& devices = ranks.bytes.at(process->id);
    for (const auto& [device, held] : devices) {
      const rows::Process* const owner = ranks.other_owner(device, *process);
      if (held == 0 || owner == nullptr) continue;
      findings.push_back(
          finding_of_memory(report, {*process, *owner, device, main_device_of(devices)}, held));
    }
  }
}

rows::Finding finding_of_context(const rows::Report& report, const RankOnForeignDevice& rank,
                                 const rows::OptionalLocation& opened_at) {
  rows::Finding finding = finding_of(rank);
  finding.evidence.add("opened_at", opened_at);
  const std::uint64_t bytes = driver_bytes_of(report, rank.process.id, rank.device);
  finding.bytes = rows::number_or_none(bytes);
  finding.saves.bytes = finding.bytes;
  const std::string place = location_text(opened_at);
  const std::string size = bytes == 0 ? std::string() : size_text(bytes);
  fill_texts(sentences::kContextElsewhere,
             sentence_of(finding, rank)
                 .set("opened_at", opened_at)
                 .set("before", place.empty() ? sentences::kFirstUse : place)
                 .set("context", size.empty() ? sentences::kSizeOfContext : size)
                 .set("saved", size.empty() ? sentences::kSizeNotShown : size),
             finding);
  return finding;
}

// True if the process opened memory of other processes on the device: work on that memory needs a
// context, too.
bool opens_memory(const rows::Report& report, const std::string& process,
                  const std::string& device) {
  return std::ranges::any_of(report.shared_memory, [&](const rows::SharedMemory& row) {
    return row.process == process && row.device.value_or(device) == device;
  });
}

// Finds contexts on another rank's device in which the process neither allocated nor opened memory.
void find_bare_contexts(const RuleInput& input, const LocalRanks& ranks, Findings& findings) {
  for (const auto& [rank, process] : ranks.by_rank) {
    const BytesByDevice& devices = ranks.bytes.at(process->id);
    // By device, the call that opened the context.
    std::map<std::string, rows::OptionalLocation> bare;
    for (const rows::OpenedContext& context : input.seen.contexts) {
      if (context.process != process->id || !context.device) continue;
      if (devices.contains(*context.device)) continue;
      if (ranks.other_owner(*context.device, *process) == nullptr) continue;
      if (opens_memory(input.report, process->id, *context.device)) continue;
      bare.try_emplace(*context.device, context.opened_at);
    }
    for (const auto& [device, opened_at] : bare) {
      const RankOnForeignDevice found{*process, *ranks.other_owner(device, *process), device,
                                      main_device_of(devices)};
      findings.push_back(finding_of_context(input.report, found, opened_at));
    }
  }
}

// A process's memory on all devices: its allocations, and the driver's own memory for the process.
struct BytesOfProcess {
  BytesByDevice allocated_by_device;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t driver_bytes = 0;

  [[nodiscard]] std::uint64_t bytes() const { return allocated_bytes + driver_bytes; }
  [[nodiscard]] std::uint64_t allocated_on(const std::string& device) const {
    const auto found = allocated_by_device.find(device);
    return found == allocated_by_device.end() ? 0 : found->second;
  }
};

std::map<std::string, BytesOfProcess> sums_by_process(const rows::Report& report) {
  std::map<std::string, BytesOfProcess> sums;
  for (const auto& [process, devices] : bytes_by_process(report)) {
    BytesOfProcess& own = sums[process];
    own.allocated_by_device = devices;
    for (const auto& [device, bytes] : devices) own.allocated_bytes += bytes;
  }
  for (const rows::DriverMemory& row : report.driver_memory) {
    sums[row.process].driver_bytes += row.peak_bytes.value_or(0);
  }
  return sums;
}

// Processes that made their contexts on one device at one site, and hardly allocated in them.
struct IdleContexts {
  std::string device;
  rows::OptionalLocation opened_at;
  std::vector<std::string> processes;
  std::uint64_t largest_bytes = 0;  // allocated and driver bytes of the largest process
  std::uint64_t largest_context = 0;
  std::uint64_t most_allocated = 0;
  std::uint64_t bytes_at_peak = 0;  // these processes' part of the job's peak on the device

  [[nodiscard]] std::uint64_t bytes() const { return std::max(largest_bytes, bytes_at_peak); }
};

// The process's part of the job's peak on the device.
std::uint64_t bytes_at_peak(const rows::Report& report, const std::string& process,
                            const std::string& device) {
  std::uint64_t bytes = 0;
  for (const rows::CardPeak& row : report.card_peaks) {
    if (row.of != rows::PeakOf::kJob || row.device != device) continue;
    for (const rows::CardPart& part : row.parts) {
      if (part.process == process) bytes += part.bytes;
    }
  }
  return bytes;
}

rows::Finding idle_finding(const IdleContexts& idle) {
  rows::Finding finding = finding_of_rule(Rule::kIdleContexts);
  finding.process = idle.processes.front();
  finding.device = idle.device;
  if (idle.opened_at) {
    finding.origin.site = idle.opened_at->site;
    finding.origin.stack = idle.opened_at->stack;
  }
  finding.bytes = idle.bytes();
  finding.saves.bytes = finding.bytes;
  finding.evidence.add("processes", idle.processes.size());
  finding.evidence.add("largest_bytes", idle.largest_bytes);
  finding.evidence.add("most_allocated_bytes", idle.most_allocated);
  std::string names;
  for (const std::string& process : idle.processes) {
    names += (names.empty() ? "" : ", ") + process;
  }
  fill_texts(sentences::kIdleContexts,
             sentence_on(finding)
                 .set("processes", idle.processes.size())
                 .set("names", names)
                 .set("context_bytes", idle.largest_context)
                 .set("most_allocated_bytes", idle.most_allocated),
             finding);
  return finding;
}

// The line that opened the process's context; if that is not known, the line of its largest holder.
rows::OptionalLocation place_of_context(const RuleInput& input, const rows::DriverMemory& row) {
  for (const rows::OpenedContext& context : input.seen.contexts) {
    const bool is_of_row = context.process == row.process && context.device == row.device;
    if (is_of_row && context.opened_at) return context.opened_at;
  }
  const rows::Origin* const user = largest_holder(input.report, row.process, *row.device);
  if (user == nullptr) return std::nullopt;
  return rows::CodeLocation{*user->site, user->stack};
}

// Finds processes that do their work on the CPU, but keep a context on a device that another
// process works on.
void find_idle_contexts(const RuleInput& input, Findings& findings) {
  const std::map<std::string, BytesOfProcess> sums = sums_by_process(input.report);
  const double share = input.thresholds[Threshold::kIdleContextsShare];
  const auto is_idle = [&](const std::string& process) {
    const BytesOfProcess& own = sums.at(process);
    return own.driver_bytes != 0 &&
           static_cast<double>(own.allocated_bytes) <= share * static_cast<double>(own.bytes());
  };
  const auto has_worker = [&](const std::string& device) {
    return std::ranges::any_of(input.report.driver_memory, [&](const rows::DriverMemory& row) {
      return row.device == device && row.samples != 0 && !is_idle(row.process);
    });
  };
  std::map<std::tuple<std::string, std::string>, IdleContexts> groups;
  for (const rows::DriverMemory& row : input.report.driver_memory) {
    if (!row.device || row.peak_bytes.value_or(0) == 0) continue;
    if (!is_idle(row.process) || opens_memory(input.report, row.process, *row.device)) continue;
    if (!has_worker(*row.device)) continue;
    const rows::OptionalLocation opened_at = place_of_context(input, row);
    IdleContexts& group = groups[{*row.device, location_text(opened_at)}];
    group.device = *row.device;
    if (!group.opened_at) group.opened_at = opened_at;
    group.processes.push_back(row.process);
    const std::uint64_t allocated = sums.at(row.process).allocated_on(*row.device);
    group.largest_bytes = std::max(group.largest_bytes, *row.peak_bytes + allocated);
    group.largest_context = std::max(group.largest_context, *row.peak_bytes);
    group.most_allocated = std::max(group.most_allocated, allocated);
    group.bytes_at_peak += bytes_at_peak(input.report, row.process, *row.device);
  }
  for (const auto& [place, idle] : groups) {
    if (idle.bytes() < input.thresholds.bytes(Threshold::kIdleContextsBytes)) continue;
    findings.push_back(idle_finding(idle));
  }
}

// Finds devices whose memory lies in a library's pool that the trace cannot see into.
void find_opaque_pools(const rows::Report& report, Findings& findings) {
  for (const rows::Usage& row : report.usage) {
    if (!row.opaque_pool) continue;
    const rows::OpaquePool& pool = *row.opaque_pool;
    rows::Finding finding = finding_at(Rule::kOpaquePool, row);
    finding.bytes = row.peak_bytes;
    finding.time_ns = row.peak_time_ns;
    add_evidence(pool, {"name", "setting"}, finding.evidence);
    fill_texts(sentences::kOpaquePool, sentence_on(finding).with(pool), finding);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

void find_device_faults(const RuleInput& input, Findings& findings) {
  const LocalRanks ranks = local_ranks_of(input.report);
  find_wrong_devices(input.report, ranks, findings);
  find_bare_contexts(input, ranks, findings);
  find_idle_contexts(input, findings);
  find_opaque_pools(input.report, findings);
}

}  // namespace gpumemtrace::analyzer
