// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/memory/private_pools.hpp"

#include <algorithm>
#include <utility>

#include "trace/order.hpp"

namespace gpumemtrace::analyzer {

void PrivatePools::apply(const trace::Graph& call, std::uint32_t writer, const CallSite& site,
                         std::uint64_t now) {
  const bool succeeded = call.call.record.result == trace::kCudaSuccess;
  if (call.operation == trace::GraphOperation::kEndCapture) {
    return end_capture(call.stream, succeeded ? call.graph : 0);
  }
  if (!succeeded) return;
  switch (call.operation) {
    case trace::GraphOperation::kBeginCapture: {
      Capture& capture = open_.emplace_back();
      capture.stream = call.stream;
      capture.writer = writer;
      capture.site = site;
      capture.time = now;
      return;
    }
    case trace::GraphOperation::kInstantiate: {
      // If another executable graph has this handle, the record of its destruction is missing.
      remove_executable(call.executable);
      const auto graph = graphs_.find(call.graph);
      if (graph == graphs_.end()) return;
      executables_[call.executable] = graph->second;
      return count_graphs(graph->second, true);
    }
    case trace::GraphOperation::kDestroyExecutable:
      return remove_executable(call.graph != 0 ? call.graph : call.executable);
    case trace::GraphOperation::kDestroy:
      graphs_.erase(call.graph);
      return;
    default:
      return;
  }
}

void PrivatePools::end_capture(std::uint64_t stream, std::uint64_t graph) {
  const auto found = std::ranges::find(open_, stream, &Capture::stream);
  if (found == open_.end()) return;
  for (const auto& [device, id] : found->pools) {
    PrivatePool& pool = pools_[root_of(id) - 1];
    pool.allocated_after_capture = pool.now.allocated;
  }
  if (graph != 0 && !found->pools.empty()) graphs_[graph] = std::move(found->pools);
  open_.erase(found);
}

void PrivatePools::remove_executable(std::uint64_t executable) {
  const auto found = executables_.find(executable);
  if (found == executables_.end()) return;
  count_graphs(found->second, false);
  executables_.erase(found);
}

void PrivatePools::count_graphs(const ByDevice& pools, bool is_live) {
  for (const auto& [device, id] : pools) {
    std::uint64_t& live = pools_[root_of(id) - 1].live_graphs;
    live = is_live ? live + 1 : live - std::min<std::uint64_t>(live, 1);
  }
}

// PyTorch allocates from a private pool for all streams that are captured. The capturing thread
// works on one of these streams; threads of autograd work on the stream of the forward pass.
PrivatePools::Capture* PrivatePools::capture_of(const trace::Block& block, std::uint32_t writer) {
  if (open_.empty()) [[likely]]
    return nullptr;
  const bool has_stream = (block.record.flags & trace::kFlagStream) != 0;
  for (auto capture = open_.rbegin(); capture != open_.rend(); ++capture) {
    if (capture->writer != writer) continue;
    if (has_stream && !capture->has_block_stream) {
      capture->has_block_stream = true;
      capture->block_stream = block.stream;
    }
    return &*capture;
  }
  for (Capture& capture : open_) {
    const bool is_same = has_stream && capture.has_block_stream && block.stream != 0 &&
                         block.stream == capture.block_stream;
    if (is_same) return &capture;
  }
  return nullptr;
}

std::uint32_t PrivatePools::pool_of(Capture& capture, std::int32_t device) {
  const auto known = capture.pools.find(device);
  if (known != capture.pools.end()) return root_of(known->second);
  PrivatePool& pool = pools_.emplace_back();
  pool.device = device;
  pool.made_at = capture.site;
  pool.time = capture.time;
  pool.captures = 1;
  const auto id = static_cast<std::uint32_t>(pools_.size());
  capture.pools[device] = id;
  return id;
}

std::uint32_t PrivatePools::join(Capture& capture, std::int32_t device, std::uint32_t pool) {
  const std::uint32_t root = root_of(pool);
  const auto [known, is_new] = capture.pools.try_emplace(device, root);
  if (is_new) {
    ++pools_[root - 1].captures;
    return root;
  }
  return merge(root_of(known->second), root);
}

// Makes one pool of two; the older id stays. The common peak is not recorded, so the least that it
// can have been is taken: the largest of the two peaks and the sum of the present bytes.
std::uint32_t PrivatePools::merge(std::uint32_t id, std::uint32_t other) {
  if (id == other) return id;
  const std::uint32_t stays = std::min(id, other);
  const std::uint32_t goes = std::max(id, other);
  const PoolBytes mark_of_other = at_mark(goes);
  PrivatePool& kept = pool_before_change(stays);
  PrivatePool& gone = pools_[goes - 1];
  kept.at_mark.reserved += mark_of_other.reserved;
  kept.at_mark.allocated += mark_of_other.allocated;
  kept.captures += gone.captures;
  kept.live_graphs += gone.live_graphs;
  kept.allocated_after_capture += gone.allocated_after_capture;
  kept.now.reserved += gone.now.reserved;
  kept.now.allocated += gone.now.allocated;
  kept.peak.reserved = std::max({kept.peak.reserved, gone.peak.reserved, kept.now.reserved});
  kept.peak.allocated = std::max({kept.peak.allocated, gone.peak.allocated, kept.now.allocated});
  gone.merged_into = stays;
  return stays;
}

// Returns the pool for a change of its bytes. At the first change after a mark (set_mark()), first
// stores the bytes as those at the mark.
PrivatePool& PrivatePools::pool_before_change(std::uint32_t id) {
  PrivatePool& pool = pools_[root_of(id) - 1];
  if (pool.mark != mark_) {
    pool.at_mark = pool.now;
    pool.mark = mark_;
  }
  return pool;
}

void PrivatePools::grow(std::uint32_t id, std::uint64_t reserved, std::uint64_t allocated) {
  PrivatePool& pool = pool_before_change(id);
  pool.now.reserved += reserved;
  pool.now.allocated += allocated;
  pool.peak.reserved = std::max(pool.peak.reserved, pool.now.reserved);
  pool.peak.allocated = std::max(pool.peak.allocated, pool.now.allocated);
}

void PrivatePools::shrink(std::uint32_t id, std::uint64_t reserved, std::uint64_t allocated) {
  PrivatePool& pool = pool_before_change(id);
  pool.now.reserved -= std::min(pool.now.reserved, reserved);
  pool.now.allocated -= std::min(pool.now.allocated, allocated);
}

}  // namespace gpumemtrace::analyzer
