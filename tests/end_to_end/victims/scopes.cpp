// SPDX-License-Identifier: Apache-2.0
// Allocates through a library that resolves the driver in its own symbol scope, then directly.
// Usage: scopes deepbind|namespace LIBRARY
#include <cstring>

#include "tests/end_to_end/victims/driver_calls.hpp"

namespace gpumemtrace::victims {
namespace {

constexpr int kRounds = 10;

void* open_library(const char* how, const char* path) {
  void* const library = std::strcmp(how, "deepbind") == 0 ? dlopen(path, RTLD_NOW | RTLD_DEEPBIND)
                                                          : dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
  require(library != nullptr, dlerror());
  return library;
}

template <class Function>
Function* function_of(void* library, const char* symbol) {
  auto* const found = reinterpret_cast<Function*>(dlsym(library, symbol));
  require(found != nullptr, symbol);
  return found;
}

// Initializes the driver that `library` sees: a driver in another namespace has its own state.
void start_driver_of(void* library) {
  call(function_of<abi::cuInit_t>(library, "cuInit")(0), "cuInit");
  abi::CUcontext context = nullptr;
  call(function_of<abi::cuDevicePrimaryCtxRetain_t>(library, "cuDevicePrimaryCtxRetain")(&context,
                                                                                         0),
       "cuDevicePrimaryCtxRetain");
  call(function_of<abi::cuCtxSetCurrent_t>(library, "cuCtxSetCurrent")(context), "cuCtxSetCurrent");
}

}  // namespace
}  // namespace gpumemtrace::victims

int main(int count, char** arguments) {
  using namespace gpumemtrace::victims;
  require(count == 3, "usage: scopes deepbind|namespace LIBRARY");
  start_driver();
  free_memory(allocate(4096));
  void* const library = open_library(arguments[1], arguments[2]);
  start_driver_of(library);
  auto* const allocate_there = function_of<abi::cuMemAlloc_v2_t>(library, "library_allocate");
  auto* const free_there = function_of<abi::cuMemFree_v2_t>(library, "library_free");
  for (int round = 0; round < kRounds; ++round) {
    abi::CUdeviceptr address = 0;
    call(allocate_there(&address, 1 << 20), "library_allocate");
    call(free_there(address), "library_free");
    free_memory(allocate(4096));
  }
  require(dlclose(library) == 0, "dlclose fails");
  free_memory(allocate(4096));
  std::printf("%d\n", kRounds);
  return 0;
}
