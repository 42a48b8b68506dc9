// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/phases.hpp"

#include <algorithm>

namespace gpumemtrace::analyzer {

Phase Phases::change(const StackRole& role, Phase phase, std::uint64_t now) {
  if (clock_.phase == Phase::kOptimizer && phase != Phase::kOptimizer && worked_) end_seen_step();
  if (role.zero_grad) record_zero_grad(now);
  if (phase == Phase::kForward && clock_.phase == Phase::kBackward) {
    if (grads_were_freed_) {
      end_invisible_step(now);
    } else if (is_optimizer_hidden()) {
      end_hidden_step(now);
    }
  }
  if (phase != Phase::kNone) {
    begin(phase, now);
    return phase;
  }
  const bool belongs_to_forward =
      clock_.phase == Phase::kForward && role.placed == SiteRole::kNone && !role.zero_grad;
  if (clock_.phase != Phase::kForward) left_ = true;
  if (belongs_to_forward && !between_passes_) {
    between_passes_ = true;
    clock_.pass_was_over = now;
  }
  return belongs_to_forward ? Phase::kForward : Phase::kNone;
}

void Phases::record_zero_grad(std::uint64_t now) {
  if (!worked_) return;
  grads_were_freed_ = true;
  if (clock_.phase == Phase::kBackward) return end_invisible_step(now);
  // Before the first backward pass there was nothing to free. So the gradients of the first step
  // are freed in the forward phase of the second one, which goes on.
  if (clock_.phase != Phase::kForward || longest_step_ != 0 || backward_passes_ == 0) return;
  end_invisible_step(now);
  worked_ = grads_were_freed_ = true;
}

bool Phases::is_optimizer_hidden() const {
  constexpr std::uint32_t kTimes = 4;
  return is_hidden_ || (longest_step_ != 0 && backward_passes_ > kTimes * longest_step_);
}

void Phases::end_step() {
  step_ended_ = true;
  worked_ = false;
  grads_were_freed_ = false;
  backward_passes_ = 0;
}

void Phases::end_seen_step() {
  longest_step_ = std::max(longest_step_, backward_passes_);
  is_hidden_ = false;
  end_step();
}

void Phases::end_invisible_step(std::uint64_t now) {
  end_seen_step();
  optimizer_worked(now);
}

void Phases::end_hidden_step(std::uint64_t now) {
  is_hidden_ = true;
  end_step();
  optimizer_worked(now);
}

void Phases::optimizer_worked(std::uint64_t now) {
  clock_.former_optimizer_began = clock_.optimizer_began;
  clock_.optimizer_began = now;
}

void Phases::begin_pass(std::uint64_t now) {
  clock_.former_pass_began = clock_.pass_began;
  clock_.pass_began = now;
}

void Phases::begin(Phase phase, std::uint64_t now) {
  if (phase == Phase::kForward && (between_passes_ || clock_.phase != phase)) begin_pass(now);
  between_passes_ = false;
  const bool is_work = phase != Phase::kOptimizer;
  // Several optimizers in a row are one phase.
  const bool goes_on = phase == clock_.phase && (is_work || !worked_);
  left_ = false;
  if (is_work) worked_ = has_worked_ = true;
  if (goes_on) return;
  clock_.phase = phase;
  clock_.phase_began = now;
  if (phase == Phase::kBackward) {
    ++backward_passes_;
    ++all_backward_passes_;
  }
  if (is_work) return;
  optimizer_worked(now);
}

}  // namespace gpumemtrace::analyzer
