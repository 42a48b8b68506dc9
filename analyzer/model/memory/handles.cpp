// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/handles.hpp"

#include <optional>

namespace gpumemtrace::analyzer {
namespace {

// Returns nullopt if memory of the kind has no handle.
std::optional<HandleKind> handle_kind_of(Kind kind) {
  switch (kind) {
    case Kind::kVmm:
      return HandleKind::kVmm;
    case Kind::kVmmHost:
      return HandleKind::kVmmHost;
    case Kind::kImportedVmm:
      return HandleKind::kImportedVmm;
    case Kind::kIpc:
      return HandleKind::kIpc;
    case Kind::kExternal:
      return HandleKind::kExternal;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<OpenHandle> open_handles(const ProcessMemory& memory) {
  std::vector<OpenHandle> open;
  const auto add_memory = [&](const LiveAllocation& entry) {
    const GroupKey& key = memory.accounts.group(entry.group).key;
    // The size of imported memory may never have been recorded.
    open.push_back({handle_kind_of(key.kind).value_or(HandleKind::kVmm), key.site, key.device,
                    entry.link != 0, entry.bytes != 0, entry.bytes, entry.born});
  };
  memory.virtual_memory.for_each_physical([&](const ProcessMemory::PhysicalMemory& physical) {
    if (physical.references != 0) add_memory(physical.entry);
  });
  memory.live.for_each(ProcessMemory::Space::kImports, add_memory);
  for (const PoolState& pool : memory.pools.pools()) {
    if (pool.created_time == 0 || pool.is_destroyed) continue;
    open.push_back({HandleKind::kPool, pool.created_at, pool.device, false, pool.sampled,
                    pool.reserved_bytes, pool.created_time});
  }
  memory.graphs.for_each_executable([&](const GraphExecutable& executable) {
    std::uint64_t bytes = 0;
    std::int32_t device = kUnknownDevice;
    for (const GraphAllocation& allocation : executable.memory.allocations) {
      bytes += allocation.bytes;
      device = memory.accounts.group(allocation.group).key.device;
    }
    if (bytes == 0) return;
    open.push_back({HandleKind::kGraphExecutable, executable.instantiated_at, device, false, true,
                    bytes, executable.time});
  });
  return open;
}

std::vector<OpenedHandles> opened_handles(const ProcessMemory& memory) {
  std::vector<OpenedHandles> opened;
  for (const Group& group : memory.accounts.groups()) {
    const GroupKey& key = group.key;
    const std::optional<HandleKind> kind = handle_kind_of(key.kind);
    if (!kind) continue;
    opened.push_back({*kind, key.site, key.device, group.segments != 0, group.allocations,
                      group.last_time, group.freed});
  }
  for (const PoolState& pool : memory.pools.pools()) {
    if (pool.created_at == CallSite{}) continue;
    Releases destroyed;
    if (pool.is_destroyed) {
      destroyed.count = 1;
      destroyed.add_site(pool.destroyed_at, 0);
    }
    opened.push_back(
        {HandleKind::kPool, pool.created_at, pool.device, false, 1, pool.created_time, destroyed});
  }
  return opened;
}

}  // namespace gpumemtrace::analyzer
