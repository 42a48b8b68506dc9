// SPDX-License-Identifier: Apache-2.0
#include "tests/simulated_cuda/pool_memory.hpp"

#include <algorithm>

namespace gpumemtrace::cuda_abi::simulated {
namespace {

constexpr std::uint64_t kSegmentBytes = std::uint64_t{32} << 20;

// Adds a piece to, or subtracts it from, the live bytes of the segments that it lies in.
void account_live(CUmemoryPool pool, std::uint64_t address, std::uint64_t bytes, bool taken) {
  const std::uint64_t end = address + bytes;
  auto segment = std::prev(pool->segments.upper_bound(address));
  for (; segment != pool->segments.end() && segment->first < end; ++segment) {
    const std::uint64_t first = std::max(address, segment->first);
    const std::uint64_t last = std::min(end, segment->first + segment->second.bytes);
    segment->second.live_bytes += taken ? last - first : first - last;
  }
}

bool grow(CUmemoryPool pool, std::uint64_t bytes) {
  State& driver = state();
  const std::uint64_t limit = pool->properties.maxSize;
  for (const std::uint64_t unit : {kSegmentBytes, kGranuleBytes}) {
    const std::uint64_t segment_bytes = round_up(bytes, unit);
    if (limit != 0 && pool->reserved_bytes + segment_bytes > limit) continue;
    if (!charge(pool->device, segment_bytes)) continue;
    const auto address = driver.addresses.take(segment_bytes, kGranuleBytes);
    if (!address) {
      refund(pool->device, segment_bytes);
      return false;
    }
    pool->segments[*address] = {segment_bytes, 0};
    pool->free.add(*address, segment_bytes);
    pool->reserved_bytes += segment_bytes;
    pool->reserved_high_bytes = std::max(pool->reserved_high_bytes, pool->reserved_bytes);
    return true;
  }
  return false;
}

}  // namespace

CUmemoryPool create_pool(Device* device, const CUmemPoolProps& properties) {
  CUmemoryPool pool = state().pools.create();
  pool->device = device;
  pool->properties = properties;
  pool->settings[CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = 1;
  pool->settings[CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC] = 1;
  pool->settings[CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES] = 1;
  return pool;
}

void destroy_pool(CUmemoryPool pool) {
  if (pool->device->current_pool == pool) pool->device->current_pool = pool->device->default_pool;
  pool->destroyed = true;
  trim_pool(pool, 0);
  if (pool->used_bytes == 0) state().pools.destroy(pool);
}

std::uint64_t take_pool_memory(CUmemoryPool pool, std::uint64_t bytes) {
  if (bytes > pool->device->capacity_bytes) return 0;
  const std::uint64_t occupied = round_up(bytes, kSmallAlignment);
  auto address = pool->free.take(occupied, kSmallAlignment);
  if (!address && grow(pool, occupied)) address = pool->free.take(occupied, kSmallAlignment);
  if (!address) return 0;
  account_live(pool, *address, occupied, true);
  pool->used_bytes += occupied;
  pool->used_high_bytes = std::max(pool->used_high_bytes, pool->used_bytes);
  return *address;
}

void give_pool_memory(CUmemoryPool pool, std::uint64_t address, std::uint64_t bytes) {
  pool->free.add(address, bytes);
  pool->used_bytes -= bytes;
  account_live(pool, address, bytes, false);
  if (!pool->destroyed) return;
  trim_pool(pool, 0);
  if (pool->used_bytes == 0) state().pools.destroy(pool);
}

void trim_pool(CUmemoryPool pool, std::uint64_t kept_bytes) {
  State& driver = state();
  for (auto segment = pool->segments.begin(); segment != pool->segments.end();) {
    if (pool->reserved_bytes <= kept_bytes) return;
    if (segment->second.live_bytes != 0) {
      ++segment;
      continue;
    }
    const auto [address, contents] = *segment;
    pool->free.take_at(address, contents.bytes);
    pool->reserved_bytes -= contents.bytes;
    driver.backing.discard(address, contents.bytes);
    driver.addresses.add(address, contents.bytes);
    refund(pool->device, contents.bytes);
    segment = pool->segments.erase(segment);
  }
}

void trim_all_pools(Device* device, std::uint64_t kept_bytes) {
  state().pools.for_each([&](CUmemoryPool pool) {
    if (pool->device == device) trim_pool(pool, kept_bytes);
  });
}

void trim_to_release_thresholds() {
  state().pools.for_each([](CUmemoryPool pool) { trim_pool(pool, pool->release_threshold_bytes); });
}

}  // namespace gpumemtrace::cuda_abi::simulated
