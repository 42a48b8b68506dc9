// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace gpumemtrace::preload {

// No signal is handled on the calling thread while this lives.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    const std::uint64_t all = ~std::uint64_t{0};
    is_set_ = syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof all) == 0;
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

}  // namespace gpumemtrace::preload
