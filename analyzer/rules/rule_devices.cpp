// SPDX-License-Identifier: Apache-2.0
// Which process uses which device, and pools in which a trace cannot see.
#include <map>
#include <string>

#include "analyzer/rules/rules.hpp"

namespace gpumemtrace::analyzer {
namespace {

// Driver and pool memory of each process on each device, at its peak.
using BytesByDevice = std::map<std::string, std::uint64_t>;
std::map<std::string, BytesByDevice> bytes_by_process(const Json& report) {
  std::map<std::string, BytesByDevice> bytes;
  for (const Json& row : report.at("peak")) {
    const bool on_device = row.at("level") == "driver" || row.at("level") == "pool";
    if (on_device && row.at("device").is_string()) {
      bytes[row.at("process")][row.at("device")] += row.at("bytes").get<std::uint64_t>();
    }
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
void name_largest_holder(const Json& report, Finding& finding) {
  for (const Json& row : report.at("peak")) {
    const bool on_device = row.at("level") == "driver" || row.at("level") == "pool";
    if (!on_device || row.at("process") != finding.process || row.at("device") != finding.device) {
      continue;
    }
    for (const Json& holder : row.at("holders")) {
      if (!holder.at("site").is_object()) continue;
      finding.owner = holder.at("owner");
      finding.site = holder.at("site");
      finding.stack = holder.at("stack");
      return;
    }
  }
}

// How a process takes the device that is its own, in the words of what it uses.
std::string choose_device_text(const Json& process) {
  return process.at("torch").is_null()
             ? "Make the rank's own device the current one (cudaSetDevice)"
             : "Call torch.cuda.set_device(local_rank)";
}

Finding stray_finding(const Json& report, const Json& process, const Json& other,
                      const std::string& device, const std::string& own_device,
                      std::uint64_t bytes) {
  Finding finding = finding_at(
      Rule::kWrongDevice, {{"process", process.at("id")}, {"device", device}, {"level", "driver"}});
  const std::string rank = process.at("local_rank").dump();
  name_largest_holder(report, finding);
  finding.bytes = bytes;
  finding.evidence = {{"local_rank", process.at("local_rank")},
                      {"own_device", own_device},
                      {"rank_of_the_device", other.at("local_rank")}};
  finding.title = device == own_device
                      ? "Local ranks " + other.at("local_rank").dump() + " and " + rank +
                            " use the same device " + device
                      : "Local rank " + rank + " holds " + size_text(bytes) + " on " + device +
                            ", the device of local rank " + other.at("local_rank").dump();
  finding.detail = "The process of local rank " + rank + " allocated " + size_text(bytes) + " on " +
                   device + "; most of its memory is on " + own_device + ".";
  finding.fix =
      choose_device_text(process) + " before the first use of CUDA in each rank" +
      (finding.site.is_object() ? ", which is at or before " + place_text(finding.site) : "") +
      ". It would free " + size_text(bytes) + " on " + device + " (inferred).";
  return finding;
}

// The processes with a local rank, and whose device is whose.
struct LocalRanks {
  std::map<std::string, BytesByDevice> bytes;
  std::map<std::uint64_t, const Json*> by_rank;
  std::map<std::string, const Json*> owner_of_device;
};

// A device belongs to the lowest local rank that has most of its memory there.
LocalRanks local_ranks_of(const Json& report) {
  LocalRanks ranks;
  ranks.bytes = bytes_by_process(report);
  for (const Json& process : report.at("processes")) {
    if (!process.at("local_rank").is_number()) continue;
    if (ranks.bytes.count(process.at("id")) == 0) continue;
    ranks.by_rank.emplace(process.at("local_rank").get<std::uint64_t>(), &process);
  }
  for (const auto& [rank, process] : ranks.by_rank) {
    ranks.owner_of_device.emplace(main_device_of(ranks.bytes.at(process->at("id"))), process);
  }
  return ranks;
}

void find_wrong_devices(const Json& report, const LocalRanks& ranks, Findings& findings) {
  for (const auto& [rank, process] : ranks.by_rank) {
    const BytesByDevice& devices = ranks.bytes.at(process->at("id"));
    const std::string own = main_device_of(devices);
    for (const auto& [device, held] : devices) {
      const auto owner = ranks.owner_of_device.find(device);
      if (held == 0 || owner == ranks.owner_of_device.end() || owner->second == process) continue;
      findings.push_back(stray_finding(report, *process, *owner->second, device, own, held));
    }
  }
}

// What the driver counts for the process on the device beyond its allocations: the context. Empty
// where it does not tell processes apart.
std::string context_size_text(const Json& report, const Json& process, const std::string& device) {
  for (const Json& row : report.at("composition")) {
    if (row.at("process") != process.at("id") || row.at("device") != device) continue;
    const Json& bytes = row.at("context_and_modules");
    if (bytes.is_number() && bytes != 0) return size_text(bytes);
  }
  return {};
}

// A context on another rank's device, and where it was opened.
struct BareContext {
  const Json* owner = nullptr;
  Json opened_at = nullptr;
};

Finding context_finding(const Json& report, const Json& process, const BareContext& bare,
                        const std::string& device, const std::string& own_device) {
  const Json& other = *bare.owner;
  Finding finding =
      finding_at(Rule::kWrongDevice, {{"process", process.at("id")}, {"device", device}});
  const std::string rank = process.at("local_rank").dump();
  finding.evidence = {{"local_rank", process.at("local_rank")},
                      {"own_device", own_device},
                      {"rank_of_the_device", other.at("local_rank")},
                      {"opened_at", bare.opened_at}};
  const std::string place = second_place_text(finding.evidence, "opened_at");
  const std::string size = context_size_text(report, process, device);
  finding.title = "Local rank " + rank + " opened a context on " + device +
                  ", the device of local rank " + other.at("local_rank").dump() +
                  (place.empty() ? "" : ", at " + place);
  finding.detail = "The process of local rank " + rank + " allocated nothing on " + device +
                   ", but a context takes " + (size.empty() ? "some hundred MiB" : size) +
                   " of its own; its memory is on " + own_device + ".";
  finding.fix = choose_device_text(process) + " before " +
                (place.empty() ? "the first use of CUDA in each rank" : place) +
                ", or let each rank see its device alone (CUDA_VISIBLE_DEVICES). It would free the "
                "context on " +
                device + ", " + (size.empty() ? "some hundred MiB that no call shows" : size) +
                " (inferred).";
  return finding;
}

// Contexts on another rank's device in which nothing was allocated.
void find_bare_contexts(const RuleInput& input, const LocalRanks& ranks, Findings& findings) {
  const ReportContext& context = input.context;
  for (const auto& [rank, process] : ranks.by_rank) {
    const BytesByDevice& devices = ranks.bytes.at(process->at("id"));
    for (const ReportProcess& traced : context.processes()) {
      if (process->at("id") != traced.id) continue;
      std::map<std::string, BareContext> strange;
      for (const ledger::Context& opened : traced.model().contexts()) {
        const Json device = context.device_id(traced, opened.device);
        if (!device.is_string() || devices.count(device) != 0) continue;
        const auto owner = ranks.owner_of_device.find(device);
        if (owner == ranks.owner_of_device.end() || owner->second == process) continue;
        strange.try_emplace(
            device, BareContext{owner->second, place_json(context, traced, opened.opened_at)});
      }
      for (const auto& [device, bare] : strange) {
        findings.push_back(
            context_finding(input.report, *process, bare, device, main_device_of(devices)));
      }
    }
  }
}

void find_opaque_pools(const Json& report, Findings& findings) {
  for (const Json& row : report.at("usage")) {
    const Json& pool = row.at("opaque_pool");
    if (!pool.is_object()) continue;
    Finding finding = finding_at(Rule::kOpaquePool, row);
    const auto name = pool.at("name").get<std::string>();
    finding.bytes = row.at("peak_bytes");
    finding.time_ns = row.at("peak_time_ns");
    finding.evidence = pool;
    finding.title =
        name + " holds " + size_text(row.at("peak_bytes")) + " whose use is not visible";
    finding.detail =
        "The trace sees what " + name + " takes from the driver, not what it deals out of it.";
    finding.fix = "Record again with " + pool.at("setting").get<std::string>() +
                  ", which opens the pool to the trace.";
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
