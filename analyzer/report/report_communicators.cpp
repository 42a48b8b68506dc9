// SPDX-License-Identifier: Apache-2.0
// Memory of NCCL, by communicator: communicators[].
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

using Communicators = std::map<const NcclThread*, std::size_t>;

// Each communicator starts a thread that allocates when ranks are connected, and the system numbers
// threads in the order in which they start. So threads that no range tells about belong to the
// remaining communicators in their order, if there are as many.
Communicators by_order_of_start(const NcclMemory& nccl) {
  if (!nccl.knows_all()) return {};
  const std::vector<NcclCommunicator>& all = nccl.communicators();
  std::vector<bool> is_served(all.size());
  std::vector<const NcclThread*> threads;
  for (const auto& [thread_id, thread] : nccl.threads()) {
    if (thread.serves_several) continue;
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

rows::Communicator communicator_row(const ReportContext& context, const ReportProcess& process,
                                    std::int32_t device, std::size_t number) {
  const NcclCommunicator& communicator = process.model().memory().nccl.communicators()[number];
  auto row = context.row_on<rows::Communicator>(process, device);
  row.id = process.id + ":nccl" + std::to_string(number + 1);
  if (communicator.ranks != 0) row.ranks = communicator.ranks;
  if (communicator.rank >= 0) row.rank = static_cast<std::uint64_t>(communicator.rank);
  if (communicator.site == CallSite{}) return row;
  const Identity identity = context.identity_of_site(process, communicator.site);
  row.made_at = site_row(identity);
  row.stack = rows::text_or_none(identity.stack);
  return row;
}

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
  std::vector<rows::Communicator> list;
  for (const ReportProcess& process : context.processes()) {
    const NcclMemory& nccl = process.model().memory().nccl;
    const Communicators by_order = by_order_of_start(nccl);
    for (const std::int32_t device : devices_of(nccl)) {
      add_device(context, process, device, by_order, list);
    }
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
