// SPDX-License-Identifier: Apache-2.0
// What a thread needs to record: which session it belongs to, where its next record goes, and
// which context is current. Static thread-local storage: reaching it costs one register-relative
// load, and it exists from the thread's first instruction to its last.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trace/ring_layout.hpp"

namespace gpumemtrace::preload {

// A stream of chunks. It belongs to one thread at a time; when that thread ends, the next new
// thread goes on with it, so that a thousand short threads need no more memory than one.
struct Writer {
  std::uint32_t id = 0;
  std::uint32_t next_sequence = 0;           // of the chunk after the present one was sealed
  std::uint32_t size_class = 0;              // of the next chunk
  std::atomic<std::uint32_t> thread_id = 0;  // 0 while no thread has it
  trace::ChunkHeader* taken = nullptr;       // from the ring, and not yet begun
  trace::ChunkHeader* chunk = nullptr;
  std::byte* cursor = nullptr;
  std::byte* end = nullptr;
  // Records dropped since the last chunk was full, by DropClass, and since when.
  std::uint64_t gap_since = 0;
  std::uint64_t gap[static_cast<std::size_t>(trace::DropClass::kCount)] = {};
};

inline constexpr std::uint32_t kContextStackDepth = 14;  // as many as the second line has room for
inline constexpr std::uint32_t kNoSession =
    ~std::uint32_t{0};  // never the value of control.session

// What every event needs lies in two cache lines that come together.
struct alignas(64) ThreadState {
  std::uint32_t session = kNoSession;  // the session that `writer` belongs to; see Control
  std::uintptr_t hook_frame = 0;       // frame pointer of the outermost hook; 0: none
  Writer* writer = nullptr;
  std::byte* cursor = nullptr;  // the writer's, while this thread has it
  std::byte* end = nullptr;
  trace::ChunkHeader* chunk = nullptr;
  bool chunk_is_reserved = false;  // from the ring's reserve: copies must not fill it
  std::uint32_t writer_id = 0;     // the writer's, while this thread has it
  // Contexts that were made current here, as the wrapped calls told it; ContextId values.
  std::uint32_t context = 0;
  std::uint32_t context_depth = 0;
  std::uint64_t last_without_python = 0;  // time; see note_thread_without_python()
  std::uint32_t context_stack[kContextStackDepth] = {};
};

extern constinit thread_local ThreadState thread_state [[gnu::tls_model("initial-exec")]];

// Marks the thread as being inside one of our hooks. Only the outermost guard records: what the
// driver calls inside a call is that call's business.
//
// A longjmp out of a hook, or a thread that is cancelled in one, leaves the mark behind. A guard
// that finds a mark therefore looks whether that hook is still on the stack.
//
// - At most one in a function, and none in a function that is inlined into one with a guard.
class CallGuard {
 public:
  // Into the function whose frame it is about.
  [[gnu::always_inline]] CallGuard() noexcept {
    const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    ThreadState& state = thread_state;
    outermost_ = state.hook_frame == 0 || is_left(frame);
    if (outermost_) [[likely]]
      state.hook_frame = frame;
  }
  ~CallGuard() {
    if (outermost_) [[likely]]
      thread_state.hook_frame = 0;
  }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

  bool outermost() const noexcept { return outermost_; }

 private:
  // Whether the marked hook never returned. `frame` is that of the function that asks. Where the
  // stack does not tell, the answer is no, and counted.
  static bool is_left(std::uintptr_t frame) noexcept;

  bool outermost_;
};

}  // namespace gpumemtrace::preload
