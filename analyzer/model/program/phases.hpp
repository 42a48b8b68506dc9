// SPDX-License-Identifier: Apache-2.0
// Follows a training program through its phases, by the stacks of its events.
#pragma once

#include <cstdint>

#include "analyzer/model/accounts/phase_clock.hpp"
#include "analyzer/model/program/categories.hpp"
#include "analyzer/model/program/stack_roles.hpp"

namespace gpumemtrace::analyzer {

// - Events come in the order in which they took effect, from all threads.
// - A stack without a role belongs to the forward phase while that goes on: the loss is often
//   computed beside the modules.
class Phases {
 public:
  Phases(const PythonStacks& stacks, PhaseClock& clock)
      : stacks_(stacks), roles_(stacks), clock_(clock) {}

  // Takes an event at the time `now` and returns the phase that it belongs to. `may_be_engine`: it
  // is the framework's, on a thread other than the first. PyTorch runs backward on threads that
  // have no Python frames.
  Phase note(trace::StackId stack, bool may_be_engine, std::uint64_t now) {
    const StackRole& role = roles_.role_of(stack);
    clock_.in_zero_grad = role.zero_grad;
    if (!role.has_python && !(may_be_engine && !stacks_.empty())) return Phase::kNone;
    const Phase phase = role.has_python ? role.phase : Phase::kBackward;
    if (phase == clock_.phase && !left_ && !between_passes_) [[likely]]
      return phase;  // a phase goes on
    return change(role, phase, now);
  }
  // A Python thread released a block that the backward phase made, as zero_grad does. Recorders
  // leave out the stacks of frees, so this stands for zero_grad's frames. Only with the gradient of
  // a parameter can a step have ended.
  void record_gradient_release(bool of_parameter, std::uint64_t now) {
    clock_.in_zero_grad = true;
    if (of_parameter) record_zero_grad(now);
  }
  void record_other_release() { clock_.in_zero_grad = false; }
  // The phase of an event outside the order, by its stack alone.
  [[nodiscard]] const StackRole& role_of(trace::StackId stack) const {
    return roles_.role_of(stack);
  }

  [[nodiscard]] SiteRole placed_by(trace::StackId stack) const {
    return roles_.placed_by(roles_.role_of(stack));
  }
  // True if the stack makes a parameter, or a block that may turn out to be one.
  [[nodiscard]] bool may_place_parameter(trace::StackId stack) const {
    return !roles_.role_of(stack).built.empty() || placed_by(stack) == SiteRole::kAsParameter;
  }

  // True once after each step of an optimizer that followed forward or backward work. If the
  // optimizer itself allocates and copies nothing, zero_grad shows that there was one.
  [[nodiscard]] bool take_step_end() {
    const bool ended = step_ended_;
    step_ended_ = false;
    return ended;
  }
  // The trace may end with a step: its optimizer has worked and nothing came after it, or no event
  // shows its optimizer.
  [[nodiscard]] bool has_open_step() const {
    return worked_ && (clock_.phase == Phase::kOptimizer || grads_were_freed_ || is_hidden_);
  }
  // True if a forward or backward phase was seen.
  [[nodiscard]] bool has_worked() const { return has_worked_; }
  // In the whole run.
  [[nodiscard]] std::uint64_t backward_passes() const { return all_backward_passes_; }

 private:
  Phase change(const StackRole& role, Phase phase, std::uint64_t now);
  void begin(Phase phase, std::uint64_t now);
  void begin_pass(std::uint64_t now);
  void record_zero_grad(std::uint64_t now);
  // No event showed an optimizer for several times as many backward passes as a step ever had: it
  // works in place, and so does zero_grad. From then on each backward pass ends a step.
  [[nodiscard]] bool is_optimizer_hidden() const;
  void end_step();
  void end_seen_step();
  void end_invisible_step(std::uint64_t now);
  void end_hidden_step(std::uint64_t now);
  void optimizer_worked(std::uint64_t now);

  const PythonStacks& stacks_;
  mutable StackRoles roles_;  // a memory of answers
  PhaseClock& clock_;
  std::uint32_t backward_passes_ = 0;  // since the last step ended
  std::uint64_t all_backward_passes_ = 0;
  std::uint32_t longest_step_ = 0;  // the most of them in a step that was seen
  bool left_ = false;               // something else than the last phase has happened since
  bool between_passes_ = true;      // in forward, and outside of the model
  bool worked_ = false;             // since the last step ended
  bool grads_were_freed_ = false;   // as above
  bool is_hidden_ = false;          // is_optimizer_hidden() was true, and no step was seen since
  bool has_worked_ = false;
  bool step_ended_ = false;
};

}  // namespace gpumemtrace::analyzer
