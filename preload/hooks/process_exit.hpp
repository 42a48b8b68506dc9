// SPDX-License-Identifier: Apache-2.0
// The exported functions of preload/hooks/process_exit.def: each tells the trace that the process
// is about to end, then jumps to the next definition of the function, with all arguments where they
// were. So forms with any number of arguments work, and a function that fails returns to its
// caller.
//
// exit() needs no such door: it runs our exit handler.
#pragma once

namespace gpumemtrace::preload {

// Looks up the real functions, when the driver's are looked up: a look-up is not for signal
// handlers, from which these functions may be called. In processes without a driver each is looked
// up at its first use: all of them together would cost every process 9 us.
void find_endings() noexcept;

}  // namespace gpumemtrace::preload
