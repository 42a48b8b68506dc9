// SPDX-License-Identifier: Apache-2.0
// The dlsym and dlvsym of the process that our functions of the same names hide.
#pragma once

namespace gpumemtrace::preload {

// Calls the next dlsym in the process, never ours. For any thread; takes no lock of ours.
void* real_dlsym(void* handle, const char* name) noexcept;

extern "C" {
// The real functions, for the assembly of our own dlsym and dlvsym; nullptr until a first look-up
// calls gpumemtrace_find_real_dlsym().
[[gnu::visibility("hidden")]] extern void* (*gpumemtrace_real_dlsym)(void*, const char*);
[[gnu::visibility("hidden")]] extern void* (*gpumemtrace_real_dlvsym)(void*, const char*,
                                                                      const char*);
[[gnu::visibility("hidden")]] void gpumemtrace_find_real_dlsym();
}

}  // namespace gpumemtrace::preload
