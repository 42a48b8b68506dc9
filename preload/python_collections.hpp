// Whether Python's cycle collector runs on the calling thread: what it frees then, nobody had to
// free, and nobody could reach any more.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::preload::python {

// Where an interpreter keeps what is asked for, in bytes.
struct Collector {
  std::size_t collecting = 0;  // in the interpreter: an int; 0 = not known where
  // Where the lock of the interpreter stands: in the runtime, or, from 3.12 on, behind a pointer in
  // the interpreter.
  std::size_t lock = 0;
};

// Of a CPython 3.`minor`, verified against its memory, which is read through the kernel. Not known
// where the memory looks different.
Collector find_collector(unsigned minor, const void* runtime, const void* interpreter) noexcept;

// Whether the one of this process was found; once state() is kOn.
bool knows_collector() noexcept;

// True where a collection of cycles runs on the calling thread. Any thread, no lock, no call of
// Python that could wait; false where it is not known, and while the interpreter ends.
bool in_collection() noexcept;

}  // namespace gpumemtrace::preload::python
