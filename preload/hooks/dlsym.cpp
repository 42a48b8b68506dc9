// SPDX-License-Identifier: Apache-2.0
// The interposed dlsym and dlvsym: interposition points through which pointers to driver functions
// are handed out.
//
//   dlsym(handle, name)
//     name does not begin with "cu" and an upper-case letter, nor with "cupti" and one,
//     or handle is RTLD_NEXT            -> jump to the real dlsym, which sees the original caller
//     else                              -> ask the real dlsym, then exchange the result if it is,
//                                          by its value, a function that we wrap
//
// The jump is in assembly (dlsym_x86_64.S, dlsym_aarch64.S): RTLD_NEXT and RTLD_DEFAULT look at the
// return address, so a call from here would answer for us instead of for the caller.

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

// The result for the assembly. If it is not final, the assembly jumps to the real function, which
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
// symbol. Without us it would have gone on: if it finds no driver then, none may appear.
Answer answer_for_own_symbol(void* own, const char* name) noexcept {
  const bool loaded = driver::is_loaded();
  void* const behind_us = real_dlsym(RTLD_NEXT, name);
  if (!loaded || (behind_us == nullptr && driver::query(name) == nullptr)) return {behind_us, 1};
  if (behind_us == nullptr) libc_dlerror();  // the error is of our search
  return {own, 1};
}

Answer answer_cupti(void* found, const char* name) noexcept {
  if (!is_in_this_library(found)) return {wrap_cupti(found, name), 1};
  void* const behind_us = real_dlsym(RTLD_NEXT, name);
  void* const answer = answer_cupti_symbol(found, behind_us, name);
  if (behind_us == nullptr && answer != nullptr) libc_dlerror();  // the error is of our search
  return {answer, 1};
}

}  // namespace

// Called by the assembly.
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

}  // namespace gpumemtrace::preload
