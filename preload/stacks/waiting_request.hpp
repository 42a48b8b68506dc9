// SPDX-License-Identifier: Apache-2.0
// Asks the background thread to look who waits for PyTorch's autograd engine.
#pragma once

namespace gpumemtrace::preload {

// A thread without Python frames uses memory: it may be one of PyTorch's autograd engine, and
// another thread may wait for it. Has the background thread look for that, at once where this
// thread was quiet before. Any thread; mostly one store, at most one system call each 200 us or so.
void request_waiting_look() noexcept;

// Somebody asked, and no look has begun since.
[[nodiscard]] bool waiting_look_is_wanted() noexcept;
void waiting_look_begins() noexcept;

}  // namespace gpumemtrace::preload
