// SPDX-License-Identifier: Apache-2.0
// Chooses the times to sample which thread waits for PyTorch's autograd engine. The engine's
// threads have no Python frames; they work for a thread that waits for them in Python.
//
// The waiting thread and its stack change only while the engine is without work, or after the
// thread that waited has run Python again. So an engine's thread takes a sample if it was quiet
// before for longer than between two operators of one pass, or if a thread ran Python since the
// last sample. It also takes one now and then in between, because neither condition shows a thread
// that waits again at once and records nothing before.
//
// With PyTorch 2 the waiting thread passes through a hook of ours before it waits, and records its
// own stack. A sample is then due only if a thread has run Python since, or if a wait since the
// last sample was not recorded: the analyzer regards the waiting thread's next event as the end of
// its wait.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

// For a thread without Python frames that allocates or frees memory; `now` is in ticks(). True if
// the thread must take a sample of the threads that wait and then call end_waiting_sample().
// Samples are taken by one thread at a time, by each thread at most every 200 us.
[[nodiscard]] bool try_begin_waiting_sample(std::uint64_t now) noexcept;
void end_waiting_sample(std::uint64_t now) noexcept;

// Called on a thread that has Python frames. Costs mostly one load.
void python_runs_here() noexcept;

// Called on a thread that is about to wait for the autograd engine. `is_recorded`: the thread's
// stack is recorded.
void waiting_begins(bool is_recorded) noexcept;

// Forgets the sampling thread and all waiting threads: before a session's first record, also in a
// forked child.
void reset_waiting_samples() noexcept;

}  // namespace gpumemtrace::preload
