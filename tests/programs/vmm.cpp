// SPDX-License-Identifier: Apache-2.0
// Uses virtual memory management: a segment that grows by mapping, partial unmapping, a handle that
// is released before its mapping, a handle retained from an address, export and import.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

using Handle = abi::CUmemGenericAllocationHandle;

abi::CUmemAllocationProp on_device(bool exportable) {
  abi::CUmemAllocationProp properties{};
  properties.type = abi::CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
  if (exportable) {
    properties.requestedHandleTypes = abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  return properties;
}

Handle create(std::size_t bytes, bool exportable = false) {
  const abi::CUmemAllocationProp properties = on_device(exportable);
  Handle handle = 0;
  GPUMEMTRACE_CALL(cuMemCreate, &handle, bytes, &properties, 0);
  truth().allocated("driver", "vmm", bytes);
  return handle;
}

void allow_access(abi::CUdeviceptr address, std::size_t bytes) {
  abi::CUmemAccessDesc access{};
  access.location = {abi::CU_MEM_LOCATION_TYPE_DEVICE, 0};
  access.flags = abi::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  GPUMEMTRACE_CALL(cuMemSetAccess, address, bytes, &access, 1);
}

// Maps a segment of four pieces one after the other, as growing segments of frameworks do.
void grow_and_shrink(std::size_t piece_bytes) {
  constexpr std::size_t kPieces = 4;
  abi::CUdeviceptr base = 0;
  GPUMEMTRACE_CALL(cuMemAddressReserve, &base, kPieces * piece_bytes, 0, 0, 0);
  std::vector<Handle> handles;
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    handles.push_back(create(piece_bytes));
    GPUMEMTRACE_CALL(cuMemMap, base + piece * piece_bytes, piece_bytes, 0, handles.back(), 0);
    allow_access(base + piece * piece_bytes, piece_bytes);
  }
  GPUMEMTRACE_CALL(cuMemsetD8_v2, base, 0x5a, kPieces * piece_bytes);
  truth().set(kPieces * piece_bytes);
  for (std::size_t piece = kPieces; piece-- > 0;) {
    GPUMEMTRACE_CALL(cuMemUnmap, base + piece * piece_bytes, piece_bytes);
    GPUMEMTRACE_CALL(cuMemRelease, handles[piece]);
    truth().freed("driver", "vmm", piece_bytes);
  }
  GPUMEMTRACE_CALL(cuMemAddressFree, base, kPieces * piece_bytes);
}

// Releases the handle at once; the physical memory stays until it is unmapped.
void release_before_unmap(std::size_t bytes) {
  abi::CUdeviceptr base = 0;
  GPUMEMTRACE_CALL(cuMemAddressReserve, &base, bytes, 0, 0, 0);
  const Handle handle = create(bytes);
  GPUMEMTRACE_CALL(cuMemMap, base, bytes, 0, handle, 0);
  GPUMEMTRACE_CALL(cuMemRelease, handle);
  allow_access(base, bytes);
  Handle retained = 0;
  GPUMEMTRACE_CALL(cuMemRetainAllocationHandle, &retained, reinterpret_cast<void*>(base));
  GPUMEMTRACE_CALL(cuMemRelease, retained);
  GPUMEMTRACE_CALL(cuMemUnmap, base, bytes);
  truth().freed("driver", "vmm", bytes);
  GPUMEMTRACE_CALL(cuMemAddressFree, base, bytes);
}

void export_and_import(std::size_t bytes) {
  const Handle exported = create(bytes, true);
  int file = -1;
  GPUMEMTRACE_CALL(cuMemExportToShareableHandle, &file, exported,
                   abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  Handle imported = 0;
  GPUMEMTRACE_CALL(cuMemImportFromShareableHandle, &imported,
                   reinterpret_cast<void*>(static_cast<std::intptr_t>(file)),
                   abi::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  close(file);
  GPUMEMTRACE_CALL(cuMemRelease, imported);
  GPUMEMTRACE_CALL(cuMemRelease, exported);
  truth().freed("driver", "vmm", bytes);
}

int run() {
  start_on_device();
  if (device_attribute(abi::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0) {
    skip_program("the device has no virtual memory management");
  }
  const abi::CUmemAllocationProp properties = on_device(false);
  std::size_t granularity_bytes = 0;
  GPUMEMTRACE_CALL(cuMemGetAllocationGranularity, &granularity_bytes, &properties,
                   abi::CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  grow_and_shrink(2 * granularity_bytes);
  release_before_unmap(granularity_bytes);
  if (device_attribute(abi::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) == 0) {
    skip_part("memory cannot be exported as a file descriptor");
  } else {
    export_and_import(granularity_bytes);
  }
  create(3 * granularity_bytes);  // leaked on purpose, never mapped
  return finish("vmm");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
