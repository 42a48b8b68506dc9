// SPDX-License-Identifier: Apache-2.0
// The writers of a recording, and the ring that they write to.
#pragma once

#include <atomic>
#include <cstdint>

#include "preload/base/config.hpp"
#include "preload/base/lock_free_stack.hpp"
#include "preload/ring/ring.hpp"
#include "preload/ring/thread_state.hpp"

namespace gpumemtrace::preload {

inline constexpr std::uint32_t kMaxWriters = 8192;

struct WriterPool {
  explicit WriterPool(Ring& its_ring) noexcept : ring(its_ring) {}

  // Maps memory for all writers; writer 0 is the background thread's. False: no memory.
  [[nodiscard]] bool map_writers() noexcept;

  Ring& ring;
  OnFull on_full = OnFull::kDrop;
  std::uint32_t session_id = 0;  // the value of control.session while threads record to this
  // A background thread empties the ring. Then threads wait for room, if `on_full` says so.
  std::atomic<bool> is_emptied = false;

  Writer* writers = nullptr;  // kMaxWriters, mapped
  std::atomic<std::uint32_t>* links = nullptr;
  std::atomic<std::uint32_t> count = 0;
  IndexStack idle;
};

// The pool of this process's session; set before control.session says that there is one.
extern constinit WriterPool* writer_pool [[gnu::visibility("hidden")]];

}  // namespace gpumemtrace::preload
