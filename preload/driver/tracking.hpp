// SPDX-License-Identifier: Apache-2.0
// State that the hooks keep besides the records: each thread's current context, the primary
// contexts and pools that exist, and whether a stream capture is open. Updated by the effects
// whether or not anything is recorded, so that a recording that starts late has this state, too.
//
// All functions: any thread, no lock, no allocation. Those that ask the driver say so.
#pragma once

#include <cstdint>

#include "trace/records.hpp"

namespace gpumemtrace::preload::tracking {

// --- Contexts. A ContextId is 1 + the index in a table that only grows; kNone = unknown.
//
// A [[nodiscard]] function that returns a ContextId adds a context that is not in the table yet. It
// returns the id of the added context, whose record the caller then writes with record_context()
// (preload/session/context_records.hpp), or kNone if it added none.

trace::ContextId context_id(std::uint64_t handle) noexcept;
// Called when a context was created; the new context is current on this thread.
[[nodiscard]] trace::ContextId context_created(std::uint64_t handle, int device) noexcept;
void context_destroyed(std::uint64_t handle) noexcept;
// context_seen(), context_set() and context_pushed() are for calls that do not say which device the
// context belongs to.
[[nodiscard]] trace::ContextId context_seen(std::uint64_t handle) noexcept;
[[nodiscard]] trace::ContextId context_set(std::uint64_t handle) noexcept;
[[nodiscard]] trace::ContextId context_pushed(std::uint64_t handle) noexcept;
void context_popped() noexcept;
[[nodiscard]] trace::ContextId primary_retained(std::uint64_t handle, int device) noexcept;
void primary_ended(int device) noexcept;
trace::ContextId primary_context_id(int device) noexcept;

// Asks the driver which context is current on this thread: for threads on which no wrapped call
// made a context current. thread_state.context has the context's id afterwards.
[[nodiscard]] trace::ContextId ask_current_context() noexcept;

inline constexpr std::uint32_t kMaxContexts = 1024;
struct ContextInfo {
  std::uint64_t handle = 0;
  int device = -1;
  bool primary = false;
  bool ended = false;
};
std::uint32_t context_count() noexcept;
// The result has handle 0 if there is no such context, or the thread that adds it has not finished.
ContextInfo context_info(trace::ContextId id) noexcept;

// --- Pools that the program uses, for the background thread's samples.

inline constexpr std::uint32_t kMaxPools = 256;
void pool_seen(std::uint64_t pool) noexcept;
// Notes that the program uses pools, after an allocation from a device's current pool, whose handle
// is not known.
void pools_in_use() noexcept;
// Waits until no sample is being taken, at most 100 ms.
void pool_ends(std::uint64_t pool) noexcept;
[[nodiscard]] bool any_pool_in_use() noexcept;
std::uint64_t pool_at(std::uint32_t index) noexcept;  // 0 = no entry

// --- The gate between samples and teardown: the background thread asks the driver about a context
// only between begin_sample() and end_sample(), and never while a context is being torn down.

[[nodiscard]] bool begin_sample() noexcept;  // false: a teardown is going on; ask later
void end_sample() noexcept;
void teardown_begins() noexcept;  // waits for a sample that is under way, at most 100 ms
void teardown_ended() noexcept;

// --- Stream captures.

void capture_began() noexcept;
void capture_ended() noexcept;
[[nodiscard]] bool captures_open() noexcept;

// --- Executable graphs, for which an older driver takes memory at the first launch.

void graph_instantiated() noexcept;
// True for as many launches as graphs were instantiated: each of these may be a graph's first.
[[nodiscard]] bool graph_launched() noexcept;

// --- Fork.

// Forgets the parent's state in a forked child, where the parent's handles mean nothing.
void reset_if_forked() noexcept;

}  // namespace gpumemtrace::preload::tracking
