// SPDX-License-Identifier: Apache-2.0
// Reads the recorder's ring file from the traced program, to wait until the background thread has
// written all full chunks to the trace, and to count dropped records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "trace/ring_layout.hpp"

namespace gpumemtrace::bench {

class RingView {
 public:
  // Maps the file for reading. Throws std::runtime_error if that fails.
  explicit RingView(const std::filesystem::path& path);
  ~RingView();
  RingView(const RingView&) = delete;
  RingView& operator=(const RingView&) = delete;

  // Returns once no sealed chunk waits for the background thread. Throws after ten seconds.
  void wait_until_packed() const;
  // Records that the recorder has dropped since it started.
  [[nodiscard]] std::uint64_t dropped() const;
  [[nodiscard]] std::uint64_t used_bytes() const;

 private:
  [[nodiscard]] const trace::RingHeader& header() const;
  [[nodiscard]] bool any_sealed() const;

  int descriptor_ = -1;
  const std::byte* base_ = nullptr;
  std::size_t mapped_bytes_ = 0;
};

}  // namespace gpumemtrace::bench
