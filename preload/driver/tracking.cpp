// SPDX-License-Identifier: Apache-2.0
#include "preload/driver/tracking.hpp"

#include <time.h>
#include <unistd.h>

#include <atomic>

#include "preload/driver/driver.hpp"
#include "preload/ring/thread_state.hpp"

namespace gpumemtrace::preload::tracking {
namespace {

constexpr std::uint32_t kMaxContexts = 1024;
constexpr std::uint32_t kMaxDevices = 128;

struct ContextEntry {
  std::atomic<std::uint64_t> handle = 0;  // stored last: an entry with a handle is complete
  std::atomic<int> device = -1;
  std::atomic<bool> primary = false;
  std::atomic<bool> ended = false;
};

struct State {
  ContextEntry contexts[kMaxContexts];
  std::atomic<std::uint32_t> context_count = 0;
  std::atomic<std::uint32_t> primary_id[kMaxDevices] = {};
  std::atomic<std::uint64_t> pools[kMaxPools] = {};
  std::atomic<bool> pools_in_use = false;
  std::atomic<std::uint64_t> sampled_pool = 0;
  std::atomic<bool> sampling = false;
  std::atomic<int> teardowns = 0;
  std::atomic<int> captures = 0;
};
constinit State state;

void sleep_100_microseconds() noexcept {
  const timespec pause{0, 100'000};
  nanosleep(&pause, nullptr);
}

std::uint32_t add_context(std::uint64_t handle, int device, bool primary) noexcept {
  const std::uint32_t index = state.context_count.fetch_add(1);
  if (index >= kMaxContexts) {
    state.context_count.store(kMaxContexts);
    return 0;
  }
  ContextEntry& entry = state.contexts[index];
  entry.device.store(device);
  entry.primary.store(primary);
  entry.handle.store(handle);
  return index + 1;
}

// A context that is not new, and its id; or one that is.
struct Found {
  std::uint32_t id = 0;
  bool is_new = false;
  std::uint32_t new_id() const noexcept { return is_new ? id : 0; }
};

Found find_or_add(std::uint64_t handle) noexcept {
  const std::uint32_t id = context_id(handle);
  if (id != 0 || handle == 0) return {id, false};
  return {add_context(handle, driver::device_of_context(handle), false), true};
}

void set_top(std::uint32_t id) noexcept {
  ThreadState& thread = thread_state;
  thread.context = id;
  if (thread.context_depth == 0) thread.context_depth = 1;
  if (thread.context_depth <= kContextStackDepth) {
    thread.context_stack[thread.context_depth - 1] = id;
  }
}

}  // namespace

std::uint32_t context_id(std::uint64_t handle) noexcept {
  if (handle == 0) return 0;
  std::uint32_t count = context_count();
  while (count-- > 0) {
    const ContextEntry& entry = state.contexts[count];
    if (entry.handle.load() == handle && !entry.ended.load()) return count + 1;
  }
  return 0;
}

std::uint32_t context_created(std::uint64_t handle, int device) noexcept {
  const std::uint32_t id = add_context(handle, device, false);
  ++thread_state.context_depth;
  set_top(id);
  return id;
}

void context_destroyed(std::uint64_t handle) noexcept {
  const std::uint32_t id = context_id(handle);
  if (id == 0) return;
  state.contexts[id - 1].ended.store(true);
  if (thread_state.context == id) context_popped();
}

std::uint32_t context_seen(std::uint64_t handle) noexcept { return find_or_add(handle).new_id(); }

std::uint32_t context_set(std::uint64_t handle) noexcept {
  const std::uint32_t current = thread_state.context;
  if (current != 0 && context_info(current).handle == handle && !context_info(current).ended) {
    return 0;
  }
  const Found found = find_or_add(handle);
  set_top(found.id);
  return found.new_id();
}

std::uint32_t context_pushed(std::uint64_t handle) noexcept {
  ++thread_state.context_depth;
  const Found found = find_or_add(handle);
  set_top(found.id);
  return found.new_id();
}

void context_popped() noexcept {
  ThreadState& thread = thread_state;
  if (thread.context_depth > 0) --thread.context_depth;
  const std::uint32_t depth = thread.context_depth;
  thread.context = depth > 0 && depth <= kContextStackDepth ? thread.context_stack[depth - 1] : 0;
}

std::uint32_t primary_retained(std::uint64_t handle, int device) noexcept {
  Found found{context_id(handle), false};
  if (found.id == 0) {
    found = {add_context(handle, device, true), true};
  } else {
    state.contexts[found.id - 1].primary.store(true);
  }
  if (device >= 0 && device < static_cast<int>(kMaxDevices)) {
    state.primary_id[device].store(found.id);
  }
  return found.new_id();
}

void primary_ended(int device) noexcept {
  const std::uint32_t id = primary_context_id(device);
  if (id != 0) state.contexts[id - 1].ended.store(true);
  if (device >= 0 && device < static_cast<int>(kMaxDevices)) state.primary_id[device].store(0);
}

std::uint32_t primary_context_id(int device) noexcept {
  if (device < 0 || device >= static_cast<int>(kMaxDevices)) return 0;
  return state.primary_id[device].load();
}

std::uint32_t ask_current_context() noexcept {
  const std::uint64_t handle = driver::current_context();
  if (handle == 0) return 0;
  const Found found = find_or_add(handle);
  set_top(found.id);
  return found.new_id();
}

std::uint32_t context_count() noexcept {
  const std::uint32_t count = state.context_count.load();
  return count < kMaxContexts ? count : kMaxContexts;
}

ContextInfo context_info(std::uint32_t id) noexcept {
  if (id == 0 || id > context_count()) return {};
  const ContextEntry& entry = state.contexts[id - 1];
  return {entry.handle.load(), entry.device.load(), entry.primary.load(), entry.ended.load()};
}

void pool_seen(std::uint64_t pool) noexcept {
  pools_in_use();
  if (pool == 0) return;
  for (std::atomic<std::uint64_t>& entry : state.pools) {
    std::uint64_t present = entry.load(std::memory_order_relaxed);  // entries guard nothing else
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
    std::uint64_t present = pool;
    if (entry.compare_exchange_strong(present, 0)) break;
  }
  teardown_ended();
}

bool any_pool_in_use() noexcept { return state.pools_in_use.load(); }

std::uint64_t pool_at(std::uint32_t index) noexcept { return state.pools[index].load(); }

// Sampling and teardown each raise their own flag and then look at the other's (both in the one
// total order of sequentially consistent operations), so at least one of them sees the other.
bool begin_sample() noexcept {
  state.sampling.store(true);
  if (state.teardowns.load() == 0) return true;
  state.sampling.store(false);
  return false;
}

void end_sample() noexcept { state.sampling.store(false); }

void teardown_begins() noexcept {
  state.teardowns.fetch_add(1);
  for (int tries = 0; state.sampling.load() && tries < 1000; ++tries) sleep_100_microseconds();
}

void teardown_ended() noexcept { state.teardowns.fetch_sub(1); }

void capture_began() noexcept { state.captures.fetch_add(1); }

void capture_ended() noexcept {
  int open = state.captures.load();
  while (open > 0 && !state.captures.compare_exchange_weak(open, open - 1)) {
  }
}

bool captures_open() noexcept {
  return state.captures.load(std::memory_order_relaxed) != 0;  // orders nothing
}

void reset_if_forked() noexcept {
  static constinit pid_t known_process = 0;
  const pid_t process = getpid();
  const pid_t before = known_process;
  known_process = process;
  if (before == 0 || before == process) return;
  for (ContextEntry& entry : state.contexts) {
    entry.handle.store(0);
    entry.ended.store(false);
  }
  state.context_count.store(0);
  for (auto& id : state.primary_id) id.store(0);
  for (auto& pool : state.pools) pool.store(0);
  state.pools_in_use.store(false);
  state.sampling.store(false);
  state.teardowns.store(0);
  state.captures.store(0);
}

}  // namespace gpumemtrace::preload::tracking
