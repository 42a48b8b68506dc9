// SPDX-License-Identifier: Apache-2.0
#include "preload/base/realtime_error.hpp"

#include <string.h>
#include <sys/syscall.h>
#include <sys/timex.h>
#include <unistd.h>

#include "preload/base/file_thread.hpp"
#include "preload/base/files.hpp"

namespace gpumemtrace::preload {
namespace {

using trace::RealtimeState;

// Returns kSynchronized if the kernel may be asked, else why not. It is not asked under a filter of
// system calls (seccomp), which can end a process for a call that few programs make, nor without
// /proc, which would tell if there is a filter.
RealtimeState state_before_asking() noexcept {
  char status[4096];
  const std::size_t size = read_small_file("/proc/thread-self/status", status, sizeof status - 1);
  if (size == 0) return RealtimeState::kNotAsked;
  status[size] = '\0';
  const bool is_filtered =
      strstr(status, "\nSeccomp:\t") != nullptr && strstr(status, "\nSeccomp:\t0") == nullptr;
  return is_filtered ? RealtimeState::kFiltered : RealtimeState::kSynchronized;
}

}  // namespace

// Filters of system calls differ by thread, so the thread that looks for a filter also asks the
// kernel: the file thread.
void ask_realtime_error(trace::Clock& clock) noexcept {
  file_thread::run([&]() noexcept {
    clock.realtime_state = state_before_asking();
    if (clock.realtime_state != RealtimeState::kSynchronized) return;
    timex values = {};  // modes 0: sets nothing
    const long answer = syscall(SYS_adjtimex, &values);
    if (answer < 0) {
      clock.realtime_state = RealtimeState::kRefused;
    } else if (answer == TIME_ERROR || (values.status & STA_UNSYNC) != 0) {
      clock.realtime_state = RealtimeState::kUnsynchronized;
    }
    constexpr std::uint64_t kNsPerUs = 1000;  // both fields below are always in microseconds
    clock.realtime_error_ns = static_cast<std::uint64_t>(values.esterror) * kNsPerUs;
    clock.realtime_max_error_ns = static_cast<std::uint64_t>(values.maxerror) * kNsPerUs;
  });
}

}  // namespace gpumemtrace::preload
