// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/fold_ledger.hpp"

#include <string.h>

namespace gpumemtrace::preload {
namespace {

std::uint64_t hash_of(const GroupKey& key) noexcept {
  std::uint64_t words[sizeof key / 8];
  memcpy(words, &key, sizeof key);
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0x9E37'79B9'7F4A'7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

// One thing that was live at the moment changes its group. Shares that were not saved follow what
// is live.
void move_share(Share& lost, Share& won, const Moment& moment, const LiveBytes& live) noexcept {
  if (lost.epoch == moment.epoch) {
    lost.bytes -= live.bytes;
    --lost.count;
  }
  if (won.epoch == moment.epoch) {
    won.bytes += live.bytes;
    ++won.count;
  }
}

}  // namespace

bool Ledger::grow_index() noexcept {
  MappedArray<std::uint32_t> larger;
  const std::size_t count = index_.empty() ? 256 : index_.size() * 2;
  if (!larger.resize(count)) return false;
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    std::size_t i = hash_of(groups_[g].key) & (count - 1);
    while (larger[i] != 0) i = (i + 1) & (count - 1);
    larger[i] = g + 1;
  }
  index_.swap(larger);
  return true;
}

std::uint32_t Ledger::group_of(const GroupKey& key) noexcept {
  if ((groups_.size() + 1) * 2 > index_.size() && !grow_index()) {
    failed_ = true;
    return kNoIndex32;
  }
  const std::size_t mask = index_.size() - 1;
  std::size_t i = hash_of(key) & mask;
  for (; index_[i] != 0; i = (i + 1) & mask) {
    if (memcmp(&groups_[index_[i] - 1].key, &key, sizeof key) == 0) return index_[i] - 1;
  }
  Group group;
  group.key = key;
  if (!groups_.push(group)) {
    failed_ = true;
    return kNoIndex32;
  }
  index_[i] = static_cast<std::uint32_t>(groups_.size());
  return index_[i] - 1;
}

std::uint32_t Ledger::account_index(trace::PeakScope scope, std::int32_t device) noexcept {
  for (std::uint32_t i = 0; i < accounts_.size(); ++i) {
    if (accounts_[i].scope == scope && accounts_[i].device == device) return i;
  }
  Account account;
  account.scope = scope;
  account.device = device;
  if (!accounts_.push(account)) failed_ = true;
  return static_cast<std::uint32_t>(accounts_.size() - 1);
}

Account* Ledger::account(trace::PeakScope scope, std::int32_t device) noexcept {
  const std::uint32_t index = account_index(scope, device);
  return failed_ ? nullptr : &accounts_[index];
}

Row* Ledger::row(trace::PeakScope scope, trace::MemoryKind memory, std::int32_t device,
                 std::uint64_t pool) noexcept {
  const std::uint32_t account = account_index(scope, device);
  if (failed_) return nullptr;
  for (Row& row : rows_) {
    if (row.memory == memory && row.pool == pool && row.account == account) return &row;
  }
  Row row;
  row.memory = memory;
  row.device = device;
  row.pool = pool;
  row.account = account;
  if (!rows_.push(row)) {
    failed_ = true;
    return nullptr;
  }
  return &rows_.back();
}

Physical* Ledger::physical(std::int32_t device) noexcept {
  for (Physical& physical : physicals_) {
    if (physical.device == device) return &physical;
  }
  Physical physical;
  physical.device = device;
  physical.account = account_index(trace::PeakScope::kDriver, device);
  if (failed_ || !physicals_.push(physical)) {
    failed_ = true;
    return nullptr;
  }
  return &physicals_.back();
}

void Ledger::bind(std::uint32_t group, trace::PeakScope scope, trace::MemoryKind memory,
                  std::int32_t device, std::uint64_t pool) noexcept {
  const Row* found = row(scope, memory, device, pool);
  if (found == nullptr) return;
  groups_[group].row = static_cast<std::uint32_t>(found - rows_.data());
  if (scope == trace::PeakScope::kDriver) physical(device);
}

void Ledger::save(const Group& group, Share& share, const Moment& moment) noexcept {
  if (share.epoch == moment.epoch || moment.is_told) return;
  share = {moment.epoch, group.live_count, group.live_bytes};
}

void Ledger::save_shares(Group& group) noexcept {
  const Account& account = accounts_[rows_[group.row].account];
  save(group, group.at_peak, account.peak);
  if (account.scope != trace::PeakScope::kDriver) return;
  if (const Physical* device = physical(account.device); device != nullptr) {
    save(group, group.at_physical_peak, device->peak);
  }
}

void Ledger::note_peak(Moment& moment, std::uint64_t bytes, std::uint64_t now) noexcept {
  if (bytes <= moment.bytes) return;
  moment = {now, bytes, moment.epoch + 1, false};
}

void Ledger::add(std::uint32_t index, const LiveBytes& live, std::uint64_t now) noexcept {
  Group& group = groups_[index];
  save_shares(group);
  group.live_bytes += live.bytes;
  ++group.live_count;
  Row& row = rows_[group.row];
  row.bytes += live.bytes;
  note_peak(row.peak, row.bytes, now);
  Account& account = accounts_[row.account];
  account.bytes += live.bytes;
  note_peak(account.peak, account.bytes, now);
}

void Ledger::remove(std::uint32_t index, std::uint64_t bytes) noexcept {
  Group& group = groups_[index];
  save_shares(group);
  group.live_bytes -= bytes;
  --group.live_count;
  Row& row = rows_[group.row];
  row.bytes -= bytes;
  accounts_[row.account].bytes -= bytes;
}

GroupKey Ledger::told_key(const GroupKey& key, std::int32_t device) noexcept {
  GroupKey told;
  told.kind = key.kind;
  told.caller = key.caller;
  told.stack = key.stack;
  told.api = key.api;
  told.flags = key.flags;
  told.memory = key.memory;
  told.location = device;
  told.is_told = 1;
  return told;
}

void Ledger::move_at(std::uint32_t from, std::uint32_t to, Share Group::*share,
                     const Moment& moment, const LiveBytes& live) noexcept {
  if (live.born > moment.time) {
    save(groups_[from], groups_[from].*share, moment);
    save(groups_[to], groups_[to].*share, moment);
  } else if (!moment.is_told) {
    move_share(groups_[from].*share, groups_[to].*share, moment, live);
  } else {
    move_told_share(from, to, share, moment.epoch, live);
  }
}

// What was told of the moment stands in groups of its own.
void Ledger::move_told_share(std::uint32_t from, std::uint32_t to, Share Group::*share,
                             std::uint32_t epoch, const LiveBytes& live) noexcept {
  const std::int32_t device = rows_[groups_[from].row].device;
  const std::uint32_t lost = group_of(told_key(groups_[from].key, device));
  const std::uint32_t won = group_of(told_key(groups_[to].key, device));
  if (failed_) return;
  Share& lost_share = groups_[lost].*share;
  Share& won_share = groups_[won].*share;
  if (lost_share.epoch != epoch || lost_share.count == 0) return;
  if (won_share.epoch != epoch) won_share = {epoch, 0, 0};
  groups_[won].row = groups_[lost].row;
  lost_share.bytes -= live.bytes;
  --lost_share.count;
  won_share.bytes += live.bytes;
  ++won_share.count;
}

void Ledger::move(std::uint32_t from, std::uint32_t to, const LiveBytes& live) noexcept {
  const Account& account = accounts_[rows_[groups_[from].row].account];
  const Moment peak = account.peak;
  const bool has_device = account.scope == trace::PeakScope::kDriver;
  const Physical* device = has_device ? physical(account.device) : nullptr;
  move_at(from, to, &Group::at_peak, peak, live);
  if (device != nullptr) move_at(from, to, &Group::at_physical_peak, device->peak, live);
  groups_[from].live_bytes -= live.bytes;
  --groups_[from].live_count;
  groups_[to].live_bytes += live.bytes;
  ++groups_[to].live_count;
}

void Ledger::physical_changed(std::int32_t device, std::uint64_t now) noexcept {
  Physical* state = physical(device);
  const Account* framework = account(trace::PeakScope::kFramework, device);
  if (state == nullptr || framework == nullptr) return;
  const std::uint64_t bytes = accounts_[state->account].bytes + state->pool_reserved;
  if (bytes <= state->peak.bytes) return;
  note_peak(state->peak, bytes, now);
  state->at_peak.framework_allocated = framework->bytes;
  state->at_peak.pool_used = state->pool_used;
  state->at_peak.pool_reserved = state->pool_reserved;
  state->before_peak = state->last_sample;
  state->before_physical = state->last_physical;
  state->after_peak = trace::MemorySample{};
}

Share Ledger::share_of(const Group& group, const Share& saved,
                       const Moment& moment) const noexcept {
  if (saved.epoch == moment.epoch) return saved;
  if (moment.is_told) return {};
  return {moment.epoch, group.live_count, group.live_bytes};
}

bool Ledger::compete(Moment& moment, std::uint64_t bytes, std::uint64_t time) noexcept {
  if (bytes < moment.bytes) return false;
  moment = {time, bytes, moment.epoch + 1, true};
  return true;
}

}  // namespace gpumemtrace::preload
