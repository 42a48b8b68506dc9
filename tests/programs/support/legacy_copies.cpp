// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <vector>

#include "tests/programs/support/copies.hpp"
#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr unsigned int kBytes = 65536;

// False if the driver has cut the address of an allocation to 32 bits.
bool is_real_address(abi::CUdeviceptr_v1 address) {
  abi::CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const abi::CUresult known = GPUMEMTRACE_TRY(cuMemGetAddressRange_v2, &base, &bytes, address);
  return known == abi::CUDA_SUCCESS && base == address;
}

abi::CUdeviceptr_v1 allocate() {
  abi::CUdeviceptr_v1 address = 0;
  if (GPUMEMTRACE_TRY(cuMemAlloc, &address, kBytes) != abi::CUDA_SUCCESS) {
    truth().allocation_failed("driver", "device");
    return 0;
  }
  truth().allocated("driver", "device", kBytes);
  return is_real_address(address) ? address : 0;
}

void copy_rows(abi::CUdeviceptr_v1 device, abi::CUstream stream) {
  std::vector<unsigned char> host(kBytes, 3);
  const abi::CUdeviceptr_v1 upper_half = device + kBytes / 2;
  GPUMEMTRACE_COPY("host_to_device", 3000, cuMemcpyHtoD, device, host.data(), 3000);
  GPUMEMTRACE_COPY("device_to_host", 3001, cuMemcpyDtoH, host.data(), device, 3001);
  GPUMEMTRACE_COPY("device_to_device", 3002, cuMemcpyDtoD, upper_half, device, 3002);
  GPUMEMTRACE_COPY("host_to_device", 3003, cuMemcpyHtoDAsync, device, host.data(), 3003, stream);
  GPUMEMTRACE_COPY("device_to_host", 3004, cuMemcpyDtoHAsync, host.data(), device, 3004, stream);
  GPUMEMTRACE_COPY("device_to_device", 3005, cuMemcpyDtoDAsync, upper_half, device, 3005, stream);
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
}

void copy_boxes(abi::CUdeviceptr_v1 device, abi::CUstream stream) {
  const abi::CUdeviceptr_v1 upper_half = device + kBytes / 2;
  abi::CUDA_MEMCPY2D_v1 rectangle{};
  rectangle.srcMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  rectangle.srcDevice = device;
  rectangle.srcPitch = 512;
  rectangle.dstMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  rectangle.dstDevice = upper_half;
  rectangle.dstPitch = 512;
  rectangle.WidthInBytes = 32;
  rectangle.Height = 4;
  GPUMEMTRACE_COPY("device_to_device", 128, cuMemcpy2D, &rectangle);
  GPUMEMTRACE_COPY("device_to_device", 128, cuMemcpy2DUnaligned, &rectangle);
  GPUMEMTRACE_COPY("device_to_device", 128, cuMemcpy2DAsync, &rectangle, stream);
  abi::CUDA_MEMCPY3D_v1 box{};
  box.srcMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  box.srcDevice = device;
  box.srcPitch = 512;
  box.srcHeight = 4;
  box.dstMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  box.dstDevice = upper_half;
  box.dstPitch = 512;
  box.dstHeight = 4;
  box.WidthInBytes = 32;
  box.Height = 4;
  box.Depth = 2;
  GPUMEMTRACE_COPY("device_to_device", 256, cuMemcpy3D, &box);
  GPUMEMTRACE_COPY("device_to_device", 256, cuMemcpy3DAsync, &box, stream);
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
}

void copy_arrays(abi::CUdeviceptr_v1 device, abi::CUstream stream) {
  abi::CUDA_ARRAY_DESCRIPTOR_v1 descriptor{};
  descriptor.Width = 4096;
  descriptor.Format = abi::CU_AD_FORMAT_UNSIGNED_INT8;
  descriptor.NumChannels = 1;
  abi::CUarray array = nullptr;
  GPUMEMTRACE_CALL(cuArrayCreate, &array, &descriptor);
  truth().allocated("driver", "array", 4096);
  std::vector<unsigned char> host(kBytes, 3);
  GPUMEMTRACE_COPY("device_to_device", 200, cuMemcpyDtoA, array, 0, device, 200);
  GPUMEMTRACE_COPY("device_to_device", 201, cuMemcpyAtoD, device, array, 0, 201);
  GPUMEMTRACE_COPY("host_to_device", 202, cuMemcpyHtoA, array, 0, host.data(), 202);
  GPUMEMTRACE_COPY("device_to_host", 203, cuMemcpyAtoH, host.data(), array, 0, 203);
  GPUMEMTRACE_COPY("device_to_device", 204, cuMemcpyAtoA, array, 1024, array, 0, 204);
  GPUMEMTRACE_COPY("host_to_device", 205, cuMemcpyHtoAAsync, array, 0, host.data(), 205, stream);
  GPUMEMTRACE_COPY("device_to_host", 206, cuMemcpyAtoHAsync, host.data(), array, 0, 206, stream);
  GPUMEMTRACE_CALL(cuStreamSynchronize, stream);
  GPUMEMTRACE_CALL(cuArrayDestroy, array);
  truth().freed("driver", "array", 4096);
}

void set(unsigned int bytes) { truth().set(bytes); }

void set_memory(abi::CUdeviceptr_v1 device) {
  GPUMEMTRACE_CALL(cuMemsetD8, device, 1, 10);
  set(10);
  GPUMEMTRACE_CALL(cuMemsetD16, device, 1, 10);
  set(20);
  GPUMEMTRACE_CALL(cuMemsetD32, device, 1, 10);
  set(40);
  GPUMEMTRACE_CALL(cuMemsetD2D8, device, 512, 1, 10, 2);
  set(20);
  GPUMEMTRACE_CALL(cuMemsetD2D16, device, 512, 1, 10, 2);
  set(40);
  GPUMEMTRACE_CALL(cuMemsetD2D32, device, 512, 1, 10, 2);
  set(80);
}

}  // namespace

void copy_with_32_bit_functions() {
  const abi::CUdeviceptr_v1 device = allocate();
  if (device == 0) {
    skip_part("the driver gives out no 32-bit addresses");
    return;
  }
  abi::CUstream stream = nullptr;
  GPUMEMTRACE_CALL(cuStreamCreate, &stream, abi::CU_STREAM_DEFAULT);
  copy_rows(device, stream);
  copy_boxes(device, stream);
  copy_arrays(device, stream);
  set_memory(device);
  GPUMEMTRACE_CALL(cuStreamDestroy, stream);
  GPUMEMTRACE_CALL(cuMemFree, device);
  truth().freed("driver", "device", kBytes);
}

}  // namespace gpumemtrace::programs
