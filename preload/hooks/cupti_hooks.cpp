// SPDX-License-Identifier: Apache-2.0
#include "preload/hooks/cupti_hooks.hpp"

#include <string.h>

#include <atomic>
#include <cstddef>
#include <string_view>
#include <utility>

#include "cupti/collection.hpp"
#include "preload/loader/elf_symbols.hpp"
#include "preload/loader/lazy_symbols.hpp"
#include "preload/loader/real_dlsym.hpp"
#include "preload/session/cupti_collection.hpp"

namespace gpumemtrace::preload {
namespace {

using namespace cupti;

// The wrappers of CUPTI's functions, one set for each copy of libcupti: a wrapper's address shows
// which copy the wrapper belongs to.

template <std::size_t kIndex>
struct CopyWrappers {
  static inline constinit std::atomic<Library*> library = nullptr;
#define GPUMEMTRACE_CUPTI_SERVED(symbol, verb, parameters, arguments) \
  static Result symbol parameters {                                   \
    Library& copy = *library.load();                                  \
    program_calls_cupti(copy);                                        \
    return copy.verb arguments;                                       \
  }
#include "cupti/functions.def"
};

// Makes wrapper set kIndex serve `library`, and returns the set's wrapper of the function `name`.
template <std::size_t kIndex>
void* wrapper_in(Library& library, std::string_view name) noexcept {
  CopyWrappers<kIndex>::library.store(&library);
#define GPUMEMTRACE_CUPTI_SERVED(symbol, verb, parameters, arguments) \
  if (name == #symbol) return reinterpret_cast<void*>(&CopyWrappers<kIndex>::symbol);
#include "cupti/functions.def"
  return nullptr;
}

// The wrapper of the CUPTI function `name` of this copy; nullptr if we do not wrap the function.
void* wrapper_of(Library& library, std::string_view name) noexcept {
  void* wrapper = nullptr;
  const auto choose = [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) noexcept {
    (void)((library.index() == kIndex && (wrapper = wrapper_in<kIndex>(library, name), true)) ||
           ...);
  };
  choose(std::make_index_sequence<kMostLibraries>());
  return wrapper;
}

// Used if no libcupti is loaded: finds the definition of a CUPTI function in a library that stands
// in for libcupti under another name.
template <class Function>
Function* cupti_stand_in(Function* ours, const char* symbol) noexcept {
  void* next = real_dlsym(RTLD_NEXT, symbol);
  if (next == nullptr) {
    if (libc_dlerror) libc_dlerror();  // clears the error of our own look-up
    next = find_symbol_behind(reinterpret_cast<void*>(ours), symbol);
  }
  return reinterpret_cast<Function*>(next);
}

}  // namespace

bool is_cupti_name(const char* name) noexcept {
  return strncmp(name, "cupti", 5) == 0 && name[5] >= 'A' && name[5] <= 'Z';
}

void* wrap_cupti(void* address, const char* name) noexcept {
  Library* library = cupti_library_around(address);
  if (library == nullptr) return address;
  (void)notice_cupti_fork();
  Library* const collecting = the_collection().collecting();
  // While we collect through one copy of libcupti, another copy would only report that CUPTI is in
  // use: the program gets the functions of our copy.
  if (collecting != nullptr && collecting != library) {
    void* const same = symbol_of(*collecting, name);
    if (same == nullptr) return address;
    static constinit std::atomic<bool> said = false;
    if (!said.exchange(true)) {
      the_collection().remark("a second libcupti is answered by the first", path_of(*library));
    }
    library = collecting;
    address = same;
  }
  void* const wrapper = wrapper_of(*library, name);
  return wrapper == nullptr ? address : wrapper;
}

void* answer_cupti_symbol(void* own, void* behind_us, const char* name) noexcept {
  if (behind_us != nullptr) return wrap_cupti(behind_us, name);
  return look_for_cupti().library == nullptr ? nullptr : own;
}

}  // namespace gpumemtrace::preload

// The exported cupti* symbols, for objects that are linked to a libcupti.
#define GPUMEMTRACE_CUPTI_SERVED(symbol, verb, parameters, arguments)                      \
  extern "C" [[gnu::visibility("default")]] gpumemtrace::cupti::Result symbol parameters { \
    gpumemtrace::cupti::Library* const library =                                           \
        gpumemtrace::preload::cupti_library_for(__builtin_return_address(0));              \
    if (library == nullptr) {                                                              \
      auto* const next = gpumemtrace::preload::cupti_stand_in(&symbol, #symbol);           \
      return next == nullptr ? gpumemtrace::cupti::kNotInitialized : next arguments;       \
    }                                                                                      \
    gpumemtrace::preload::program_calls_cupti(*library);                                   \
    return library->verb arguments;                                                        \
  }
namespace gpumemtrace::cupti {
#include "cupti/functions.def"
}
