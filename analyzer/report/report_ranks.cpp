// SPDX-License-Identifier: Apache-2.0
// The ranks of a job, and the memory of NCCL's communicators.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/report/sections.hpp"
#include "analyzer/rows/median.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The peak of a rank is that of the first of these levels that it used: the framework's blocks are
// the memory that a rank works with, and they are taken from the driver's memory.
constexpr std::array kLevels = {Level::kFramework, Level::kDriver, Level::kPool};

template <class Row>
bool is_at(const Row& row, const rows::Rank& rank) {
  return row.process == rank.process && row.device == rank.device;
}

const rows::Peak* peak_of(const rows::Report& sections, const rows::Rank& rank) {
  for (const Level level : kLevels) {
    for (const rows::Peak& peak : sections.peak) {
      if (is_at(peak, rank) && peak.level == level) return &peak;
    }
  }
  return nullptr;
}

rows::OptionalNumber reserved_peak_of(const rows::Report& sections, const rows::Rank& rank,
                                      Level level) {
  for (const rows::Usage& usage : sections.usage) {
    if (is_at(usage, rank) && usage.level == level && usage.reserved) {
      return usage.reserved->peak_bytes;
    }
  }
  return std::nullopt;
}

std::uint64_t leaked_bytes_of(const rows::Report& sections, const rows::Rank& rank) {
  std::uint64_t bytes = 0;
  for (const rows::ExitLeak& leak : sections.leaks.exit) {
    // Bytes inside memory of another row (`inside`) are bytes of that row, too.
    const bool counts = leak.leak_class == rows::LeakClass::kLost && !leak.inside;
    if (counts && is_at(leak, rank)) bytes += leak.bytes;
  }
  return bytes;
}

std::optional<double> growth_of(const rows::Report& sections, const rows::Rank& rank, Level level) {
  std::optional<double> bytes_per_step;
  for (const rows::Growth& growth : sections.leaks.growth) {
    if (!is_at(growth, rank) || growth.level != level || !growth.bytes_per_step) continue;
    bytes_per_step = bytes_per_step.value_or(0) + *growth.bytes_per_step;
  }
  return bytes_per_step;
}

// The steps until the rank's device is full; no value if the growth or the size of the device is
// not known.
std::optional<double> steps_until_full(const rows::Report& sections, const rows::Rank& rank) {
  const rows::Device* const device = rows::find_device(sections.devices, rank.device);
  const double growth = rank.growth_bytes_per_step.value_or(0);
  if (growth <= 0 || device == nullptr || !device->total_bytes || !device->physical_peak) {
    return std::nullopt;
  }
  const std::uint64_t used = device->physical_peak->bytes;
  const std::uint64_t free = *device->total_bytes - std::min(*device->total_bytes, used);
  return static_cast<double>(free) / growth;
}

// The bytes in layers of experts. The classes of such layers in mixtures of experts have names such
// as Experts, MixtralSparseMoeBlock or MoELayer.
std::uint64_t expert_bytes_of(const rows::Report& sections, const rows::Rank& rank) {
  std::uint64_t bytes = 0;
  for (const rows::Module& module : sections.modules) {
    if (!is_at(module, rank)) continue;
    std::string name = module.path.value_or("") + ' ' + module.name.value_or("");
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool has_experts =
        name.find("expert") != std::string::npos || name.find("moe") != std::string::npos;
    if (has_experts) bytes += module.bytes;
  }
  return bytes;
}

// Compares the ranks of each group of peers. A process is compared on the device with most of its
// memory, which comes first in the list.
void compare_peers(const std::map<std::string, std::uint64_t>& group_of,
                   std::vector<rows::Rank>& list) {
  std::set<std::string> compared;
  std::map<std::uint64_t, std::vector<std::uint64_t>> peaks;
  for (rows::Rank& rank : list) {
    const auto group = group_of.find(rank.process);
    if (group == group_of.end() || !compared.insert(rank.process).second) continue;
    rank.peer_group = group->second;
    peaks[group->second].push_back(rank.peak_bytes);
  }
  for (rows::Rank& rank : list) {
    if (!rank.peer_group) continue;
    rank.peer_deviation =
        static_cast<std::int64_t>(rank.peak_bytes - rows::lower_median(peaks.at(*rank.peer_group)));
  }
}

std::vector<rows::Rank> rank_rows(const rows::Report& sections) {
  std::vector<rows::Rank> list;
  std::map<std::string, const rows::Process*> processes;
  for (const rows::Process& process : sections.processes) processes[process.id] = &process;
  std::set<std::pair<std::string, std::string>> known;
  for (const rows::Device& device : sections.devices) {
    for (const rows::SeenAs& seen : device.seen_as) {
      // A process may see one device under several ordinals.
      if (!known.insert({device.id, seen.process}).second) continue;
      const rows::Process& process = *processes.at(seen.process);
      rows::Rank rank;
      rank.rank = process.rank;
      rank.host = process.host;
      rank.process = process.id;
      rank.device = device.id;
      const rows::Peak* const peak = peak_of(sections, rank);
      if (peak == nullptr) continue;
      rank.peak_bytes = peak->bytes;
      rank.reserved_peak_bytes = reserved_peak_of(sections, rank, peak->level);
      rank.leaked_bytes = leaked_bytes_of(sections, rank);
      rank.growth_bytes_per_step = growth_of(sections, rank, peak->level);
      rank.steps_until_full = steps_until_full(sections, rank);
      rank.expert_bytes = expert_bytes_of(sections, rank);
      list.push_back(std::move(rank));
    }
  }
  return list;
}

}  // namespace

std::vector<rows::Rank> report_ranks(const rows::Report& sections) {
  std::vector<rows::Rank> list = rank_rows(sections);
  if (list.size() > 1) {
    std::vector<std::uint64_t> peaks;
    for (const rows::Rank& rank : list) peaks.push_back(rank.peak_bytes);
    const std::uint64_t median = rows::lower_median(std::move(peaks));
    for (rows::Rank& rank : list) {
      rank.deviation = static_cast<std::int64_t>(rank.peak_bytes - median);
    }
  }
  sort_rows(list, &rows::Rank::peak_bytes);
  compare_peers(peer_groups(sections), list);
  return list;
}

namespace {

using Communicators = std::map<const NcclThread*, std::size_t>;

// Each communicator starts a thread that allocates when ranks are connected, and the system numbers
// threads in the order in which they start. So threads that no NVTX range assigns to a communicator
// belong to the remaining communicators in their order, if there are as many.
Communicators by_order_of_start(const NcclMemory& nccl) {
  if (!nccl.knows_all()) return {};
  const std::vector<NcclCommunicator>& all = nccl.communicators();
  std::vector<bool> is_served(all.size());
  std::vector<const NcclThread*> threads;
  for (const auto& [thread_id, thread] : nccl.threads()) {
    if (thread.communicator_is_ambiguous) continue;
    if (thread.communicator && all[*thread.communicator].is_made) {
      is_served[*thread.communicator] = true;
    } else {
      threads.push_back(&thread);
    }
  }
  Communicators found;
  std::size_t next = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_served[i]) continue;
    if (next == threads.size() || threads[next]->time < all[i].time) return {};
    found.emplace(threads[next++], i);
  }
  return next == threads.size() ? found : Communicators{};
}

void add_use(const NcclMemory& nccl, std::int32_t device, const NcclOwner& owner,
             rows::Communicator& row) {
  const auto found = owner.uses.find(device);
  if (found == owner.uses.end()) return;
  row.bytes += found->second.most_bytes;
  row.bytes_at_peak += nccl.bytes_at_peak(device, found->second);
  row.allocations += found->second.allocations;
}

std::set<std::int32_t> devices_of(const NcclMemory& nccl) {
  std::set<std::int32_t> devices;
  const auto add = [&](const NcclOwner& owner) {
    for (const auto& [device, use] : owner.uses) devices.insert(device);
  };
  for (const NcclOwner& owner : nccl.communicators()) add(owner);
  for (const auto& [thread_id, owner] : nccl.threads()) add(owner);
  return devices;
}

// Sixteen hexadecimal digits: some readers of JSON do not take numbers of 64 bits.
std::string hexadecimal(std::uint64_t number) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(number));
  return digits;
}

rows::Communicator communicator_row(const ReportContext& context, const ReportProcess& process,
                                    std::int32_t device, std::size_t number) {
  const NcclCommunicator& communicator = process.model().memory().nccl.communicators()[number];
  auto row = context.row_on<rows::Communicator>(process, device);
  row.id = process.id + ":nccl" + std::to_string(number + 1);
  if (communicator.ranks != 0) row.ranks = communicator.ranks;
  if (communicator.hash != 0) row.nccl_hash = hexadecimal(communicator.hash);
  if (communicator.rank >= 0) row.rank = static_cast<std::uint64_t>(communicator.rank);
  if (communicator.site == CallSite{}) return row;
  const Identity identity = context.identity_of_site(process, communicator.site);
  row.made_at = site_row(identity);
  row.stack = rows::text_or_none(identity.stack);
  return row;
}

// Adds a row for each communicator that allocated on the device, and one for NCCL's threads whose
// communicator is not known.
void add_device(const ReportContext& context, const ReportProcess& process, std::int32_t device,
                const Communicators& by_order, std::vector<rows::Communicator>& list) {
  const NcclMemory& nccl = process.model().memory().nccl;
  std::vector<rows::Communicator> rows;
  for (std::size_t i = 0; i < nccl.communicators().size(); ++i) {
    rows.push_back(communicator_row(context, process, device, i));
    add_use(nccl, device, nccl.communicators()[i], rows.back());
  }
  auto rest = context.row_on<rows::Communicator>(process, device);
  for (const auto& [thread_id, thread] : nccl.threads()) {
    std::optional<std::size_t> communicator = nccl.communicator_of(thread, device);
    const auto ordered = by_order.find(&thread);
    if (!communicator && ordered != by_order.end()) communicator = ordered->second;
    add_use(nccl, device, thread, communicator ? rows[*communicator] : rest);
  }
  rows.push_back(std::move(rest));
  for (rows::Communicator& row : rows) {
    if (row.allocations != 0) list.push_back(std::move(row));
  }
}

}  // namespace

std::vector<rows::Communicator> report_communicators(const ReportContext& context) {
  const auto add_rows = [&](const ReportProcess& process, std::vector<rows::Communicator>& list) {
    const NcclMemory& nccl = process.model().memory().nccl;
    const Communicators by_order = by_order_of_start(nccl);
    for (const std::int32_t device : devices_of(nccl)) {
      add_device(context, process, device, by_order, list);
    }
  };
  return context.gather<rows::Communicator>(add_rows);
}

}  // namespace gpumemtrace::analyzer
