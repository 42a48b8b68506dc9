// SPDX-License-Identifier: Apache-2.0
// The background thread's records once a second and on request: clocks, the driver's numbers,
// loaded files, losses, and new facts about the process.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "preload/base/clock.hpp"
#include "preload/python/python_interpreter.hpp"

namespace gpumemtrace::preload {

class ActivityReader;
class CallGuard;
class LoaderList;
struct Session;

// The times of extra samples of the driver's numbers, besides the sample of each second. They begin
// soon after a call that makes the driver take memory by itself, and go on for a while, because the
// driver often takes the memory later than in that call.
//
// Samples are kClosestNs apart at least, so there are at most twenty a second. After the last such
// call the time between samples doubles. The extra samples end when it reaches a second, because
// the sample of each second then comes as soon:
//
//   change     sample at once, then after 50, 100, 200, 400, 800 ms
class SampleSchedule {
 public:
  static constexpr std::uint64_t kClosestNs = 50'000'000;
  static constexpr std::uint64_t kFarthestNs = 1'000'000'000;

  void change_seen(std::uint64_t now_ns) noexcept {
    const std::uint64_t soon_ns = std::max(now_ns, last_ns_ == 0 ? 0 : last_ns_ + kClosestNs);
    next_ns_ = next_ns_ == 0 ? soon_ns : std::min(next_ns_, soon_ns);
    distance_ns_ = kClosestNs;
  }
  [[nodiscard]] bool is_due(std::uint64_t now_ns) const noexcept {
    return next_ns_ != 0 && now_ns >= next_ns_;
  }
  void sampled(std::uint64_t now_ns) noexcept {
    last_ns_ = now_ns;
    follow_up(now_ns);
  }
  // Call this if a sample was due and there was nothing to sample.
  void passed_over(std::uint64_t now_ns) noexcept { follow_up(now_ns); }
  // Call this if no sample could be taken because a context was being torn down.
  void postponed(std::uint64_t now_ns) noexcept {
    constexpr std::uint64_t kPauseNs = 1'000'000;
    if (next_ns_ != 0) next_ns_ = now_ns + kPauseNs;
  }
  // The time until the next sample, `most_ns` at most.
  [[nodiscard]] std::uint64_t pause_ns(std::uint64_t now_ns, std::uint64_t most_ns) const noexcept {
    if (next_ns_ == 0) return most_ns;
    return next_ns_ <= now_ns ? 0 : std::min(next_ns_ - now_ns, most_ns);
  }

 private:
  void follow_up(std::uint64_t now_ns) noexcept {
    if (next_ns_ == 0) return;
    next_ns_ = distance_ns_ < kFarthestNs ? now_ns + distance_ns_ : 0;
    distance_ns_ *= 2;
  }

  std::uint64_t last_ns_ = 0;
  std::uint64_t next_ns_ = 0;  // 0 = no sample to come
  std::uint64_t distance_ns_ = 0;
};

// Writes facts about a process that become known while it runs as texts of the trace: versions, the
// reasons why stacks are not recorded, suppressions, and calls that the wrappers may miss. Only the
// background thread may use it, while that thread records.
class ProcessFacts {
 public:
  // Writes the facts that are new since the last time.
  void write_new(const CallGuard& guard, const LoaderList& modules) noexcept;
  // Called when the process ends, if the user asked for names of tensors. If PyTorch ran and no
  // name came, says so in the trace, and on stderr if `loud`.
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
  std::uint32_t torch_changes_seen_ = 0;  // modules.changes() at the last look for PyTorch
  std::size_t suppressions_written_ = 0;
  std::size_t runtime_callers_written_ = 0;
  std::size_t unwrapped_written_ = 0;
};

// Decides when the records of this file are due, and writes them. Only the background thread may
// use it, while that thread records.
class Observation {
 public:
  Observation(Session& session, ActivityReader& activities) noexcept
      : session_(session), activities_(activities) {}

  // The records that are due: all of them once a second and on request (kEverything), the driver's
  // numbers alone if the driver may have taken memory by itself (kSamples).
  enum class Due : std::uint8_t { kNothing, kSamples, kEverything };
  [[nodiscard]] Due due() noexcept;
  void observe(const CallGuard& guard) noexcept;
  void sample(const CallGuard& guard) noexcept;
  // The time until the driver's next sample is due, `most_ns` at most.
  [[nodiscard]] std::uint64_t pause_ns(std::uint64_t most_ns) const noexcept;
  // Call this when the process is about to end, or to become another program.
  void observe_end(const CallGuard& guard) noexcept;
  // Call this at the very end, when the driver may have been shut down already: writes losses only.
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
  // The values of the counters of lost data that were written last, and the time of that writing.
  std::uint64_t stacks_written_ = 0;
  std::uint64_t parts_written_ = 0;
  std::uint64_t losses_since_ticks_ = ticks();
};

}  // namespace gpumemtrace::preload
