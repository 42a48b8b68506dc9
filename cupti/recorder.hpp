// SPDX-License-Identifier: Apache-2.0
// The functions that cupti/ needs of the library that it is part of. Set once, before anything else
// is called.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpumemtrace::cupti {

struct Recorder {
  // The clock of all records. Any thread.
  std::uint64_t (*ticks)() = nullptr;
  // Writes a record with its tail; false if there is no room. Only from within calls that are
  // marked as "the thread that records".
  bool (*write)(const void* record, std::size_t bytes, const char* tail,
                std::size_t tail_bytes) = nullptr;
  // Ends the pause of the thread that records. Any thread.
  void (*wake)() = nullptr;
};

}  // namespace gpumemtrace::cupti
