// SPDX-License-Identifier: Apache-2.0
#include "preload/base/file_thread.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

#include "preload/base/wait.hpp"

namespace gpumemtrace::preload::file_thread {
namespace {

// <linux/close_range.h> is younger than the oldest headers that we build with.
constexpr long kCloseRange = 436;  // close_range()'s number on all machines
constexpr unsigned int kUnshare = 1u << 1;

constexpr std::uint32_t kNone = 0;
constexpr std::uint32_t kStarts = 1;
constexpr std::uint32_t kRuns = 2;
constexpr std::uint32_t kEnds = 3;

constexpr int kStartTries = 10'000;
constexpr long kMillisecondNs = 1'000'000;
constexpr long kPollNs = 50'000;  // pause of waiting threads if futexes are forbidden

struct State {
  std::atomic<std::uint32_t> life = kNone;
  std::atomic<std::uint32_t> wakes = 0;  // incremented to end the file thread's sleep
  // One piece of work at a time: the client of run() writes `work` and `argument`, then increments
  // `asked`; the file thread does the work, then sets `done` to the same number.
  std::atomic<std::uint32_t> asked = 0;
  std::atomic<std::uint32_t> done = 0;
  Work work = nullptr;
  void* argument = nullptr;
  std::atomic<bool> requested = false;
  // The work of request(). Not atomic: it is written before the first request.
  Work served = nullptr;
  void* served_argument = nullptr;
  bool has_own_descriptors = false;  // written before `life` is kRuns
  pid_t thread_id = 0;               // written before `life` is kRuns
};
constinit State state;
constinit thread_local bool is_file_thread [[gnu::tls_model("initial-exec")]] = false;

// Gives the file thread an empty table of descriptors, without even standard error: a program that
// waits for the end of a pipe must not wait for this thread. The one system call copies none of the
// descriptors.
bool leave_descriptors() noexcept { return syscall(kCloseRange, 0, ~0u, kUnshare) == 0; }

void wake() noexcept {
  state.wakes.fetch_add(1);
  wake_all(state.wakes);
}

void run_pending_work() noexcept {
  const std::uint32_t asked = state.asked.load();
  if (asked != state.done.load()) {
    state.work(state.argument);  // mutant: work_done_early
    state.done.store(asked);
    wake_all(state.done);
  }
  serve_request();
}

void work_until_stopped() noexcept {
  while (state.life.load() == kRuns) {
    const std::uint32_t wakes = state.wakes.load();
    run_pending_work();  // mutant: asleep_though_woken
    if (state.life.load() == kRuns) {
      wait_for_change(state.wakes, wakes, kLongestWaitNs, kMillisecondNs);
    }
  }
}

}  // namespace

void prepare() noexcept {
  new (&state) State;
  state.life.store(kStarts);
}

void* main(void*) noexcept {
  prctl(PR_SET_NAME, "gpumemtrace-io", 0, 0, 0);
  is_file_thread = true;
  state.thread_id = static_cast<pid_t>(syscall(SYS_gettid));
  state.has_own_descriptors = leave_descriptors();
  std::uint32_t starts = kStarts;
  // The exchange fails if the thread in wait_until_ready() has stopped waiting.
  if (!state.life.compare_exchange_strong(starts, kRuns)) return nullptr;
  wake_all(state.life);
  work_until_stopped();
  return nullptr;
}

// Waits at most about ten seconds. A file thread that is not ready by then ends at once when it
// starts.
bool wait_until_ready() noexcept {
  for (int tries = 0; tries < kStartTries && state.life.load() == kStarts; ++tries) {
    wait_for_change(state.life, kStarts, kMillisecondNs, kPollNs);
  }
  std::uint32_t starts = kStarts;
  state.life.compare_exchange_strong(starts, kEnds);
  return state.life.load() == kRuns;
}

void stop() noexcept {
  state.life.store(kEnds);
  wake();
}

bool has_own_descriptors() noexcept {
  return state.life.load() == kRuns && state.has_own_descriptors;
}

std::uint64_t processor_ns() noexcept {
  if (state.life.load() != kRuns) return 0;
  // The id of the file thread's CPU clock, which any thread may read, as clock_getcpuclockid(3)
  // makes such ids.
  const auto clock = static_cast<clockid_t>(~static_cast<unsigned>(state.thread_id) << 3 | 6u);
  timespec time = {};
  clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time.tv_nsec);
}

void run(Work work, void* argument) noexcept {
  if (is_file_thread || state.life.load() != kRuns) {
    work(argument);
    return;
  }
  state.work = work;
  state.argument = argument;
  const std::uint32_t asked = state.asked.load() + 1;
  state.asked.store(asked);
  wake();
  for (std::uint32_t done = state.done.load(); done != asked; done = state.done.load()) {
    wait_for_change(state.done, done, kLongestWaitNs, kPollNs);
  }
}

void serve(Work work, void* argument) noexcept {
  state.served = work;
  state.served_argument = argument;
}

void serve_request() noexcept {
  if (state.requested.exchange(false)) state.served(state.served_argument);
}

void request() noexcept {
  if (state.life.load() != kRuns) return;
  state.requested.store(true);  // mutant: request_forgotten
  wake();
}

}  // namespace gpumemtrace::preload::file_thread
