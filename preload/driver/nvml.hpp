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
  std::uint32_t id = 0;     // 0: this entry sums several processes, as many as `processes` says
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

// The fastest PCIe link that the device and its slot both support; zeros if NVML does not say.
struct Link {
  std::uint32_t generation = 0;
  std::uint32_t width = 0;
};

// Opens the NVML library. A forked child calls this again: the parent's NVML does not work in it.
//
// A thread of our own opens the library, because dlopen would change the program's dlerror(). The
// caller, which starts the recording, waits for that, so that it does not fork meanwhile: loading
// holds the locks of the loader and of malloc, and a child would inherit them locked. Waiting ends
// after a tenth of a second, because the caller may hold the loader's lock, in a constructor.
void open_library() noexcept;

// Asks about a device, on the background thread. `pci_bus_id` is as cuDeviceGetPCIBusId gives it.
// ask() returns nullptr if there is no NVML, if the deadline (CLOCK_MONOTONIC) passes first, and
// while NVML has not yet answered an earlier question. The answer is valid until the next question.
[[nodiscard]] const Answer* ask(const char* pci_bus_id, std::uint64_t deadline_ns) noexcept;
[[nodiscard]] Link ask_link(const char* pci_bus_id, std::uint64_t deadline_ns) noexcept;

}  // namespace gpumemtrace::preload::nvml
