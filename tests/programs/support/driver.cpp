// SPDX-License-Identifier: Apache-2.0
#include "tests/programs/support/driver.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "tests/programs/support/program.hpp"
#include "tests/programs/support/truth.hpp"

namespace gpumemtrace::programs {
namespace {

void* driver_library() {
  static void* const library = [] {
    void* opened = dlopen("libcuda.so.1", RTLD_NOW);
    if (opened == nullptr) skip_program(std::string("there is no CUDA driver: ") + dlerror());
    return opened;
  }();
  return library;
}

}  // namespace

void* find_symbol(const char* symbol, bool required) {
  void* found = dlsym(driver_library(), symbol);
  if (found == nullptr && required) {
    skip_program(std::string("the CUDA driver does not export ") + symbol);
  }
  return found;
}

bool has_symbol(const char* symbol) { return find_symbol(symbol, false) != nullptr; }

abi::CUresult count_call(const char* symbol, abi::CUresult result) {
  truth().called(symbol, result == abi::CUDA_SUCCESS);
  return result;
}

void require_success(const char* symbol, abi::CUresult result) {
  if (result == abi::CUDA_SUCCESS) return;
  std::fprintf(stderr, "%s returned %d (%s)\n", symbol, result, result_name(result).c_str());
  std::exit(1);
}

std::string result_name(abi::CUresult result) {
  const char* name = nullptr;
  GPUMEMTRACE_FUNCTION(cuGetErrorName)(result, &name);
  return name == nullptr ? "unknown" : name;
}

}  // namespace gpumemtrace::programs
