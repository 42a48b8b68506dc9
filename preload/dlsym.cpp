#include "preload/dlsym.hpp"

#include <atomic>

#include "preload/announce.hpp"
#include "preload/cuda_abi.hpp"
#include "preload/elf_symbols.hpp"
#include "preload/libc_compat.hpp"

namespace gpumemtrace::preload {
namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

bool is_driver_name(const char* name) noexcept {
  return name != nullptr && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

// RTLD_DEFAULT finds our exported symbol first. Where no driver is in the global scope it would
// make one appear, so the answer is then what a search behind us gives: nothing, with its dlerror.
void* search_default(const char* name) noexcept {
  void* behind_us = real_dlsym(RTLD_NEXT, name);
  if (behind_us != nullptr) return driver::wrap(behind_us, name);
  if (!driver::is_loaded()) return real_dlsym(RTLD_NEXT, name);
  return driver::wrap(driver::query(name), name);
}

}  // namespace

// Read by the assembly; set on the first look-up of any kind.
extern "C" {
[[gnu::visibility("hidden")]] constinit Dlsym gpumemtrace_real_dlsym = nullptr;
[[gnu::visibility("hidden")]] constinit Dlvsym gpumemtrace_real_dlvsym = nullptr;

// Our own dlvsym hides libc's from ordinary binding, so that one is found in libc's symbol table
// (libdl's before glibc 2.34), and with it the next dlsym. Other libraries' constructors may get
// here before ours has run.
[[gnu::visibility("hidden")]] void gpumemtrace_find_real_dlsym() {
  void* found = find_symbol("libc.so.6", "dlvsym");
  if (found == nullptr) found = find_symbol("libdl.so.2", "dlvsym");
  if (found == nullptr) return;
  gpumemtrace_real_dlvsym = reinterpret_cast<Dlvsym>(found);
  gpumemtrace_real_dlsym = reinterpret_cast<Dlsym>(
      gpumemtrace_real_dlvsym(RTLD_NEXT, "dlsym", GPUMEMTRACE_OLDEST_GLIBC));
}

// 1: gpumemtrace_serve_dlsym answers; 0: the assembly jumps to the real function.
[[gnu::visibility("hidden")]] int gpumemtrace_serves(void* handle, const char* name) {
  return is_driver_name(name) && handle != RTLD_NEXT ? 1 : 0;
}

[[gnu::visibility("hidden")]] void* gpumemtrace_serve_dlsym(void* handle, const char* name) {
  if (handle == RTLD_DEFAULT) return search_default(name);
  return driver::wrap(real_dlsym(handle, name), name);
}

[[gnu::visibility("hidden")]] void* gpumemtrace_serve_dlvsym(void* handle, const char* name,
                                                             const char* version) {
  return driver::wrap(gpumemtrace_real_dlvsym(handle, name, version), name);
}
}

void* real_dlsym(void* handle, const char* name) noexcept {
  if (gpumemtrace_real_dlsym == nullptr) gpumemtrace_find_real_dlsym();
  return gpumemtrace_real_dlsym == nullptr ? nullptr : gpumemtrace_real_dlsym(handle, name);
}

namespace {

using namespace cuda_abi;

// A CUDA runtime fetches the driver's table right after asking for cuGetProcAddress itself, or
// probing with an empty name: its code is around the caller.
void note_requester(const char* name, const void* caller) noexcept {
  static constexpr char kOwnName[] = "cuGetProcAddress";
  if (name == nullptr) return;
  std::size_t i = 0;
  while (kOwnName[i] != '\0' && name[i] == kOwnName[i]) ++i;
  const bool own_name = name[i] == '\0' && kOwnName[i] == '\0';
  if (name[0] == '\0' || own_name) announce_requester(caller);
}

template <driver::Door kDoor>
CUresult get_proc_address_v1(const char* name, void** function, int version, std::uint64_t flags) {
  auto* real = reinterpret_cast<cuGetProcAddress_t*>(driver::real_get_proc_address(1, kDoor));
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  note_requester(name, __builtin_return_address(0));
  const CUresult result = real(name, function, version, flags);
  if (result == CUDA_SUCCESS && function != nullptr) *function = driver::wrap(*function, name);
  return result;
}

template <driver::Door kDoor>
CUresult get_proc_address_v2(const char* name, void** function, int version, std::uint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  auto* real = reinterpret_cast<cuGetProcAddress_v2_t*>(driver::real_get_proc_address(2, kDoor));
  if (real == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  note_requester(name, __builtin_return_address(0));
  const CUresult result = real(name, function, version, flags, status);
  if (result == CUDA_SUCCESS && function != nullptr) *function = driver::wrap(*function, name);
  return result;
}

}  // namespace

void* get_proc_address_wrapper(int version, driver::Door door) noexcept {
  if (version == 1) {
    return reinterpret_cast<void*>(door == driver::Door::kExported
                                       ? &get_proc_address_v1<driver::Door::kExported>
                                       : &get_proc_address_v1<driver::Door::kPointer>);
  }
  return reinterpret_cast<void*>(door == driver::Door::kExported
                                     ? &get_proc_address_v2<driver::Door::kExported>
                                     : &get_proc_address_v2<driver::Door::kPointer>);
}

}  // namespace gpumemtrace::preload

extern "C" [[gnu::visibility("default")]] gpumemtrace::cuda_abi::CUresult cuGetProcAddress(
    const char* name, void** function, int version, std::uint64_t flags) {
  return gpumemtrace::preload::get_proc_address_v1<gpumemtrace::preload::driver::Door::kExported>(
      name, function, version, flags);
}

extern "C" [[gnu::visibility("default")]] gpumemtrace::cuda_abi::CUresult cuGetProcAddress_v2(
    const char* name, void** function, int version, std::uint64_t flags,
    gpumemtrace::cuda_abi::CUdriverProcAddressQueryResult* status) {
  return gpumemtrace::preload::get_proc_address_v2<gpumemtrace::preload::driver::Door::kExported>(
      name, function, version, flags, status);
}
