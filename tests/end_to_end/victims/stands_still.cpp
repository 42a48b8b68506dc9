// SPDX-License-Identifier: Apache-2.0
// File creation blocks while the recorder makes its files: a seccomp filter holds every system call
// that makes a file until a line comes on standard input. Prints how many seconds the first calls
// and a thousand more took; after another line it makes more, and prints the number of allocations.
// Usage: stands_still
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr int kSkipped = 77;
constexpr unsigned kContinue = 1;  // SECCOMP_USER_NOTIF_FLAG_CONTINUE

int hold_calls_that_make_files() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_EXCL, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {sizeof program / sizeof program[0], program};
  require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no filter");
  return static_cast<int>(
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
}

void* let_them_go_on(void* listener) {
  for (;;) {
    seccomp_notif held = {};
    const auto file = static_cast<int>(reinterpret_cast<std::intptr_t>(listener));
    if (ioctl(file, SECCOMP_IOCTL_NOTIF_RECV, &held) != 0) continue;
    seccomp_notif_resp answer = {};
    answer.id = held.id;
    answer.flags = kContinue;
    ioctl(file, SECCOMP_IOCTL_NOTIF_SEND, &answer);
  }
}

double seconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

int allocate_times(int count) {
  for (int i = 0; i < count; ++i) free_memory(allocate(4096));
  return count;
}

void run() {
  call(function<abi::cuInit_t>("cuInit")(0), "cuInit");
  const int listener = hold_calls_that_make_files();
  if (listener < 0) std::_Exit(kSkipped);
  int made = 0;
  const double before = seconds();
  start_driver();
  const double first = seconds() - before;
  made += allocate_times(1000);
  const double rest = seconds() - before - first;
  std::printf("%.2f %.2f\n", first, rest);
  std::fflush(stdout);
  std::getchar();
  pthread_t thread;
  void* const argument = reinterpret_cast<void*>(static_cast<std::intptr_t>(listener));
  require(pthread_create(&thread, nullptr, let_them_go_on, argument) == 0, "no thread");
  std::getchar();
  made += allocate_times(1000);
  std::printf("%d\n", made);
}

}  // namespace
}  // namespace gpumemtrace::victims

int main() {
  gpumemtrace::victims::run();
  return 0;
}
