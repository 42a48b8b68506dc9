// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/real_dlsym.hpp"

#include <dlfcn.h>

#include "preload/base/libc_compat.hpp"
#include "preload/loader/elf_symbols.hpp"

namespace gpumemtrace::preload {
namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

void* find_no_version(void*, const char*, const char*) noexcept { return nullptr; }

}  // namespace

extern "C" {
constinit Dlsym gpumemtrace_real_dlsym = nullptr;
constinit Dlvsym gpumemtrace_real_dlvsym = nullptr;

// Our own dlvsym hides libc's from ordinary binding, so libc's dlvsym is found in libc's symbol
// table (libdl's before glibc 2.34), and libc's dlsym with its help. The next dlsym in the process
// may be another library's, which only a search without version finds. Other libraries'
// constructors may call this before our constructor has run.
void gpumemtrace_find_real_dlsym() {
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
}

void* real_dlsym(void* handle, const char* name) noexcept {
  if (gpumemtrace_real_dlsym == nullptr) gpumemtrace_find_real_dlsym();
  return gpumemtrace_real_dlsym == nullptr ? nullptr : gpumemtrace_real_dlsym(handle, name);
}

}  // namespace gpumemtrace::preload
