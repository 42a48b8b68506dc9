// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "tests/simulated_cuda/implementations.hpp"
#include "tests/simulated_cuda/pool_memory.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

// The context stack of a thread. Plain data, without a destructor: static objects still call the
// driver at exit.
struct ContextStack {
  static constexpr unsigned int kMost = 64;
  CUcontext entries[kMost];
  unsigned int depth;
};
thread_local ContextStack stack{};

constexpr unsigned int kApiVersion = 3020;

constexpr std::size_t kDefaultStackBytes = 1024;
constexpr std::size_t kDefaultPrintfBytes = 8'650'752;
constexpr std::size_t kDefaultHeapBytes = std::size_t{8} << 20;

// Counts the process's contexts for NVML, which lists only processes with a context.
void count_context(const Device& device, int change) {
  Card::Process* const entry = state().card_entry;
  if (entry != nullptr) {
    entry->devices[device.ordinal].contexts += static_cast<std::uint32_t>(change);
  }
}

bool charge_context(Device* device) {
  if (!charge(device, state().settings.context_bytes)) return false;
  count_context(*device, 1);
  return true;
}

void set_default_limits(CUcontext context) {
  context->limits = {{CU_LIMIT_STACK_SIZE, kDefaultStackBytes},
                     {CU_LIMIT_PRINTF_FIFO_SIZE, kDefaultPrintfBytes},
                     {CU_LIMIT_MALLOC_HEAP_SIZE, kDefaultHeapBytes}};
  context->limit_bytes = {};
}

// The device memory that a limit (cuCtxSetLimit) makes a context take beyond its base size, as
// measured on an H100 (docs/verification.md): local memory for every thread that can run, and the
// malloc heap.
std::uint64_t bytes_for_limit(CUlimit limit, std::size_t value) {
  constexpr std::uint64_t kThreads = 132 * 2048;
  if (limit == CU_LIMIT_STACK_SIZE) {
    const std::uint64_t more = value < kDefaultStackBytes ? 0 : value - kDefaultStackBytes;
    return round_up(more * kThreads, kGranuleBytes);
  }
  return limit == CU_LIMIT_MALLOC_HEAP_SIZE ? value + kGranuleBytes : 0;
}

CUresult take_for_limit(CUcontext context, CUlimit limit, std::size_t value) {
  std::uint64_t& taken = context->limit_bytes[limit];
  const std::uint64_t wanted = bytes_for_limit(limit, value);
  if (wanted > taken && !charge(context->device, wanted - taken)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (wanted < taken) refund(context->device, taken - wanted);
  taken = wanted;
  return CUDA_SUCCESS;
}

CUresult begin_context(Device* device, unsigned int flags, CUcontext* context) {
  State& driver = state();
  if (!charge_context(device)) return CUDA_ERROR_OUT_OF_MEMORY;
  *context = driver.contexts.create();
  set_default_limits(*context);
  (*context)->device = device;
  (*context)->flags = flags;
  (*context)->api_version = kApiVersion;
  (*context)->id = driver.next_id();
  return CUDA_SUCCESS;
}

// Frees everything that belongs to the context. Pools belong to the device and end with its primary
// context. Physical memory of the virtual memory management functions belongs to the process and
// stays.
void release_contents(CUcontext context) {
  State& driver = state();
  std::vector<std::uint64_t> owned;
  for (const auto& [address, allocation] : driver.allocations) {
    const bool in_pool = allocation.kind == Kind::kPool && context->is_primary &&
                         allocation.device == context->device;
    if (allocation.context == context || in_pool) owned.push_back(address);
  }
  for (const std::uint64_t address : owned) release_allocation(address);
  std::vector<CUarray> arrays;
  driver.arrays.for_each([&](CUarray array) {
    if (array->context == context) arrays.push_back(array);
  });
  for (CUarray array : arrays) driver.arrays.destroy(array);
  std::vector<CUmipmappedArray> mipmapped_arrays;
  driver.mipmapped_arrays.for_each([&](CUmipmappedArray array) {
    if (array->context == context) mipmapped_arrays.push_back(array);
  });
  for (CUmipmappedArray array : mipmapped_arrays) driver.mipmapped_arrays.destroy(array);
  if (context->is_primary) trim_all_pools(context->device, 0);
}

void end_context(CUcontext context) {
  State& driver = state();
  release_contents(context);
  refund(context->device, driver.settings.context_bytes);
  count_context(*context->device, -1);
  for (const auto& [limit, bytes] : context->limit_bytes) refund(context->device, bytes);
  set_default_limits(context);
  refund(context->device, context->executable_graph_bytes);
  context->executable_graph_bytes = 0;
  context->executable_graphs = 0;
  context->alive = false;
  context->peers.clear();
  driver.sticky_error = CUDA_SUCCESS;
}

bool is_live(CUcontext context) { return state().contexts.has(context) && context->alive; }

CUresult push(CUcontext context) {
  if (stack.depth == ContextStack::kMost) return CUDA_ERROR_OUT_OF_MEMORY;
  stack.entries[stack.depth++] = context;
  return CUDA_SUCCESS;
}

}  // namespace

CUcontext current_context() { return stack.depth == 0 ? nullptr : stack.entries[stack.depth - 1]; }

CUresult context_create(CUcontext* context, unsigned int flags, CUdevice ordinal) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const CUresult result = begin_context(device, flags, context);
  return result == CUDA_SUCCESS ? push(*context) : result;
}

CUresult context_create_with_affinity(CUcontext* context, CUexecAffinityParam*, int,
                                      unsigned int flags, CUdevice device) {
  return context_create(context, flags, device);
}

CUresult context_create_with_parameters(CUcontext* context, CUctxCreateParams*, unsigned int flags,
                                        CUdevice device) {
  return context_create(context, flags, device);
}

CUresult context_destroy(CUcontext context) {
  if (!state().contexts.has(context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (context->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
  end_context(context);
  if (current_context() == context) --stack.depth;
  return CUDA_SUCCESS;
}

CUresult primary_retain(CUcontext* context, CUdevice ordinal) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary == nullptr) {
    const CUresult result = begin_context(device, device->primary_flags, &device->primary);
    if (result != CUDA_SUCCESS) {
      device->primary = nullptr;
      return result;
    }
    device->primary->is_primary = true;
  } else if (!device->primary->alive) {
    if (!charge_context(device)) return CUDA_ERROR_OUT_OF_MEMORY;
    device->primary->alive = true;
  }
  ++device->primary_count;
  *context = device->primary;
  return CUDA_SUCCESS;
}

CUresult primary_release(CUdevice ordinal) {
  Device* device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary_count == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary_count == 0 && device->primary->alive) end_context(device->primary);
  return CUDA_SUCCESS;
}

CUresult primary_reset(CUdevice ordinal) {
  Device* device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (device->primary != nullptr && device->primary->alive) end_context(device->primary);
  device->primary_count = 0;
  return CUDA_SUCCESS;
}

CUresult primary_get_state(CUdevice ordinal, unsigned int* flags, int* active) {
  const Device* device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (flags != nullptr) *flags = device->primary_flags;
  if (active != nullptr) *active = device->primary != nullptr && device->primary->alive ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult primary_set_flags(CUdevice ordinal, unsigned int flags) {
  Device* device = find_device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  device->primary_flags = flags;
  return CUDA_SUCCESS;
}

CUresult context_get_current(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = current_context();
  return CUDA_SUCCESS;
}

CUresult context_set_current(CUcontext context) {
  if (context != nullptr && !is_live(context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.depth != 0) --stack.depth;
  return context == nullptr ? CUDA_SUCCESS : push(context);
}

CUresult context_push(CUcontext context) {
  return is_live(context) ? push(context) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult context_pop(CUcontext* context) {
  if (stack.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = current_context();
  --stack.depth;
  return CUDA_SUCCESS;
}

CUresult context_get_device(CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = current_context()->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult context_get_device_of(CUdevice* device, CUcontext context) {
  if (context == nullptr) context = current_context();
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_live(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult context_synchronize() {
  trim_to_release_thresholds();
  return CUDA_SUCCESS;
}

CUresult context_synchronize_of(CUcontext context) {
  if (context != nullptr && !is_live(context)) return CUDA_ERROR_INVALID_CONTEXT;
  return context_synchronize();
}

CUresult context_get_flags(unsigned int* flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = current_context()->flags;
  return CUDA_SUCCESS;
}

CUresult context_get_limit(std::size_t* value, CUlimit limit) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = current_context()->limits[limit];
  return CUDA_SUCCESS;
}

CUresult context_set_limit(CUlimit limit, std::size_t value) {
  CUcontext context = current_context();
  if (state().settings.limits_take_memory && limit == CU_LIMIT_STACK_SIZE) {
    const CUresult result = take_for_limit(context, limit, value);
    if (result != CUDA_SUCCESS) return result;
  }
  context->limits[limit] = value;
  return CUDA_SUCCESS;
}

CUresult take_heap() {
  if (!state().settings.limits_take_memory) return CUDA_SUCCESS;
  CUcontext context = current_context();
  return take_for_limit(context, CU_LIMIT_MALLOC_HEAP_SIZE,
                        context->limits[CU_LIMIT_MALLOC_HEAP_SIZE]);
}

CUresult context_get_api_version(CUcontext context, unsigned int* version) {
  if (context == nullptr) context = current_context();
  if (!is_live(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult context_attach(CUcontext* context, unsigned int) {
  *context = current_context();
  ++(*context)->attach_count;
  return CUDA_SUCCESS;
}

CUresult context_detach(CUcontext context) {
  if (!is_live(context)) return CUDA_ERROR_INVALID_CONTEXT;
  return --context->attach_count == 0 ? context_destroy(context) : CUDA_SUCCESS;
}

CUresult context_get_id(CUcontext context, unsigned long long* id) {
  if (context == nullptr) context = current_context();
  if (!is_live(context)) return CUDA_ERROR_INVALID_CONTEXT;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult context_get_stream_priority_range(int* least, int* greatest) {
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult context_enable_peer_access(CUcontext peer, unsigned int) {
  if (!is_live(peer)) return CUDA_ERROR_INVALID_CONTEXT;
  std::vector<CUcontext>& peers = current_context()->peers;
  if (peer->device == current_context()->device) return CUDA_ERROR_INVALID_DEVICE;
  if (std::count(peers.begin(), peers.end(), peer) != 0) {
    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  }
  peers.push_back(peer);
  return CUDA_SUCCESS;
}

CUresult context_disable_peer_access(CUcontext peer) {
  std::vector<CUcontext>& peers = current_context()->peers;
  const auto found = std::find(peers.begin(), peers.end(), peer);
  if (found == peers.end()) return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  peers.erase(found);
  return CUDA_SUCCESS;
}

}  // namespace gpumemtrace::cuda_abi::simulated
