// Which handles are still open.
#include "analyzer/model/process.hpp"

namespace gpumemtrace::analyzer {
namespace {

HandleKind handle_kind_of(Kind kind) {
  switch (kind) {
    case Kind::kVmmHost:
      return HandleKind::kVmmHost;
    case Kind::kImportedVmm:
      return HandleKind::kImportedVmm;
    case Kind::kIpc:
      return HandleKind::kIpc;
    case Kind::kExternal:
      return HandleKind::kExternal;
    default:
      return HandleKind::kVmm;
  }
}

}  // namespace

std::vector<OpenHandle> ProcessModel::open_handles() const {
  std::vector<OpenHandle> open;
  const auto add_memory = [&](const LiveAllocation& entry) {
    const GroupKey& key = accounts_.group(entry.group).key;
    // The size of imported memory may never have been told.
    open.push_back({handle_kind_of(key.kind), key.site, key.device, entry.link != 0,
                    entry.bytes != 0, entry.bytes, entry.born});
  };
  virtual_memory_.for_each_handle(add_memory);
  memory_.for_each_import(add_memory);
  for (const PoolState& pool : pools_.pools()) {
    if (pool.created_time == 0) continue;
    open.push_back({HandleKind::kPool, pool.created_at, pool.device, false, pool.sampled,
                    pool.reserved_bytes, pool.created_time});
  }
  graphs_.for_each_executable([&](const GraphExecutable& executable) {
    std::uint64_t bytes = 0;
    std::int32_t device = kUnknownDevice;
    for (const GraphAllocation& allocation : executable.memory.allocations) {
      bytes += allocation.bytes;
      device = accounts_.group(allocation.group).key.device;
    }
    if (bytes == 0) return;
    open.push_back({HandleKind::kGraphExecutable, executable.instantiated_at, device, false, true,
                    bytes, executable.time});
  });
  return open;
}

}  // namespace gpumemtrace::analyzer
