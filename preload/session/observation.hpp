// SPDX-License-Identifier: Apache-2.0
// The background thread's records once a second and on request: clocks, the driver's numbers,
// loaded files, losses, and new facts about the process.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/base/clock.hpp"
#include "preload/python/python_interpreter.hpp"
#include "preload/session/sample_schedule.hpp"

namespace gpumemtrace::preload {

class ActivityReader;
class CallGuard;
class LoaderList;
struct Session;

// Writes facts about a process that become known while it runs as texts of the trace: versions, the
// reasons why stacks are not recorded, suppressions, and calls that the wrappers may miss. Only the
// background thread may use it; it must be recording.
class ProcessFacts {
 public:
  // Writes the facts that are new since the last time.
  void write_new(const CallGuard& guard, const LoaderList& modules) noexcept;
  // The process ends. If names of tensors were asked for, PyTorch ran and none came, says so in the
  // trace, and on stderr as far as that is `loud`.
  void write_missing_names(bool loud) noexcept;

 private:
  void write_driver_version() noexcept;
  void write_python_state() noexcept;
  void write_native_state() noexcept;
  void write_torch_version(const LoaderList& modules) noexcept;
  void write_suppressions() noexcept;
  void write_coverage(const CallGuard& guard) noexcept;

  bool driver_version_written_ = false;
  python::State python_state_written_ = python::State::kNotLooked;
  bool native_state_written_ = false;
  bool torch_version_written_ = false;
  bool missing_names_written_ = false;
  std::uint32_t torch_changes_seen_ = 0;  // of the modules, when PyTorch was looked for last
  std::size_t suppressions_written_ = 0;
  std::size_t runtime_callers_written_ = 0;
  std::size_t unwrapped_written_ = 0;
};

// Only the background thread may use it; it must be recording.
class Observation {
 public:
  Observation(Session& session, ActivityReader& activities) noexcept
      : session_(session), activities_(activities) {}

  // The samples that are due: all of them once a second and on request, the driver's numbers alone
  // if it may have taken memory by itself.
  enum class Due : std::uint8_t { kNothing, kSamples, kEverything };
  [[nodiscard]] Due due() noexcept;
  void observe(const CallGuard& guard) noexcept;
  void sample(const CallGuard& guard) noexcept;
  // The time until something is due, `most_ns` at most.
  [[nodiscard]] std::uint64_t pause_ns(std::uint64_t most_ns) const noexcept;
  // The process is about to end, or to become another program.
  void observe_end(const CallGuard& guard) noexcept;
  // At the very end, when the driver may have been shut down already.
  void observe_last(const CallGuard& guard) noexcept;

 private:
  void observe_all(const CallGuard& guard) noexcept;
  void write_losses(const CallGuard& guard) noexcept;

  Session& session_;
  ActivityReader& activities_;
  std::uint64_t last_ns_ = 0;
  SampleSchedule schedule_;
  bool devices_written_ = false;
  ProcessFacts facts_;
  // The written values of counters for all threads together, and their times.
  std::uint64_t stacks_written_ = 0;
  std::uint64_t parts_written_ = 0;
  std::uint64_t losses_since_ticks_ = ticks();
};

}  // namespace gpumemtrace::preload
