// SPDX-License-Identifier: Apache-2.0
// The native halves of a process's stacks: return addresses, and the time of their recording.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

class NativeStacks {
 public:
  // Keeps stacks with native frames.
  void add(const trace::Stack& record);

  // Innermost first; empty for kNone and for stacks without native frames.
  [[nodiscard]] std::span<const std::uint64_t> addresses_of(trace::StackId stack) const;
  // When the stack was first met, in ticks; modules are looked up at that time.
  [[nodiscard]] std::uint64_t time_of(trace::StackId stack) const;
  // Every recorded stack.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [id, stack] : stacks_) visit(id);
  }

 private:
  struct Stack {
    std::uint64_t time = 0;
    std::vector<std::uint64_t> addresses;
  };
  std::map<trace::StackId, Stack> stacks_;
};

}  // namespace gpumemtrace::analyzer
