// SPDX-License-Identifier: Apache-2.0
// Simulates a program's work between two events: it reads other memory and runs other code, which
// evicts the recorder's data from the nearest caches. In a loop of events alone, all of that data
// stays in the caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpumemtrace::bench {

// Only one thread at a time may use an object.
class OtherWork {
 public:
  OtherWork();
  // Runs the work, which takes 50 to 200 us.
  void run();

 private:
  static constexpr std::size_t kBytes = 3 << 19;  // more than a processor's own caches hold
  static constexpr std::size_t kCalls = 4000;     // calls of functions, which have 1 MiB of code

  std::vector<std::byte> memory_;
  std::vector<std::uint32_t> lines_;      // order in which cache lines are visited
  std::vector<std::uint16_t> functions_;  // order in which functions are called
  std::uint64_t value_ = 1;
};

}  // namespace gpumemtrace::bench
