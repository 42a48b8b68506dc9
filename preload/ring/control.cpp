// SPDX-License-Identifier: Apache-2.0
#include "preload/ring/control.hpp"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace gpumemtrace::preload {
namespace {

// Before the library's constructor has run nothing is recorded.
bool attach_nothing(bool) noexcept { return false; }

constinit AttachThread* installed_attach = attach_nothing;

}  // namespace

constinit Control control;
constinit BackgroundWake background_wake;

void install_attach_thread(AttachThread* attach) noexcept { installed_attach = attach; }
bool attach_thread(bool may_start) noexcept { return installed_attach(may_start); }

void BackgroundWake::wake() noexcept {
  count_.fetch_add(1);
  syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

void BackgroundWake::pause(std::uint32_t count, long ns) noexcept {
  const timespec time{0, ns};
  const long waited = syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, count, &time, nullptr, 0);
  // A sandbox that forbids to wait must not make this thread spin.
  if (waited != 0 && (errno == EPERM || errno == ENOSYS)) nanosleep(&time, nullptr);
}

}  // namespace gpumemtrace::preload
