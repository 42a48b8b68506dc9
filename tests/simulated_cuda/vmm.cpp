// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "tests/simulated_cuda/implementations.hpp"

// Virtual memory management: address reservations, physical memory and the mappings between them.

namespace gpumemtrace::cuda_abi::simulated {
namespace {

PhysicalMemory* find_physical(CUmemGenericAllocationHandle handle) {
  const auto found = state().physical.find(handle);
  return found == state().physical.end() ? nullptr : &found->second;
}

// Frees physical memory once neither a handle nor a mapping refers to it.
void drop_if_unused(CUmemGenericAllocationHandle handle) {
  State& driver = state();
  const PhysicalMemory memory = driver.physical.at(handle);
  if (memory.references != 0 || memory.mappings != 0) return;
  if (memory.file != -1) close(memory.file);
  if (memory.hidden_address != 0) {
    driver.backing.discard(memory.hidden_address, memory.bytes);
    driver.addresses.add(memory.hidden_address, memory.bytes);
  }
  if (memory.device != nullptr) refund(memory.device, memory.bytes);
  driver.physical.erase(handle);
}

bool reserve_bytes(PhysicalMemory* memory) {
  if (memory->properties.requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    memory->file = memfd_create("simulated-cuda-physical", MFD_CLOEXEC);
    return memory->file != -1 && ftruncate(memory->file, static_cast<off_t>(memory->bytes)) == 0;
  }
  const auto hidden = state().addresses.take(memory->bytes, kGranuleBytes);
  memory->hidden_address = hidden.value_or(0);
  return hidden.has_value();
}

bool inside_reservation(std::uint64_t address, std::uint64_t bytes) {
  const auto next = state().reservations.upper_bound(address);
  if (next == state().reservations.begin()) return false;
  const auto [start, reserved_bytes] = *std::prev(next);
  return address + bytes <= start + reserved_bytes;
}

// The addresses of the mappings in a range, in ascending order.
std::vector<std::uint64_t> mappings_in(std::uint64_t address, std::uint64_t bytes) {
  std::vector<std::uint64_t> found;
  auto next = state().allocations.lower_bound(address);
  for (; next != state().allocations.end() && next->first < address + bytes; ++next) {
    if (next->second.kind == Kind::kMapping) found.push_back(next->first);
  }
  return found;
}

bool granular(std::uint64_t value) { return value % kGranuleBytes == 0; }

}  // namespace

CUresult address_reserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                         CUdeviceptr wanted, unsigned long long flags) {
  State& driver = state();
  if (address == nullptr || bytes == 0 || !granular(bytes) || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (wanted != 0 && granular(wanted) && driver.addresses.take_at(wanted, bytes)) {
    *address = wanted;
  } else {
    const std::uint64_t unit = alignment > kGranuleBytes ? alignment : kGranuleBytes;
    const auto taken = driver.addresses.take(bytes, unit);
    if (!taken) return CUDA_ERROR_OUT_OF_MEMORY;
    *address = *taken;
  }
  driver.reservations[*address] = bytes;
  return CUDA_SUCCESS;
}

CUresult address_free(CUdeviceptr address, std::size_t bytes) {
  State& driver = state();
  const auto found = driver.reservations.find(address);
  if (found == driver.reservations.end() || found->second != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!mappings_in(address, bytes).empty()) return CUDA_ERROR_INVALID_VALUE;
  driver.reservations.erase(found);
  driver.addresses.add(address, bytes);
  return CUDA_SUCCESS;
}

CUresult physical_create(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                         const CUmemAllocationProp* properties, unsigned long long flags) {
  if (handle == nullptr || properties == nullptr || bytes == 0 || !granular(bytes) || flags != 0 ||
      properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  PhysicalMemory memory;
  memory.properties = *properties;
  memory.bytes = bytes;
  if (properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    memory.device = find_device(properties->location.id);
    if (memory.device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (!charge(memory.device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!reserve_bytes(&memory)) {
    if (memory.device != nullptr) refund(memory.device, bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *handle = state().next_id();
  state().physical[*handle] = memory;
  return CUDA_SUCCESS;
}

CUresult physical_release(CUmemGenericAllocationHandle handle) {
  PhysicalMemory* memory = find_physical(handle);
  if (memory == nullptr || memory->references == 0) return CUDA_ERROR_INVALID_VALUE;
  --memory->references;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}

CUresult physical_retain(CUmemGenericAllocationHandle* handle, void* address) {
  const Allocation* mapping = find_allocation(reinterpret_cast<std::uint64_t>(address));
  if (handle == nullptr || mapping == nullptr || mapping->kind != Kind::kMapping) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *handle = mapping->physical_handle;
  ++find_physical(*handle)->references;
  return CUDA_SUCCESS;
}

CUresult map_physical(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags) {
  State& driver = state();
  PhysicalMemory* memory = find_physical(handle);
  if (memory == nullptr || bytes == 0 || !granular(address) || !granular(bytes) ||
      offset + bytes > memory->bytes || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!inside_reservation(address, bytes) || !mappings_in(address, bytes).empty() ||
      find_allocation(address) != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool own_file = memory->file != -1;
  const int file = own_file ? memory->file : driver.backing.file();
  const std::uint64_t start = own_file ? 0 : driver.backing.file_offset(memory->hidden_address);
  if (!driver.backing.map_file(address, bytes, file, start + offset)) return CUDA_ERROR_MAP_FAILED;
  ++memory->mappings;
  Allocation mapping;
  mapping.address = address;
  mapping.bytes = bytes;
  mapping.kind = Kind::kMapping;
  mapping.device = memory->device;
  mapping.physical_handle = handle;
  mapping.physical_offset = offset;
  mapping.accessible = false;
  remember(std::move(mapping));
  return CUDA_SUCCESS;
}

CUresult unmap_physical(CUdeviceptr address, std::size_t bytes) {
  State& driver = state();
  const std::vector<std::uint64_t> found = mappings_in(address, bytes);
  if (found.empty() || found.front() != address) return CUDA_ERROR_INVALID_VALUE;
  std::uint64_t covered = address;
  for (const std::uint64_t start : found) {
    if (start != covered) return CUDA_ERROR_INVALID_VALUE;
    covered += driver.allocations.at(start).bytes;
  }
  if (covered != address + bytes) return CUDA_ERROR_INVALID_VALUE;
  for (const std::uint64_t start : found) {
    const Allocation mapping = driver.allocations.at(start);
    driver.backing.map_own(start, mapping.bytes);
    release_allocation(start);
    --find_physical(mapping.physical_handle)->mappings;
    drop_if_unused(mapping.physical_handle);
  }
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* descriptions,
                    std::size_t count) {
  const std::vector<std::uint64_t> found = mappings_in(address, bytes);
  if (descriptions == nullptr || count == 0 || found.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (const std::uint64_t start : found) {
    state().allocations.at(start).accessible =
        descriptions[0].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  }
  return CUDA_SUCCESS;
}

CUresult get_access(unsigned long long* flags, const CUmemLocation*, CUdeviceptr address) {
  const Allocation* mapping = find_allocation(address);
  if (flags == nullptr || mapping == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping->accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult physical_export(void* shareable, CUmemGenericAllocationHandle handle,
                         CUmemAllocationHandleType type, unsigned long long) {
  const PhysicalMemory* memory = find_physical(handle);
  if (memory == nullptr || shareable == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  if (memory->file == -1) return CUDA_ERROR_INVALID_VALUE;
  const int file = fcntl(memory->file, F_DUPFD_CLOEXEC, 0);
  if (file == -1) return CUDA_ERROR_OPERATING_SYSTEM;
  std::memcpy(shareable, &file, sizeof file);
  return CUDA_SUCCESS;
}

CUresult physical_import(CUmemGenericAllocationHandle* handle, void* shareable,
                         CUmemAllocationHandleType type) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
  const int file = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
  struct stat status {};
  if (fstat(file, &status) != 0 || status.st_size <= 0) return CUDA_ERROR_INVALID_VALUE;
  PhysicalMemory memory;
  memory.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.properties.requestedHandleTypes = type;
  memory.properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  memory.bytes = static_cast<std::uint64_t>(status.st_size);
  memory.file = fcntl(file, F_DUPFD_CLOEXEC, 0);
  *handle = state().next_id();
  state().physical[*handle] = memory;
  return CUDA_SUCCESS;
}

CUresult get_allocation_granularity(std::size_t* granularity, const CUmemAllocationProp*,
                                    CUmemAllocationGranularity_flags) {
  if (granularity == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *granularity = kGranuleBytes;
  return CUDA_SUCCESS;
}

CUresult get_allocation_properties(CUmemAllocationProp* properties,
                                   CUmemGenericAllocationHandle handle) {
  const PhysicalMemory* memory = find_physical(handle);
  if (memory == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *properties = memory->properties;
  return CUDA_SUCCESS;
}

}  // namespace gpumemtrace::cuda_abi::simulated
