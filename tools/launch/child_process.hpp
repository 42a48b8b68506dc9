// SPDX-License-Identifier: Apache-2.0
// Runs the user's program as a child and waits for it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tools/launch/recording_options.hpp"

namespace gpumemtrace::tools {

struct ChildEnd {
  int exit_code = 0;  // as a shell would give it: 128 + signal if one ended the child
  int signal = 0;     // 0 if the child exited by itself
  pid_t process_id = 0;
};

// Runs `command` with `environment` on top of the own one. The child stays in this process group,
// so Ctrl-C reaches it directly and this process only waits; signals that another process sends to
// this one alone are passed on. Throws Failure if the program cannot be started.
[[nodiscard]] ChildEnd run_child(const std::vector<std::string>& command,
                                 const std::vector<EnvironmentVariable>& environment);

}  // namespace gpumemtrace::tools
