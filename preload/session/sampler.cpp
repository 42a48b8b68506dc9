// SPDX-License-Identifier: Apache-2.0
#include "preload/session/sampler.hpp"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "preload/base/clock.hpp"
#include "preload/base/files.hpp"
#include "preload/base/message.hpp"
#include "preload/driver/cuda_abi.hpp"
#include "preload/driver/driver.hpp"
#include "preload/driver/nvml.hpp"
#include "preload/driver/tracking.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/ring/recorder.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::preload {
namespace {

// The relation to this process (the same, a descendant, another) of each process in NVML's list.

// Background thread only. A relation is read from /proc once and kept while the process is in every
// round of samples: after a round without the process, its id may be another process's.
class ProcessRelations {
 public:
  void round_begins() noexcept { ++round_; }
  // The relation of the process; kOther for process id 0, which stands for no process.
  [[nodiscard]] trace::ProcessRelation relation_of(std::uint32_t process_id) noexcept;

 private:
  static constexpr std::uint32_t kMostKnown = 64;

  struct Known {
    std::uint32_t process_id = 0;
    std::uint32_t round = 0;  // the round in which `process_id` was asked for last
    trace::ProcessRelation relation = trace::ProcessRelation::kOther;
  };

  Known known_[kMostKnown];
  std::uint32_t round_ = 1;
};

using trace::ProcessRelation;

// The id of the process's parent; 0 if there is no such process.
std::uint32_t parent_of(std::uint32_t process_id) noexcept {
  Line path;
  path << "/proc/" << std::uint64_t{process_id} << "/stat";
  char text[512];
  const std::size_t size = read_small_file(path.c_str(), text, sizeof text - 1);
  text[size] = '\0';
  // "NUMBER (NAME) STATE PARENT ...": the name may have parentheses of its own.
  const char* const name_end = strrchr(text, ')');
  if (name_end == nullptr || strlen(name_end) < sizeof ") S 1" - 1) return 0;
  return static_cast<std::uint32_t>(strtoul(name_end + sizeof ") S " - 1, nullptr, 10));
}

bool descends_from(std::uint32_t process_id, std::uint32_t ancestor) noexcept {
  constexpr int kMostGenerations = 64;
  for (int i = 0; i < kMostGenerations && process_id > 1; ++i) {
    process_id = parent_of(process_id);
    if (process_id == ancestor) return true;
  }
  return false;
}

// Finds the process among those of this and of the last round of samples; else reads /proc and
// replaces the entry that was used longest ago.
ProcessRelation ProcessRelations::relation_of(std::uint32_t process_id) noexcept {
  if (process_id == 0) return ProcessRelation::kOther;
  const auto own_id = static_cast<std::uint32_t>(getpid());
  if (process_id == own_id) return ProcessRelation::kThis;
  Known* entry = &known_[0];
  for (Known& known : known_) {
    if (known.process_id == process_id && known.round + 1 >= round_) {
      known.round = round_;
      return known.relation;
    }
    if (known.round < entry->round) entry = &known;
  }
  *entry = {
      process_id, round_,
      descends_from(process_id, own_id) ? ProcessRelation::kDescendant : ProcessRelation::kOther};
  return entry->relation;
}

using namespace cuda_abi;

constexpr int kMaxDevices = 64;

// The longest waits for NVML, in a round of samples and at the end of the process.
constexpr std::uint64_t kLimitMs = 100;
constexpr std::uint64_t kLastLimitMs = 20;

struct Functions {
  cuDriverGetVersion_t* driver_version = nullptr;
  cuDeviceGetCount_t* device_count = nullptr;
  cuDeviceGetName_t* device_name = nullptr;
  cuDeviceTotalMem_v2_t* total_memory = nullptr;
  cuDeviceGetUuid_t* uuid = nullptr;
  cuDeviceGetPCIBusId_t* bus_id = nullptr;
  cuDeviceGetAttribute_t* attribute = nullptr;
  cuCtxPushCurrent_v2_t* push_context = nullptr;
  cuCtxPopCurrent_v2_t* pop_context = nullptr;
  cuMemGetInfo_v2_t* memory_info = nullptr;
  cuCtxGetLimit_t* limit = nullptr;
  cuMemPoolGetAttribute_t* pool_attribute = nullptr;
  cuDeviceGetDefaultMemPool_t* default_pool = nullptr;
  cuDeviceGetMemPool_t* current_pool = nullptr;
  cuThreadExchangeStreamCaptureMode_t* exchange_mode = nullptr;
};
constinit Functions functions;
constinit bool ready = false;
constinit bool debugger_reports_calls = false;

struct KnownDevice {
  char bus_id[32] = {};  // "" = not known
  std::uint64_t total_bytes = 0;
};
constinit KnownDevice known_devices[kMaxDevices] = {};

struct Limits {
  std::uint64_t stack_bytes = 0;
  std::uint64_t printf_bytes = 0;
  std::uint64_t heap_bytes = 0;
  friend bool operator==(const Limits&, const Limits&) = default;
};
// The limits last written to the trace for each context, indexed by the context's id, from 1.
constinit Limits known_limits[tracking::kMaxContexts + 1] = {};

constinit ProcessRelations relations;

template <class Function>
void load(Function*& function, const char* name) noexcept {
  function = reinterpret_cast<Function*>(driver::query(name));
}

// True if the driver can be asked. Sets this thread's stream capture mode first.
bool prepare() noexcept {
  if (ready) return true;
  if (functions.device_count == nullptr) return false;
  // Calls of this thread must not invalidate another thread's stream capture.
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

// True under compute-sanitizer and cuda-gdb: they report a call about a context that has ended as
// an error of the program, so the sampler makes no calls about contexts under them.
bool runs_under_debugger() noexcept {
  const auto is_sanitizer = [](const dl_phdr_info& info) noexcept {
    return strstr(info.dlpi_name, "/libsanitizer-collection.so") != nullptr;
  };
  return find_loaded(is_sanitizer) || is_debugged();
}

// Makes a CUDA context current on this thread while the object lives; false if that fails.
class CurrentContext {
 public:
  explicit CurrentContext(std::uint64_t handle) noexcept
      : is_current_(functions.push_context != nullptr && functions.pop_context != nullptr &&
                    functions.push_context(reinterpret_cast<CUcontext>(handle)) == CUDA_SUCCESS) {}
  ~CurrentContext() {
    CUcontext popped = nullptr;
    if (is_current_) functions.pop_context(&popped);
  }
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  explicit operator bool() const noexcept { return is_current_; }

 private:
  bool is_current_;
};

// Writes the free memory of `device`, whose context must be current.
void record_free_memory(const CallGuard& guard, int device) noexcept {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  if (functions.memory_info == nullptr ||
      functions.memory_info(&free_bytes, &total_bytes) != CUDA_SUCCESS) {
    return;
  }
  (void)write_event<trace::MemorySample>(guard, [&](trace::MemorySample& sample) {
    sample.source = trace::SampleSource::kMemGetInfo;
    sample.device = device;
    sample.free_bytes = free_bytes;
    sample.total_bytes = total_bytes;
  });
}

// Writes the limits of the context `id`, which must be current, if they have changed.
void record_limits(const CallGuard& guard, trace::ContextId id, int device) noexcept {
  if (functions.limit == nullptr) return;
  const auto limit = [](CUlimit name) noexcept {
    std::size_t value = 0;
    return functions.limit(&value, name) == CUDA_SUCCESS ? std::uint64_t{value} : 0;
  };
  const Limits limits{limit(CU_LIMIT_STACK_SIZE), limit(CU_LIMIT_PRINTF_FIFO_SIZE),
                      limit(CU_LIMIT_MALLOC_HEAP_SIZE)};
  Limits& known = known_limits[trace::number_of(id)];
  if (limits == known) return;
  const bool is_written =
      write_event<trace::ContextLimits>(guard, [&](trace::ContextLimits& record) {
        record.context = id;
        record.device = device;
        record.stack_bytes = limits.stack_bytes;
        record.printf_bytes = limits.printf_bytes;
        record.heap_bytes = limits.heap_bytes;
      });
  if (is_written) known = limits;
}

// Adds up NVML's bytes of this process and, separately, those of all other processes of a device.
// False if NVML's list lacks this process or the bytes of any process.
bool sum_processes(const nvml::Answer& answer, trace::MemorySample& sample) noexcept {
  if (!answer.has_processes || answer.process_count == 0) return false;
  if (relations.relation_of(answer.processes[0].id) != trace::ProcessRelation::kThis) return false;
  for (std::uint32_t i = 0; i < answer.process_count; ++i) {
    const std::uint64_t bytes = answer.processes[i].bytes;
    if (bytes == trace::kBytesNotTold) return false;
    (i == 0 ? sample.process_bytes : sample.other_bytes) += bytes;
  }
  return true;
}

void record_processes(const CallGuard& guard, const nvml::Answer& answer, int device) noexcept {
  if (!answer.has_processes) return;
  // If NVML's list does not begin with this process, its ids are of another PID namespace.
  const bool are_ours =
      answer.process_count != 0 &&
      relations.relation_of(answer.processes[0].id) == trace::ProcessRelation::kThis;
  for (std::uint32_t i = 0; i < answer.process_count; ++i) {
    const nvml::Process& process = answer.processes[i];
    (void)write_event<trace::ProcessSample>(guard, [&](trace::ProcessSample& sample) {
      sample.bytes = process.bytes;
      sample.process_id = process.id;
      sample.processes = process.processes;
      sample.relation =
          are_ours ? relations.relation_of(process.id) : trace::ProcessRelation::kOther;
      sample.device = device;
    });
  }
}

// False if CUDA's device, of `total_bytes`, is a MIG instance: NVML's numbers for its bus id are
// those of the whole device, of which the instance is a part.
bool is_of_whole_device(const nvml::Answer& answer, std::uint64_t total_bytes) noexcept {
  return total_bytes == 0 || answer.total_bytes - answer.total_bytes / 4 <= total_bytes;
}

// Writes NVML's answer about a device; true if it has the device's memory.
bool record_answer(const CallGuard& guard, const nvml::Answer& answer, int device) noexcept {
  const bool has_memory =
      answer.has_memory && is_of_whole_device(answer, known_devices[device].total_bytes);
  if (has_memory) {
    trace::MemorySample sums;
    const bool has_sums = sum_processes(answer, sums);
    (void)write_event<trace::MemorySample>(guard, [&](trace::MemorySample& sample) {
      sample.source =
          has_sums ? trace::SampleSource::kNvmlProcess : trace::SampleSource::kNvmlDevice;
      sample.device = device;
      sample.free_bytes = answer.free_bytes;
      sample.total_bytes = answer.total_bytes;
      sample.reserved_bytes = answer.reserved_bytes;
      sample.process_bytes = has_sums ? sums.process_bytes : 0;
      sample.other_bytes = has_sums ? sums.other_bytes : 0;
    });
  }
  record_processes(guard, answer, device);
  return has_memory;
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

// Writes the default and current memory pool of each device, then all pools that the program's
// calls have used.
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

std::uint32_t attribute_of(int device, CUdevice_attribute name) noexcept {
  int value = 0;
  const bool is_told = functions.attribute != nullptr &&
                       functions.attribute(&value, name, device) == CUDA_SUCCESS && value > 0;
  return is_told ? static_cast<std::uint32_t>(value) : 0;
}

void record_device(int device, const nvml::Link& link) noexcept {
  trace::Device record;
  record.ordinal = device;
  record.pcie_generation = link.generation;
  record.pcie_width = link.width;
  record.multiprocessors = attribute_of(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  record.threads_per_multiprocessor =
      attribute_of(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  record.total_bytes = known_devices[device].total_bytes;
  CUuuid uuid = {};
  if (functions.uuid != nullptr && functions.uuid(&uuid, device) == CUDA_SUCCESS) {
    memcpy(&record.uuid_low, uuid.bytes, 8);
    memcpy(&record.uuid_high, uuid.bytes + 8, 8);
  }
  char name[256] = {};
  if (functions.device_name != nullptr) functions.device_name(name, sizeof name, device);
  (void)write_record(record, {name, strnlen(name, sizeof name)});
}

// Keeps the device's size, and its bus id, by which NVML knows the device.
void load_device_facts(int device) noexcept {
  KnownDevice& known = known_devices[device];
  std::size_t total = 0;
  const bool has_total =
      functions.total_memory != nullptr && functions.total_memory(&total, device) == CUDA_SUCCESS;
  known.total_bytes = has_total ? total : 0;
  const bool has_bus_id =
      functions.bus_id != nullptr &&
      functions.bus_id(known.bus_id, sizeof known.bus_id, device) == CUDA_SUCCESS;
  if (!has_bus_id) known.bus_id[0] = '\0';
}

struct UsedDevices {
  bool are_used[kMaxDevices] = {};  // devices that have or had a context
  bool have_context[kMaxDevices] = {};
  bool any = false;
};

UsedDevices used_devices() noexcept {
  UsedDevices used;
  const std::uint32_t contexts = tracking::context_count();
  for (std::uint32_t id = 1; id <= contexts; ++id) {
    const tracking::ContextInfo context = tracking::context_info(trace::ContextId{id});
    if (context.handle == 0 || context.device < 0 || context.device >= kMaxDevices) continue;
    used.any = true;
    used.are_used[context.device] = true;
    if (!context.ended) used.have_context[context.device] = true;
  }
  return used;
}

// Asks the driver for the limits of each context and, in the first context of each device, for the
// device's free memory. Called between begin_sample() and end_sample() of tracking.hpp.
void ask_contexts(const CallGuard& guard) noexcept {
  bool asked_free_memory[kMaxDevices] = {};
  const std::uint32_t contexts = tracking::context_count();
  for (std::uint32_t number = 1; number <= contexts; ++number) {
    const trace::ContextId id{number};
    const tracking::ContextInfo context = tracking::context_info(id);
    if (context.ended || context.handle == 0 || context.device < 0 ||
        context.device >= kMaxDevices || debugger_reports_calls) {
      continue;
    }
    const CurrentContext current(context.handle);
    if (!current) continue;
    if (!asked_free_memory[context.device]) record_free_memory(guard, context.device);
    asked_free_memory[context.device] = true;
    record_limits(guard, id, context.device);
  }
}

// The time of the monotonic clock, in nanoseconds, that comes in `ms` milliseconds.
std::uint64_t in_ms(std::uint64_t ms) noexcept {
  return clock_ns(CLOCK_MONOTONIC) + ms * 1'000'000;
}

// Asks NVML about all devices in use; true if NVML gave the memory of all of them.
bool ask_nvml(const CallGuard& guard, const UsedDevices& used, std::uint64_t limit_ms) noexcept {
  const std::uint64_t deadline_ns = in_ms(limit_ms);
  relations.round_begins();
  bool has_all = true;
  for (int device = 0; device < kMaxDevices; ++device) {
    if (!used.are_used[device]) continue;
    const char* const bus_id = known_devices[device].bus_id;
    const nvml::Answer* const answer = bus_id[0] == '\0' ? nullptr : nvml::ask(bus_id, deadline_ns);
    if (answer == nullptr || !record_answer(guard, *answer, device)) has_all = false;
  }
  return has_all;
}

}  // namespace

void load_sampler() noexcept {
  ready = false;
  std::fill(std::begin(known_devices), std::end(known_devices), KnownDevice{});
  std::fill(std::begin(known_limits), std::end(known_limits), Limits{});
  load(functions.driver_version, "cuDriverGetVersion");
  load(functions.device_count, "cuDeviceGetCount");
  load(functions.device_name, "cuDeviceGetName");
  load(functions.total_memory, "cuDeviceTotalMem_v2");
  load(functions.uuid, "cuDeviceGetUuid_v2");
  if (functions.uuid == nullptr) load(functions.uuid, "cuDeviceGetUuid");
  load(functions.bus_id, "cuDeviceGetPCIBusId");
  load(functions.attribute, "cuDeviceGetAttribute");
  load(functions.push_context, "cuCtxPushCurrent_v2");
  load(functions.pop_context, "cuCtxPopCurrent_v2");
  load(functions.memory_info, "cuMemGetInfo_v2");
  load(functions.limit, "cuCtxGetLimit");
  load(functions.pool_attribute, "cuMemPoolGetAttribute");
  load(functions.default_pool, "cuDeviceGetDefaultMemPool");
  load(functions.current_pool, "cuDeviceGetMemPool");
  load(functions.exchange_mode, "cuThreadExchangeStreamCaptureMode");
  debugger_reports_calls = runs_under_debugger();
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
  for (int device = 0; device < count; ++device) {
    load_device_facts(device);
    record_device(device, {});
  }
  // Writes the devices again, with their PCIe links: NVML may take long to give the links, but the
  // devices must be in the trace at once.
  for (int device = 0; device < count; ++device) {
    const char* const bus_id = known_devices[device].bus_id;
    if (bus_id[0] == '\0') continue;
    const nvml::Link link = nvml::ask_link(bus_id, in_ms(kLimitMs));
    if (link.generation != 0) record_device(device, link);
  }
}

Sampled record_samples(const CallGuard& guard) noexcept {
  const UsedDevices used = used_devices();
  if (!used.any || !prepare()) return Sampled::kNothingToAsk;
  if (!tracking::begin_sample()) return Sampled::kLater;
  ask_contexts(guard);
  if (tracking::any_pool_in_use()) record_pools(guard, used.have_context);
  tracking::end_sample();
  (void)ask_nvml(guard, used, kLimitMs);
  return Sampled::kDone;
}

// If NVML gave the memory of all devices in time, CUDA is asked for the memory pools alone.
void record_last_samples(const CallGuard& guard) noexcept {
  const UsedDevices used = used_devices();
  if (!used.any || !prepare()) return;
  const bool has_all = ask_nvml(guard, used, kLastLimitMs);
  if ((has_all && !tracking::any_pool_in_use()) || !tracking::begin_sample()) return;
  if (!has_all) ask_contexts(guard);
  if (tracking::any_pool_in_use()) record_pools(guard, used.have_context);
  tracking::end_sample();
}

}  // namespace gpumemtrace::preload
