// SPDX-License-Identifier: Apache-2.0
// Runs the user's program as a child and waits for it.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tools/launch/recording_options.hpp"

namespace gpumemtrace::tools {

struct ChildEnd {
  int exit_code = 0;  // as in a shell: 128 + signal if a signal ended the child
  int signal = 0;     // the signal that ended the child; 0 if it exited by itself
  pid_t process_id = 0;
};

// Runs `command` with `environment` added to this process's own. The child stays in this process
// group: Ctrl-C reaches it directly, and this process only waits. Signals that another process
// sends only to this one are passed on. Throws Failure if the program cannot be started.
[[nodiscard]] ChildEnd run_child(const std::vector<std::string>& command,
                                 const std::vector<EnvironmentVariable>& environment);

}  // namespace gpumemtrace::tools
