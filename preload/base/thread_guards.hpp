// SPDX-License-Identifier: Apache-2.0
// Guards for the recorder's work on the program's threads: errno, signals and cancellation.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace gpumemtrace::preload {

class ErrnoKeeper {
 public:
  ErrnoKeeper() noexcept : saved_(errno) {}
  ~ErrnoKeeper() { errno = saved_; }
  ErrnoKeeper(const ErrnoKeeper&) = delete;
  ErrnoKeeper& operator=(const ErrnoKeeper&) = delete;

 private:
  int saved_;
};

// Sets of signals as the system calls have them.
template <class... Numbers>
constexpr std::uint64_t signal_set(Numbers... numbers) noexcept {
  return (std::uint64_t{0} | ... | (std::uint64_t{1} << (numbers - 1)));
}
// glibc sends these between the threads of a process: the first cancels a thread, by the second
// every thread changes its user and groups, and the caller of setuid() and the like waits for all.
inline constexpr std::uint64_t kSignalsOfLibc = signal_set(32, 33);
// An instruction or a filter of system calls raises these in the thread itself. If they are blocked
// the kernel ends the process instead of calling the program's handler.
inline constexpr std::uint64_t kSignalsOfFaults =
    signal_set(SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS);

// The signals of the set are not handled on the calling thread while this lives.
class SignalsBlocked {
 public:
  explicit SignalsBlocked(std::uint64_t set = ~kSignalsOfLibc) noexcept {
    is_set_ = syscall(SYS_rt_sigprocmask, SIG_BLOCK, &set, &before_, sizeof set) == 0;
  }
  ~SignalsBlocked() {
    if (is_set_) syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  std::uint64_t before_ = 0;
  bool is_set_ = false;
};

// The calling thread is not cancelled while this lives. A thread that may be cancelled at any
// instruction is cancelled at the end of this instead.
class CancellationOff {
 public:
  CancellationOff() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationOff() { pthread_setcancelstate(before_, nullptr); }
  CancellationOff(const CancellationOff&) = delete;
  CancellationOff& operator=(const CancellationOff&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace gpumemtrace::preload
