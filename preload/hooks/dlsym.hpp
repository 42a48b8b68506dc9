// SPDX-License-Identifier: Apache-2.0
// The interposed dlsym and dlvsym, and cuGetProcAddress: the doors through which pointers to driver
// functions are handed out.
//
//   dlsym(handle, name)
//     name does not begin with "cu" and an upper-case letter, nor with "cupti" and one,
//     or handle is RTLD_NEXT            -> jump to the real dlsym, which sees the original caller
//     else                              -> ask the real dlsym, then exchange the result if it is,
//                                          by its value, a function that we wrap
//
// The jump is in assembly (dlsym_x86_64.S, dlsym_aarch64.S): RTLD_NEXT and RTLD_DEFAULT look at the
// return address, so a call from here would answer for us instead of for the caller.
#pragma once

#include "preload/driver/driver.hpp"

namespace gpumemtrace::preload {

// The next dlsym in the process. Never ours.
void* real_dlsym(void* handle, const char* name) noexcept;

void* get_proc_address_wrapper(int version, driver::Door door) noexcept;

}  // namespace gpumemtrace::preload
