// SPDX-License-Identifier: Apache-2.0
// Interposes on dlsym and dlvsym, from which programs get pointers to functions of the CUDA driver
// and of CUPTI: they get pointers to our wrappers instead.
//
//   dlsym(handle, name)
//     name begins neither with "cu" nor with "cupti" followed by an upper-case letter,
//     or handle is RTLD_NEXT            -> jump to the real dlsym, which sees the original caller
//     else                              -> ask the real dlsym, then replace the result by a wrapper
//                                          if it is the address of a function that we wrap
//
// The jump is in assembly (dlsym_x86_64.S, dlsym_aarch64.S): for RTLD_NEXT and RTLD_DEFAULT the
// real dlsym looks at the return address, so a call from here would search as for this library.

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

#include "preload/driver/driver.hpp"
#include "preload/hooks/cupti_hooks.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/real_dlsym.hpp"

namespace gpumemtrace::preload {
namespace {

bool is_driver_name(const char* name) noexcept {
  return name != nullptr && name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

// The C++ part's result for the assembly. If it is not final, the assembly jumps to the real dlsym
// or dlvsym, which then searches in the original caller's scope and sets the caller's dlerror.
struct Answer {
  void* address;
  std::uintptr_t is_final;
};

constexpr Answer kAskRealFunction = {nullptr, 0};

extern "C" [[gnu::visibility("hidden")]] const std::byte __ehdr_start[];  // defined by the linker
extern "C" [[gnu::visibility("hidden")]] const std::byte _end[];

bool is_in_this_library(const void* address) noexcept {
  return address >= __ehdr_start && address < _end;
}

// Answers a search of the whole process (RTLD_DEFAULT, the handle of the program) that has found
// our exported symbol. Without this library the search would have gone on: if it would have found
// no definition and no driver has the function, the program must not get ours.
Answer answer_for_own_symbol(void* own, const char* name) noexcept {
  const bool loaded = driver::is_loaded();
  void* const behind_us = real_dlsym(RTLD_NEXT, name);
  if (!loaded || (behind_us == nullptr && driver::query(name) == nullptr)) return {behind_us, 1};
  if (behind_us == nullptr) libc_dlerror();  // clears our search's error
  return {own, 1};
}

Answer answer_cupti(void* found, const char* name) noexcept {
  if (!is_in_this_library(found)) return {wrap_cupti(found, name), 1};
  void* const behind_us = real_dlsym(RTLD_NEXT, name);
  void* const answer = answer_cupti_symbol(found, behind_us, name);
  if (behind_us == nullptr && answer != nullptr) libc_dlerror();  // clears our search's error
  return {answer, 1};
}

}  // namespace

// The functions that the assembly of dlsym and dlvsym calls.
extern "C" {

[[gnu::visibility("hidden")]] Answer gpumemtrace_answer_dlsym(void* handle, const char* name) {
  const bool is_cupti = is_cupti_name(name);
  if ((!is_driver_name(name) && !is_cupti) || handle == RTLD_NEXT) return kAskRealFunction;
  void* const found = real_dlsym(handle, name);
  if (found == nullptr) return kAskRealFunction;
  if (is_cupti) return answer_cupti(found, name);
  if (is_in_this_library(found)) return answer_for_own_symbol(found, name);
  return {driver::wrap(found, name), 1};
}

// Our exported symbols have no version, so a dlvsym, which names a version, never finds them.
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

}  // namespace gpumemtrace::preload
