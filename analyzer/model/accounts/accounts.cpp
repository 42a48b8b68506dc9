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
    const auto card = card_logs_.find(device);
    if (card != card_logs_.end()) account.card = card->second;
  }
  return found->second;
}

void Accounts::set_card_log(std::int32_t device, CardLog& log) {
  card_logs_[device] = &log;
  for (Account& account : accounts_) {
    if (account.device != device) continue;
    account.card = &log;
    log.set_use(account.level, account.bytes, present_.time);
  }
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

void Accounts::set_window(const Window& window) {
  window_ = window;
  // The window begins at 1 or later, so that there is a tick before it.
  window_.first = std::max(window.first, std::uint64_t{1});
  log_.keep_window(window.first, window.last);
  state_ = WindowState::kToCome;
  find_next_stop();
}

void Accounts::request_snapshot(std::uint64_t time) {
  // snapshot_time_ must not be kNever, which would mean that no snapshot is to be taken.
  snapshot_time_ = std::min(time, TimeGrid::kNever - 1);
  find_next_stop();
}

// Finds the next time at which advance() has something to do: the end of the bucket, the begin or
// end of the window, or the snapshot.
void Accounts::find_next_stop() {
  next_stop_ = state_ == WindowState::kToCome ? window_.first : grid_.end();
  if (snapshot_time_ != TimeGrid::kNever) next_stop_ = std::min(next_stop_, snapshot_time_ + 1);
  const bool has_end = state_ == WindowState::kOpen && window_.last != TimeGrid::kNever;
  if (has_end) next_stop_ = std::min(next_stop_, window_.last + 1);
}

void Accounts::stop_at(std::uint64_t now) {
  if (now > snapshot_time_) take_requested_snapshot();
  if (state_ == WindowState::kToCome && now >= window_.first) begin_window();
  if (state_ == WindowState::kOpen && now > window_.last) end_window();
  const bool has_buckets = state_ == WindowState::kNone || state_ == WindowState::kOpen;
  if (has_buckets && now >= grid_.end()) begin_bucket(now);
  find_next_stop();
}

// Takes the snapshot of request_snapshot(). As one of Account::other_snapshots it gets each
// allocation that ends later.
void Accounts::take_requested_snapshot() {
  for (Account& account : accounts_) {
    account.requested_snapshot.set(snapshot_time_, account.bytes);
    account.other_snapshots.push_back(&account.requested_snapshot);
  }
  snapshot_time_ = TimeGrid::kNever;
}

void Accounts::begin_window() {
  state_ = WindowState::kOpen;
  grid_.start(window_.first);
  for (Account& account : accounts_) {
    account.timeline.restart(grid_, window_.first - 1, std::nullopt);
  }
}

void Accounts::end_window() {
  if (window_.last >= grid_.end()) begin_bucket(window_.last);
  state_ = WindowState::kOver;
  grid_.close();
}

// Moves all timelines to the bucket of the time `now`, joining buckets in pairs if there would be
// too many.
void Accounts::begin_bucket(std::uint64_t now) {
  if (!grid_.is_started()) grid_.start(now);
  while (!grid_.reaches(now)) {
    for (Account& account : accounts_) account.timeline.join_pairs(grid_);
    grid_.join_pairs();
  }
  grid_.move_to(now);
}

BlockUse Accounts::use_of(const Account& account, const LiveAllocation& entry,
                          const Lifetime& life) const {
  return account.level == Level::kFramework ? uses_.use_of(entry, life) : BlockUse();
}

BlockRequest Accounts::request_of(const Account& account, const LiveAllocation& entry) {
  return account.level == Level::kFramework ? log_.take_request(entry.address) : BlockRequest();
}

// Adds the allocation to its part of the timeline, and returns its use.
BlockUse Accounts::count_life(Account& account, const LiveAllocation& entry, const Lifetime& life) {
  const BlockUse use = use_of(account, entry, life);
  const bool is_block = account.level == Level::kFramework;
  account.timeline.count_life(grid_, is_block ? use.category : part_of(entry), entry.born,
                              entry.bytes);
  return use;
}

void Accounts::count_life_to_end(const LiveAllocation& entry) {
  Account& account = *rows_[groups_[entry.group].row].account;
  const Lifetime life = phase_clock_.lifetime_of_live(entry.born);
  if (log_.is_on()) {
    log_.add_live(entry, use_of(account, entry, life), request_of(account, entry));
  }
  ReleasedAllocation lives{entry, {}, 0};
  const bool has_use = account.timeline.was_live_at_a_maximum(grid_, entry.born);
  if (has_use) lives.use = count_life(account, entry, life);
  const double weight = weight_of(entry, present_.time);
  if (account.largest.may_belong(weight)) add_largest(account, lives, has_use, weight);
}

// Adds an allocation to the account's largest ones. `has_use`: life.use is set already. life.end is
// 0 if the allocation is still live.
void Accounts::add_largest(Account& account, ReleasedAllocation& life, bool has_use,
                           double weight) {
  if (!has_use) {
    const std::uint64_t born = life.entry.born;
    life.use = use_of(
        account, life.entry,
        life.end == 0 ? phase_clock_.lifetime_of_live(born) : phase_clock_.lifetime_of_freed(born));
  }
  account.largest.add(life, weight);
}

void Accounts::finish_timelines() {
  if (snapshot_time_ != TimeGrid::kNever) take_requested_snapshot();
  for (Account& account : accounts_) account.timeline.finish(grid_);
}

void Accounts::restore_totals(std::uint32_t index, const trace::Totals& totals) {
  Group& group = groups_[index];
  group.allocations += totals.count;
  group.allocated_bytes += totals.bytes;
  group.host_ticks += totals.host_ticks;
  group.last_time = std::max(group.last_time, totals.last_time);
  group.last_is_gone = group.last_is_gone || (totals.count != 0 && totals.last_time == 0);
  group.freed.merge(Releases(ledger::Releases::of(totals)));
  UsageRow& row = rows_[group.row];
  row.allocations += totals.count;
  row.frees += totals.freed;
  row.failed += totals.failed;
  row.allocated_bytes += totals.bytes;
  row.largest_bytes = std::max(row.largest_bytes, totals.largest_bytes);
}

void Accounts::forget_outdated_last_times() {
  for (Group& group : groups_) {
    if (group.last_is_gone) group.last_time = 0;
  }
}

void Accounts::restore_row_peak(const ledger::Target& target, std::uint64_t bytes,
                                std::uint64_t time) {
  UsageRow& row = rows_[find_or_add_row(
      {.site = {}, .kind = target.kind, .device = target.device, .pool = target.pool})];
  if (bytes < row.peak_bytes) return;
  row.peak_bytes = bytes;
  row.peak_time = time;
}

// Corrects the holders by two more rows, one of them negative: a group may have several rows, and
// only the sum of their bytes counts.
void PeakSnapshot::count_as_segment(const LiveAllocation& entry, std::uint32_t group) {
  if (!is_restored_ || entry.born > time_) return;
  const bool held = std::ranges::any_of(
      restored_, [&](const auto& holder) { return holder.group == group && !holder.segment; });
  if (!held) return;
  restored_.push_back({group, false, std::uint64_t{0} - 1, std::uint64_t{0} - entry.bytes});
  restored_.push_back({group, true, 1, entry.bytes});
}

void Accounts::count_as_segment_at_peaks(const LiveAllocation& entry) {
  const GroupKey key = groups_[entry.group].key;
  Account& account = *rows_[groups_[entry.group].row].account;
  if (!account.peak.is_restored() && account.other_snapshots.empty()) return;
  const std::uint32_t group = group_of(holder_key(key.site, key.kind, key.device));
  account.peak.count_as_segment(entry, group);
  for (PeakSnapshot* moment : account.other_snapshots) moment->count_as_segment(entry, group);
}

// Corrects all sums: a live allocation is larger than was known before.
void Accounts::grow(const LiveAllocation& entry, std::uint64_t more_bytes, std::uint64_t now) {
  history_.grow(entry.group, more_bytes);
  groups_[entry.group].allocated_bytes += more_bytes;
  UsageRow& row = rows_[groups_[entry.group].row];
  row.largest_bytes = std::max(row.largest_bytes, entry.bytes + more_bytes);
  row.rise(more_bytes, now);
  Account& account = *row.account;
  account.bytes += more_bytes;
  account.sizes.remove(entry.bytes, entry.bytes);
  account.sizes.add(entry.bytes + more_bytes, entry.bytes + more_bytes);
  // The timeline counts an allocation with its final size for its whole life, but it was smaller
  // until now: the difference is subtracted.
  if (account.timeline.was_live_at_a_maximum(grid_, entry.born)) {
    account.timeline.count_life(grid_, part_of(entry), entry.born, std::uint64_t{0} - more_bytes);
  }
  account.timeline.rise(grid_, more_bytes, now);
  flows_[static_cast<std::size_t>(flow_of(account.level))].rise(more_bytes);
  if (account.bytes > account.peak.bytes()) set_peak(account, now);
}

}  // namespace gpumemtrace::analyzer
