// SPDX-License-Identifier: Apache-2.0
// When threads look at all code objects of their stacks again.
//
//   background thread                    threads that walk
//     begin_if_due(): next number -----> Walk::begin_round(), where the number is another one
//     is_in_use() <--------------------- use_round()
//
// A round that no walk has begun yet need not end: whoever walks next looks at everything anyway.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpumemtrace::preload::python {

// Its number; never 0, which a thread that never walked has.
extern constinit std::atomic<std::uint32_t> present_round [[gnu::visibility("hidden")]];

// A walk has begun the present round, which must not last long from now on. The background thread
// may sleep: a room above this one knows how to wake it, and says so once.
void use_round() noexcept;
using WakeBackground = void() noexcept;
void install_wake_background(WakeBackground* wake) noexcept;

// The background thread's.
class Rounds {
 public:
  // Ends a round that walks have begun and that has lasted. Looks at the collector as often, where
  // Python stacks `are_recorded`.
  void begin_if_due(bool are_recorded) noexcept;
  // Walks go on, as far as is known: the present round has to end in time.
  [[nodiscard]] bool is_in_use() const noexcept;

 private:
  std::uint64_t last_ns_ = 0;
  bool was_used_ = false;  // the round before
};

}  // namespace gpumemtrace::preload::python
