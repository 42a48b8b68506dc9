// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/nccl_memory.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {
namespace {

// ncclCommInitRank, ncclCommInitRankConfig, ncclCommInitRankScalable, ncclCommInitAll.
bool makes_communicator(std::string_view range) {
  return range.starts_with("ncclCommInit") || range == "ncclCommSplit" || range == "ncclCommShrink";
}

}  // namespace

void NcclMemory::annotate(const trace::Annotation& annotation, std::string_view name,
                          std::uint32_t writer, std::uint64_t now) {
  using trace::AnnotationOperation;
  if (annotation.operation == AnnotationOperation::kPop) {
    const auto known = writers_.find(writer);
    if (known == writers_.end() || known->second.depth == 0) return;
    Writer& of = known->second;
    if (annotation.domain != of.domain) return;
    if (of.depth-- == of.init_depth) of.init_depth = 0;
    return;
  }
  if (annotation.operation != AnnotationOperation::kPush || !name.starts_with("nccl")) return;
  Writer& of = writers_[writer];
  of.domain = annotation.domain;
  ++of.depth;
  if (!makes_communicator(name)) return;
  of.init_depth = of.depth;
  of.communicator = communicators_.size();
  NcclOwner& made = communicators_.emplace_back();
  made.is_communicator = true;
  made.thread_id = of.thread_id;
  made.time = now;
}

void NcclMemory::set_thread(std::uint32_t writer, std::uint64_t thread_id) {
  Writer& of = writers_[writer];
  if (of.thread_id == thread_id) return;
  of = Writer();
  of.thread_id = thread_id;
}

NcclOwner& NcclMemory::owner_of(const Live& live) {
  return live.communicator == 0 ? threads_[live.thread_id] : communicators_[live.communicator - 1];
}

// What it held at the mark is kept before it changes for the first time after that.
void NcclMemory::keep_mark(NcclUse& use, const Device& device) {
  if (use.mark == device.mark) return;
  use.bytes_at_mark = use.bytes;
  use.mark = device.mark;
}

void NcclMemory::allocate(std::uint32_t writer, const CallSite& site, std::int32_t device,
                          std::uint64_t bytes, std::uint64_t now) {
  const Writer& of = writers_[writer];
  const Live live{bytes, device, of.init_depth == 0 ? 0 : of.communicator + 1, of.thread_id};
  NcclOwner& owner = owner_of(live);
  if (owner.time == 0) owner.time = now;
  owner.thread_id = of.thread_id;
  if (owner.site == CallSite{}) owner.site = site;
  Device& on = devices_[device];
  NcclUse& use = owner.uses[device];
  keep_mark(use, on);
  ++use.allocations;
  use.bytes += bytes;
  use.most_bytes = std::max(use.most_bytes, use.bytes);
  on.bytes += bytes;
  if (on.bytes > on.most_bytes) {
    on.most_bytes = on.bytes;
    ++on.mark;
  }
  live_[now] = live;
}

void NcclMemory::release(std::uint64_t born) {
  const auto found = live_.find(born);
  if (found == live_.end()) return;
  const Live live = found->second;
  live_.erase(found);
  Device& on = devices_[live.device];
  NcclUse& use = owner_of(live).uses[live.device];
  keep_mark(use, on);
  use.bytes -= live.bytes;
  on.bytes -= live.bytes;
}

std::uint64_t NcclMemory::bytes_at_peak(std::int32_t device, const NcclUse& use) const {
  const auto found = devices_.find(device);
  if (found == devices_.end()) return 0;
  return use.mark == found->second.mark ? use.bytes_at_mark : use.bytes;
}

}  // namespace gpumemtrace::analyzer
