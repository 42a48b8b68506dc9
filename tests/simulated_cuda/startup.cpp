// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdio>
#include <cstring>

#include "tests/simulated_cuda/implementations.hpp"
#include "tests/simulated_cuda/pool_memory.hpp"
#include "tests/simulated_cuda/symbols.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

struct ResultName {
  CUresult result;
  const char* name;
};
constexpr ResultName kResultNames[] = {
#define GPUMEMTRACE_RESULT(name) {name, #name},
#include "tests/simulated_cuda/results.inc"
#undef GPUMEMTRACE_RESULT
};

void create_device(int ordinal) {
  State& driver = state();
  auto created = std::make_unique<Device>();
  Device* device = created.get();
  driver.devices.push_back(std::move(created));
  device->ordinal = ordinal;
  device->capacity_bytes = driver.settings.device_bytes;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
  device->default_pool = create_pool(device, properties);
  device->default_pool->is_default = true;
  device->current_pool = device->default_pool;
}

}  // namespace

CUresult initialize(unsigned int flags) {
  State& driver = state();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (driver.initialized) return CUDA_SUCCESS;
  if (driver.settings.device_count == 0) return CUDA_ERROR_NO_DEVICE;
  if (!driver.backing.open()) {
    std::fprintf(stderr, "simulated CUDA driver: the operating system gives no address space\n");
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  driver.addresses.add(driver.backing.wide_base(), Backing::kWideBytes);
  if (driver.settings.device_count <= Card::kMostDevices) {
    driver.card_entry = enter_card(driver.card);
  }
  for (int ordinal = 0; ordinal < driver.settings.device_count; ++ordinal) create_device(ordinal);
  driver.legacy_stream = driver.streams.create();
  driver.initialized = true;
  return CUDA_SUCCESS;
}

CUresult driver_get_version(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = state().settings.driver_version;
  return CUDA_SUCCESS;
}

CUresult get_error_name(CUresult error, const char** name) {
  for (const ResultName& known : kResultNames) {
    if (known.result != error) continue;
    *name = known.name;
    return CUDA_SUCCESS;
  }
  *name = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

// Only the CUDA runtime asks for export tables, at its first call, and gives up without them.
// Programs of the driver API need none.
CUresult get_export_table(const void** table, const CUuuid*) {
  static std::atomic_flag is_said;
  if (!is_said.test_and_set()) {
    std::fprintf(
        stderr,
        "simulated CUDA driver: it cannot run programs of the CUDA runtime (PyTorch, CuPy, "
        "programs made by nvcc), which need NVIDIA's driver; programs of the driver API "
        "run\n");
  }
  if (table != nullptr) *table = nullptr;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult get_proc_address(const char* name, void** function, int version, std::uint64_t flags,
                          CUdriverProcAddressQueryResult* status) {
  if (name == nullptr || function == nullptr || version > state().settings.driver_version) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const SymbolSearch found = find_symbol(name, version, per_thread);
  *function = found.function;
  if (status != nullptr) *status = found.status;
  return CUDA_SUCCESS;
}

CUresult get_proc_address_v1(const char* name, void** function, int version, std::uint64_t flags) {
  const CUresult result = get_proc_address(name, function, version, flags, nullptr);
  if (result == CUDA_SUCCESS && *function == nullptr) return CUDA_ERROR_NOT_FOUND;
  return result;
}

}  // namespace gpumemtrace::cuda_abi::simulated

// The simulated NVML looks this function up to read the driver's card.
extern "C" __attribute__((visibility("default"))) const gpumemtrace::cuda_abi::simulated::Card*
cuSimulatedCard() {
  return gpumemtrace::cuda_abi::simulated::state().card;
}
