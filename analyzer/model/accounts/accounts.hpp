// SPDX-License-Identifier: Apache-2.0
// The sums of one process: the bytes that each call site allocated, now and at the times that
// matter.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "analyzer/model/accounts/allocation_log.hpp"
#include "analyzer/model/accounts/block_use.hpp"
#include "analyzer/model/accounts/card_log.hpp"
#include "analyzer/model/accounts/history.hpp"
#include "analyzer/model/accounts/live_allocation.hpp"
#include "analyzer/model/accounts/lives.hpp"
#include "analyzer/model/accounts/peak_snapshot.hpp"
#include "analyzer/model/accounts/phase_clock.hpp"
#include "analyzer/model/accounts/present_record.hpp"
#include "analyzer/model/accounts/releases.hpp"
#include "analyzer/model/accounts/time_grid.hpp"
#include "analyzer/model/accounts/timeline.hpp"
#include "trace/ledger/call_site.hpp"
#include "trace/ledger/levels.hpp"
#include "trace/ledger/targets.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

using ledger::CallSite;
using ledger::host_ticks_of;
using ledger::kHostDevice;
using ledger::Kind;
using ledger::kUnknownDevice;
using ledger::Level;
using ledger::level_of;

// All memory of one level (driver, pool, framework, ...) on one device.
struct Account {
  Level level = Level::kDriver;
  std::int32_t device = kHostDevice;
  std::uint64_t bytes = 0;
  PeakSnapshot peak;
  PhaseClock clock_at_peak;
  // other snapshots than `peak`; each must get the allocations that end in this account
  std::vector<PeakSnapshot*> other_snapshots;
  CardLog* card = nullptr;          // log of the account's device
  Timeline timeline;                // parts: framework blocks by category, others by HolderPart
  PeakSnapshot peak_before_cut;     // the highest point before a checkpoint
  PeakSnapshot requested_snapshot;  // snapshot at the time given to request_snapshot()
  Histogram sizes;                  // sizes of all allocations that no checkpoint replaced
  Histogram lifetimes;              // lifetimes in nanoseconds of the allocations that have ended
  LargestLives largest;
};

// The memory of one kind on one device; for pools, the memory of one pool.
struct UsageRow {
  Kind kind = Kind::kDevice;
  std::int32_t device = kHostDevice;
  std::uint32_t pool = 0;      // index of the pool; only for the kind stream_ordered
  Account* account = nullptr;  // never nullptr in a row of Accounts
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t failed = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t peak_bytes = 0;
  std::uint64_t peak_time = 0;
  std::uint64_t largest_bytes = 0;

  void rise(std::uint64_t more_bytes, std::uint64_t now) {
    allocated_bytes += more_bytes;
    bytes += more_bytes;
    if (bytes <= peak_bytes) return;
    peak_bytes = bytes;
    peak_time = now;
  }
};

// Allocations of one kind from one call site in one context.
struct GroupKey {
  CallSite site;
  Kind kind = Kind::kDevice;
  std::int32_t device = kHostDevice;
  std::uint32_t pool = 0;
  trace::ContextId context = trace::ContextId::kNone;
  // phase of the program at the allocation; only for blocks of the framework
  Phase phase = Phase::kNone;

  friend auto operator<=>(const GroupKey&, const GroupKey&) = default;
};

// The key of the group that holds memory at a peak before a checkpoint.
[[nodiscard]] inline GroupKey holder_key(const CallSite& site, Kind kind, std::int32_t device) {
  return {.site = site, .kind = kind, .device = device};
}

// Sums over all devices, by which the program's steps are measured.
struct Flow {
  std::uint64_t bytes = 0;
  std::uint64_t highest_bytes = 0;  // highest sum since Accounts::restart_highest()
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;

  void rise(std::uint64_t more_bytes) {
    allocated_bytes += more_bytes;
    bytes += more_bytes;
    if (bytes > highest_bytes) highest_bytes = bytes;
  }
};
enum class FlowKind : std::uint8_t { kFramework, kDriverAndPools, kRest };
inline constexpr std::size_t kFlowKinds = 3;
constexpr FlowKind flow_of(Level level) {
  if (level == Level::kFramework) return FlowKind::kFramework;
  return level == Level::kDriver || level == Level::kPool ? FlowKind::kDriverAndPools
                                                          : FlowKind::kRest;
}

// Counts how often an allocation of a group was larger than the one before, since the last that was
// smaller.
struct RisingSizes {
  std::uint64_t first_bytes = 0;
  std::uint64_t last_bytes = 0;
  std::uint64_t rises = 0;

  void add(std::uint64_t bytes) {
    if (bytes < last_bytes || last_bytes == 0) {
      first_bytes = bytes;
      rises = 0;
    } else if (bytes > last_bytes) {
      ++rises;
    }
    last_bytes = bytes;
  }
};

struct Group {
  GroupKey key;
  std::uint32_t row = 0;
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t segments = 0;     // number of the allocations that hold the framework's blocks
  std::uint64_t host_ticks = 0;   // host ticks spent in the calls that allocated and freed
  std::uint64_t temporaries = 0;  // allocations freed before the same thread made another one
  std::uint64_t temporary_bytes = 0;
  std::uint64_t last_time = 0;  // model time of the last allocation; 0 = not known
  RisingSizes sizes;
  // a checkpoint replaced allocations without telling the last one's time
  bool last_is_gone = false;
  Releases freed;
};

// A part of the run, in model time: from the first tick to the last one.
struct Window {
  std::uint64_t first = 0;
  std::uint64_t last = ~std::uint64_t{0};
};

// The holder of the bytes of one part of a timeline that is not divided by categories: the
// allocations of a group that are segments, or those that are not.
struct HolderPart {
  std::uint32_t group = 0;
  bool segment = false;
};
constexpr std::uint32_t part_of(const LiveAllocation& entry) {
  return 2 * entry.group + static_cast<std::uint32_t>(entry.link != 0);
}
constexpr HolderPart holder_of_part(std::uint32_t part) { return {part / 2, part % 2 != 0}; }

// The data that a model keeps beside sums.
struct ModelDetail {
  std::size_t timeline_buckets = 1024;  // the most buckets of each timeline
  // The most ended allocations to log (AllocationLog); no value: none is logged.
  std::optional<std::size_t> logged_allocations{};
};

// - Accounts are created on demand and never removed; pointers to them stay valid.
// - Has sums, not addresses: the live allocations are known to the classes that own the address
//   spaces.
class Accounts {
 public:
  // `uses` and `present` are borrowed. `ns_per_tick` is the average rate of the run's ticks.
  Accounts(const BlockUses& uses, const PresentRecord& present, const ModelDetail& detail,
           double ns_per_tick)
      : uses_(uses),
        present_(present),
        ns_per_tick_(ns_per_tick),
        grid_(detail.timeline_buckets),
        log_(present, detail.logged_allocations) {}

  // Sets the window of the run; called before the first record. Timelines cover the window alone,
  // the largest lives are measured within it, and the log has the allocations that were live in it.
  void set_window(const Window& window);
  // Keeps in Account::requested_snapshot the memory that is live after all events up to the time.
  // Called before the first record.
  void request_snapshot(std::uint64_t time);
  // True if the window has ended; the timelines ended with it.
  [[nodiscard]] bool window_is_over() const { return state_ == WindowState::kOver; }
  // True if the window has not begun: nothing was recorded in it.
  [[nodiscard]] bool window_is_to_come() const { return state_ == WindowState::kToCome; }
  [[nodiscard]] const Window& window() const { return window_; }

  // Called before events of the time `now`: takes the snapshot, begins or ends the window and
  // begins a bucket, as far as they are due. Not called for records of a checkpoint, which have no
  // time.
  void advance(std::uint64_t now) {
    if (now >= next_stop_) [[unlikely]]
      stop_at(now);
  }
  [[nodiscard]] std::uint32_t group_of(const GroupKey& key) {
    const std::size_t slot =
        ledger::slot_of(key.site, number_of(key.context) + 64 * static_cast<unsigned>(key.kind));
    CachedGroup& cached = cache_[slot];
    if (!cached.valid || !(cached.key == key)) cached = {key, find_or_add_group(key), true};
    return cached.group;
  }

  void add(std::uint32_t group, std::uint64_t bytes, std::uint64_t now) {
    Group& owner = groups_[group];
    ++owner.allocations;
    owner.allocated_bytes += bytes;
    owner.last_time = now;
    owner.sizes.add(bytes);
    UsageRow& row = rows_[owner.row];
    ++row.allocations;
    ++row.count;
    if (bytes > row.largest_bytes) row.largest_bytes = bytes;
    row.rise(bytes, now);
    Account& account = *row.account;
    account.bytes += bytes;
    if (account.card != nullptr) account.card->set_use(account.level, account.bytes, now);
    if (account.bytes > account.peak.bytes()) set_peak(account, now);
    account.timeline.rise(grid_, bytes, now);
    account.sizes.add(bytes, bytes);
    note_last_of_thread(account.level, now);
    history_.allocate(group, bytes, now);
    Flow& flow = flows_[static_cast<std::size_t>(flow_of(account.level))];
    ++flow.allocations;
    flow.rise(bytes);
  }

  enum class End { kFreed, kImplicit };
  void remove(const LiveAllocation& entry, End end) {
    Group& owner = groups_[entry.group];
    UsageRow& row = rows_[owner.row];
    if (end == End::kFreed) {
      ++row.frees;
      ++owner.freed.count;
      if (is_last_of_thread(row.account->level, entry.born)) {
        ++owner.temporaries;
        owner.temporary_bytes += entry.bytes;
      }
    }
    --row.count;
    row.bytes -= entry.bytes;
    Account& account = *row.account;
    account.bytes -= entry.bytes;
    history_.free(entry.group, entry.bytes, end == End::kFreed);
    flows_[static_cast<std::size_t>(flow_of(account.level))].bytes -= entry.bytes;
    if (log_.is_on()) [[unlikely]] {
      log_.add_ended(entry, use_of(account, entry, phase_clock_.lifetime_of_freed(entry.born)),
                     request_of(account, entry));
    }
    account.lifetimes.add(nanoseconds(present_.time - entry.born), entry.bytes);
    ReleasedAllocation released{entry, {}, present_.time};
    // A block that is freed now and was live at a peak was live at the maximum of a bucket, too.
    const bool has_use = account.timeline.was_live_at_a_maximum(grid_, entry.born);
    if (has_use) {
      released.use = count_life(account, entry, phase_clock_.lifetime_of_freed(entry.born));
    }
    account.timeline.fall(grid_, entry.bytes);
    account.peak.add_release(released);
    for (PeakSnapshot* moment : account.other_snapshots) moment->add_release(released);
    if (account.card != nullptr) log_end(account, entry);
    const double weight = weight_of(entry, present_.time);
    if (account.largest.may_belong(weight)) add_largest(account, released, has_use, weight);
  }
  // The bytes that the framework or a device's pools reserve have changed.
  void set_reserved(Account& account, std::uint64_t bytes) const {
    account.timeline.set_reserved(grid_, bytes);
  }

  // Called at a checkpoint, before its first record: timelines lose the run from `origin` to `now`,
  // except for its peaks. `reserved_peak_of(account)`: the most bytes that were reserved in that
  // time.
  template <class ReservedPeakOf>
  void restart_timelines(std::uint64_t origin, std::uint64_t now,
                         ReservedPeakOf&& reserved_peak_of);
  // At the end of the trace: count_life_to_end() for each allocation that is still live, then
  // finish_timelines() once.
  void count_life_to_end(const LiveAllocation& entry);
  void finish_timelines();
  [[nodiscard]] const TimeGrid& time_grid() const { return grid_; }

  [[nodiscard]] const Flow& flow(FlowKind kind) const {
    return flows_[static_cast<std::size_t>(kind)];
  }
  void restart_highest() {
    for (Flow& flow : flows_) flow.highest_bytes = flow.bytes;
  }
  // The clock that measures lifetimes in phases; the class Phases sets it.
  [[nodiscard]] PhaseClock& phase_clock() { return phase_clock_; }
  [[nodiscard]] const PhaseClock& phase_clock() const { return phase_clock_; }

  // Counts allocations that a checkpoint replaced and that are not live.
  void restore_totals(std::uint32_t group, const trace::Totals& totals);
  // Called at a checkpoint: forgets the time of a group's last allocation if later allocations are
  // known only as sums.
  void forget_outdated_last_times();
  // Restores from a checkpoint the peak of the UsageRow of the target's kind, device and pool.
  void restore_row_peak(const ledger::Target& target, std::uint64_t bytes, std::uint64_t time);

  void count_failure(const GroupKey& key) { ++rows_[groups_[group_of(key)].row].failed; }

  // Allocations of the group turned out to be segments of the framework.
  void count_segment(std::uint32_t group, std::uint64_t count = 1) {
    groups_[group].segments += count;
  }
  // Adds the call site of a free of one of the group's allocations.
  void add_free_site(std::uint32_t group, const CallSite& site, std::uint64_t now) {
    groups_[group].freed.add_site(site, now);
    log_.note_free(site.stack);
  }
  // A live allocation turned out to be a segment: it becomes one at peaks before a checkpoint, too.
  void count_as_segment_at_peaks(const LiveAllocation& entry);
  // Adds time that a call spent on an allocation of the group.
  void add_host_ticks(std::uint32_t group, std::uint64_t ticks) {
    groups_[group].host_ticks += ticks;
  }
  // Adds bytes to a live allocation whose full size became known after it was added.
  void grow(const LiveAllocation& entry, std::uint64_t more_bytes, std::uint64_t now);

  // From now on, `log` gets each change of the device's accounts. `log` is borrowed.
  void set_card_log(std::int32_t device, CardLog& log);
  [[nodiscard]] Account& account_of(Level level, std::int32_t device) {
    return accounts_[find_or_add_account(level, device)];
  }
  [[nodiscard]] const Group& group(std::uint32_t index) const { return groups_[index]; }
  [[nodiscard]] const UsageRow& row_of(std::uint32_t group) const {
    return rows_[groups_[group].row];
  }

  [[nodiscard]] const std::deque<Account>& accounts() const { return accounts_; }
  [[nodiscard]] const std::vector<UsageRow>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  [[nodiscard]] const History& history() const { return history_; }
  [[nodiscard]] const AllocationLog& log() const { return log_; }
  // Logs the request for a block that the framework handed out.
  void log_request(const trace::Block& block) {
    if (!log_.is_on()) return;
    const bool has_stream = (block.record.flags & trace::kFlagStream) != 0;
    log_.add_request(block.address,
                     {block.requested, has_stream ? std::optional(block.stream) : std::nullopt});
  }

 private:
  struct CachedGroup {
    GroupKey key;
    std::uint32_t group = 0;
    bool valid = false;
  };

  // Writers with this number or a larger one are not counted as threads; no program has so many.
  static constexpr std::uint32_t kMostThreads = 1 << 16;
  static constexpr double kLongestNs = 0x1p62;

  // Times of a thread's last allocation that is no block of the framework, and of its last block.
  using LastOfThread = std::array<std::uint64_t, 2>;
  void note_last_of_thread(Level level, std::uint64_t now) {
    if (level == Level::kMapping) return;
    if (present_.writer >= last_of_threads_.size()) {
      if (present_.writer >= kMostThreads) return;  // no thread's number: kCheckpointWriter, say
      last_of_threads_.resize(present_.writer + 1);
    }
    last_of_threads_[present_.writer][level == Level::kFramework ? 1 : 0] = now;
  }
  [[nodiscard]] bool is_last_of_thread(Level level, std::uint64_t born) const {
    return present_.writer < last_of_threads_.size() &&
           last_of_threads_[present_.writer][level == Level::kFramework ? 1 : 0] == born;
  }
  [[nodiscard]] std::uint64_t nanoseconds(std::uint64_t ticks) const {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(std::min(
        static_cast<double>(static_cast<std::int64_t>(ticks)) * ns_per_tick_, kLongestNs)));
  }
  // Bytes times ticks of the life in the window; negative if it was outside of the window.
  [[nodiscard]] double weight_of(const LiveAllocation& entry, std::uint64_t end) const {
    const std::uint64_t from = std::max(entry.born, window_.first);
    const std::uint64_t to = std::min(end, window_.last);
    return static_cast<double>(static_cast<std::int64_t>(entry.bytes)) *
           static_cast<double>(static_cast<std::int64_t>(to - from));
  }
  void add_largest(Account& account, ReleasedAllocation& life, bool has_use, double weight);

  // Does all that is due by now: request_snapshot()'s snapshot, the window's ends, the next bucket.
  void stop_at(std::uint64_t now);
  void take_requested_snapshot();
  void begin_window();
  // Closes the timeline at the last moment of the window; later changes count in the sums alone.
  void end_window();
  void begin_bucket(std::uint64_t now);
  void find_next_stop();
  [[nodiscard]] BlockUse use_of(const Account& account, const LiveAllocation& entry,
                                const Lifetime& life) const;
  [[nodiscard]] BlockRequest request_of(const Account& account, const LiveAllocation& entry);
  BlockUse count_life(Account& account, const LiveAllocation& entry, const Lifetime& life);
  void set_peak(Account& account, std::uint64_t now) const {
    account.peak.set(now, account.bytes);
    account.clock_at_peak = phase_clock_;
  }
  void log_end(Account& account, const LiveAllocation& entry) const {
    if (account.level == Level::kDriver) return account.card->end(entry);
    account.card->set_use(account.level, account.bytes, present_.time);
  }
  std::uint32_t find_or_add_group(const GroupKey& key);
  std::uint32_t find_or_add_row(const GroupKey& key);
  std::uint32_t find_or_add_account(Level level, std::int32_t device);

  const BlockUses& uses_;
  const PresentRecord& present_;
  double ns_per_tick_;
  std::vector<LastOfThread> last_of_threads_;  // model times of each writer's last allocations
  enum class WindowState : std::uint8_t { kNone, kToCome, kOpen, kOver };
  WindowState state_ = WindowState::kNone;
  Window window_;
  std::uint64_t snapshot_time_ = TimeGrid::kNever;  // time of the snapshot to take; kNever: none
  std::uint64_t next_stop_ = 0;
  TimeGrid grid_;
  std::deque<Account> accounts_;
  std::map<std::int32_t, CardLog*> card_logs_;  // logs by device
  std::vector<UsageRow> rows_;
  std::vector<Group> groups_;
  History history_;
  std::map<std::pair<Level, std::int32_t>, std::uint32_t> account_index_;
  std::map<std::tuple<Kind, std::int32_t, std::uint32_t>, std::uint32_t> row_index_;
  std::map<GroupKey, std::uint32_t> group_index_;
  std::array<CachedGroup, 256> cache_{};
  std::array<Flow, kFlowKinds> flows_{};
  PhaseClock phase_clock_;
  AllocationLog log_;
};

template <class ReservedPeakOf>
void Accounts::restart_timelines(std::uint64_t origin, std::uint64_t now,
                                 ReservedPeakOf&& reserved_peak_of) {
  if (state_ != WindowState::kNone) {
    window_.first = std::max(window_.first, now + 1);
    return find_next_stop();
  }
  grid_.start(origin);
  while (!grid_.reaches(now)) grid_.join_pairs();
  grid_.move_to(now);
  for (Account& account : accounts_) {
    std::optional<TimeBucket> before;
    if (account.peak.happened()) {
      account.peak_before_cut = account.peak;
      account.other_snapshots.push_back(&account.peak_before_cut);
      before = TimeBucket{
          0,    account.peak.bytes(), account.peak.time(), account.bytes, reserved_peak_of(account),
          false};
    }
    account.timeline.restart(grid_, now, before);
  }
  find_next_stop();
}

}  // namespace gpumemtrace::analyzer
