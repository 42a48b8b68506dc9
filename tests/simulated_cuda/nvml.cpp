// SPDX-License-Identifier: Apache-2.0
// The simulated libnvidia-ml.so.1: NVML's view of the simulated driver's cards. Its process needs
// no CUDA if GPUMEMTRACE_SIM_CARD names the cards. The declarations follow the NVML API reference.
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/simulated_cuda/card.hpp"
#include "tests/simulated_cuda/settings.hpp"

namespace {

using gpumemtrace::cuda_abi::simulated::Card;
using gpumemtrace::cuda_abi::simulated::NvmlMode;
using gpumemtrace::cuda_abi::simulated::Settings;

constexpr int kSuccess = 0;
constexpr int kInvalidArgument = 2;
constexpr int kNotSupported = 3;
constexpr int kNotFound = 6;
constexpr int kInsufficientSize = 7;
constexpr int kDriverNotLoaded = 9;

struct Memory {
  unsigned int version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};

struct ProcessInfo {
  unsigned int process_id;
  unsigned long long used_bytes;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

const Settings& settings() {
  static const Settings* const only =
      new Settings(gpumemtrace::cuda_abi::simulated::read_settings());
  return *only;
}

// The card of the simulated driver if the driver is loaded in this process: without a file that
// holds the card, only the driver knows how much its process uses.
const Card& card() {
  static const Card* const only = [] {
    using Find = const Card*();
    if (void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
      if (auto* const find = reinterpret_cast<Find*>(dlsym(driver, "cuSimulatedCard"))) {
        return find();
      }
    }
    return static_cast<const Card*>(
        gpumemtrace::cuda_abi::simulated::open_card(settings().card_path.c_str()));
  }();
  return *only;
}

bool is_alive(std::int32_t process) { return kill(process, 0) == 0 || errno != ESRCH; }

int ordinal_of(const void* device) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(device)) - 1;
}

std::uint64_t used_bytes(int ordinal) {
  std::uint64_t bytes = settings().other_bytes;
  for (const Card::Process& process : card().processes) {
    const std::int32_t id = process.id.load();
    if (id != 0 && is_alive(id)) bytes += process.devices[ordinal].bytes.load();
  }
  return bytes;
}

ProcessInfo info_of(std::int32_t process, std::uint64_t bytes) {
  // In kOtherNamespace, process ids are not this namespace's, as in a container in which NVML gives
  // the host's.
  constexpr int kOfHost = 1'000'000;
  const bool is_of_host = settings().nvml == NvmlMode::kOtherNamespace;
  const bool is_told = settings().nvml != NvmlMode::kNoProcessBytes;
  return {static_cast<unsigned int>(is_of_host ? process + kOfHost : process),
          is_told ? bytes : ~0ull, ~0u, ~0u};
}

}  // namespace

#define GPUMEMTRACE_NVML extern "C" __attribute__((visibility("default"))) int

GPUMEMTRACE_NVML nvmlInit_v2() {
  return settings().nvml == NvmlMode::kAbsent ? kDriverNotLoaded : kSuccess;
}

// PCI bus id "0000:01:00.0" is the first device.
GPUMEMTRACE_NVML nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  unsigned int bus = 0;
  if (bus_id == nullptr || std::sscanf(bus_id, "%*x:%x:", &bus) != 1) return kInvalidArgument;
  const int most = settings().device_count;
  if (bus < 1 || static_cast<int>(bus) > most) return kNotFound;
  *device = reinterpret_cast<void*>(static_cast<std::uintptr_t>(bus));
  return kSuccess;
}

GPUMEMTRACE_NVML nvmlDeviceGetMemoryInfo_v2(void* device, Memory* memory) {
  if (memory->version != (sizeof(Memory) | (2u << 24))) return kInvalidArgument;
  if (settings().nvml == NvmlMode::kNoMemory) return kNotSupported;
  if (settings().nvml == NvmlMode::kSlow) sleep(60);
  const std::uint64_t used = used_bytes(ordinal_of(device));
  memory->reserved = settings().reserved_bytes;
  memory->total = settings().device_bytes + memory->reserved;
  memory->used = used;
  memory->free = settings().device_bytes < used ? 0 : settings().device_bytes - used;
  return kSuccess;
}

GPUMEMTRACE_NVML nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned int* count,
                                                         ProcessInfo* infos) {
  const int ordinal = ordinal_of(device);
  const unsigned int room = *count;
  *count = 0;
  const auto add = [&](const ProcessInfo& info) {
    if (*count < room) infos[*count] = info;
    ++*count;
  };
  for (const Card::Process& process : card().processes) {
    const std::int32_t id = process.id.load();
    const Card::Use& use = process.devices[ordinal];
    if (id != 0 && use.contexts.load() != 0 && is_alive(id)) add(info_of(id, use.bytes.load()));
  }
  constexpr int kFirstProcess = 1;  // an id that no process of the tests has
  if (settings().other_bytes != 0) add(info_of(kFirstProcess, settings().other_bytes));
  return *count > room ? kInsufficientSize : kSuccess;
}
