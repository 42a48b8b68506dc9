// SPDX-License-Identifier: Apache-2.0
// Makes the same allocation through every way to reach the driver: linked calls, dlsym on a handle
// and on RTLD_DEFAULT, both versions of cuGetProcAddress and the one that it returns for itself.
// Each way has its own size, so that a test sees which one is missing.
#include <dlfcn.h>

#include <cstddef>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace abi = gpumemtrace::cuda_abi;

extern "C" {
abi::cuMemAlloc_v2_t cuMemAlloc_v2;
abi::cuMemFree_v2_t cuMemFree_v2;
}

namespace gpumemtrace::programs {
namespace {

constexpr std::size_t kKilobyte = 1024;
constexpr int kCudaVersion = 12000;

struct EntryPoint {
  abi::cuMemAlloc_v2_t* allocate = nullptr;
  abi::cuMemFree_v2_t* free = nullptr;
};

void pass(const char* name, const EntryPoint& entry_point, std::size_t bytes) {
  require(entry_point.allocate != nullptr && entry_point.free != nullptr, name);
  abi::CUdeviceptr address = 0;
  require_success(name, count_call("cuMemAlloc_v2", entry_point.allocate(&address, bytes)));
  truth().allocated("driver", "device", bytes);
  require_success(name, count_call("cuMemFree_v2", entry_point.free(address)));
  truth().freed("driver", "device", bytes);
}

EntryPoint by_dlsym(void* handle) {
  return {reinterpret_cast<abi::cuMemAlloc_v2_t*>(dlsym(handle, "cuMemAlloc_v2")),
          reinterpret_cast<abi::cuMemFree_v2_t*>(dlsym(handle, "cuMemFree_v2"))};
}

EntryPoint by_proc_address(abi::cuGetProcAddress_t* find) {
  void* allocate = nullptr;
  void* free = nullptr;
  require_success("cuGetProcAddress", find("cuMemAlloc", &allocate, kCudaVersion, 0));
  require_success("cuGetProcAddress", find("cuMemFree", &free, kCudaVersion, 0));
  return {reinterpret_cast<abi::cuMemAlloc_v2_t*>(allocate),
          reinterpret_cast<abi::cuMemFree_v2_t*>(free)};
}

EntryPoint by_proc_address_v2(abi::cuGetProcAddress_v2_t* find, unsigned int flags) {
  void* allocate = nullptr;
  void* free = nullptr;
  abi::CUdriverProcAddressQueryResult status = abi::CU_GET_PROC_ADDRESS_SUCCESS;
  require_success("cuGetProcAddress_v2",
                  find("cuMemAlloc", &allocate, kCudaVersion, flags, &status));
  require_success("cuGetProcAddress_v2", find("cuMemFree", &free, kCudaVersion, flags, nullptr));
  require(status == abi::CU_GET_PROC_ADDRESS_SUCCESS, "the symbol is found");
  return {reinterpret_cast<abi::cuMemAlloc_v2_t*>(allocate),
          reinterpret_cast<abi::cuMemFree_v2_t*>(free)};
}

// cuGetProcAddress also returns itself; a CUDA runtime keeps the newer version of it.
abi::cuGetProcAddress_v2_t* from_itself() {
  void* found = nullptr;
  require_success("cuGetProcAddress_v2", GPUMEMTRACE_FUNCTION(cuGetProcAddress_v2)(
                                             "cuGetProcAddress", &found, kCudaVersion, 0, nullptr));
  return reinterpret_cast<abi::cuGetProcAddress_v2_t*>(found);
}

int run() {
  start_on_device();
  void* handle = dlopen("libcuda.so.1", RTLD_NOW);
  pass("linked", {&cuMemAlloc_v2, &cuMemFree_v2}, 1 * kKilobyte);
  pass("dlsym of a handle", by_dlsym(handle), 2 * kKilobyte);
  pass("dlsym of RTLD_DEFAULT", by_dlsym(RTLD_DEFAULT), 4 * kKilobyte);
  pass("cuGetProcAddress", by_proc_address(GPUMEMTRACE_FUNCTION(cuGetProcAddress)), 8 * kKilobyte);
  pass("cuGetProcAddress_v2", by_proc_address_v2(GPUMEMTRACE_FUNCTION(cuGetProcAddress_v2), 0),
       16 * kKilobyte);
  pass("cuGetProcAddress_v2 for per-thread streams",
       by_proc_address_v2(GPUMEMTRACE_FUNCTION(cuGetProcAddress_v2),
                          abi::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
       32 * kKilobyte);
  pass("cuGetProcAddress from itself", by_proc_address_v2(from_itself(), 0), 64 * kKilobyte);
  return finish("entry_points");
}

}  // namespace
}  // namespace gpumemtrace::programs

int main() { return gpumemtrace::programs::run(); }
