// The exported functions of preload/endings.def: each tells the trace that the process is about to
// end, then jumps to the next definition of the function, with all arguments where they were. So
// forms with any number of arguments work, and a function that fails returns to its caller.
//
// exit() needs no such door: it runs our exit handler.
#pragma once

namespace gpumemtrace::preload {

// Looks up the real functions. Before the program runs: a look-up is not for signal handlers, from
// which these functions may be called.
void find_endings() noexcept;

}  // namespace gpumemtrace::preload
