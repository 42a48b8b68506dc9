// SPDX-License-Identifier: Apache-2.0
// When to look who waits for PyTorch's autograd engine. The engine's threads have no Python frames;
// what they do is the doing of a thread that waits for them in Python.
//
// Who waits, and where, changes only while the engine is without work, or after the thread that
// waited has run Python again. So an engine's thread looks where it had been quiet for longer than
// between two operators of one pass, or somebody ran Python since the last look; and now and then
// in between, because a thread that waits again at once, and records nothing before, is told by
// neither.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

// The calling thread uses memory `now` (ticks()) and has no Python frames. True where a look is
// due, at most each 200 us, and no other thread looks: it looks, and then says when the look was
// over.
[[nodiscard]] bool begin_waiting_look(std::uint64_t now) noexcept;
void end_waiting_look(std::uint64_t now) noexcept;

// The calling thread has Python frames. Mostly a load.
void python_runs_here() noexcept;

// Nobody looks: before a session's first record, also in a forked child.
void reset_waiting_looks() noexcept;

}  // namespace gpumemtrace::preload
