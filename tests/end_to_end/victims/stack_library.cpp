// SPDX-License-Identifier: Apache-2.0
// Built several times with different frame sizes. The libraries' code is laid out alike, so return
// addresses are the same if they are loaded at the same place, but their stack frames differ.
#include <cstddef>

using Callback = void (*)(std::size_t bytes);

static inline void use(void* memory) { __asm__ volatile("" ::"r"(memory) : "memory"); }

extern "C" [[gnu::noinline]] void GPUMEMTRACE_LIBRARY_FRAME(Callback callback, std::size_t bytes) {
  char room[GPUMEMTRACE_FRAME_BYTES];
  callback(bytes);
  use(room);
}

extern "C" [[gnu::visibility("default")]] void enter(Callback callback, std::size_t bytes) {
  char room[GPUMEMTRACE_FRAME_BYTES];
  GPUMEMTRACE_LIBRARY_FRAME(callback, bytes);
  use(room);
}
