// SPDX-License-Identifier: Apache-2.0
// Makes one allocation and its free through each way in which a program can reach the driver. The
// sizes are 1 KiB, 2 KiB, 4 KiB, ..., so that their sum tells which ways were recorded, and how
// often. Prints the number of ways. The program and its argument, libentry_point_library.so, are
// linked with the driver.
#include <cstdint>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace abi = gpumemtrace::cuda_abi;

extern "C" {
abi::cuMemAlloc_v2_t cuMemAlloc_v2;
abi::cuMemFree_v2_t cuMemFree_v2;
abi::cuMemAllocAsync_t cuMemAllocAsync;
abi::cuMemAllocAsync_t cuMemAllocAsync_ptsz;
abi::cuMemFreeAsync_t cuMemFreeAsync;
abi::cuMemFreeAsync_t cuMemFreeAsync_ptsz;
abi::cuGetProcAddress_t cuGetProcAddress;
abi::cuGetProcAddress_v2_t cuGetProcAddress_v2;
}

namespace gpumemtrace::victims {
namespace {

constexpr int kVersion = 12000;

// These pointers are resolved when the program is loaded, not when it is called.
abi::cuMemAlloc_v2_t* const volatile kAllocateFromData = &cuMemAlloc_v2;
abi::cuMemFree_v2_t* const volatile kFreeFromData = &cuMemFree_v2;

std::size_t next_bytes = 1024;
int synchronous_calls = 0;
int stream_calls = 0;

void pass(abi::cuMemAlloc_v2_t* allocate, abi::cuMemFree_v2_t* free, const char* entry_point) {
  require(allocate != nullptr && free != nullptr, entry_point);
  abi::CUdeviceptr address = 0;
  call(allocate(&address, next_bytes), entry_point);
  call(free(address), entry_point);
  next_bytes *= 2;
  ++synchronous_calls;
}

void pass_stream(abi::cuMemAllocAsync_t* allocate, abi::cuMemFreeAsync_t* free,
                 const char* entry_point) {
  require(allocate != nullptr && free != nullptr, entry_point);
  abi::CUdeviceptr address = 0;
  call(allocate(&address, next_bytes, nullptr), entry_point);
  call(free(address, nullptr), entry_point);
  next_bytes *= 2;
  ++stream_calls;
}

template <class Function>
Function* by_dlsym(void* handle, const char* symbol) {
  return reinterpret_cast<Function*>(dlsym(handle, symbol));
}

void pass_dlsym(void* handle, const char* entry_point) {
  pass(by_dlsym<abi::cuMemAlloc_v2_t>(handle, "cuMemAlloc_v2"),
       by_dlsym<abi::cuMemFree_v2_t>(handle, "cuMemFree_v2"), entry_point);
}

template <class Function>
Function* ask(abi::cuGetProcAddress_t* find, const char* name, std::uint64_t flags) {
  void* found = nullptr;
  call(find(name, &found, kVersion, flags), name);
  return reinterpret_cast<Function*>(found);
}

template <class Function>
Function* ask(abi::cuGetProcAddress_v2_t* find, const char* name, std::uint64_t flags) {
  void* found = nullptr;
  abi::CUdriverProcAddressQueryResult status = abi::CU_GET_PROC_ADDRESS_SUCCESS;
  call(find(name, &found, kVersion, flags, &status), name);
  return reinterpret_cast<Function*>(found);
}

template <class Find>
void pass_answers_of(Find* find, const char* entry_point) {
  require(find != nullptr, entry_point);
  pass(ask<abi::cuMemAlloc_v2_t>(find, "cuMemAlloc", 0),
       ask<abi::cuMemFree_v2_t>(find, "cuMemFree", 0), entry_point);
  constexpr std::uint64_t kPerThread = abi::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  pass_stream(ask<abi::cuMemAllocAsync_t>(find, "cuMemAllocAsync", kPerThread),
              ask<abi::cuMemFreeAsync_t>(find, "cuMemFreeAsync", kPerThread), entry_point);
}

void pass_other_library(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, "the other library cannot be loaded");
  pass(by_dlsym<abi::cuMemAlloc_v2_t>(library, "library_allocate"),
       by_dlsym<abi::cuMemFree_v2_t>(library, "library_free"), "a linked call of another library");
}

void run(const char* other_library) {
  start_driver();
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  pass(&cuMemAlloc_v2, &cuMemFree_v2, "a linked call");
  pass(kAllocateFromData, kFreeFromData, "an address in data");
  pass_stream(&cuMemAllocAsync, &cuMemFreeAsync, "a linked call in a stream");
  pass_stream(&cuMemAllocAsync_ptsz, &cuMemFreeAsync_ptsz, "a linked per-thread call");
  pass_other_library(other_library);
  pass_dlsym(driver, "dlsym of the driver");
  pass_dlsym(RTLD_DEFAULT, "dlsym of RTLD_DEFAULT");
  pass_dlsym(dlopen(nullptr, RTLD_NOW), "dlsym of the program");
  pass_stream(by_dlsym<abi::cuMemAllocAsync_t>(driver, "cuMemAllocAsync_ptsz"),
              by_dlsym<abi::cuMemFreeAsync_t>(driver, "cuMemFreeAsync_ptsz"),
              "dlsym of a per-thread function");
  pass_answers_of(&cuGetProcAddress, "cuGetProcAddress");
  pass_answers_of(&cuGetProcAddress_v2, "cuGetProcAddress_v2");
  pass_answers_of(by_dlsym<abi::cuGetProcAddress_t>(driver, "cuGetProcAddress"),
                  "cuGetProcAddress by dlsym");
  auto* const found = by_dlsym<abi::cuGetProcAddress_v2_t>(driver, "cuGetProcAddress_v2");
  pass_answers_of(found, "cuGetProcAddress_v2 by dlsym");
  auto* const own = ask<abi::cuGetProcAddress_v2_t>(found, "cuGetProcAddress", 0);
  pass_answers_of(own, "cuGetProcAddress from itself");
  std::printf("%d %d\n", synchronous_calls, stream_calls);
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  gpumemtrace::victims::require(count == 2, "usage: every_entry_point LIBRARY");
  gpumemtrace::victims::run(arguments[1]);
  return 0;
}
