// SPDX-License-Identifier: Apache-2.0
// Which process uses which device, and pools in which a trace cannot see.
#include <map>
#include <string>

#include "analyzer/rules/finding_text.hpp"
#include "analyzer/rules/rules.hpp"

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

// Where most of what the process had on the device at its peak was asked for.
void name_largest_holder(const rows::Report& report, rows::Finding& finding) {
  for (const rows::Peak& row : report.peak) {
    if (!is_on_device(row) || row.process != finding.process || row.device != finding.device) {
      continue;
    }
    for (const rows::Holder& holder : row.holders) {
      if (!holder.origin.site) continue;
      finding.origin = holder.origin;
      return;
    }
  }
}

// How a process takes the device that is its own, in the words of what it uses.
std::string choose_device_text(const rows::Process& process) {
  return process.torch ? "Call torch.cuda.set_device(local_rank)"
                       : "Make the rank's own device the current one (cudaSetDevice)";
}

// A process of a local rank that uses the device of another one.
struct Stray {
  const rows::Process& process;
  const rows::Process& owner;  // of the device
  std::string device;
  std::string own_device;

  [[nodiscard]] std::string rank() const { return std::to_string(*process.local_rank); }
  [[nodiscard]] std::string rank_of_device() const { return std::to_string(*owner.local_rank); }
};

rows::Finding finding_of(const Stray& stray) {
  rows::Finding finding = finding_of_rule(Rule::kWrongDevice);
  finding.process = stray.process.id;
  finding.device = stray.device;
  finding.evidence.add("local_rank", stray.process.local_rank);
  finding.evidence.add("own_device", stray.own_device);
  finding.evidence.add("rank_of_the_device", stray.owner.local_rank);
  return finding;
}

rows::Finding stray_finding(const rows::Report& report, const Stray& stray, std::uint64_t bytes) {
  rows::Finding finding = finding_of(stray);
  finding.level = Level::kDriver;
  name_largest_holder(report, finding);
  finding.bytes = bytes;
  const std::string& device = stray.device;
  finding.title = device == stray.own_device
                      ? "Local ranks " + stray.rank_of_device() + " and " + stray.rank() +
                            " use the same device " + device
                      : "Local rank " + stray.rank() + " holds " + size_text(bytes) + " on " +
                            device + ", the device of local rank " + stray.rank_of_device();
  finding.detail = "The process of local rank " + stray.rank() + " allocated " + size_text(bytes) +
                   " on " + device + "; most of its memory is on " + stray.own_device + ".";
  finding.fix = choose_device_text(stray.process) + " before the first use of CUDA in each rank" +
                (finding.origin.site ? ", which is at or before " + site_text(finding.origin.site)
                                     : std::string()) +
                ". It would free " + size_text(bytes) + " on " + device + " (inferred).";
  return finding;
}

// The processes with a local rank, and whose device is whose.
struct LocalRanks {
  std::map<std::string, BytesByDevice> bytes;
  std::map<std::uint64_t, const rows::Process*> by_rank;
  std::map<std::string, const rows::Process*> owner_of_device;

  // The rank whose device it is; nullptr where it is nobody's, or the process's own.
  [[nodiscard]] const rows::Process* other_owner(const std::string& device,
                                                 const rows::Process& process) const {
    const auto owner = owner_of_device.find(device);
    return owner == owner_of_device.end() || owner->second == &process ? nullptr : owner->second;
  }
};

// A device belongs to the lowest local rank that has most of its memory there.
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
          stray_finding(report, {*process, *owner, device, main_device_of(devices)}, held));
    }
  }
}

// What the driver counts for the process on the device beyond its allocations: the context. Empty
// where it does not tell processes apart.
std::string context_size_text(const rows::Report& report, const Stray& stray) {
  for (const rows::Composition& row : report.composition) {
    if (row.process != stray.process.id || row.device != stray.device) continue;
    const std::uint64_t bytes = row.context_and_modules.value_or(0);
    if (bytes != 0) return size_text(bytes);
  }
  return {};
}

rows::Finding context_finding(const rows::Report& report, const Stray& stray,
                              const rows::OptionalLocation& opened_at) {
  rows::Finding finding = finding_of(stray);
  finding.evidence.add("opened_at", opened_at);
  const std::string place = location_text(opened_at);
  const std::string size = context_size_text(report, stray);
  finding.title = "Local rank " + stray.rank() + " opened a context on " + stray.device +
                  ", the device of local rank " + stray.rank_of_device() +
                  (place.empty() ? "" : ", at " + place);
  finding.detail = "The process of local rank " + stray.rank() + " allocated nothing on " +
                   stray.device + ", but a context takes " +
                   (size.empty() ? "some hundred MiB" : size) + " of its own; its memory is on " +
                   stray.own_device + ".";
  finding.fix = choose_device_text(stray.process) + " before " +
                (place.empty() ? "the first use of CUDA in each rank" : place) +
                ", or let each rank see its device alone (CUDA_VISIBLE_DEVICES). It would free the "
                "context on " +
                stray.device + ", " +
                (size.empty() ? "some hundred MiB that no call shows" : size) + " (inferred).";
  return finding;
}

// Contexts on another rank's device in which nothing was allocated.
void find_bare_contexts(const RuleInput& input, const LocalRanks& ranks, Findings& findings) {
  for (const auto& [rank, process] : ranks.by_rank) {
    const BytesByDevice& devices = ranks.bytes.at(process->id);
    std::map<std::string, rows::OptionalLocation> bare;  // where it was opened, by device
    for (const rows::OpenedContext& context : input.seen.contexts) {
      if (context.process != process->id || !context.device) continue;
      if (devices.contains(*context.device)) continue;
      if (ranks.other_owner(*context.device, *process) == nullptr) continue;
      bare.try_emplace(*context.device, context.opened_at);
    }
    for (const auto& [device, opened_at] : bare) {
      const Stray stray{*process, *ranks.other_owner(device, *process), device,
                        main_device_of(devices)};
      findings.push_back(context_finding(input.report, stray, opened_at));
    }
  }
}

void find_opaque_pools(const rows::Report& report, Findings& findings) {
  for (const rows::Usage& row : report.usage) {
    if (!row.opaque_pool) continue;
    const rows::OpaquePool& pool = *row.opaque_pool;
    rows::Finding finding = finding_at(Rule::kOpaquePool, row);
    finding.bytes = row.peak_bytes;
    finding.time_ns = row.peak_time_ns;
    finding.evidence.add("name", pool.name);
    finding.evidence.add("setting", pool.setting);
    finding.title = pool.name + " holds " + size_text(row.peak_bytes) + " whose use is not visible";
    finding.detail =
        "The trace sees what " + pool.name + " takes from the driver, not what it deals out of it.";
    finding.fix = "Record again with " + pool.setting + ", which opens the pool to the trace.";
    findings.push_back(std::move(finding));
  }
}

}  // namespace

void find_device_faults(const RuleInput& input, Findings& findings) {
  const LocalRanks ranks = local_ranks_of(input.report);
  find_wrong_devices(input.report, ranks, findings);
  find_bare_contexts(input, ranks, findings);
  find_opaque_pools(input.report, findings);
}

}  // namespace gpumemtrace::analyzer
