// SPDX-License-Identifier: Apache-2.0
// The little of NVML that is needed: how much memory of a device each process uses.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload::nvml {

struct DeviceUse {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t process_bytes = 0;
  std::uint64_t other_bytes = 0;
};

// Opens the library; what an earlier process opened means nothing in its forked child.
//
// The thread that starts the recording waits for it, so that it makes no child meanwhile: loading
// takes the loader's lock and libc's memory, and a child would inherit them held. A thread of our
// own does it, because dlopen would change what the program's dlerror() says. Where the program
// holds the loader's lock, in a constructor, waiting ends after a tenth of a second.
void open_library() noexcept;

// Background thread. `pci_bus_id` as cuDeviceGetPCIBusId gives it. False where NVML is absent,
// refuses, or does not list this process (another process-id namespace).
[[nodiscard]] bool read_device(const char* pci_bus_id, DeviceUse& use) noexcept;

struct Link {
  std::uint32_t generation = 0;
  std::uint32_t width = 0;
};
// Background thread. The most that the device and its slot agree on; zeros where NVML does not say.
[[nodiscard]] Link read_pcie_link(const char* pci_bus_id) noexcept;

}  // namespace gpumemtrace::preload::nvml
