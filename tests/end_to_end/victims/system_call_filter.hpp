// SPDX-License-Identifier: Apache-2.0
// Sets seccomp filters for system calls, as sandboxes and container engines do.
#pragma once

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {

inline void filter_system_calls(sock_filter* program, unsigned short length) {
  const sock_fprog filter = {length, program};
  require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0,
          "there is no filter");
}

// From now on the system call `number` fails with `error`, on this thread and those it starts.
inline void forbid_system_call(unsigned int number, unsigned int error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  filter_system_calls(program, sizeof program / sizeof program[0]);
}

// From now on no thread can get its own table of file descriptors.
inline void forbid_own_descriptors() {
  constexpr unsigned int kUnshare = 2;  // CLOSE_RANGE_UNSHARE
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kUnshare, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  filter_system_calls(program, sizeof program / sizeof program[0]);
}

}  // namespace gpumemtrace::victims
