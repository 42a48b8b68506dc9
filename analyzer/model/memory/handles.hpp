// SPDX-License-Identifier: Apache-2.0
// Handles that a program opened or created and must close or destroy.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/base/words.hpp"
#include "analyzer/model/memory/process_memory.hpp"

namespace gpumemtrace::analyzer {

// A handle that is still open. The memory behind it may be gone, such as when a context ended it,
// and memory may outlive its handle, such as when it is still mapped.
struct OpenHandle {
  HandleKind kind = HandleKind::kVmm;
  CallSite site;  // of the call that opened it
  std::int32_t device = kUnknownDevice;
  bool is_segment = false;  // its memory holds the framework's blocks
  bool knows_bytes = false;
  std::uint64_t bytes = 0;
  std::uint64_t time = 0;
};

// The handles of one kind that one call site opened, and their ends.
struct OpenedHandles {
  HandleKind kind = HandleKind::kVmm;
  CallSite site;
  std::int32_t device = kUnknownDevice;
  bool is_segment = false;
  std::uint64_t count = 0;
  std::uint64_t last_time = 0;  // of its last one
  Releases closed;
};

// Those that are still open.
[[nodiscard]] std::vector<OpenHandle> open_handles(const ProcessMemory& memory);
// All opened handles, also those that are closed again; graphs are not counted.
[[nodiscard]] std::vector<OpenedHandles> opened_handles(const ProcessMemory& memory);

}  // namespace gpumemtrace::analyzer
