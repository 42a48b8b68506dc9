// SPDX-License-Identifier: Apache-2.0
#include "preload/driver/tracking.hpp"

#include <unistd.h>

#include <atomic>

#include "preload/base/wait.hpp"
#include "preload/driver/driver.hpp"
#include "preload/ring/thread_state.hpp"

namespace gpumemtrace::preload::tracking {
namespace {

using trace::ContextId;

constexpr std::uint32_t kMaxDevices = 128;

struct ContextEntry {
  std::atomic<std::uint64_t> claimed = 0;  // the handle, stored by the thread that takes the entry
  std::atomic<std::uint64_t> handle =
      0;  // the handle again, stored last: then the entry is complete
  std::atomic<int> device = -1;
  std::atomic<bool> primary = false;
  std::atomic<bool> ended = false;
};

struct State {
  ContextEntry contexts[kMaxContexts];
  std::atomic<ContextId> primary_id[kMaxDevices] = {};
  std::atomic<std::uint64_t> pools[kMaxPools] = {};
  std::atomic<bool> pools_in_use = false;
  std::atomic<bool> sampling = false;
  std::atomic<int> teardowns = 0;
  std::atomic<int> captures = 0;
  // Upper bound of how many instantiated graphs have not been launched yet.
  std::atomic<int> graphs_not_launched = 0;
};
constinit State state;

// The id of a context; `is_new` is true if the call added the context to the table.
struct Found {
  ContextId id = ContextId::kNone;
  bool is_new = false;
  ContextId new_id() const noexcept { return is_new ? id : ContextId::kNone; }
};

bool is_entry_of(const ContextEntry& entry, std::uint64_t handle) noexcept {
  // mutant: context_ended_still_found
  return entry.claimed.load() == handle && !entry.ended.load();
}

ContextEntry& entry_of(ContextId id) noexcept { return state.contexts[number_of(id) - 1]; }

// The newest of the first `count` entries that has the handle.
ContextId find_among(std::uint32_t count, std::uint64_t handle) noexcept {
  while (count > 0 && !is_entry_of(state.contexts[count - 1], handle)) --count;
  return ContextId{count};
}

// Adds a context to the first free entry at or after `index`, by one exchange of the entry's
// handle. If two threads add the same context at once, both try the same free entry, and the thread
// that loses finds the winner's handle there. The result has no id if the table is full.
Found add_context_entry(std::uint32_t index, std::uint64_t handle, int device,
                        bool primary) noexcept {
  for (; index < kMaxContexts; ++index) {
    ContextEntry& entry = state.contexts[index];
    std::uint64_t free = 0;
    // mutant: context_claimed_without_exchange
    if (entry.claimed.compare_exchange_strong(free, handle)) {
      entry.device.store(device);
      entry.primary.store(primary);
      entry.handle.store(handle);  // mutant: context_published_early
      return {ContextId{index + 1}, true};
    }
    // mutant: context_of_another_not_seen
    if (is_entry_of(entry, handle)) return {ContextId{index + 1}, false};
  }
  return {};
}

// Finds the context's id. If the context is new, the driver is asked for its device.
Found find_or_ask(std::uint64_t handle) noexcept {
  if (handle == 0) return {};
  const std::uint32_t count = context_count();
  if (const ContextId id = find_among(count, handle); id != ContextId::kNone) return {id, false};
  return add_context_entry(count, handle, driver::device_of_context(handle), false);
}

// Makes the context current on this thread: replaces the top of the thread's context stack. A
// context deeper than kContextStackDepth counts in the depth, but is not stored.
void set_current_context(ContextId id) noexcept {
  ThreadState& thread = thread_state;
  thread.context = id;
  if (thread.context_depth == 0) thread.context_depth = 1;
  if (thread.context_depth <= kContextStackDepth) {
    thread.context_stack[thread.context_depth - 1] = id;
  }
}

}  // namespace

ContextId context_id(std::uint64_t handle) noexcept {
  return handle == 0 ? ContextId::kNone : find_among(context_count(), handle);
}

// Always adds a new context: the handle's former context may have ended unseen.
ContextId context_created(std::uint64_t handle, int device) noexcept {
  const Found found = add_context_entry(context_count(), handle, device, false);
  ++thread_state.context_depth;
  set_current_context(found.id);
  return found.new_id();
}

void context_destroyed(std::uint64_t handle) noexcept {
  const ContextId id = context_id(handle);
  if (id == ContextId::kNone) return;
  entry_of(id).ended.store(true);
  if (thread_state.context == id) context_popped();
}

ContextId context_seen(std::uint64_t handle) noexcept { return find_or_ask(handle).new_id(); }

ContextId context_set(std::uint64_t handle) noexcept {
  const ContextInfo current = context_info(thread_state.context);
  if (current.handle != 0 && current.handle == handle && !current.ended) return ContextId::kNone;
  const Found found = find_or_ask(handle);
  set_current_context(found.id);
  return found.new_id();
}

ContextId context_pushed(std::uint64_t handle) noexcept {
  ++thread_state.context_depth;
  const Found found = find_or_ask(handle);
  set_current_context(found.id);
  return found.new_id();
}

void context_popped() noexcept {
  ThreadState& thread = thread_state;
  if (thread.context_depth > 0) --thread.context_depth;
  const std::uint32_t depth = thread.context_depth;
  thread.context =
      depth > 0 && depth <= kContextStackDepth ? thread.context_stack[depth - 1] : ContextId::kNone;
}

ContextId primary_retained(std::uint64_t handle, int device) noexcept {
  const std::uint32_t count = context_count();
  Found found{find_among(count, handle), false};
  if (found.id == ContextId::kNone) found = add_context_entry(count, handle, device, true);
  if (found.id != ContextId::kNone) entry_of(found.id).primary.store(true);
  if (device >= 0 && device < static_cast<int>(kMaxDevices)) {
    state.primary_id[device].store(found.id);
  }
  return found.new_id();
}

void primary_ended(int device) noexcept {
  const ContextId id = primary_context_id(device);
  if (id == ContextId::kNone) return;
  entry_of(id).ended.store(true);
  state.primary_id[device].store(ContextId::kNone);
}

ContextId primary_context_id(int device) noexcept {
  if (device < 0 || device >= static_cast<int>(kMaxDevices)) return ContextId::kNone;
  return state.primary_id[device].load();
}

ContextId ask_current_context() noexcept {
  const std::uint64_t handle = driver::current_context();
  if (handle == 0) return ContextId::kNone;
  const Found found = find_or_ask(handle);
  set_current_context(found.id);
  return found.new_id();
}

std::uint32_t context_count() noexcept {
  std::uint32_t count = 0;
  while (count < kMaxContexts && state.contexts[count].claimed.load() != 0) ++count;
  return count;
}

ContextInfo context_info(ContextId id) noexcept {
  if (id == ContextId::kNone || number_of(id) > kMaxContexts) return {};
  const ContextEntry& entry = entry_of(id);
  return {entry.handle.load(), entry.device.load(), entry.primary.load(), entry.ended.load()};
}

void pool_seen(std::uint64_t pool) noexcept {
  pools_in_use();
  if (pool == 0) return;
  for (std::atomic<std::uint64_t>& entry : state.pools) {
    // Relaxed: an entry guards no other data.
    std::uint64_t present = entry.load(std::memory_order_relaxed);
    if (present == pool) return;
    if (present == 0 && entry.compare_exchange_strong(present, pool)) return;
    if (present == pool) return;
  }
}

void pools_in_use() noexcept {
  if (!state.pools_in_use.load(std::memory_order_relaxed)) state.pools_in_use.store(true);
}

void pool_ends(std::uint64_t pool) noexcept {
  teardown_begins();
  for (std::atomic<std::uint64_t>& entry : state.pools) {
    // In all entries: pool_seen() may have put the pool into one before its entry.
    std::uint64_t present = pool;
    entry.compare_exchange_strong(present, 0);
  }
  teardown_ended();
}

bool any_pool_in_use() noexcept { return state.pools_in_use.load(); }

std::uint64_t pool_at(std::uint32_t index) noexcept { return state.pools[index].load(); }

// False if a context is being torn down. A sample and a teardown each raise their own flag and then
// check the other's, with sequentially consistent operations, so at least one sees the other.
bool begin_sample() noexcept {
  state.sampling.store(true);
  if (state.teardowns.load() == 0) return true;
  state.sampling.store(false);
  return false;
}

void end_sample() noexcept { state.sampling.store(false); }

void teardown_begins() noexcept {
  state.teardowns.fetch_add(1);
  wait_until([] { return !state.sampling.load(); }, 1000, 100);
}

void teardown_ended() noexcept { state.teardowns.fetch_sub(1); }

void capture_began() noexcept { state.captures.fetch_add(1); }

void capture_ended() noexcept {
  int open = state.captures.load();
  while (open > 0 && !state.captures.compare_exchange_weak(open, open - 1)) {
  }
}

bool captures_open() noexcept {
  return state.captures.load(std::memory_order_relaxed) != 0;  // relaxed: guards no other data
}

void graph_instantiated() noexcept { state.graphs_not_launched.fetch_add(1); }

bool graph_launched() noexcept {
  // Relaxed: guards no other data. The counter can fall below 0 if several threads launch at once.
  return state.graphs_not_launched.load(std::memory_order_relaxed) > 0 &&
         state.graphs_not_launched.fetch_sub(1) > 0;
}

void reset_if_forked() noexcept {
  static constinit pid_t known_process = 0;
  const pid_t process = getpid();
  const pid_t before = known_process;
  known_process = process;
  if (before == 0 || before == process) return;
  for (ContextEntry& entry : state.contexts) {
    entry.claimed.store(0);
    entry.handle.store(0);
    entry.ended.store(false);
  }
  for (auto& id : state.primary_id) id.store(ContextId::kNone);
  for (auto& pool : state.pools) pool.store(0);
  state.pools_in_use.store(false);
  state.sampling.store(false);
  state.teardowns.store(0);
  state.captures.store(0);
  state.graphs_not_launched.store(0);
}

}  // namespace gpumemtrace::preload::tracking
