// SPDX-License-Identifier: Apache-2.0
// Wraps dlclose, to notice that libraries were unloaded: another library may be loaded at the same
// addresses, and results from the old library's unwind tables must not be used for the new one.
// Unlike dlopen, dlclose does not depend on its caller, so a wrapper does not change its result.

#include <dlfcn.h>

#include <atomic>

#include "preload/loader/loaded_module.hpp"
#include "preload/loader/real_dlsym.hpp"

namespace gpumemtrace::preload {
namespace {

using Dlclose = int (*)(void*);
constinit std::atomic<Dlclose> real_dlclose = nullptr;

Dlclose find_real_dlclose() noexcept {
  Dlclose known = real_dlclose.load(std::memory_order_relaxed);  // relaxed: guards no other data
  if (known == nullptr) {
    known = reinterpret_cast<Dlclose>(real_dlsym(RTLD_NEXT, "dlclose"));
    real_dlclose.store(known, std::memory_order_relaxed);
  }
  return known;
}

}  // namespace
}  // namespace gpumemtrace::preload

extern "C" [[gnu::visibility("default")]] int dlclose(void* handle) noexcept {
  using namespace gpumemtrace::preload;
  const Dlclose real = find_real_dlclose();
  if (real == nullptr) return -1;
  unload_begins();
  const int result = real(handle);
  unload_ends();
  return result;
}
