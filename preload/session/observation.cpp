// SPDX-License-Identifier: Apache-2.0
#include "preload/session/observation.hpp"

#include <string.h>
#include <time.h>

#include <string_view>

#include "preload/base/clock.hpp"
#include "preload/base/file_thread.hpp"
#include "preload/base/message.hpp"
#include "preload/base/realtime_error.hpp"
#include "preload/driver/driver.hpp"
#include "preload/loader/loader_list.hpp"
#include "preload/loader/torch_libraries.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/ring/recorder.hpp"
#include "preload/session/annotations.hpp"
#include "preload/session/sampler.hpp"
#include "preload/session/session.hpp"
#include "preload/session/trace_packer.hpp"
#include "preload/stacks/module_list.hpp"
#include "preload/stacks/stacks.hpp"

namespace gpumemtrace::preload {
namespace {

void write_text(trace::TextKey key, std::string_view text, std::uint32_t part = 0) noexcept {
  trace::Text record;
  record.key = key;
  record.part = part;
  (void)write_record(record, text);
}

}  // namespace

void ProcessFacts::write_new(const CallGuard& guard, const LoaderList& modules) noexcept {
  write_driver_version();
  write_python_state();
  write_native_state();
  write_torch_version(modules);
  write_suppressions();
  write_coverage(guard);
}

void ProcessFacts::write_driver_version() noexcept {
  if (driver_version_written_) return;
  driver_version_written_ = true;
  const int version = driver_version();
  if (version <= 0) return;
  Line text;
  text << static_cast<std::uint64_t>(version);
  write_text(trace::TextKey::kDriverVersion, text.text());
}

// Writes the version of the process's Python, and the reason if Python stacks are not recorded.
void ProcessFacts::write_python_state() noexcept {
  const python::State state = python::state();
  if (state == python_state_written_) return;
  python_state_written_ = state;
  if (const std::uint32_t version = python::version_hex(); version != 0) {
    Line text;
    text << (version >> 24) << "." << (version >> 16 & 0xff) << "." << (version >> 8 & 0xff);
    write_text(trace::TextKey::kPythonVersion, text.text());
  }
  if (state == python::State::kOff) {
    write_text(trace::TextKey::kPythonStacksOff, python::reason());
  } else if (state == python::State::kOn && !python_stacks_off().empty()) {
    write_text(trace::TextKey::kPythonStacksOff, python_stacks_off());
  } else if (state == python::State::kOn && !python::knows_collector()) {
    write_text(trace::TextKey::kNote,
               "What Python's cycle collector frees is not told apart: this interpreter keeps its "
               "state elsewhere.");
  }
}

void ProcessFacts::write_native_state() noexcept {
  if (native_state_written_) return;
  native_state_written_ = true;
  if (!native_stacks_off().empty()) {
    write_text(trace::TextKey::kNativeStacksOff, native_stacks_off());
  }
}

void ProcessFacts::write_torch_version(const LoaderList& modules) noexcept {
  if (torch_version_written_ || torch_changes_seen_ == modules.changes()) return;
  torch_changes_seen_ = modules.changes();
  char version[64];
  const std::size_t size = read_torch_version(modules, version, sizeof version);
  if (size == 0) return;
  write_text(trace::TextKey::kTorchVersion, {version, size});
  torch_version_written_ = true;
}

void ProcessFacts::write_missing_names(bool loud) noexcept {
  if (missing_names_written_ || !torch_version_written_ || storages_were_named()) return;
  missing_names_written_ = true;
  constexpr std::string_view kReason =
      "no tensor got a name although --torch-names asked for them: Python's options -I, -E and -S "
      "keep it out, or the program had no module and no optimizer of PyTorch";
  write_text(trace::TextKey::kNote, kReason);
  if (loud) message(Line() << kReason << ".");
}

void ProcessFacts::write_suppressions() noexcept {
  for (; suppressions_written_ < suppression_count(); ++suppressions_written_) {
    write_text(trace::TextKey::kSuppression, suppression_at(suppressions_written_),
               static_cast<std::uint32_t>(suppressions_written_));
  }
}

void ProcessFacts::write_coverage(const CallGuard& guard) noexcept {
  for (; runtime_callers_written_ < driver::runtime_caller_count(); ++runtime_callers_written_) {
    (void)write_event<trace::Requester>(guard, [&](trace::Requester& record) {
      record.caller =
          reinterpret_cast<std::uintptr_t>(driver::runtime_caller_at(runtime_callers_written_));
    });
  }
  for (; unwrapped_written_ < driver::unwrapped_count(); ++unwrapped_written_) {
    const driver::Unwrapped& function = driver::unwrapped_at(unwrapped_written_);
    trace::Unwrapped record;
    record.address = reinterpret_cast<std::uintptr_t>(function.address);
    (void)write_record(record, {function.name, strlen(function.name)});
  }
}

namespace {

constexpr std::uint64_t kPeriodNs = 1'000'000'000;

// Writes the clocks. `asked` has the kernel's estimate of the error of the time of day, if the
// caller asked for it.
void write_clock(const CallGuard& guard, const trace::Clock& asked = {}) noexcept {
  (void)write_event<trace::Clock>(guard, [&](trace::Clock& clock) {
    const trace::RecordHeader header = clock.record;
    clock = asked;
    clock.record = header;
    const std::uint64_t before = ticks();
    clock.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
    clock.realtime_ns = clock_ns(CLOCK_REALTIME);
    clock.uncertainty_ticks = ticks() - before;
    clock.background_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + file_thread::processor_ns();
  });
}

}  // namespace

// The first observation is due right after the session's start: until it has written the devices,
// an analysis cannot tell whether two processes share a device.
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

void Observation::observe_all(const CallGuard& guard) noexcept {
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
  write_clock(guard);
  observe_all(guard);
  sample(guard);
}

// Takes no sample once the exit handlers run: one of them shuts the driver down.
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

// Only one rank of a node (local rank 0) prints the message about missing names, for all of them.
void Observation::observe_end(const CallGuard& guard) noexcept {
  trace::Clock clock;
  ask_realtime_error(clock);
  write_clock(guard, clock);
  observe_all(guard);
  record_last_samples(guard);
  const std::string_view local_rank = session_.job.local_rank;
  if (session_.config.torch_names) {
    facts_.write_missing_names(local_rank.empty() || local_rank == "0");
  }
}

void Observation::observe_last(const CallGuard& guard) noexcept { write_losses(guard); }

}  // namespace gpumemtrace::preload
