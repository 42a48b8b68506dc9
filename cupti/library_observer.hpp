// SPDX-License-Identifier: Apache-2.0
// Events of a copy of libcupti, for the code that collects through it.
#pragma once

#include <cstdint>

namespace gpumemtrace::cupti {

// - Any thread of the program, inside a call of CUPTI's that it makes.
class LibraryObserver {
 public:
  // The program registered callbacks of its own.
  virtual void program_joined() noexcept {}
  // Around the exchange of CUPTI's clock: the last time of the one, the first of the other.
  virtual void clock_changes() noexcept {}
  virtual void clock_changed() noexcept {}
  virtual void program_flushed() noexcept {}
  // CUPTI dropped records, and the program knows.
  virtual void count_dropped(std::uint64_t) noexcept {}
  // Around cuptiFinalize().
  virtual void finalize_begins() noexcept {}
  virtual void finalize_ended(bool) noexcept {}

 protected:
  constexpr LibraryObserver() noexcept = default;
  ~LibraryObserver() = default;
};

}  // namespace gpumemtrace::cupti
