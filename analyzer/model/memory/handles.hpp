// SPDX-License-Identifier: Apache-2.0
// Handles of memory, pools and graphs that a program opened or created and must close or destroy.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/base/words.hpp"
#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

// A handle that is still open. The memory behind the handle may be gone, for example if its context
// was destroyed, and memory may outlive its handle, for example while it is still mapped.
struct OpenHandle {
  HandleKind kind = HandleKind::kVmm;
  CallSite site;  // call site that opened the handle
  std::int32_t device = kUnknownDevice;
  bool is_segment = false;  // the memory holds the framework's blocks
  bool knows_bytes = false;
  std::uint64_t bytes = 0;
  std::uint64_t time = 0;
};

// The handles of one kind that one call site opened, and the calls that closed them.
struct OpenedHandles {
  HandleKind kind = HandleKind::kVmm;
  CallSite site;
  std::int32_t device = kUnknownDevice;
  bool is_segment = false;
  std::uint64_t count = 0;
  std::uint64_t last_time = 0;  // time of the last opened handle
  Releases closed;
};

// Returns the handles that are still open.
[[nodiscard]] std::vector<OpenHandle> open_handles(const ProcessMemory& memory);
// Returns the handles that each call site opened, including those closed since. Executable graphs
// are left out.
[[nodiscard]] std::vector<OpenedHandles> opened_handles(const ProcessMemory& memory);

}  // namespace gpumemtrace::analyzer
