// SPDX-License-Identifier: Apache-2.0
// Phases of a training program, and lifetimes measured in them instead of in time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gpumemtrace::analyzer {

// The program's present phase. kNone: none of the other three, or not known.
enum class Phase : std::uint8_t { kNone, kForward, kBackward, kOptimizer };

constexpr std::string_view name_of(Phase phase) {
  constexpr std::array<std::string_view, 4> kNames = {"", "forward", "backward", "optimizer"};
  return kNames[static_cast<std::size_t>(phase)];
}

// The life of a block up to its free, to the present, or to an out-of-memory failure that ended it.
struct Lifetime {
  bool freed = false;
  bool freed_by_zero_grad = false;
  bool outlived_phase = false;      // another phase began before the life ended
  bool outlived_step = false;       // an optimizer phase began before the life ended
  bool outlived_next_step = false;  // two optimizer phases began, with other work between them
  bool outlived_pass = false;       // the forward pass was over, or the next pass began
  bool outlived_next_pass = false;  // two forward passes began before the life ended
};

// The present phase, and the model times at which phases and forward passes began; 0 = not yet.
struct PhaseClock {
  Phase phase = Phase::kNone;  // the phase that began last
  bool in_zero_grad = false;   // the present event happens inside Optimizer.zero_grad
  // The framework reported that it is out of memory, and has given out no block since: blocks freed
  // now are freed by an exception or its handler, and might have lived on.
  bool unwinds = false;
  std::uint64_t phase_began = 0;
  std::uint64_t optimizer_began = 0;
  std::uint64_t former_optimizer_began = 0;
  // A forward pass is a call of a model; several passes may make one forward phase.
  std::uint64_t pass_began = 0;
  std::uint64_t former_pass_began = 0;
  // time of the first event outside of a model's call after the last pass
  std::uint64_t pass_was_over = 0;

  [[nodiscard]] Lifetime lifetime_of_live(std::uint64_t born) const {
    Lifetime lifetime;
    lifetime.outlived_phase = born < phase_began;
    lifetime.outlived_step = born < optimizer_began;
    lifetime.outlived_next_step = born < former_optimizer_began;
    lifetime.outlived_pass = born < pass_began || born < pass_was_over;
    lifetime.outlived_next_pass = born < former_pass_began;
    return lifetime;
  }
  [[nodiscard]] Lifetime lifetime_of_freed(std::uint64_t born) const {
    Lifetime lifetime = lifetime_of_live(born);
    if (unwinds) return lifetime;
    lifetime.freed = true;
    lifetime.freed_by_zero_grad = in_zero_grad;
    return lifetime;
  }
};

}  // namespace gpumemtrace::analyzer
