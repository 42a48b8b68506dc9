// SPDX-License-Identifier: Apache-2.0
// The little of NVML that is needed: the memory of a device that is in use, and the processes that
// use it. A thread of ours asks NVML, so that no other thread waits longer than it wants to:
//
//   open_library()    NVML's thread opens the library, initialises NVML, ends if there is none
//   ask()             hands NVML's thread a question, waits for the answer until the deadline
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload::nvml {

struct Process {
  std::uint64_t bytes = 0;  // trace::kBytesNotTold: NVML does not say
  std::uint32_t id = 0;     // 0: stands for `processes` processes without an entry of their own
  std::uint32_t processes = 1;
};

// NVML's answer for one device; each part may be missing.
struct Answer {
  static constexpr std::size_t kMostProcesses = 32;

  bool has_memory = false;
  std::uint64_t total_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t free_bytes = 0;

  bool has_processes = false;
  // This process first, if it is listed; then the largest others, and one entry for the rest.
  std::uint32_t process_count = 0;
  Process processes[kMostProcesses + 1];
};

// The fastest link that the device and its slot agree on; zeros if NVML does not say.
struct Link {
  std::uint32_t generation = 0;
  std::uint32_t width = 0;
};

// Opens the library. A forked child opens it again: the parent's does not work in the child.
//
// The thread that starts the recording waits until the library is opened, so that it forks no child
// meanwhile: loading takes the loader's lock and libc's memory, and a child would inherit them
// held. A thread of our own opens it, because dlopen would change the program's dlerror(). If the
// program holds the loader's lock, in a constructor, waiting ends after a tenth of a second.
void open_library() noexcept;

// Asks about a device, on the background thread. `pci_bus_id` is as cuDeviceGetPCIBusId gives it.
// nullptr if there is no NVML, if the deadline (CLOCK_MONOTONIC) passes first, and while a question
// is open whose deadline has passed. The answer is valid until the next question.
[[nodiscard]] const Answer* ask(const char* pci_bus_id, std::uint64_t deadline_ns) noexcept;
[[nodiscard]] Link ask_link(const char* pci_bus_id, std::uint64_t deadline_ns) noexcept;

}  // namespace gpumemtrace::preload::nvml
