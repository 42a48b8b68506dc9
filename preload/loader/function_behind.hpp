// SPDX-License-Identifier: Apache-2.0
// Finds the program's function that one of our functions hides, because ours has the same name.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>

#include "preload/base/message.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/real_dlsym.hpp"

namespace gpumemtrace::preload {

// The hidden function, which is found by its mangled name at the first call, and kept.
class FunctionBehind {
 public:
  explicit constexpr FunctionBehind(const char* name) noexcept : name_(name) {}

  // Searches PyTorch's base library, never through the loader: callers are inside the allocator's
  // lock.
  [[nodiscard]] void* in_libc10() noexcept {
    void* known = address_.load(std::memory_order_relaxed);  // relaxed: guards no other data
    if (known == nullptr) {
      known = find_symbol("libc10.so", name_);
      address_.store(known, std::memory_order_relaxed);
    }
    return known;
  }
  // Searches all libraries. nullptr if no library but ours defines the function: then there is no
  // function that ours could pass the call on to.
  [[nodiscard]] void* anywhere(const void* ours) noexcept {
    void* const known = address_.load(std::memory_order_relaxed);
    return known != nullptr ? known : look_up(ours);
  }

 private:
  // Asks the loader as well: symbol tables do not show which function a resolver chose.
  [[gnu::cold, gnu::noinline]] void* look_up(const void* ours) noexcept {
    void* found = find_symbol_behind(ours, name_);
    if (found == nullptr) found = real_dlsym(RTLD_NEXT, name_);
    address_.store(found, std::memory_order_relaxed);
    return found;
  }

  const char* name_;
  std::atomic<void*> address_ = nullptr;
};

// Called if there is no function behind ours: without our symbol, the loader would have found no
// definition for the caller, and ended the program with this exit code.
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
