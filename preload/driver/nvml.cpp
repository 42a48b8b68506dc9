// SPDX-License-Identifier: Apache-2.0
#include "preload/driver/nvml.hpp"

#include <unistd.h>

#include <atomic>

#include "preload/base/sleep.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/own_thread.hpp"
#include "preload/loader/real_dlsym.hpp"

namespace gpumemtrace::preload::nvml {
namespace {

// Declarations by the NVML API reference: nvmlMemory_v2_t, nvmlProcessInfo_t (third version).
struct Memory {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
constexpr unsigned int kMemoryVersion = sizeof(Memory) | (2u << 24);

struct ProcessInfo {
  unsigned int process_id;
  unsigned long long used_bytes;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
constexpr unsigned long long kNotAvailable = ~0ull;
constexpr int kSuccess = 0;

using Device = void*;
using Init = int();
using HandleByBusId = int(const char*, Device*);
using MemoryInfo = int(Device, Memory*);
using RunningProcesses = int(Device, unsigned int*, ProcessInfo*);
using LinkNumber = int(Device, unsigned int*);

struct Library {
  Init* init = nullptr;
  bool init_tried = false;
  bool works = false;
  HandleByBusId* handle_by_bus_id = nullptr;
  MemoryInfo* memory_info = nullptr;
  RunningProcesses* running_processes = nullptr;
  LinkNumber* link_generation = nullptr;
  LinkNumber* link_width = nullptr;
};
constinit Library library;
constinit std::atomic<bool> opened = false;

template <class Function>
Function* load(void* handle, const char* name) noexcept {
  return reinterpret_cast<Function*>(real_dlsym(handle, name));
}

// Here and not when it is opened: it takes milliseconds.
bool initialize() noexcept {
  if (!opened.load(std::memory_order_acquire)) return false;  // pairs with open()
  if (!library.init_tried) {
    library.init_tried = true;
    library.works = library.init != nullptr && library.handle_by_bus_id != nullptr &&
                    library.memory_info != nullptr && library.running_processes != nullptr &&
                    library.init() == kSuccess;
  }
  return library.works;
}

void* open(void*) noexcept {
  void* handle = libc_dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) {
    library.init = load<Init>(handle, "nvmlInit_v2");
    library.memory_info = load<MemoryInfo>(handle, "nvmlDeviceGetMemoryInfo_v2");
    library.running_processes =
        load<RunningProcesses>(handle, "nvmlDeviceGetComputeRunningProcesses_v3");
    library.link_generation = load<LinkNumber>(handle, "nvmlDeviceGetMaxPcieLinkGeneration");
    library.link_width = load<LinkNumber>(handle, "nvmlDeviceGetMaxPcieLinkWidth");
    library.handle_by_bus_id = load<HandleByBusId>(handle, "nvmlDeviceGetHandleByPciBusId_v2");
  }
  opened.store(true, std::memory_order_release);  // pairs with initialize()
  return nullptr;
}

}  // namespace

void open_library() noexcept {
  library = Library{};
  opened.store(false);
  if (!start_own_thread(open)) return;
  wait_until([] { return opened.load(); }, 2000, 50);  // a tenth of a second
}

bool read_device(const char* pci_bus_id, DeviceUse& use) noexcept {
  if (!initialize()) return false;
  Device device = nullptr;
  Memory memory = {};
  memory.version = kMemoryVersion;
  constexpr unsigned int kMaxProcesses = 256;
  static ProcessInfo processes[kMaxProcesses];
  unsigned int count = kMaxProcesses;
  if (library.handle_by_bus_id(pci_bus_id, &device) != kSuccess ||
      library.memory_info(device, &memory) != kSuccess ||
      library.running_processes(device, &count, processes) != kSuccess) {
    return false;
  }
  use = {memory.free, memory.total, 0, 0};
  bool found = false;
  for (unsigned int i = 0; i < count && i < kMaxProcesses; ++i) {
    if (processes[i].used_bytes == kNotAvailable) return false;
    if (processes[i].process_id == static_cast<unsigned int>(getpid())) {
      use.process_bytes += processes[i].used_bytes;
      found = true;
    } else {
      use.other_bytes += processes[i].used_bytes;
    }
  }
  return found;
}

Link read_pcie_link(const char* pci_bus_id) noexcept {
  Device device = nullptr;
  Link link;
  if (!initialize() || library.link_generation == nullptr || library.link_width == nullptr ||
      library.handle_by_bus_id(pci_bus_id, &device) != kSuccess ||
      library.link_generation(device, &link.generation) != kSuccess ||
      library.link_width(device, &link.width) != kSuccess) {
    return {};
  }
  return link;
}

}  // namespace gpumemtrace::preload::nvml
