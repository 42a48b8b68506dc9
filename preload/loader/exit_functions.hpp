// SPDX-License-Identifier: Apache-2.0
// The functions of libc that end the process, or the program in it (exec), and that our functions
// of the same names call (preload/hooks/process_exit.cpp): one object a row of exit_functions.def.
#pragma once

#include <atomic>

#include "trace/records.hpp"

namespace gpumemtrace::preload {

struct ExitFunction {
  const char* symbol;
  trace::MarkKind mark;  // kind of the record that tells the trace of the process's end
  std::atomic<void*> real = nullptr;
};

// The objects have C symbols: the assembly in preload/hooks/process_exit.cpp names them.
extern "C" {
#define GPUMEMTRACE_EXIT_FUNCTION(symbol, kind) \
  [[gnu::visibility("hidden")]] extern ExitFunction gpumemtrace_exit_function_##symbol;
#include "preload/loader/exit_functions.def"
}

// The next definition of the function; a function that fails with ENOSYS if there is none.
[[nodiscard]] void* real_exit_function(ExitFunction& function) noexcept;

// Looks all exit functions up, when the driver's functions are looked up: signal handlers may call
// exit functions and must not do a look-up. In processes without a driver each is looked up at its
// first use, because all of them together would cost every process 9 us.
void find_exit_functions() noexcept;

}  // namespace gpumemtrace::preload
