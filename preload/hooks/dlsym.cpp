// SPDX-License-Identifier: Apache-2.0
#include "preload/hooks/dlsym.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "preload/base/libc_compat.hpp"
#include "preload/driver/cuda_abi.hpp"
#include "preload/hooks/cupti_hooks.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/session/announce.hpp"

namespace gpumemtrace::preload {
namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

bool is_driver_name(const char* name) noexcept {
  return name != nullptr && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

// What the assembly gets. Where it is not final, the real function is asked again, by a jump: it
// then sees the original caller, with its scope and for its dlerror.
struct Answer {
  void* address;
  std::uintptr_t is_final;
};

constexpr Answer kAskRealFunction = {nullptr, 0};

extern "C" [[gnu::visibility("hidden")]] const std::byte __ehdr_start[];  // by the linker
extern "C" [[gnu::visibility("hidden")]] const std::byte _end[];

bool is_in_this_library(const void* address) noexcept {
  return address >= __ehdr_start && address < _end;
}

// A search of the whole process (RTLD_DEFAULT, the handle of the program) has found our exported
// symbol. Without us it would have gone on: where that finds no driver, none may appear.
Answer answer_for_own_symbol(void* own, const char* name) noexcept {
  const bool loaded = driver::is_loaded();
  void* const behind_us = real_dlsym(RTLD_NEXT, name);
  if (!loaded || (behind_us == nullptr && driver::query(name) == nullptr)) return {behind_us, 1};
  if (behind_us == nullptr) libc_dlerror();  // the search was ours
  return {own, 1};
}

Answer answer_cupti(void* found, const char* name) noexcept {
  if (!is_in_this_library(found)) return {wrap_cupti(found, name), 1};
  void* const behind_us = real_dlsym(RTLD_NEXT, name);
  void* const answer = answer_cupti_symbol(found, behind_us, name);
  if (behind_us == nullptr && answer != nullptr) libc_dlerror();  // the search was ours
  return {answer, 1};
}

void* find_no_version(void*, const char*, const char*) noexcept { return nullptr; }

}  // namespace

// Read by the assembly; set on the first look-up of any kind.
extern "C" {
[[gnu::visibility("hidden")]] constinit Dlsym gpumemtrace_real_dlsym = nullptr;
[[gnu::visibility("hidden")]] constinit Dlvsym gpumemtrace_real_dlvsym = nullptr;

// Our own dlvsym hides libc's from ordinary binding, so that one is found in libc's symbol table
// (libdl's before glibc 2.34), and with it libc's dlsym. The next dlsym in the process may be
// another library's, which only a search without version finds. Other libraries' constructors may
// get here before ours has run.
[[gnu::visibility("hidden")]] void gpumemtrace_find_real_dlsym() {
  void* found = find_symbol_at_start("libc.so.6", "dlvsym");
  if (found == nullptr) found = find_symbol("libc.so.6", "dlvsym");
  if (found == nullptr) found = find_symbol("libdl.so.2", "dlvsym");
  if (found == nullptr) {
    // musl, which has no dlvsym: nothing is recorded there, but the program's look-ups must work.
    gpumemtrace_real_dlsym = reinterpret_cast<Dlsym>(find_symbol("ld-musl-", "dlsym"));
    gpumemtrace_real_dlvsym = find_no_version;
    return;
  }
  gpumemtrace_real_dlvsym = reinterpret_cast<Dlvsym>(found);
  auto* const of_libc = reinterpret_cast<Dlsym>(
      gpumemtrace_real_dlvsym(RTLD_NEXT, "dlsym", GPUMEMTRACE_OLDEST_GLIBC));
  if (of_libc == nullptr) return;
  void* const next = of_libc(RTLD_NEXT, "dlsym");
  gpumemtrace_real_dlsym = next == nullptr ? of_libc : reinterpret_cast<Dlsym>(next);
}

[[gnu::visibility("hidden")]] Answer gpumemtrace_answer_dlsym(void* handle, const char* name) {
  const bool is_cupti = is_cupti_name(name);
  if ((!is_driver_name(name) && !is_cupti) || handle == RTLD_NEXT) return kAskRealFunction;
  void* const found = real_dlsym(handle, name);
  if (found == nullptr) return kAskRealFunction;
  if (is_cupti) return answer_cupti(found, name);
  if (is_in_this_library(found)) return answer_for_own_symbol(found, name);
  return {driver::wrap(found, name), 1};
}

// Our symbols have no version, so a search for one never finds them.
[[gnu::visibility("hidden")]] Answer gpumemtrace_answer_dlvsym(void* handle, const char* name,
                                                               const char* version) {
  const bool is_cupti = name != nullptr && is_cupti_name(name);
  if ((!is_driver_name(name) && !is_cupti) || handle == RTLD_NEXT) return kAskRealFunction;
  void* const found = gpumemtrace_real_dlvsym(handle, name, version);
  if (found == nullptr) return kAskRealFunction;
  if (is_cupti) return {wrap_cupti(found, name), 1};
  return {driver::wrap(found, name), 1};
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
