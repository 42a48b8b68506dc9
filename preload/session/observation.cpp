// SPDX-License-Identifier: Apache-2.0
#include "preload/session/observation.hpp"

#include <time.h>

#include <string_view>

#include "preload/base/clock.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/activity_reader.hpp"
#include "preload/session/sampler.hpp"
#include "preload/session/session_state.hpp"
#include "preload/stacks/module_list.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {
namespace {

constexpr std::uint64_t kPeriodNs = 1'000'000'000;

void write_clock(const CallGuard& guard) noexcept {
  (void)write_event<trace::Clock>(guard, [](trace::Clock& clock) {
    const std::uint64_t before = ticks();
    clock.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    clock.realtime_ns = clock_ns(CLOCK_REALTIME);
    clock.uncertainty_ticks = ticks() - before;
    clock.background_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + file_thread::processor_ns();
  });
}

}  // namespace

// The first time follows the start at once: until it has written the devices, nobody can say that
// two processes share one.
Observation::Due Observation::due() noexcept {
  const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  if (session_.driver_memory_changed.exchange(false)) schedule_.change_seen(now_ns);
  if (now_ns - last_ns_ >= kPeriodNs || session_.sample_wanted.exchange(false)) {
    last_ns_ = now_ns;
    return Due::kEverything;
  }
  return schedule_.is_due(now_ns) ? Due::kSamples : Due::kNothing;
}

std::uint64_t Observation::pause_ns(std::uint64_t most_ns) const noexcept {
  return schedule_.pause_ns(clock_ns(CLOCK_MONOTONIC), most_ns);
}

void Observation::look_around(const CallGuard& guard) noexcept {
  write_clock(guard);
  activities_.flush(guard);
  if (!devices_written_) {
    record_devices(guard);
    devices_written_ = true;
  }
  record_modules(guard, session_.modules);
  python::refresh(session_.modules);
  facts_.write_new(guard, session_.modules);
  write_losses(guard);
}

void Observation::observe(const CallGuard& guard) noexcept {
  look_around(guard);
  sample(guard);
}

// Not once the exit handlers run: the driver's own is one of them.
void Observation::sample(const CallGuard& guard) noexcept {
  const bool is_over = session_.ring.header().exit_seen.load() != 0;
  const Sampled sampled = is_over ? Sampled::kNothingToAsk : record_samples(guard);
  const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
  switch (sampled) {
    case Sampled::kDone:
      return schedule_.sampled(now_ns);
    case Sampled::kNothingToAsk:
      return schedule_.passed_over(now_ns);
    case Sampled::kLater:
      return schedule_.postponed(now_ns);
  }
}

void Observation::write_losses(const CallGuard& guard) noexcept {
  const std::uint64_t stacks = stacks_without_room();
  // Relaxed: a counter, nothing is ordered by it.
  const std::uint64_t parts =
      session_.ring.header().calls_taken_for_parts.load(std::memory_order_relaxed);
  if (stacks == stacks_written_ && parts == parts_written_) return;
  (void)write_event<trace::Gap>(guard, [&](trace::Gap& gap) {
    gap.since = losses_since_ticks_;
    gap.stacks = stacks - stacks_written_;
    gap.parts = parts - parts_written_;
  });
  stacks_written_ = stacks;
  parts_written_ = parts;
  losses_since_ticks_ = ticks();
}

// One rank of a node speaks for all.
void Observation::observe_end(const CallGuard& guard) noexcept {
  look_around(guard);
  record_last_samples(guard);
  const std::string_view local_rank = session_.job.local_rank;
  if (session_.config.torch_names) {
    facts_.write_missing_names(local_rank.empty() || local_rank == "0");
  }
}

void Observation::observe_last(const CallGuard& guard) noexcept { write_losses(guard); }

}  // namespace gpumemtrace::preload
