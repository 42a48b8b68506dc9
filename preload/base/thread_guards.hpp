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

// A set of signals as a bit mask, in the form that system calls take.
template <class... Numbers>
constexpr std::uint64_t signal_set(Numbers... numbers) noexcept {
  return (std::uint64_t{0} | ... | (std::uint64_t{1} << (numbers - 1)));
}
// The signals that glibc sends between the threads of a process: 32 cancels a thread; 33 makes each
// thread change its user and groups, and the caller of setuid() and the like waits for all threads.
inline constexpr std::uint64_t kSignalsOfLibc = signal_set(32, 33);
// The signals that an instruction or a filter of system calls raises in the thread itself. If they
// are blocked, the kernel ends the process instead of calling the program's handler.
inline constexpr std::uint64_t kSignalsOfFaults =
    signal_set(SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS);

// Blocks the signals of the set on the calling thread while the object lives.
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

// Keeps the calling thread from being cancelled while the object lives. A thread that may be
// cancelled at any instruction is cancelled at the end of the object's life instead.
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
