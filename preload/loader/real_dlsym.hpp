// SPDX-License-Identifier: Apache-2.0
// The dlsym and dlvsym of the process that our functions of the same names hide.
#pragma once

namespace gpumemtrace::preload {

// Calls the next dlsym in the process, never ours. For any thread; takes no lock of ours.
void* real_dlsym(void* handle, const char* name) noexcept;

extern "C" {
// For the assembly of our own dlsym and dlvsym; set by the first look-up of any kind.
[[gnu::visibility("hidden")]] extern void* (*gpumemtrace_real_dlsym)(void*, const char*);
[[gnu::visibility("hidden")]] extern void* (*gpumemtrace_real_dlvsym)(void*, const char*,
                                                                      const char*);
[[gnu::visibility("hidden")]] void gpumemtrace_find_real_dlsym();
}

}  // namespace gpumemtrace::preload
