// SPDX-License-Identifier: Apache-2.0
// CUPTI's completed buffers, as records of the trace.
#pragma once

namespace gpumemtrace::preload {

class CallGuard;
class TracePacker;
struct Session;

// The background thread's.
class ActivityReader {
 public:
  ActivityReader(Session& session, TracePacker& packer) noexcept
      : session_(session), packer_(packer) {}

  // What CUPTI has completed.
  void read(const CallGuard& guard) noexcept;
  // Asks CUPTI for what it has; the next read() finds it.
  void flush(const CallGuard& guard) noexcept;
  // Before an end that may come: all that CUPTI has, also of activities that are not complete.
  void read_all(const CallGuard& guard) noexcept;
  // No buffer stays filled: CUPTI, and with it a profiler of the program's, would lack it.
  void end(const CallGuard& guard) noexcept;

 private:
  Session& session_;
  TracePacker& packer_;
  bool is_over_ = false;
};

}  // namespace gpumemtrace::preload
