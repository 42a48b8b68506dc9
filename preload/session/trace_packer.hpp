// SPDX-License-Identifier: Apache-2.0
// From the ring to the trace file, and the ring kept ready for more.
#pragma once

#include <cstdint>
#include <string_view>

namespace gpumemtrace::preload {

class CallGuard;
struct Session;
struct Span;

// - The background thread's.
// - A file that cannot be written, that others have removed or cut, or that grows far beyond its
//   bound, ends the recording.
class TracePacker {
 public:
  explicit TracePacker(Session& session) noexcept : session_(session) {}

  // Sealed chunks to the file and back to the ring.
  void pack_sealed(const CallGuard& guard) noexcept;
  // What is committed in chunks that are still being written.
  void pack_active(const CallGuard& guard) noexcept;
  // Keeps free chunks ready.
  void replenish_ring(const CallGuard& guard) noexcept;

  void stop_for_file(const CallGuard& guard, std::string_view what, int error) noexcept;

 private:
  enum class Refusal : std::uint8_t { kNone, kTooLarge, kRemoved, kCut, kError };

  template <class Pack>
  void pack_there(const CallGuard& guard, Pack&& pack) noexcept;
  [[nodiscard]] Refusal append(const Span& span, int& error) noexcept;
  std::uint64_t most_bytes() const noexcept;

  Session& session_;
};

}  // namespace gpumemtrace::preload
