// SPDX-License-Identifier: Apache-2.0
// Keeps the trace file below --max-trace-bytes by checkpoints.
#pragma once

#include <cstdint>

namespace gpumemtrace::preload {

class CallGuard;
class TracePacker;
struct Session;

// The background thread's.
class TraceBound {
 public:
  // What goes on while a checkpoint is made. False where there is no time for one any more.
  using KeepUp = bool(void* owner) noexcept;

  TraceBound(Session& session, TracePacker& packer) noexcept : session_(session), packer_(packer) {}

  // Replaces the oldest part of the trace by a checkpoint before the file reaches its bound.
  void keep(const CallGuard& guard, KeepUp* keep_up, void* owner) noexcept;

 private:
  Session& session_;
  TracePacker& packer_;
  std::uint64_t next_checkpoint_bytes_ = 0;
};

}  // namespace gpumemtrace::preload
