// SPDX-License-Identifier: Apache-2.0
// The dlsym and dlvsym behind ours.
#pragma once

namespace gpumemtrace::preload {

// The next dlsym in the process. Never ours. Any thread, no lock of ours.
void* real_dlsym(void* handle, const char* name) noexcept;

extern "C" {
// For the assembly of our own dlsym and dlvsym; set by the first look-up of any kind.
[[gnu::visibility("hidden")]] extern void* (*gpumemtrace_real_dlsym)(void*, const char*);
[[gnu::visibility("hidden")]] extern void* (*gpumemtrace_real_dlvsym)(void*, const char*,
                                                                      const char*);
[[gnu::visibility("hidden")]] void gpumemtrace_find_real_dlsym();
}

}  // namespace gpumemtrace::preload
