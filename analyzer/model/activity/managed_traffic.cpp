// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/activity/managed_traffic.hpp"

#include <algorithm>
#include <iterator>
#include <limits>

namespace gpumemtrace::analyzer {
namespace {

constexpr std::size_t kMaxFreed = 1 << 14;
constexpr std::size_t kMaxReplaced = 1 << 12;

// Values of CUpti_ActivityUnifiedMemoryCounterKind.
enum Counter : std::uint32_t {
  kBytesToDevice = 1,
  kBytesToHost = 2,
  kCpuFault = 3,
  kGpuFault = 4,
  kThrashing = 5,
  kBytesBetweenDevices = 8,
};

void count(ManagedCounts& counts, const trace::ActivityManaged& record, std::uint64_t ticks) {
  switch (record.counter) {
    case kBytesToDevice:
      counts.to_device_bytes += record.value;
      break;
    case kBytesToHost:
      counts.to_host_bytes += record.value;
      break;
    case kBytesBetweenDevices:
      counts.between_devices_bytes += record.value;
      break;
    case kCpuFault:  // value: address of the code that faulted
      ++counts.cpu_faults;
      return;
    case kGpuFault:
      counts.gpu_faults += record.value;
      return;
    case kThrashing:
      ++counts.thrashing;
      return;
    default:
      return;
  }
  ++counts.migrations;
  counts.migration_ticks += ticks;
}

}  // namespace

void ManagedCounts::add(const ManagedCounts& more) {
  to_device_bytes += more.to_device_bytes;
  to_host_bytes += more.to_host_bytes;
  between_devices_bytes += more.between_devices_bytes;
  migrations += more.migrations;
  migration_ticks += more.migration_ticks;
  cpu_faults += more.cpu_faults;
  gpu_faults += more.gpu_faults;
  thrashing += more.thrashing;
}

void ManagedTraffic::allocate(std::uint64_t address, std::uint64_t bytes, std::uint32_t group,
                              std::uint64_t ticks) {
  const std::uint64_t room = std::numeric_limits<std::uint64_t>::max() - address;
  const Range range{address, address + std::min(bytes, room), ticks, group, false, {}};
  auto other = ranges_.upper_bound(address);
  if (other != ranges_.begin() && std::prev(other)->second.end > address) --other;
  while (other != ranges_.end() && other->second.begin < range.end) {
    retire(other->second);
    other = ranges_.erase(other);
  }
  ranges_[address] = range;
}

void ManagedTraffic::free(std::uint64_t address) {
  const auto range = ranges_.find(address);
  if (range == ranges_.end() || range->second.is_freed) return;
  range->second.is_freed = true;
  freed_.push_back(address);
  if (freed_.size() <= kMaxFreed) return;
  const auto oldest = ranges_.find(freed_.front());
  freed_.pop_front();
  if (oldest == ranges_.end() || !oldest->second.is_freed) return;
  retire(oldest->second);
  ranges_.erase(oldest);
}

void ManagedTraffic::apply(const trace::ActivityManaged& record,
                           const std::optional<TickSpan>& time) {
  const std::uint64_t ticks = time ? time->start : std::numeric_limits<std::uint64_t>::max();
  count(counts_at(record.address, ticks), record, time ? time->ticks() : 0);
}

// Returns the counts of the allocation that the address belonged to at the time `ticks`: an earlier
// allocation if the present one began only later.
ManagedCounts& ManagedTraffic::counts_at(std::uint64_t address, std::uint64_t ticks) {
  const auto after = ranges_.upper_bound(address);
  Range* present = nullptr;
  if (after != ranges_.begin() && std::prev(after)->second.contains(address)) {
    present = &std::prev(after)->second;
    if (present->born <= ticks) return present->counts;
  }
  const auto older = std::find_if(replaced_.rbegin(), replaced_.rend(), [&](const Range& range) {
    return range.contains(address) && range.born <= ticks;
  });
  if (older != replaced_.rend()) return older->counts;
  return present != nullptr ? present->counts : elsewhere_;
}

void ManagedTraffic::retire(const Range& range) {
  replaced_.push_back(range);
  if (replaced_.size() <= kMaxReplaced) return;
  add_to_group_sums(replaced_.front());
  replaced_.pop_front();
}

// Adds the counts of the allocation to the sums of its group.
void ManagedTraffic::add_to_group_sums(const Range& range) {
  if (range.counts.empty()) return;
  ManagedSums& sums = by_group_[range.group];
  ++sums.allocations;
  sums.bytes += range.end - range.begin;
  sums.counts.add(range.counts);
  const std::uint64_t round_trip =
      std::min(range.counts.to_device_bytes, range.counts.to_host_bytes);
  if (round_trip <= sums.worst_round_trip_bytes) return;
  sums.worst_round_trip_bytes = round_trip;
  sums.worst_bytes = range.end - range.begin;
}

void ManagedTraffic::finish() {
  for (const Range& range : replaced_) add_to_group_sums(range);
  for (const auto& [begin, range] : ranges_) add_to_group_sums(range);
  replaced_.clear();
  ranges_.clear();
}

}  // namespace gpumemtrace::analyzer
