// SPDX-License-Identifier: Apache-2.0
#include "preload/checkpoint/group_sums.hpp"

#include <string.h>

namespace gpumemtrace::preload {
namespace {

// Calls of a group agree in caller, pool, api, flags and in these bytes of Totals.
constexpr std::size_t kAlikeBytes =
    offsetof(trace::Totals, last_time) - offsetof(trace::Totals, stack);
static_assert(kAlikeBytes == 32);

std::uint64_t hash_of(const trace::Totals& like) noexcept {
  std::uint64_t words[3 + kAlikeBytes / 8] = {
      like.caller, like.pool, std::uint64_t{like.record.api} << 16 | like.record.flags};
  memcpy(words + 3, &like.stack, kAlikeBytes);
  std::uint64_t hash = 0;
  for (const std::uint64_t word : words) {
    hash = (hash ^ word) * 0x9E37'79B9'7F4A'7C15u;
    hash ^= hash >> 29;
  }
  return hash;
}

bool are_alike(const trace::Totals& a, const trace::Totals& b) noexcept {
  return a.caller == b.caller && a.pool == b.pool && a.record.api == b.record.api &&
         a.record.flags == b.record.flags && memcmp(&a.stack, &b.stack, kAlikeBytes) == 0;
}

// Moves an allocation that was live at the peak with this epoch from one group's share to
// another's. A share that was not saved at this peak needs no change: it is the group's live bytes.
void move_share(Share& lost, Share& won, std::uint32_t epoch, const LiveBytes& live) noexcept {
  if (lost.epoch == epoch) {
    lost.bytes -= live.bytes;
    --lost.count;
  }
  if (won.epoch == epoch) {
    won.bytes += live.bytes;
    ++won.count;
  }
}

}  // namespace

bool GroupSums::grow_index() noexcept {
  MappedArray<std::uint32_t> larger;
  const std::size_t count = index_.empty() ? 256 : index_.size() * 2;
  if (!larger.resize(count)) return false;
  for (std::uint32_t g = 0; g < groups_.size(); ++g) {
    std::size_t i = hash_of(groups_[g].totals) & (count - 1);
    while (larger[i] != 0) i = (i + 1) & (count - 1);
    larger[i] = g + 1;
  }
  index_.swap(larger);
  return true;
}

std::uint32_t GroupSums::group_of(const trace::Totals& like, bool is_restored) noexcept {
  if ((groups_.size() + 1) * 2 > index_.size() && !grow_index()) {
    failed_ = true;
    return kNoIndex32;
  }
  const std::size_t mask = index_.size() - 1;
  std::size_t i = hash_of(like) & mask;
  for (; index_[i] != 0; i = (i + 1) & mask) {
    const Group& known = groups_[index_[i] - 1];
    if (known.is_restored == is_restored && are_alike(known.totals, like)) return index_[i] - 1;
  }
  Group group;
  group.is_restored = is_restored;
  trace::Totals& sums = group.totals = like;
  sums.count = sums.failed = sums.bytes = sums.largest_bytes = sums.host_ticks = sums.last_time = 0;
  if (!groups_.push(group)) {
    failed_ = true;
    return kNoIndex32;
  }
  index_[i] = static_cast<std::uint32_t>(groups_.size());
  return index_[i] - 1;
}

std::uint32_t GroupSums::account_index(Level level, std::int32_t device) noexcept {
  for (std::uint32_t i = 0; i < accounts_.size(); ++i) {
    if (accounts_[i].level == level && accounts_[i].device == device) return i;
  }
  Account account;
  account.level = level;
  account.device = device;
  if (!accounts_.push(account)) failed_ = true;
  return static_cast<std::uint32_t>(accounts_.size() - 1);
}

Account* GroupSums::account(Level level, std::int32_t device) noexcept {
  const std::uint32_t index = account_index(level, device);
  return failed_ ? nullptr : &accounts_[index];
}

Row* GroupSums::row(Kind kind, std::int32_t device, std::uint32_t pool) noexcept {
  const std::uint32_t account = account_index(ledger::level_of(kind), device);
  if (failed_) return nullptr;
  for (Row& row : rows_) {
    if (row.kind == kind && row.pool == pool && row.account == account) return &row;
  }
  Row row;
  row.kind = kind;
  row.device = device;
  row.pool = pool;
  row.account = account;
  if (!rows_.push(row)) {
    failed_ = true;
    return nullptr;
  }
  return &rows_.back();
}

Physical* GroupSums::physical(std::int32_t device) noexcept {
  for (Physical& physical : physicals_) {
    if (physical.device == device) return &physical;
  }
  Physical physical;
  physical.device = device;
  physical.account = account_index(Level::kDriver, device);
  OwnMember self;
  self.ordinal = device;
  self.sums = this;
  self.has_managed = has_managed_;
  (void)physical.curves.add(self);
  if (failed_ || !physicals_.push(physical)) {
    failed_ = true;
    return nullptr;
  }
  return &physicals_.back();
}

void GroupSums::bind(std::uint32_t group, Kind kind, std::int32_t device,
                     std::uint32_t pool) noexcept {
  const Row* found = row(kind, device, pool);
  if (found == nullptr) return;
  groups_[group].row = static_cast<std::uint32_t>(found - rows_.data());
  if (ledger::level_of(kind) == Level::kDriver) physical(device);
}

// Saves the group's live bytes as its share at the snapshot's time, before the live bytes change
// for the first time after it.
void GroupSums::save(const Group& group, Share& share, const PeakSnapshot& snapshot) noexcept {
  if (share.epoch == snapshot.epoch || snapshot.is_restored) return;
  share = {snapshot.epoch, group.live_count, group.live_bytes};
}

void GroupSums::save_shares(Group& group) noexcept {
  const Account& account = accounts_[rows_[group.row].account];
  save(group, group.shares[kAtPeak], account.peak);
  if (account.level != Level::kDriver) return;
  const Physical* const device = physical(account.device);
  if (device == nullptr) return;
  save(group, group.shares[kAtPhysicalPeak], device->peak);
  for (std::size_t i = 0; i < kCardPoints; ++i) {
    save(group, group.shares[kAtCardPoint + i], device->card_points[i]);
  }
}

void GroupSums::raise_peak(PeakSnapshot& peak, std::uint64_t bytes, std::uint64_t now) noexcept {
  if (bytes <= peak.bytes) return;
  peak = {now, bytes, peak.epoch + 1, false};
}

void GroupSums::add(std::uint32_t index, const LiveBytes& live, std::uint64_t now) noexcept {
  Group& group = groups_[index];
  save_shares(group);
  group.live_bytes += live.bytes;
  ++group.live_count;
  Row& row = rows_[group.row];
  row.bytes += live.bytes;
  raise_peak(row.peak, row.bytes, now);
  Account& account = accounts_[row.account];
  account.bytes += live.bytes;
  raise_peak(account.peak, account.bytes, now);
}

void GroupSums::remove(std::uint32_t index, std::uint64_t bytes) noexcept {
  Group& group = groups_[index];
  save_shares(group);
  group.live_bytes -= bytes;
  --group.live_count;
  Row& row = rows_[group.row];
  row.bytes -= bytes;
  accounts_[row.account].bytes -= bytes;
}

// Finds the group by the device and by those fields of `like` that a PeakHolder record has.
std::uint32_t GroupSums::restored_group_of(const trace::Totals& like,
                                           std::int32_t device) noexcept {
  trace::Totals restored;
  restored.record.api = like.record.api;
  restored.record.flags = like.record.flags;
  restored.kind = like.kind;
  restored.caller = like.caller;
  restored.stack = like.stack;
  restored.memory = like.memory;
  restored.location = device;
  return group_of(restored, true);
}

// Moves the bytes from one group's share at the snapshot's time to another's. Bytes that were
// allocated after that time are in neither share.
void GroupSums::move_at(std::uint32_t from, std::uint32_t to, std::size_t share,
                        const PeakSnapshot& snapshot, const LiveBytes& live) noexcept {
  if (live.born_time > snapshot.time) {
    save(groups_[from], groups_[from].shares[share], snapshot);
    save(groups_[to], groups_[to].shares[share], snapshot);
  } else if (!snapshot.is_restored) {
    move_share(groups_[from].shares[share], groups_[to].shares[share], snapshot.epoch, live);
  } else {
    move_restored_share(from, to, share, snapshot.epoch, live);
  }
}

// Does for a peak of an earlier checkpoint what move_share() does: the groups that held memory at
// such a peak are groups of their own, which have no live bytes.
void GroupSums::move_restored_share(std::uint32_t from, std::uint32_t to, std::size_t share,
                                    std::uint32_t epoch, const LiveBytes& live) noexcept {
  const std::int32_t device = rows_[groups_[from].row].device;
  const std::uint32_t lost = restored_group_of(groups_[from].totals, device);
  const std::uint32_t won = restored_group_of(groups_[to].totals, device);
  if (failed_) return;
  Share& lost_share = groups_[lost].shares[share];
  Share& won_share = groups_[won].shares[share];
  if (lost_share.epoch != epoch || lost_share.count == 0) return;
  if (won_share.epoch != epoch) won_share = {epoch, 0, 0};
  groups_[won].row = groups_[lost].row;
  move_share(lost_share, won_share, epoch, live);
}

void GroupSums::move(std::uint32_t from, std::uint32_t to, const LiveBytes& live) noexcept {
  const Account& account = accounts_[rows_[groups_[from].row].account];
  const PeakSnapshot peak = account.peak;
  const bool has_device = account.level == Level::kDriver;
  const Physical* device = has_device ? physical(account.device) : nullptr;
  move_at(from, to, kAtPeak, peak, live);
  if (device != nullptr) {
    move_at(from, to, kAtPhysicalPeak, device->peak, live);
    for (std::size_t i = 0; i < kCardPoints; ++i) {
      move_at(from, to, kAtCardPoint + i, device->card_points[i], live);
    }
  }
  groups_[from].live_bytes -= live.bytes;
  --groups_[from].live_count;
  groups_[to].live_bytes += live.bytes;
  ++groups_[to].live_count;
}

std::uint64_t OwnMember::now() const noexcept { return sums->now_; }

// Called when a point of the curves is taken: begins a snapshot for the point, and sets `epoch` to
// the epoch of the snapshot.
ledger::Parts OwnMember::hold(std::uint32_t& epoch) const noexcept {
  Physical* const device = sums->physical(ordinal);
  if (device == nullptr) return {};
  const ledger::Parts parts = sums->present_parts(*device);
  const std::size_t point = sums->begin_point_snapshot(*device, epoch);
  device->card_points[point].time = parts.time;
  device->card_points[point].bytes = parts.driver;
  return parts;
}

ledger::Parts GroupSums::present_parts(const Physical& device) noexcept {
  const Account* const framework = account(Level::kFramework, device.device);
  return {now_, framework == nullptr ? 0 : framework->bytes, pools_of_device_.used_bytes,
          pools_of_device_.reserved_bytes, driver_bytes(device)};
}

// A snapshot is free if no other point has its epoch.
std::size_t GroupSums::begin_point_snapshot(Physical& device, std::uint32_t& holders) noexcept {
  std::size_t point = 0;
  for (; point < kCardPoints - 1; ++point) {
    bool is_free = true;
    device.curves.for_each_point([&](OwnCurves::Point& other) noexcept {
      const std::uint32_t& epoch = other.held[0].holders;
      is_free =
          is_free && (&epoch == &holders || epoch == 0 || epoch != device.card_points[point].epoch);
    });
    if (is_free) break;
  }
  holders = ++device.card_epochs;
  device.card_points[point] = {0, 0, holders, false};
  return point;
}

OwnCurves* GroupSums::curves(std::int32_t device, const ledger::PoolSums& pools,
                             std::uint64_t now) noexcept {
  now_ = now;
  pools_of_device_ = pools;
  Physical* const state = physical(device);
  return state == nullptr ? nullptr : &state->curves;
}

void GroupSums::add_managed(const ledger::Pools& pools, std::uint64_t now) noexcept {
  if (has_managed_) return;
  has_managed_ = true;
  for (Physical& device : physicals_) {
    curves(device.device, pools.sums_of(device.device), now)->add_managed(0);
  }
}

std::size_t GroupSums::restore_point(Physical& device, const trace::CardPoint& point) noexcept {
  const std::size_t index = begin_point_snapshot(device, device.curves.restore(point).holders);
  PeakSnapshot& snapshot = device.card_points[index];
  snapshot.time = point.point_time;
  snapshot.bytes = point.allocated;
  snapshot.is_restored = true;
  return index;
}

void GroupSums::physical_changed(std::int32_t device, std::uint64_t rounding_bytes,
                                 const ledger::PoolSums& pools, std::uint64_t now) noexcept {
  OwnCurves* const curves = this->curves(device, pools, now);
  if (curves == nullptr) return;
  Physical& state = *physical(device);
  const ledger::Parts parts = present_parts(state);
  curves->change(0, parts.physical() + rounding_bytes, rounding_bytes);
  if (failed_ || parts.physical() <= state.peak.bytes) return;
  raise_peak(state.peak, parts.physical(), now);
  state.at_peak = parts;
  state.set_peak();
}

Share GroupSums::share_of(const Group& group, const Share& saved,
                          const PeakSnapshot& snapshot) const noexcept {
  if (saved.epoch == snapshot.epoch) return saved;
  if (snapshot.is_restored) return {};
  return {snapshot.epoch, group.live_count, group.live_bytes};
}

// A peak that is replaced gets a new epoch, so that all shares at the old peak become invalid.
bool GroupSums::replace_unless_lower(PeakSnapshot& peak, std::uint64_t bytes,
                                     std::uint64_t time) noexcept {
  if (bytes < peak.bytes) return false;
  peak = {time, bytes, peak.epoch + 1, true};
  return true;
}

}  // namespace gpumemtrace::preload
