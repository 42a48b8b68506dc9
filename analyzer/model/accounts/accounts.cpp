// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/accounts/accounts.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {

std::uint32_t Accounts::find_or_add_account(Level level, std::int32_t device) {
  const auto next = static_cast<std::uint32_t>(accounts_.size());
  const auto [found, added] = account_index_.try_emplace({level, device}, next);
  if (added) {
    Account& account = accounts_.emplace_back();
    account.level = level;
    account.device = device;
  }
  return found->second;
}

std::uint32_t Accounts::find_or_add_row(const GroupKey& key) {
  const auto next = static_cast<std::uint32_t>(rows_.size());
  const auto [found, added] = row_index_.try_emplace({key.kind, key.device, key.pool}, next);
  if (added) {
    UsageRow row;
    row.kind = key.kind;
    row.device = key.device;
    row.pool = key.pool;
    row.account = &accounts_[find_or_add_account(level_of(key.kind), key.device)];
    rows_.push_back(row);
  }
  return found->second;
}

std::uint32_t Accounts::find_or_add_group(const GroupKey& key) {
  const auto next = static_cast<std::uint32_t>(groups_.size());
  const auto [found, added] = group_index_.try_emplace(key, next);
  if (added) {
    Group group;
    group.key = key;
    group.row = find_or_add_row(key);
    groups_.push_back(group);
  }
  return found->second;
}

void Accounts::add_folded(std::uint32_t group, const FoldedAllocations& folded) {
  groups_[group].allocations += folded.count;
  groups_[group].allocated_bytes += folded.bytes;
  groups_[group].is_folded = true;
  groups_[group].freed.count += folded.freed;
  if (folded.freed != 0) groups_[group].freed.has_other_sites = true;
  UsageRow& row = rows_[groups_[group].row];
  row.allocations += folded.count;
  row.frees += folded.freed;
  row.failed += folded.failed;
  row.allocated_bytes += folded.bytes;
  row.largest_bytes = std::max(row.largest_bytes, folded.largest_bytes);
}

void Accounts::forget_last_of_folded() {
  for (Group& group : groups_) {
    if (group.is_folded) group.last_time = 0;
  }
}

void Accounts::tell_row_peak(Kind kind, std::int32_t device, std::uint32_t pool,
                             std::uint64_t bytes, std::uint64_t time) {
  GroupKey key;
  key.kind = kind;
  key.device = device;
  key.pool = pool;
  UsageRow& row = rows_[find_or_add_row(key)];
  if (bytes < row.peak_bytes) return;
  row.peak_bytes = bytes;
  row.peak_time = time;
}

void Accounts::grow(const LiveAllocation& entry, std::uint64_t more_bytes, std::uint64_t now) {
  history_.grow(entry.group, more_bytes);
  groups_[entry.group].allocated_bytes += more_bytes;
  UsageRow& row = rows_[groups_[entry.group].row];
  row.allocated_bytes += more_bytes;
  row.bytes += more_bytes;
  if (entry.bytes + more_bytes > row.largest_bytes) row.largest_bytes = entry.bytes + more_bytes;
  if (row.bytes > row.peak_bytes) {
    row.peak_bytes = row.bytes;
    row.peak_time = now;
  }
  Account& account = *row.account;
  account.bytes += more_bytes;
  Flow& flow = flows_[static_cast<std::size_t>(flow_of(account.level))];
  flow.bytes += more_bytes;
  flow.highest_bytes = std::max(flow.highest_bytes, flow.bytes);
  if (account.bytes > account.peak.bytes()) set_peak(account, now);
}

}  // namespace gpumemtrace::analyzer
