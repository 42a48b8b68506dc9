// SPDX-License-Identifier: Apache-2.0
// Memory of NCCL, by communicator: communicators[].
#include <set>
#include <string>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

using Threads = std::vector<const NcclOwner*>;

// Each communicator starts a thread that allocates when ranks are connected. The system numbers
// threads in the order in which they start. So the threads belong to the communicators in their
// order, if there are as many; else it is not known which one a thread belongs to.
Threads threads_of(const NcclMemory& nccl) {
  Threads threads;
  for (const auto& [thread_id, thread] : nccl.threads()) threads.push_back(&thread);
  if (threads.size() != nccl.communicators().size()) return {};
  for (std::size_t i = 0; i < threads.size(); ++i) {
    if (threads[i]->time < nccl.communicators()[i].time) return {};
  }
  return threads;
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
  const NcclOwner& owner = process.model().memory().nccl.communicators()[number];
  auto row = context.row_on<rows::Communicator>(process, device);
  row.id = process.id + ":nccl" + std::to_string(number + 1);
  if (owner.site == CallSite{}) return row;
  const Identity identity = context.identity_of_site(process, owner.site);
  row.made_at = site_row(identity);
  row.stack = rows::text_or_none(identity.stack);
  return row;
}

void add_device(const ReportContext& context, const ReportProcess& process, std::int32_t device,
                std::vector<rows::Communicator>& list) {
  const NcclMemory& nccl = process.model().memory().nccl;
  const Threads threads = threads_of(nccl);
  for (std::size_t i = 0; i < nccl.communicators().size(); ++i) {
    rows::Communicator row = communicator_row(context, process, device, i);
    add_use(nccl, device, nccl.communicators()[i], row);
    if (!threads.empty()) add_use(nccl, device, *threads[i], row);
    if (row.allocations != 0) list.push_back(std::move(row));
  }
  if (!threads.empty()) return;
  auto rest = context.row_on<rows::Communicator>(process, device);
  for (const auto& [thread_id, thread] : nccl.threads()) add_use(nccl, device, thread, rest);
  if (rest.allocations != 0) list.push_back(std::move(rest));
}

}  // namespace

std::vector<rows::Communicator> report_communicators(const ReportContext& context) {
  std::vector<rows::Communicator> list;
  for (const ReportProcess& process : context.processes()) {
    for (const std::int32_t device : devices_of(process.model().memory().nccl)) {
      add_device(context, process, device, list);
    }
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
