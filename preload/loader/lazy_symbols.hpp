// SPDX-License-Identifier: Apache-2.0
// Functions that are in libdl and libpthread before glibc 2.34, and that a process may lack. They
// are looked up at their first use, in the order in which the loader would search.
//
// Weak references would not do: a build with a newer glibc would name libc.so.6 as their file, and
// loaders before glibc 2.30 end every program whose libc.so.6 lacks the function. A program that
// has neither libdl nor libpthread never gets to the code that calls these functions.
//
// - Any thread. The first use takes the loader's lock, later ones take none.
// - Calling a function that the process lacks crashes: test the LazySymbol as a bool first.
#pragma once

#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <cstddef>

#include "preload/loader/elf_symbols.hpp"

namespace gpumemtrace::preload {

template <class Function>
class LazySymbol {
 public:
  constexpr explicit LazySymbol(const char* name) noexcept : name_(name) {}

  // False if the process lacks the function.
  explicit operator bool() const noexcept { return get() != nullptr; }
  template <class... Arguments>
  auto operator()(Arguments... arguments) const noexcept {
    return get()(arguments...);
  }

 private:
  Function* get() const noexcept {
    Function* known = found_.load(std::memory_order_relaxed);  // relaxed: guards no other data
    if (known == nullptr) {
      known = reinterpret_cast<Function*>(find_symbol("", name_));
      found_.store(known, std::memory_order_relaxed);
    }
    return known;
  }

  const char* name_;
  mutable std::atomic<Function*> found_ = nullptr;
};

inline constinit LazySymbol<void*(const char*, int)> libc_dlopen{"dlopen"};
inline constinit LazySymbol<char*()> libc_dlerror{"dlerror"};

inline constinit LazySymbol<int(pthread_attr_t*)> libc_pthread_attr_init{"pthread_attr_init"};
inline constinit LazySymbol<int(pthread_attr_t*)> libc_pthread_attr_destroy{"pthread_attr_destroy"};
inline constinit LazySymbol<int(const pthread_attr_t*, std::size_t*)>
    libc_pthread_attr_getstacksize{"pthread_attr_getstacksize"};
inline constinit LazySymbol<int(pthread_attr_t*, std::size_t)> libc_pthread_attr_setstacksize{
    "pthread_attr_setstacksize"};
inline constinit LazySymbol<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>
    libc_pthread_create{"pthread_create"};
inline constinit LazySymbol<int(pthread_t)> libc_pthread_detach{"pthread_detach"};

inline constinit LazySymbol<int(pthread_key_t*, void (*)(void*))> libc_pthread_key_create{
    "pthread_key_create"};
inline constinit LazySymbol<int(pthread_key_t, const void*)> libc_pthread_setspecific{
    "pthread_setspecific"};

}  // namespace gpumemtrace::preload
