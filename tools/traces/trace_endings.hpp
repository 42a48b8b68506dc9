// SPDX-License-Identifier: Apache-2.0
// Notes about the end of a process that only the one who started it can add to its traces.
#pragma once

#include <vector>

#include "tools/launch/child_process.hpp"
#include "tools/traces/trace_files.hpp"

namespace gpumemtrace::tools {

// Records in the ring of the child's last trace which signal ended the child, or that it exited: a
// trace does not show an exit by the system call. A ring that cannot be written keeps its trace as
// it is.
void record_end(const std::vector<WrittenTrace>& traces, const ChildEnd& end);

// Removes the rings that hold nothing but records of the packed trace. The traces of processes that
// still run, were killed or lost records keep theirs.
void remove_spent_rings(std::vector<WrittenTrace>& traces);

}  // namespace gpumemtrace::tools
