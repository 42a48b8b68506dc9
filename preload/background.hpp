// What other parts ask of the background thread.
#pragma once

namespace gpumemtrace::preload {

// Asks for a sample of the driver's numbers soon, for example after an allocation failed. Any
// thread, one store.
void want_sample() noexcept;

// A thread without Python frames uses memory: it may be one of PyTorch's autograd engine, and
// another thread may wait for it. Has the background thread look for that, at once where this
// thread was quiet before. Any thread; mostly one store, at most one system call each 200 us or so.
void note_thread_without_python() noexcept;

// Gives the background thread its writer; the thread calls this itself.
bool attach_background_thread() noexcept;

}  // namespace gpumemtrace::preload
