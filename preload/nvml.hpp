// The little of NVML that is needed: how much memory of a device each process uses. Background
// thread only.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload::nvml {

struct DeviceUse {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t process_bytes = 0;
  std::uint64_t other_bytes = 0;
};

// `pci_bus_id` as cuDeviceGetPCIBusId gives it. False where NVML is absent, refuses, or does not
// list this process (another process-id namespace).
bool read_device(const char* pci_bus_id, DeviceUse& use) noexcept;

void reset() noexcept;

}  // namespace gpumemtrace::preload::nvml
