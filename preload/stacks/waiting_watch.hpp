// SPDX-License-Identifier: Apache-2.0
// Who waits for PyTorch's autograd engine, as the background thread sees it from time to time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "preload/python/python_waiting.hpp"

namespace gpumemtrace::preload {

class CallGuard;

// Writes a WaitingStack record for each Python thread that waits. What stands in the trace already
// is written again where the thread did something else meanwhile, or after a while. Background
// thread only.
class WaitingWatch {
 public:
  // A look, where the last one is not too near. One is wanted, and the session records.
  void refresh(const CallGuard& guard) noexcept;

 private:
  // What was written last of a thread; stack 0: it was seen not to wait since.
  struct Known {
    std::uint64_t thread_id = 0;
    std::uint64_t written_ns = 0;
    std::uint32_t stack = 0;
  };

  void forget_all_but_found() noexcept;
  Known& known(std::uint64_t thread_id) noexcept;

  std::uint64_t last_look_ns_ = 0;
  Known known_[python::WaitingLook::kMaxThreads];
  python::WaitingLook look_;
};

}  // namespace gpumemtrace::preload
