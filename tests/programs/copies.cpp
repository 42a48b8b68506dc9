// SPDX-License-Identifier: Apache-2.0
// Calls every copy and set (memset) function of the driver: synchronous and asynchronous, all
// versions, variants for per-thread default streams, rows, boxes, arrays, peers and batches.
#include "tests/programs/support/copies.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kBytes = std::size_t{256} << 10;

// The buffers that all copies and sets use.
struct Buffers {
  std::vector<unsigned char> host = std::vector<unsigned char>(kBytes, 0x11);
  std::vector<unsigned char> other_host = std::vector<unsigned char>(kBytes);
  abi::CUdeviceptr device = 0;
  abi::CUdeviceptr other_device = 0;
  abi::CUarray array = nullptr;
  abi::CUarray other_array = nullptr;
  abi::CUstream stream = nullptr;
};

abi::CUarray create_row_array() {
  abi::CUDA_ARRAY_DESCRIPTOR descriptor{};
  descriptor.Width = 4096;
  descriptor.Format = abi::CU_AD_FORMAT_UNSIGNED_INT8;
  descriptor.NumChannels = 1;
  abi::CUarray array = nullptr;
  GPUMEMTRACE_CALL(cuArrayCreate_v2, &array, &descriptor);
  truth().allocated("driver", "array", 4096);
  return array;
}

void copy_rows_in_line(Buffers& use) {
  unsigned char* host = use.host.data();
  unsigned char* other_host = use.other_host.data();
  const auto host_address = reinterpret_cast<abi::CUdeviceptr>(host);
  GPUMEMTRACE_COPY("host_to_device", 1000, cuMemcpyHtoD_v2, use.device, host, 1000);
  GPUMEMTRACE_COPY("host_to_device", 1001, cuMemcpyHtoD_v2_ptds, use.device, host, 1001);
  GPUMEMTRACE_COPY("device_to_host", 1000, cuMemcpyDtoH_v2, other_host, use.device, 1000);
  GPUMEMTRACE_COPY("device_to_host", 1001, cuMemcpyDtoH_v2_ptds, other_host, use.device, 1001);
  require(use.other_host[999] == 0x11, "bytes come back as they were");
  GPUMEMTRACE_COPY("device_to_device", 1002, cuMemcpyDtoD_v2, use.other_device, use.device, 1002);
  GPUMEMTRACE_COPY("device_to_device", 1003, cuMemcpyDtoD_v2_ptds, use.other_device, use.device,
                   1003);
  GPUMEMTRACE_COPY("host_to_device", 1004, cuMemcpy, use.device, host_address, 1004);
  GPUMEMTRACE_COPY("device_to_device", 1005, cuMemcpy_ptds, use.other_device, use.device, 1005);
}

void copy_rows_in_stream(Buffers& use) {
  const unsigned char* host = use.host.data();
  unsigned char* other_host = use.other_host.data();
  abi::CUstream stream = use.stream;
  GPUMEMTRACE_COPY("host_to_device", 2000, cuMemcpyHtoDAsync_v2, use.device, host, 2000, stream);
  GPUMEMTRACE_COPY("host_to_device", 2001, cuMemcpyHtoDAsync_v2_ptsz, use.device, host, 2001,
                   nullptr);
  GPUMEMTRACE_COPY("device_to_host", 2000, cuMemcpyDtoHAsync_v2, other_host, use.device, 2000,
                   stream);
  GPUMEMTRACE_COPY("device_to_host", 2001, cuMemcpyDtoHAsync_v2_ptsz, other_host, use.device, 2001,
                   nullptr);
  GPUMEMTRACE_COPY("device_to_device", 2002, cuMemcpyDtoDAsync_v2, use.other_device, use.device,
                   2002, stream);
  GPUMEMTRACE_COPY("device_to_device", 2003, cuMemcpyDtoDAsync_v2_ptsz, use.other_device,
                   use.device, 2003, nullptr);
  GPUMEMTRACE_COPY("device_to_device", 2004, cuMemcpyAsync, use.other_device, use.device, 2004,
                   stream);
  GPUMEMTRACE_COPY("device_to_device", 2005, cuMemcpyAsync_ptsz, use.other_device, use.device, 2005,
                   nullptr);
  GPUMEMTRACE_CALL(cuCtxSynchronize);
}

void copy_arrays(Buffers& use) {
  const unsigned char* host = use.host.data();
  unsigned char* other_host = use.other_host.data();
  GPUMEMTRACE_COPY("device_to_device", 100, cuMemcpyDtoA_v2, use.array, 0, use.device, 100);
  GPUMEMTRACE_COPY("device_to_device", 101, cuMemcpyDtoA_v2_ptds, use.array, 0, use.device, 101);
  GPUMEMTRACE_COPY("device_to_device", 102, cuMemcpyAtoD_v2, use.device, use.array, 0, 102);
  GPUMEMTRACE_COPY("device_to_device", 103, cuMemcpyAtoD_v2_ptds, use.device, use.array, 0, 103);
  GPUMEMTRACE_COPY("host_to_device", 104, cuMemcpyHtoA_v2, use.array, 0, host, 104);
  GPUMEMTRACE_COPY("host_to_device", 105, cuMemcpyHtoA_v2_ptds, use.array, 0, host, 105);
  GPUMEMTRACE_COPY("device_to_host", 106, cuMemcpyAtoH_v2, other_host, use.array, 0, 106);
  GPUMEMTRACE_COPY("device_to_host", 107, cuMemcpyAtoH_v2_ptds, other_host, use.array, 0, 107);
  GPUMEMTRACE_COPY("device_to_device", 108, cuMemcpyAtoA_v2, use.other_array, 0, use.array, 0, 108);
  GPUMEMTRACE_COPY("device_to_device", 109, cuMemcpyAtoA_v2_ptds, use.other_array, 0, use.array, 0,
                   109);
  GPUMEMTRACE_COPY("host_to_device", 110, cuMemcpyHtoAAsync_v2, use.array, 0, host, 110,
                   use.stream);
  GPUMEMTRACE_COPY("host_to_device", 111, cuMemcpyHtoAAsync_v2_ptsz, use.array, 0, host, 111,
                   nullptr);
  GPUMEMTRACE_COPY("device_to_host", 112, cuMemcpyAtoHAsync_v2, other_host, use.array, 0, 112,
                   use.stream);
  GPUMEMTRACE_COPY("device_to_host", 113, cuMemcpyAtoHAsync_v2_ptsz, other_host, use.array, 0, 113,
                   nullptr);
  GPUMEMTRACE_CALL(cuCtxSynchronize);
}

void copy_rectangles(Buffers& use) {
  abi::CUDA_MEMCPY2D up{};
  up.srcMemoryType = abi::CU_MEMORYTYPE_HOST;
  up.srcHost = use.host.data();
  up.srcPitch = 512;
  up.dstMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  up.dstDevice = use.device;
  up.dstPitch = 512;
  up.WidthInBytes = 300;
  up.Height = 20;
  GPUMEMTRACE_COPY("host_to_device", 6000, cuMemcpy2D_v2, &up);
  GPUMEMTRACE_COPY("host_to_device", 6000, cuMemcpy2D_v2_ptds, &up);
  GPUMEMTRACE_COPY("host_to_device", 6000, cuMemcpy2DUnaligned_v2, &up);
  GPUMEMTRACE_COPY("host_to_device", 6000, cuMemcpy2DUnaligned_v2_ptds, &up);
  GPUMEMTRACE_COPY("host_to_device", 6000, cuMemcpy2DAsync_v2, &up, use.stream);
  GPUMEMTRACE_COPY("host_to_device", 6000, cuMemcpy2DAsync_v2_ptsz, &up, nullptr);
  GPUMEMTRACE_CALL(cuCtxSynchronize);
}

void copy_boxes(Buffers& use) {
  abi::CUDA_MEMCPY3D down{};
  down.srcMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  down.srcDevice = use.device;
  down.srcPitch = 256;
  down.srcHeight = 16;
  down.dstMemoryType = abi::CU_MEMORYTYPE_HOST;
  down.dstHost = use.other_host.data();
  down.dstPitch = 256;
  down.dstHeight = 16;
  down.WidthInBytes = 100;
  down.Height = 10;
  down.Depth = 4;
  GPUMEMTRACE_COPY("device_to_host", 4000, cuMemcpy3D_v2, &down);
  GPUMEMTRACE_COPY("device_to_host", 4000, cuMemcpy3D_v2_ptds, &down);
  GPUMEMTRACE_COPY("device_to_host", 4000, cuMemcpy3DAsync_v2, &down, use.stream);
  GPUMEMTRACE_COPY("device_to_host", 4000, cuMemcpy3DAsync_v2_ptsz, &down, nullptr);
  GPUMEMTRACE_CALL(cuCtxSynchronize);
}

void copy_between_contexts(Buffers& use, abi::CUcontext context) {
  GPUMEMTRACE_COPY("device_to_device", 700, cuMemcpyPeer, use.other_device, context, use.device,
                   context, 700);
  GPUMEMTRACE_COPY("device_to_device", 701, cuMemcpyPeer_ptds, use.other_device, context,
                   use.device, context, 701);
  GPUMEMTRACE_COPY("device_to_device", 702, cuMemcpyPeerAsync, use.other_device, context,
                   use.device, context, 702, use.stream);
  GPUMEMTRACE_COPY("device_to_device", 703, cuMemcpyPeerAsync_ptsz, use.other_device, context,
                   use.device, context, 703, nullptr);
  abi::CUDA_MEMCPY3D_PEER box{};
  box.srcMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  box.srcDevice = use.device;
  box.srcContext = context;
  box.srcPitch = 256;
  box.srcHeight = 8;
  box.dstMemoryType = abi::CU_MEMORYTYPE_DEVICE;
  box.dstDevice = use.other_device;
  box.dstContext = context;
  box.dstPitch = 256;
  box.dstHeight = 8;
  box.WidthInBytes = 64;
  box.Height = 8;
  box.Depth = 2;
  GPUMEMTRACE_COPY("device_to_device", 1024, cuMemcpy3DPeer, &box);
  GPUMEMTRACE_COPY("device_to_device", 1024, cuMemcpy3DPeer_ptds, &box);
  GPUMEMTRACE_COPY("device_to_device", 1024, cuMemcpy3DPeerAsync, &box, use.stream);
  GPUMEMTRACE_COPY("device_to_device", 1024, cuMemcpy3DPeerAsync_ptsz, &box, nullptr);
  GPUMEMTRACE_CALL(cuCtxSynchronize);
}

int run() {
  abi::CUcontext context = start_on_device();
  Buffers use;
  use.device = allocate_device(kBytes);
  use.other_device = allocate_device(kBytes);
  use.array = create_row_array();
  use.other_array = create_row_array();
  GPUMEMTRACE_CALL(cuStreamCreate, &use.stream, abi::CU_STREAM_NON_BLOCKING);
  GPUMEMTRACE_CALL(cuMemsetD8_v2, use.device, 0, kBytes);
  truth().set(kBytes);
  copy_rows_in_line(use);
  copy_rows_in_stream(use);
  copy_arrays(use);
  copy_rectangles(use);
  copy_boxes(use);
  copy_between_contexts(use, context);
  copy_batches(use.other_device, use.device, use.stream);
  copy_with_32_bit_functions();
  set_every_way(use.device, use.stream);
  GPUMEMTRACE_CALL(cuStreamDestroy_v2, use.stream);
  for (abi::CUarray array : {use.array, use.other_array}) {
    GPUMEMTRACE_CALL(cuArrayDestroy, array);
    truth().freed("driver", "array", 4096);
  }
  free_device(use.other_device, kBytes);
  free_device(use.device, kBytes);
  return finish("copies");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
