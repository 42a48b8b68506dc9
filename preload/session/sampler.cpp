// SPDX-License-Identifier: Apache-2.0
#include "preload/session/sampler.hpp"

#include <string.h>

#include "preload/base/files.hpp"
#include "preload/driver/cuda_abi.hpp"
#include "preload/driver/driver.hpp"
#include "preload/driver/nvml.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/ring/recorder.hpp"

namespace gpumemtrace::preload {
namespace {

using namespace cuda_abi;

constexpr int kMaxDevices = 64;

struct Functions {
  cuDriverGetVersion_t* driver_version = nullptr;
  cuDeviceGetCount_t* device_count = nullptr;
  cuDeviceGetName_t* device_name = nullptr;
  cuDeviceTotalMem_v2_t* total_memory = nullptr;
  cuDeviceGetUuid_t* uuid = nullptr;
  cuDeviceGetPCIBusId_t* bus_id = nullptr;
  cuCtxPushCurrent_v2_t* push_context = nullptr;
  cuCtxPopCurrent_v2_t* pop_context = nullptr;
  cuMemGetInfo_v2_t* memory_info = nullptr;
  cuMemPoolGetAttribute_t* pool_attribute = nullptr;
  cuDeviceGetDefaultMemPool_t* default_pool = nullptr;
  cuDeviceGetMemPool_t* current_pool = nullptr;
  cuThreadExchangeStreamCaptureMode_t* exchange_mode = nullptr;
};
constinit Functions functions;
constinit bool ready = false;
constinit bool is_watched = false;

template <class Function>
void load(Function*& function, const char* name) noexcept {
  function = reinterpret_cast<Function*>(driver::query(name));
}

// True where the driver can be asked, in the mode in which this thread asks.
bool prepare() noexcept {
  if (ready) return true;
  if (functions.device_count == nullptr) return false;
  // Questions of this thread must not invalidate another thread's stream capture.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (functions.exchange_mode != nullptr) functions.exchange_mode(&mode);
  ready = true;
  return true;
}

bool is_debugged() noexcept {
  char status[4096];
  const std::size_t size = read_small_file("/proc/self/status", status, sizeof status - 1);
  status[size] = '\0';
  const char* const tracer = strstr(status, "TracerPid:\t");
  return tracer != nullptr && tracer[strlen("TracerPid:\t")] != '0';
}

// compute-sanitizer and cuda-gdb show a question about a context that ended past us as an error of
// the program, so under them none is asked.
bool shows_errors_of_questions() noexcept {
  const auto is_sanitizer = [](const dl_phdr_info& info) noexcept {
    return strstr(info.dlpi_name, "/libsanitizer-collection.so") != nullptr;
  };
  return find_loaded(is_sanitizer) || is_debugged();
}

void record_free_memory(const CallGuard& guard, const tracking::ContextInfo& context) noexcept {
  if (functions.push_context == nullptr || functions.pop_context == nullptr ||
      functions.memory_info == nullptr || is_watched ||
      functions.push_context(reinterpret_cast<CUcontext>(context.handle)) != CUDA_SUCCESS) {
    return;
  }
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const CUresult result = functions.memory_info(&free_bytes, &total_bytes);
  CUcontext popped = nullptr;
  functions.pop_context(&popped);
  if (result != CUDA_SUCCESS) return;
  (void)write_event<trace::MemorySample>(guard, [&](trace::MemorySample& sample) {
    sample.source = trace::SampleSource::kMemGetInfo;
    sample.device = context.device;
    sample.free_bytes = free_bytes;
    sample.total_bytes = total_bytes;
  });
}

void record_nvml(const CallGuard& guard, int device) noexcept {
  char bus_id[32] = {};
  nvml::DeviceUse use;
  if (functions.bus_id == nullptr ||
      functions.bus_id(bus_id, sizeof bus_id, device) != CUDA_SUCCESS ||
      !nvml::read_device(bus_id, use)) {
    return;
  }
  (void)write_event<trace::MemorySample>(guard, [&](trace::MemorySample& sample) {
    sample.source = trace::SampleSource::kNvmlProcess;
    sample.device = device;
    sample.free_bytes = use.free_bytes;
    sample.total_bytes = use.total_bytes;
    sample.process_bytes = use.process_bytes;
    sample.other_bytes = use.other_bytes;
  });
}

void record_pool(const CallGuard& guard, std::uint64_t pool, int device) noexcept {
  if (pool == 0 || functions.pool_attribute == nullptr) return;
  const auto attribute = [&](CUmemPool_attribute name, std::uint64_t& value) noexcept {
    return functions.pool_attribute(reinterpret_cast<CUmemoryPool>(pool), name, &value) ==
           CUDA_SUCCESS;
  };
  trace::PoolSample values;
  if (!attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, values.reserved_current) ||
      !attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, values.reserved_high) ||
      !attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, values.used_current) ||
      !attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH, values.used_high)) {
    return;
  }
  (void)write_event<trace::PoolSample>(guard, [&](trace::PoolSample& sample) {
    const trace::RecordHeader header = sample.record;
    sample = values;
    sample.record = header;
    sample.pool = pool;
    sample.device = device;
  });
}

// The device's default and current pool, then all pools that the program named.
void record_pools(const CallGuard& guard, const bool (&has_context)[kMaxDevices]) noexcept {
  std::uint64_t done[2 * kMaxDevices] = {};
  std::size_t done_count = 0;
  const auto record_once = [&](std::uint64_t pool, int device) noexcept {
    for (std::size_t i = 0; i < done_count; ++i) {
      if (done[i] == pool) return;
    }
    if (done_count < std::size(done)) done[done_count++] = pool;
    record_pool(guard, pool, device);
  };
  for (int device = 0; device < kMaxDevices; ++device) {
    if (!has_context[device]) continue;
    for (auto* function : {functions.default_pool, functions.current_pool}) {
      CUmemoryPool pool = nullptr;
      if (function != nullptr && function(&pool, device) == CUDA_SUCCESS) {
        record_once(reinterpret_cast<std::uintptr_t>(pool), device);
      }
    }
  }
  for (std::uint32_t i = 0; i < tracking::kMaxPools; ++i) {
    if (const std::uint64_t pool = tracking::pool_at(i); pool != 0) record_once(pool, -1);
  }
}

void record_device(int device, const nvml::Link& link) noexcept {
  trace::Device record;
  record.ordinal = device;
  record.pcie_generation = link.generation;
  record.pcie_width = link.width;
  std::size_t total = 0;
  if (functions.total_memory != nullptr && functions.total_memory(&total, device) == CUDA_SUCCESS) {
    record.total_bytes = total;
  }
  CUuuid uuid = {};
  if (functions.uuid != nullptr && functions.uuid(&uuid, device) == CUDA_SUCCESS) {
    memcpy(&record.uuid_low, uuid.bytes, 8);
    memcpy(&record.uuid_high, uuid.bytes + 8, 8);
  }
  char name[256] = {};
  if (functions.device_name != nullptr) functions.device_name(name, sizeof name, device);
  (void)write_record(record, {name, strnlen(name, sizeof name)});
}

}  // namespace

void load_sampler() noexcept {
  ready = false;
  load(functions.driver_version, "cuDriverGetVersion");
  load(functions.device_count, "cuDeviceGetCount");
  load(functions.device_name, "cuDeviceGetName");
  load(functions.total_memory, "cuDeviceTotalMem_v2");
  load(functions.uuid, "cuDeviceGetUuid_v2");
  if (functions.uuid == nullptr) load(functions.uuid, "cuDeviceGetUuid");
  load(functions.bus_id, "cuDeviceGetPCIBusId");
  load(functions.push_context, "cuCtxPushCurrent_v2");
  load(functions.pop_context, "cuCtxPopCurrent_v2");
  load(functions.memory_info, "cuMemGetInfo_v2");
  load(functions.pool_attribute, "cuMemPoolGetAttribute");
  load(functions.default_pool, "cuDeviceGetDefaultMemPool");
  load(functions.current_pool, "cuDeviceGetMemPool");
  load(functions.exchange_mode, "cuThreadExchangeStreamCaptureMode");
  is_watched = shows_errors_of_questions();
  nvml::open_library();
}

int driver_version() noexcept {
  int version = 0;
  if (functions.driver_version == nullptr || functions.driver_version(&version) != CUDA_SUCCESS) {
    return 0;
  }
  return version;
}

void record_devices(const CallGuard&) noexcept {
  int count = 0;
  if (!prepare() || functions.device_count(&count) != CUDA_SUCCESS) return;
  if (count > kMaxDevices) count = kMaxDevices;
  for (int device = 0; device < count; ++device) record_device(device, {});
  // Again with their links: NVML takes its time, and the devices must be known at once.
  for (int device = 0; device < count; ++device) {
    char bus_id[32] = {};
    if (functions.bus_id == nullptr ||
        functions.bus_id(bus_id, sizeof bus_id, device) != CUDA_SUCCESS) {
      continue;
    }
    const nvml::Link link = nvml::read_pcie_link(bus_id);
    if (link.generation != 0) record_device(device, link);
  }
}

void record_samples(const CallGuard& guard) noexcept {
  if (!prepare() || !tracking::begin_sample()) return;
  bool has_context[kMaxDevices] = {};
  const std::uint32_t contexts = tracking::context_count();
  for (std::uint32_t id = 1; id <= contexts; ++id) {
    const tracking::ContextInfo context = tracking::context_info(trace::ContextId{id});
    if (context.ended || context.handle == 0 || context.device < 0 ||
        context.device >= kMaxDevices || has_context[context.device]) {
      continue;
    }
    has_context[context.device] = true;
    record_free_memory(guard, context);
    record_nvml(guard, context.device);
  }
  if (tracking::any_pool_in_use()) record_pools(guard, has_context);
  tracking::end_sample();
}

}  // namespace gpumemtrace::preload
