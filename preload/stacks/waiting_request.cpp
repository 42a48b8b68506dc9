// SPDX-License-Identifier: Apache-2.0
#include "preload/stacks/waiting_request.hpp"

#include <atomic>
#include <cstdint>

#include "preload/base/clock.hpp"
#include "preload/ring/control.hpp"
#include "preload/ring/thread_state.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kQuietTicks = 500'000;  // 100 to 300 us on processors of our time

constinit std::atomic<bool> look_wanted = false;

}  // namespace

[[gnu::hot]] void request_waiting_look() noexcept {
  look_wanted.store(true, std::memory_order_relaxed);  // a hint, nothing to order
  const std::uint64_t now = ticks();
  const bool was_quiet = now - thread_state.last_without_python > kQuietTicks;
  thread_state.last_without_python = now;
  if (was_quiet) background_wake.wake();
}

bool waiting_look_is_wanted() noexcept {
  return look_wanted.load(std::memory_order_relaxed);  // a hint
}

void waiting_look_begins() noexcept {
  look_wanted.store(false, std::memory_order_relaxed);  // a hint
}

}  // namespace gpumemtrace::preload
