// SPDX-License-Identifier: Apache-2.0
// Python threads that wait for PyTorch's autograd engine. The engine's own threads have no Python
// frames, and the thread that called backward() waits for them without the GIL, in native code.
//
// For one thread at a time. The other threads run meanwhile, so their memory is read through the
// kernel, whole structures at once, and counts only if a second reading gives the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "preload/python/python_layout.hpp"
#include "preload/python/reading_log.hpp"

namespace gpumemtrace::preload::python {

struct WaitingThread {
  std::uint64_t thread_id;  // the kernel's id; 0 = not known
  std::size_t count;
  Frame frames[kMaxFrames];  // innermost first
};

// The threads of the main interpreter whose innermost Python frame waits for the engine.
class WaitingLook {
 public:
  static constexpr std::size_t kMaxThreads = 8;

  // Samples the threads again, at most `depth` frames of each; `depth` must be the same each time.
  // If all memory that an earlier sample read is unchanged, the result of that sample is used. This
  // check takes one system call; sampling takes some for each frame.
  void look(std::size_t depth) noexcept;
  // The result of the last sample; empty if there is no interpreter.
  std::span<const WaitingThread> found() const noexcept;

 private:
  struct Outcome {
    std::size_t count = 0;
    WaitingThread found[kMaxThreads] = {};
    ReadingLog log;
  };
  static void read_all(std::size_t depth, Outcome& out) noexcept;

  // A program waits in the same places again and again, and is at other places in between. So two
  // outcomes are kept: the last that found a waiting thread, and the last that found none.
  Outcome outcomes_[2];
  std::size_t waiting_ = 0;  // index of the outcome that found a thread
  const Outcome* last_ = nullptr;
};

// Copies of the texts of a code object that another thread may free. A text that is longer than its
// array is cut.
struct CodeCopy {
  std::uint32_t first_line = 0;
  std::size_t name_bytes = 0;
  std::size_t file_bytes = 0;
  std::size_t line_table_bytes = 0;
  char name[1024];
  char file[1024];
  char line_table[65536];
};
[[nodiscard]] bool copy_code(const void* code, CodeCopy& out) noexcept;

}  // namespace gpumemtrace::preload::python
