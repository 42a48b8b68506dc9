// SPDX-License-Identifier: Apache-2.0
#include "preload/loader/exit_functions.hpp"

#include <errno.h>

#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/real_dlsym.hpp"

namespace gpumemtrace::preload {
namespace {

// Stands in for a function that this libc does not have.
long no_such_function() noexcept {
  errno = ENOSYS;
  return -1;
}

}  // namespace

extern "C" {
#define GPUMEMTRACE_EXIT_FUNCTION(symbol, kind)                               \
  [[gnu::used]] constinit ExitFunction gpumemtrace_exit_function_##symbol = { \
      #symbol, trace::MarkKind::kind};
#include "preload/loader/exit_functions.def"
}

void* real_exit_function(ExitFunction& function) noexcept {
  void* real = function.real.load(std::memory_order_relaxed);  // relaxed: guards no other data
  if (real != nullptr) return real;
  real = real_dlsym(RTLD_NEXT, function.symbol);
  if (real == nullptr && libc_dlerror) libc_dlerror();  // clears the error of our look-up
  // Before glibc 2.34 a program without libdl has no dlsym.
  if (real == nullptr) real = find_symbol_at_start("libc.so.6", function.symbol);
  if (real == nullptr) real = reinterpret_cast<void*>(no_such_function);
  function.real.store(real, std::memory_order_relaxed);
  return real;
}

void find_exit_functions() noexcept {
#define GPUMEMTRACE_EXIT_FUNCTION(symbol, kind) \
  static_cast<void>(real_exit_function(gpumemtrace_exit_function_##symbol));
#include "preload/loader/exit_functions.def"
}

}  // namespace gpumemtrace::preload
