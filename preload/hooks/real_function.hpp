// SPDX-License-Identifier: Apache-2.0
// The program's function behind one of ours that cannot answer in its place.
#pragma once

#include <unistd.h>

#include "preload/base/message.hpp"
#include "preload/loader/function_behind.hpp"

namespace gpumemtrace::preload {

// The loader bound the caller to our symbol. Without ours it would have found no definition and
// ended the program with this code.
[[noreturn, gnu::cold, gnu::noinline]] inline void end_without(const char* name) noexcept {
  constexpr int kLoadersExitCode = 127;
  Line line;
  line << "symbol lookup error: undefined symbol: " << name;
  message(line);
  _exit(kLoadersExitCode);
}

template <class Function>
Function* real_of(FunctionBehind& behind, Function* ours, const char* name) noexcept {
  void* const found = behind.anywhere(reinterpret_cast<const void*>(ours));
  if (found == nullptr) end_without(name);
  return reinterpret_cast<Function*>(found);
}

}  // namespace gpumemtrace::preload
