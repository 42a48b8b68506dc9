#include "preload/own_thread.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "preload/libc_compat.hpp"

namespace gpumemtrace::preload {

bool start_own_thread(void* (*main)(void*), pthread_t& thread) noexcept {
  if (gpumemtrace_libc_pthread_create == nullptr) return false;
  // The thread inherits a mask that blocks everything.
  std::uint64_t all = ~std::uint64_t{0};
  std::uint64_t before = 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
  const bool started = gpumemtrace_libc_pthread_create(&thread, nullptr, main, nullptr) == 0;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof before);
  return started;
}

}  // namespace gpumemtrace::preload
