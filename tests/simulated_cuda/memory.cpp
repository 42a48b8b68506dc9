// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cstring>

#include "tests/simulated_cuda/implementations.hpp"

namespace gpumemtrace::cuda_abi::simulated {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kPitchAlignment = 512;

CUresult allocate(CUdeviceptr* address, std::uint64_t bytes, bool low) {
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Device* device = current_context()->device;
  const std::uint64_t taken = take_device_memory(device, bytes, low);
  if (taken == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation allocation;
  allocation.address = taken;
  allocation.bytes = bytes;
  allocation.occupied_bytes = bytes;
  allocation.context = current_context();
  allocation.device = device;
  remember(std::move(allocation));
  *address = taken;
  return CUDA_SUCCESS;
}

CUresult allocate_on_host(Kind kind, std::uint64_t bytes, unsigned int flags,
                          std::uint64_t* address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t occupied = round_up(bytes, kPageBytes);
  void* memory = mmap(nullptr, occupied, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation allocation;
  allocation.address = reinterpret_cast<std::uint64_t>(memory);
  allocation.bytes = bytes;
  allocation.occupied_bytes = occupied;
  allocation.kind = kind;
  allocation.context = current_context();
  allocation.device = current_context()->device;
  allocation.flags = flags;
  *address = remember(std::move(allocation)).address;
  return CUDA_SUCCESS;
}

Allocation* find_host_memory(const void* host) {
  Allocation* found = find_allocation(reinterpret_cast<std::uint64_t>(host));
  const bool is_host =
      found != nullptr && (found->kind == Kind::kPinned || found->kind == Kind::kRegistered);
  return is_host ? found : nullptr;
}

bool overlaps_known(std::uint64_t address, std::uint64_t bytes) {
  const auto next = state().allocations.lower_bound(address);
  const bool into_next = next != state().allocations.end() && next->first < address + bytes;
  return into_next || find_allocation(address) != nullptr;
}

// Stores a value through an output pointer, narrowed to 32 bits for a legacy function; null is
// allowed.
template <typename Wide, typename Narrow>
void narrow(Wide value, Narrow* target) {
  if (target != nullptr) *target = static_cast<Narrow>(value);
}

}  // namespace

CUresult alloc(CUdeviceptr* address, std::size_t bytes) { return allocate(address, bytes, false); }

CUresult alloc_v1(CUdeviceptr_v1* address, unsigned int bytes) {
  CUdeviceptr wide = 0;
  const CUresult result = allocate(&wide, bytes, true);
  if (result == CUDA_SUCCESS) narrow(wide, address);
  return result;
}

CUresult alloc_pitch(CUdeviceptr* address, std::size_t* pitch, std::size_t width_bytes,
                     std::size_t height, unsigned int element_bytes) {
  if (pitch == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (element_bytes != 4 && element_bytes != 8 && element_bytes != 16) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pitch = round_up(width_bytes, kPitchAlignment);
  return allocate(address, *pitch * height, false);
}

CUresult alloc_pitch_v1(CUdeviceptr_v1* address, unsigned int* pitch, unsigned int width_bytes,
                        unsigned int height, unsigned int) {
  const std::uint64_t wide_pitch = round_up(width_bytes, kPitchAlignment);
  CUdeviceptr wide = 0;
  const CUresult result = allocate(&wide, wide_pitch * height, true);
  if (result != CUDA_SUCCESS) return result;
  narrow(wide_pitch, pitch);
  narrow(wide, address);
  return CUDA_SUCCESS;
}

CUresult alloc_managed(CUdeviceptr* address, std::size_t bytes, unsigned int flags) {
  if (address == nullptr || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::uint64_t taken = 0;
  const CUresult result = allocate_on_host(Kind::kManaged, bytes, flags, &taken);
  if (result == CUDA_SUCCESS) *address = taken;
  return result;
}

CUresult free_memory(CUdeviceptr address) {
  if (address == 0) return CUDA_SUCCESS;
  const Allocation* found = find_allocation_start(address);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (found->kind) {
    case Kind::kDevice:
    case Kind::kPool:
    case Kind::kGraph:
    case Kind::kManaged:
    case Kind::kPoolImport:
    case Kind::kExternal:
      release_allocation(address);
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult host_alloc(void** host, std::size_t bytes, unsigned int flags) {
  constexpr unsigned int kKnownFlags =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (host == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t address = 0;
  const CUresult result = allocate_on_host(Kind::kPinned, bytes, flags, &address);
  if (result == CUDA_SUCCESS) *host = reinterpret_cast<void*>(address);
  return result;
}

CUresult alloc_host(void** host, std::size_t bytes) { return host_alloc(host, bytes, 0); }

CUresult free_host(void* host) {
  const Allocation* found = find_allocation_start(reinterpret_cast<std::uint64_t>(host));
  if (found == nullptr || found->kind != Kind::kPinned) return CUDA_ERROR_INVALID_VALUE;
  release_allocation(found->address);
  return CUDA_SUCCESS;
}

CUresult host_register(void* host, std::size_t bytes, unsigned int flags) {
  const auto address = reinterpret_cast<std::uint64_t>(host);
  if (host == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (overlaps_known(address, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  Allocation allocation;
  allocation.address = address;
  allocation.bytes = bytes;
  allocation.kind = Kind::kRegistered;
  allocation.context = current_context();
  allocation.device = current_context()->device;
  allocation.flags = flags;
  remember(std::move(allocation));
  return CUDA_SUCCESS;
}

CUresult host_unregister(void* host) {
  const Allocation* found = find_allocation_start(reinterpret_cast<std::uint64_t>(host));
  if (found == nullptr || found->kind != Kind::kRegistered) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  release_allocation(found->address);
  return CUDA_SUCCESS;
}

CUresult host_get_device_pointer(CUdeviceptr* address, void* host, unsigned int) {
  if (address == nullptr || find_host_memory(host) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *address = reinterpret_cast<std::uint64_t>(host);
  return CUDA_SUCCESS;
}

CUresult host_get_flags(unsigned int* flags, void* host) {
  const Allocation* found = find_host_memory(host);
  if (flags == nullptr || found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = found->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

CUresult get_info(std::size_t* free_bytes, std::size_t* total_bytes) {
  const Device* device = current_context()->device;
  const std::uint64_t used = device->used_bytes + bytes_of_others(*device);
  const std::uint64_t capacity = device->capacity_bytes;
  if (free_bytes != nullptr) *free_bytes = used < capacity ? capacity - used : 0;
  if (total_bytes != nullptr) *total_bytes = device->capacity_bytes;
  return CUDA_SUCCESS;
}

CUresult get_info_v1(unsigned int* free_bytes, unsigned int* total_bytes) {
  constexpr std::size_t kMost = 0xffffffff;
  std::size_t wide_free = 0;
  std::size_t wide_total = 0;
  get_info(&wide_free, &wide_total);
  narrow(wide_free < kMost ? wide_free : kMost, free_bytes);
  narrow(wide_total < kMost ? wide_total : kMost, total_bytes);
  return CUDA_SUCCESS;
}

CUresult get_address_range(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
  const Allocation* found = find_allocation(address);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = found->address;
  if (bytes != nullptr) *bytes = found->bytes;
  return CUDA_SUCCESS;
}

CUresult get_address_range_v1(CUdeviceptr_v1* base, unsigned int* bytes, CUdeviceptr_v1 address) {
  CUdeviceptr wide_base = 0;
  std::size_t wide_bytes = 0;
  const CUresult result = get_address_range(&wide_base, &wide_bytes, address);
  if (result != CUDA_SUCCESS) return result;
  narrow(wide_base, base);
  narrow(wide_bytes, bytes);
  return CUDA_SUCCESS;
}

CUresult host_get_device_pointer_v1(CUdeviceptr_v1* address, void* host, unsigned int flags) {
  CUdeviceptr wide = 0;
  const CUresult result = host_get_device_pointer(&wide, host, flags);
  if (result != CUDA_SUCCESS) return result;
  if (wide > 0xffffffff) return CUDA_ERROR_NOT_SUPPORTED;
  narrow(wide, address);
  return CUDA_SUCCESS;
}

}  // namespace gpumemtrace::cuda_abi::simulated
