// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/phases.hpp"

namespace gpumemtrace::analyzer {

Phase Phases::change(const StackRole& role, Phase phase, std::uint64_t now) {
  if (clock_.phase == Phase::kOptimizer && phase != Phase::kOptimizer && worked_) end_step();
  if (role.zero_grad) note_zero_grad(now);
  if (phase == Phase::kForward && clock_.phase == Phase::kBackward && grads_were_freed_) {
    end_invisible_step(now);
  }
  if (phase != Phase::kNone) {
    begin(phase, now);
    return phase;
  }
  const bool belongs_to_forward =
      clock_.phase == Phase::kForward && role.placed == Placed::kNowhere && !role.zero_grad;
  if (clock_.phase != Phase::kForward) left_ = true;
  return belongs_to_forward ? Phase::kForward : Phase::kNone;
}

void Phases::note_zero_grad(std::uint64_t now) {
  if (!worked_) return;
  grads_were_freed_ = true;
  if (clock_.phase == Phase::kBackward) end_invisible_step(now);
}

void Phases::end_step() {
  step_ended_ = true;
  worked_ = false;
  grads_were_freed_ = false;
}

void Phases::end_invisible_step(std::uint64_t now) {
  end_step();
  clock_.former_optimizer_began = clock_.optimizer_began;
  clock_.optimizer_began = now;
}

void Phases::begin(Phase phase, std::uint64_t now) {
  const bool is_work = phase != Phase::kOptimizer;
  // Several optimizers in a row are one phase.
  const bool goes_on = phase == clock_.phase && (is_work || !worked_);
  left_ = false;
  if (is_work) worked_ = has_worked_ = true;
  if (goes_on) return;
  clock_.phase = phase;
  clock_.phase_began = now;
  if (is_work) return;
  clock_.former_optimizer_began = clock_.optimizer_began;
  clock_.optimizer_began = now;
}

}  // namespace gpumemtrace::analyzer
