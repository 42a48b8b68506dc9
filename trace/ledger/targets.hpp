// SPDX-License-Identifier: Apache-2.0
// Targets: the sum that an allocation counts in, given by its kind, device and pool.
#pragma once

#include <cstdint>
#include <optional>

#include "trace/ledger/contexts.hpp"
#include "trace/ledger/levels.hpp"
#include "trace/ledger/pools.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::ledger {

struct Target {
  Kind kind = Kind::kDevice;
  // the device whose memory this is; for memory of a pool, the pool's device if it is known
  std::int32_t device = kUnknownDevice;
  std::int32_t call_device = kUnknownDevice;  // the device by the call alone, without its pool
  std::uint32_t pool = 0;                     // index of the pool in Pools

  void come_from(std::uint32_t index, const Pools& pools) {
    pool = index;
    if (pools.device_of(index) >= 0) device = pools.device_of(index);
  }
};

[[nodiscard]] inline Target target_of(Kind kind, std::int32_t location, trace::ContextId context,
                                      const Contexts& contexts) {
  const std::int32_t device = contexts.device_of(kind, location, context);
  return {kind, device, device, 0};
}
[[nodiscard]] inline Target target_of(const trace::Allocation& call, const Contexts& contexts,
                                      Pools& pools) {
  Target target = target_of(kind_of(call.memory), call.location, call.call.context, contexts);
  if (target.kind == Kind::kStreamOrdered) {
    target.come_from(pools.pool_of(call.pool, target.device), pools);
  }
  return target;
}
// The target of a Totals record, by which a checkpoint replaces allocations or blocks.
[[nodiscard]] inline Target target_of(const trace::Totals& totals, const Contexts& contexts,
                                      Pools& pools) {
  const bool is_block = totals.kind == static_cast<std::uint32_t>(trace::RecordKind::kBlock);
  const Kind kind = is_block ? Kind::kBlock : kind_of(totals.memory);
  Target target = target_of(kind, totals.location, totals.context, contexts);
  if (kind == Kind::kStreamOrdered) {
    target.come_from(pools.named(totals.pool, target.device), pools);
  }
  return target;
}
// The target of a peak whose scope is kKind.
[[nodiscard]] inline Target target_of(const trace::Peak& peak, Pools& pools) {
  const Kind kind = kind_of(peak.memory);
  const bool has_pool = kind == Kind::kStreamOrdered;
  return {kind, peak.device, peak.device, has_pool ? pools.named(peak.pool, peak.device) : 0};
}
// The kind of the memory in a PeakHolder record; nullopt if that is no memory of the peak's level.
[[nodiscard]] constexpr std::optional<Kind> kind_at(Level level, const trace::PeakHolder& holder) {
  const Kind kind = level == Level::kFramework ? Kind::kBlock : kind_of(holder.memory);
  return level_of(kind) == level ? std::optional(kind) : std::nullopt;
}

}  // namespace gpumemtrace::ledger
