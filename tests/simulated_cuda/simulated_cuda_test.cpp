// SPDX-License-Identifier: Apache-2.0
// Tests the simulated driver alone, without the recorder. Each test uses its own context and
// compares differences, so the tests may run in one process or in many.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/catch.hpp"
#include "tests/simulated_cuda/exported_functions.hpp"

namespace gpumemtrace::cuda_abi {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

class TestContext {
 public:
  TestContext() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuCtxCreate_v2(&context_, 0, 0) == CUDA_SUCCESS);
  }
  ~TestContext() {
    if (context_ != nullptr) cuCtxDestroy_v2(context_);
  }
  TestContext(const TestContext&) = delete;
  TestContext& operator=(const TestContext&) = delete;

  CUcontext get() const { return context_; }
  void destroy() {
    REQUIRE(cuCtxDestroy_v2(context_) == CUDA_SUCCESS);
    context_ = nullptr;
  }

 private:
  CUcontext context_ = nullptr;
};

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  REQUIRE(cuMemGetInfo_v2(&free, &total) == CUDA_SUCCESS);
  return free;
}

CUdeviceptr allocate(std::size_t bytes) {
  CUdeviceptr address = 0;
  REQUIRE(cuMemAlloc_v2(&address, bytes) == CUDA_SUCCESS);
  return address;
}

std::uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute) {
  std::uint64_t value = 0;
  REQUIRE(cuMemPoolGetAttribute(pool, attribute, &value) == CUDA_SUCCESS);
  return value;
}

}  // namespace

TEST_CASE("large allocations take multiples of 2 MiB and small ones share a chunk",
          "[simulated_cuda]") {
  const TestContext context;
  const std::size_t before = free_bytes();
  const CUdeviceptr large = allocate(3 * kMegabyte);
  REQUIRE(before - free_bytes() == 4 * kMegabyte);
  REQUIRE(large % (2 * kMegabyte) == 0);
  const CUdeviceptr first = allocate(100);
  const CUdeviceptr second = allocate(100);
  REQUIRE(before - free_bytes() == 6 * kMegabyte);
  REQUIRE(second == first + 512);
  for (const CUdeviceptr address : {large, first, second}) {
    REQUIRE(cuMemFree_v2(address) == CUDA_SUCCESS);
  }
  REQUIRE(free_bytes() == before);
}

TEST_CASE("a freed address is given out again", "[simulated_cuda]") {
  const TestContext context;
  const CUdeviceptr first = allocate(5000);
  REQUIRE(cuMemFree_v2(first) == CUDA_SUCCESS);
  REQUIRE(allocate(5000) == first);
}

TEST_CASE("the capacity is a limit", "[simulated_cuda]") {
  const TestContext context;
  const std::size_t all = free_bytes();
  CUdeviceptr address = 0;
  REQUIRE(cuMemAlloc_v2(&address, all + 1) == CUDA_ERROR_OUT_OF_MEMORY);
  const CUdeviceptr everything = allocate(all / (2 * kMegabyte) * (2 * kMegabyte));
  REQUIRE(cuMemAlloc_v2(&address, 2 * kMegabyte) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(cuMemFree_v2(everything) == CUDA_SUCCESS);
}

TEST_CASE("wrong frees are refused", "[simulated_cuda]") {
  const TestContext context;
  const CUdeviceptr address = allocate(1000);
  REQUIRE(cuMemFree_v2(address + 8) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemFree_v2(address) == CUDA_SUCCESS);
  REQUIRE(cuMemFree_v2(address) == CUDA_ERROR_INVALID_VALUE);
  int local = 0;
  REQUIRE(cuMemFreeHost(&local) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("copies move bytes and stay inside allocations", "[simulated_cuda]") {
  const TestContext context;
  std::vector<unsigned char> source(4096);
  for (std::size_t index = 0; index < source.size(); ++index) {
    source[index] = static_cast<unsigned char>(index * 7);
  }
  const CUdeviceptr first = allocate(source.size());
  const CUdeviceptr second = allocate(source.size());
  REQUIRE(cuMemcpyHtoD_v2(first, source.data(), source.size()) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoD_v2(second, first, source.size()) == CUDA_SUCCESS);
  std::vector<unsigned char> result(source.size());
  REQUIRE(cuMemcpyDtoH_v2(result.data(), second, result.size()) == CUDA_SUCCESS);
  REQUIRE(result == source);
  REQUIRE(cuMemcpyDtoH_v2(result.data(), second + 1, result.size()) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemcpyHtoD_v2(0, source.data(), 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("rows are copied with their pitches", "[simulated_cuda]") {
  const TestContext context;
  const std::vector<unsigned char> source = {1, 2, 3, 0, 4, 5, 6, 0};
  const CUdeviceptr device = allocate(64);
  REQUIRE(cuMemsetD8_v2(device, 9, 64) == CUDA_SUCCESS);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = source.data();
  copy.srcPitch = 4;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = device;
  copy.dstPitch = 8;
  copy.dstXInBytes = 1;
  copy.WidthInBytes = 3;
  copy.Height = 2;
  REQUIRE(cuMemcpy2D_v2(&copy) == CUDA_SUCCESS);
  std::vector<unsigned char> result(16);
  REQUIRE(cuMemcpyDtoH_v2(result.data(), device, result.size()) == CUDA_SUCCESS);
  REQUIRE(result == std::vector<unsigned char>{9, 1, 2, 3, 9, 9, 9, 9, 9, 4, 5, 6, 9, 9, 9, 9});
}

TEST_CASE("boxes go through arrays unharmed", "[simulated_cuda]") {
  const TestContext context;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  descriptor.Width = 4;
  descriptor.Height = 3;
  descriptor.Depth = 2;
  descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  descriptor.NumChannels = 1;
  CUarray array = nullptr;
  REQUIRE(cuArray3DCreate_v2(&array, &descriptor) == CUDA_SUCCESS);
  std::vector<unsigned char> source(24);
  for (std::size_t index = 0; index < source.size(); ++index) {
    source[index] = static_cast<unsigned char>(index);
  }
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = source.data();
  copy.srcPitch = 4;
  copy.srcHeight = 3;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = 4;
  copy.Height = 3;
  copy.Depth = 2;
  REQUIRE(cuMemcpy3D_v2(&copy) == CUDA_SUCCESS);
  std::vector<unsigned char> result(24);
  REQUIRE(cuMemcpyAtoH_v2(result.data(), array, 0, result.size()) == CUDA_SUCCESS);
  REQUIRE(result == source);
  REQUIRE(cuMemcpyAtoH_v2(result.data(), array, 1, result.size()) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuArrayDestroy(array) == CUDA_SUCCESS);
  REQUIRE(cuArrayDestroy(array) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("sets write their element", "[simulated_cuda]") {
  const TestContext context;
  const CUdeviceptr device = allocate(64);
  REQUIRE(cuMemsetD32_v2(device, 0x01020304, 2) == CUDA_SUCCESS);
  std::uint32_t result[2] = {};
  REQUIRE(cuMemcpyDtoH_v2(result, device, sizeof result) == CUDA_SUCCESS);
  REQUIRE(result[1] == 0x01020304);
  REQUIRE(cuMemsetD16_v2(device, 0x0506, 1) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoH_v2(result, device, sizeof result) == CUDA_SUCCESS);
  REQUIRE(result[0] == 0x01020506);
  REQUIRE(cuMemsetD32_v2(device + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a pool keeps what is freed up to its threshold", "[simulated_cuda]") {
  const TestContext context;
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool = nullptr;
  REQUIRE(cuMemPoolCreate(&pool, &properties) == CUDA_SUCCESS);
  CUdeviceptr address = 0;
  REQUIRE(cuMemAllocFromPoolAsync(&address, kMegabyte, pool, nullptr) == CUDA_SUCCESS);
  REQUIRE(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == kMegabyte);
  REQUIRE(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 32 * kMegabyte);
  REQUIRE(cuMemFreeAsync(address, nullptr) == CUDA_SUCCESS);
  REQUIRE(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 32 * kMegabyte);
  REQUIRE(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0);
  REQUIRE(pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == kMegabyte);

  SECTION("a synchronisation returns what is above") {
    REQUIRE(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
    REQUIRE(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
  }
  SECTION("with a threshold only a trim returns it") {
    std::uint64_t threshold_bytes = UINT64_MAX;
    REQUIRE(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold_bytes) ==
            CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
    REQUIRE(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 32 * kMegabyte);
    REQUIRE(cuMemPoolTrimTo(pool, 0) == CUDA_SUCCESS);
    REQUIRE(pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 0);
  }
  REQUIRE(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
}

TEST_CASE("mapped memory keeps its bytes and its place on the device until both ends let go",
          "[simulated_cuda]") {
  const TestContext context;
  constexpr std::size_t kBytes = 2 * kMegabyte;
  const std::size_t before = free_bytes();
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(cuMemCreate(&handle, kBytes, &properties, 0) == CUDA_SUCCESS);
  CUdeviceptr range = 0;
  REQUIRE(cuMemAddressReserve(&range, 2 * kBytes, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(before - free_bytes() == kBytes);
  REQUIRE(cuMemMap(range, kBytes, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemMap(range, kBytes, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemsetD8_v2(range, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemMap(range + kBytes, kBytes, 0, handle, 0) == CUDA_SUCCESS);
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  REQUIRE(cuMemSetAccess(range, 2 * kBytes, &access, 1) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8_v2(range, 0x42, kBytes) == CUDA_SUCCESS);
  unsigned char seen = 0;
  REQUIRE(cuMemcpyDtoH_v2(&seen, range + 2 * kBytes - 1, 1) == CUDA_SUCCESS);
  REQUIRE(seen == 0x42);
  REQUIRE(cuMemRelease(handle) == CUDA_SUCCESS);
  REQUIRE(before - free_bytes() == kBytes);
  REQUIRE(cuMemAddressFree(range, 2 * kBytes) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemUnmap(range, 2 * kBytes) == CUDA_SUCCESS);
  REQUIRE(free_bytes() == before);
  REQUIRE(cuMemAddressFree(range, 2 * kBytes) == CUDA_SUCCESS);
}

TEST_CASE("cuGetProcAddress picks the version and the per-thread variant", "[simulated_cuda]") {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  const auto find = [&](const char* name, int version, std::uint64_t flags) {
    return cuGetProcAddress_v2(name, &found, version, flags, &status);
  };
  REQUIRE(find("cuMemAlloc", 12000, 0) == CUDA_SUCCESS);
  REQUIRE(found == reinterpret_cast<void*>(&cuMemAlloc_v2));
  REQUIRE(find("cuMemAlloc", 2000, 0) == CUDA_SUCCESS);
  REQUIRE(found == reinterpret_cast<void*>(&cuMemAlloc));
  REQUIRE(find("cuMemcpyHtoD", 12000, 2) == CUDA_SUCCESS);
  REQUIRE(found == reinterpret_cast<void*>(&cuMemcpyHtoD_v2_ptds));
  REQUIRE(find("cuMemAlloc", 12000, 2) == CUDA_SUCCESS);
  REQUIRE(found == reinterpret_cast<void*>(&cuMemAlloc_v2));
  REQUIRE(find("cuMemPrefetchAsync", 12000, 0) == CUDA_SUCCESS);
  REQUIRE(found == reinterpret_cast<void*>(&cuMemPrefetchAsync));
  REQUIRE(find("cuGetProcAddress", 11030, 0) == CUDA_SUCCESS);
  REQUIRE(found == reinterpret_cast<void*>(&cuGetProcAddress));
  REQUIRE(find("cuMemAllocAsync", 11000, 0) == CUDA_SUCCESS);
  REQUIRE(found == nullptr);
  REQUIRE(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  REQUIRE(find("", 0, 0) == CUDA_SUCCESS);
  REQUIRE(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  REQUIRE(find("cuMemAlloc", 99000, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a global capture forbids allocations and is invalidated by them", "[simulated_cuda]") {
  const TestContext context;
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  REQUIRE(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  const CUdeviceptr allowed = allocate(100);
  REQUIRE(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CUdeviceptr forbidden = 0;
  REQUIRE(cuMemAlloc_v2(&forbidden, 100) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  REQUIRE(graph == nullptr);
  REQUIRE(cuMemFree_v2(allowed) == CUDA_SUCCESS);
  REQUIRE(cuStreamDestroy_v2(stream) == CUDA_SUCCESS);
}

TEST_CASE("a per-thread default stream can be captured, the legacy one cannot",
          "[simulated_cuda]") {
  const TestContext context;
  const CUdeviceptr device = allocate(16);
  REQUIRE(cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED) ==
          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  REQUIRE(cuStreamBeginCapture_v2_ptsz(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8Async_ptsz(device, 3, 16, nullptr) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture_ptsz(nullptr, &graph) == CUDA_SUCCESS);
  std::size_t nodes = 0;
  REQUIRE(cuGraphGetNodes(graph, nullptr, &nodes) == CUDA_SUCCESS);
  REQUIRE(nodes == 1);
  REQUIRE(cuGraphDestroy(graph) == CUDA_SUCCESS);
}

TEST_CASE("graph memory is there from launch to free", "[simulated_cuda]") {
  const TestContext context;
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CUdeviceptr address = 0;
  REQUIRE(cuMemAllocAsync(&address, kMegabyte, stream) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  CUgraphExec executable = nullptr;
  REQUIRE(cuGraphInstantiateWithFlags(&executable, graph, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8_v2(address, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuGraphLaunch(executable, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8_v2(address, 0, 1) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(executable, stream) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuMemFreeAsync(address, stream) == CUDA_SUCCESS);
  REQUIRE(cuGraphLaunch(executable, stream) == CUDA_SUCCESS);
  REQUIRE(cuMemFree_v2(address) == CUDA_SUCCESS);
  REQUIRE(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
  REQUIRE(cuGraphExecDestroy(executable) == CUDA_SUCCESS);
  REQUIRE(cuGraphDestroy(graph) == CUDA_SUCCESS);
}

TEST_CASE("the end of a context frees what it holds", "[simulated_cuda]") {
  TestContext outer;
  const std::size_t before = free_bytes();
  TestContext inner;
  const CUdeviceptr address = allocate(3 * kMegabyte);
  inner.destroy();
  REQUIRE(free_bytes() == before);
  REQUIRE(cuMemFree_v2(address) == CUDA_ERROR_INVALID_VALUE);
  CUcontext current = nullptr;
  REQUIRE(cuCtxGetCurrent(&current) == CUDA_SUCCESS);
  REQUIRE(current == outer.get());
}

TEST_CASE("host memory is registered once", "[simulated_cuda]") {
  const TestContext context;
  std::vector<unsigned char> memory(8192);
  REQUIRE(cuMemHostRegister_v2(memory.data(), memory.size(), 0) == CUDA_SUCCESS);
  REQUIRE(cuMemHostRegister_v2(memory.data() + 4096, 4096, 0) ==
          CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  unsigned int type = 0;
  REQUIRE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                reinterpret_cast<CUdeviceptr>(memory.data() + 5)) == CUDA_SUCCESS);
  REQUIRE(type == CU_MEMORYTYPE_HOST);
  REQUIRE(cuMemHostUnregister(memory.data()) == CUDA_SUCCESS);
  REQUIRE(cuMemHostUnregister(memory.data()) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_CASE("32-bit functions get 32-bit addresses", "[simulated_cuda]") {
  const TestContext context;
  CUdeviceptr_v1 address = 0;
  REQUIRE(cuMemAlloc(&address, 100) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD8(address, 5, 100) == CUDA_SUCCESS);
  unsigned char seen = 0;
  REQUIRE(cuMemcpyDtoH(&seen, address, 1) == CUDA_SUCCESS);
  REQUIRE(seen == 5);
  REQUIRE(cuMemFree(address) == CUDA_SUCCESS);
}

}  // namespace gpumemtrace::cuda_abi
