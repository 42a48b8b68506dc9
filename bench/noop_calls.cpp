// SPDX-License-Identifier: Apache-2.0
#include "bench/noop_calls.hpp"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "bench/build_folder.hpp"

namespace gpumemtrace::bench {
namespace {

constexpr char kReportBlock[] = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
constexpr char kMakeTensor[] =
    "_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_14DispatchKeySetENS1_"
    "10ScalarTypeESt8optionalINS1_12MemoryFormatEE";

void* open_library(const char* name) {
  void* library = dlopen((bench_folder() / "noop" / name).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  return library;
}

void* find(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (address == nullptr) throw std::runtime_error(dlerror());
  return address;
}

const void* library_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) == 0 ? nullptr : info.dli_fbase;
}

template <class Function>
void load(void* driver, const char* name, Function*& wrapped, Function*& unwrapped) {
  auto* find_unwrapped = reinterpret_cast<void* (*)(const char*)>(find(driver, "bench_unwrapped"));
  wrapped = reinterpret_cast<Function*>(find(driver, name));
  unwrapped = reinterpret_cast<Function*>(find_unwrapped(name));
  const void* noop_library = library_of(reinterpret_cast<void*>(find_unwrapped));
  if (library_of(reinterpret_cast<void*>(unwrapped)) != noop_library ||
      library_of(reinterpret_cast<void*>(wrapped)) == noop_library) {
    throw std::runtime_error(std::string(name) +
                             " is not wrapped: the recorder is not preloaded into this process.");
  }
}

}  // namespace

CallForms load_calls() {
  CallForms forms;
  Calls& wrapped = forms.wrapped;
  Calls& unwrapped = forms.unwrapped;
  void* driver = open_library("libcuda.so.1");
  load(driver, "cuCtxSetCurrent", wrapped.set_context, unwrapped.set_context);
  load(driver, "cuMemAlloc_v2", wrapped.allocate, unwrapped.allocate);
  load(driver, "cuMemFree_v2", wrapped.free, unwrapped.free);
  load(driver, "cuMemAllocAsync", wrapped.allocate_async, unwrapped.allocate_async);
  load(driver, "cuMemFreeAsync", wrapped.free_async, unwrapped.free_async);
  load(driver, "cuMemcpyAsync", wrapped.copy_async, unwrapped.copy_async);
  void* c10 = open_library("libc10.so");
  wrapped.report_block = reinterpret_cast<ReportBlock*>(find(RTLD_DEFAULT, kReportBlock));
  unwrapped.report_block = reinterpret_cast<ReportBlock*>(find(c10, kReportBlock));
  wrapped.make_tensor = reinterpret_cast<MakeTensor*>(find(RTLD_DEFAULT, kMakeTensor));
  unwrapped.make_tensor = reinterpret_cast<MakeTensor*>(find(c10, kMakeTensor));
  return forms;
}

}  // namespace gpumemtrace::bench
