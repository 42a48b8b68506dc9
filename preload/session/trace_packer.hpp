// SPDX-License-Identifier: Apache-2.0
// The background thread's work on the ring and the trace file: it packs chunks of the ring into the
// file, keeps free chunks ready, keeps the file below its bound, and writes CUPTI's completed
// buffers. No other thread may use these classes.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpumemtrace::preload {

class CallGuard;
struct Session;
struct Span;

// Packs the ring's chunks into the file and keeps free chunks ready. Ends the recording if the file
// cannot be written, was removed or shortened by others, or grows far beyond its bound.
class TracePacker {
 public:
  explicit TracePacker(Session& session) noexcept : session_(session) {}

  // Packs sealed chunks into the file and returns them to the ring.
  void pack_sealed(const CallGuard& guard) noexcept;
  // Packs the committed records of chunks that are still being written.
  void pack_active(const CallGuard& guard) noexcept;
  // Keeps free chunks ready.
  void replenish_ring(const CallGuard& guard) noexcept;

  void stop_for_file(const CallGuard& guard, std::string_view what, int error) noexcept;

 private:
  enum class Refusal : std::uint8_t { kNone, kTooLarge, kRemoved, kCut, kError };

  // Calls pack(put) on the file thread; put(span) appends a span to the trace and returns false if
  // packing must stop.
  template <class Pack>
  void pack_on_file_thread(const CallGuard& guard, Pack&& pack) noexcept;
  [[nodiscard]] Refusal append(const Span& span, int& error) noexcept;
  std::uint64_t most_bytes() const noexcept;

  Session& session_;
};

// Keeps the trace file below --max-trace-bytes by checkpoints.
class TraceBound {
 public:
  // Called again and again while a checkpoint is made. False if the checkpoint must be given up.
  using ServiceRequests = bool(void* owner) noexcept;

  TraceBound(Session& session, TracePacker& packer) noexcept : session_(session), packer_(packer) {}

  // Replaces the oldest part of the trace by a checkpoint before the file reaches its bound.
  void keep(const CallGuard& guard, ServiceRequests* service_requests, void* owner) noexcept;

 private:
  Session& session_;
  TracePacker& packer_;
  std::uint64_t next_checkpoint_bytes_ = 0;
};

// Writes CUPTI's completed buffers as records of the trace.
class ActivityReader {
 public:
  ActivityReader(Session& session, TracePacker& packer) noexcept
      : session_(session), packer_(packer) {}

  // Writes the buffers that CUPTI has completed.
  void read(const CallGuard& guard) noexcept;
  // Makes CUPTI complete its buffers; the next read() finds them.
  void flush(const CallGuard& guard) noexcept;
  // Called before a possible end of the process: reads all that CUPTI has, also for activities that
  // are not complete.
  void read_all(const CallGuard& guard) noexcept;
  // Reads the filled buffers for the last time and lets later ones be free at once: CUPTI, and with
  // it a profiler in the program, would lack buffers that stay filled.
  void end(const CallGuard& guard) noexcept;

 private:
  Session& session_;
  TracePacker& packer_;
  bool is_over_ = false;
};

}  // namespace gpumemtrace::preload
