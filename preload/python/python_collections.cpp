// SPDX-License-Identifier: Apache-2.0
#include "preload/python/python_collections.hpp"

#include "preload/base/checked_memory.hpp"
#include "preload/base/sections.hpp"
#include "preload/python/python_interpreter.hpp"

namespace gpumemtrace::preload::python {
namespace {

constexpr unsigned kFirstWithStaticInterpreter = 11;

constexpr std::uint32_t kNever = 0;
constexpr std::uint32_t kPerhaps = 1;

}  // namespace

[[GPUMEMTRACE_HOT_DATA]] constinit std::atomic<const std::uint32_t*> some_thread_collects = &kNever;

bool knows_collector() noexcept { return this_interpreter().collector.collecting != 0; }

void watch_collector() noexcept {
  const Interpreter& python = this_interpreter();
  const std::uint32_t* flag = &kNever;
  Interpreters interpreters;
  if (state() == State::kOn && knows_collector() &&
      read_through_kernel(python.interpreters, interpreters)) {
    flag = &kPerhaps;
    // No interpreter, once it has ended. Before 3.11 its memory goes away then.
    if (interpreters.main != nullptr && interpreters.main == interpreters.newest &&
        python.layout->minor >= kFirstWithStaticInterpreter) {
      flag = reinterpret_cast<const std::uint32_t*>(static_cast<const char*>(interpreters.main) +
                                                    python.collector.collecting);
    }
  }
  // Relaxed: the memory behind the pointer was complete long before.
  some_thread_collects.store(flag, std::memory_order_relaxed);
}

bool collects_here() noexcept {
  const Interpreter& python = this_interpreter();
  const void* const thread_state = python.this_thread_state();
  if (thread_state == nullptr) return false;
  const auto* const interpreter = load<const void*>(thread_state, kInterpreterOffset);
  if (load<std::uint32_t>(interpreter, python.collector.collecting) == 0) [[likely]]
    return false;
  if (is_finalizing(python)) return false;
  // Some thread collects. It is the one that last had the lock, even while it frees without the
  // lock.
  const bool own_lock = python.layout->minor >= kFirstWithOwnLock;
  const void* const lock = own_lock
                               ? load<const void*>(interpreter, python.collector.lock)
                               : static_cast<const char*>(python.runtime) + python.collector.lock;
  return load<const void*>(lock, kLastHolderOffset) == thread_state;
}

}  // namespace gpumemtrace::preload::python
