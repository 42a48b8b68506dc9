// SPDX-License-Identifier: Apache-2.0
// Finds the phases of a training program by the stacks of its events.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/base/flat_map.hpp"
#include "analyzer/model/accounts/phase_clock.hpp"
#include "analyzer/model/program/categories.hpp"
#include "analyzer/stacks/python_stacks.hpp"

namespace gpumemtrace::analyzer {

// The role of one frame of a Python stack. The roles of a stack's frames show the program's phase:
// PyTorch's modules, autograd and optimizers are known by their files and functions.
enum class FrameRole : std::uint8_t {
  kNone,
  kForward,        // the call of a module
  kBackward,       // code of autograd
  kFirstGradient,  // autograd makes the gradient of the loss itself
  kOptimizer,      // an optimizer's step, and the loading of its state
  kUpdate,         // an optimizer's step computes with the state that it has
  kZeroGrad,
  kPlacement,  // modules are built, moved to a device or loaded; parameters are copied
  kState,      // an optimizer is built
  kReduction,  // gradients of sharded parameters are added up, in backward
  kGathering,  // sharded parameters are gathered, or buckets are made for exchange between ranks
  kLoading,    // tensors are read from a file
  // code that an optimizer's step calls to compute the loss: frames around it do not count
  kClosure,
};
// The role of a frame. `function` is the name as the interpreter tells it, qualified or not.
[[nodiscard]] FrameRole role_of_frame(std::string_view function, std::string_view file);

// The kind of a class of the program. PyTorch's frames around the class's methods show it. The kind
// decides the category of blocks that the class's constructor allocates.
enum class ClassKind : std::uint8_t { kUnknown, kModule, kOptimizer };

struct StackRole {
  bool has_python = false;
  bool zero_grad = false;
  // makes the gradient of the loss, which belongs to no parameter
  bool first_gradient = false;
  bool recomputes = false;  // runs forward code again, for backward
  bool updates = false;     // the frame that decides the phase has the role kUpdate
  // reads tensors from a file, and no frame further out has a role
  bool loads = false;
  SiteRole placed = SiteRole::kNone;  // follows from the innermost frame that has a role
  std::uint32_t moved_at = 0;         // instruction in Module._apply; 0: the stack moves no module
  std::uint64_t copied_at = 0;  // caller of copy.deepcopy(), for a tensor that is no parameter
  // Classes whose constructors are on the stack, further in than all frames that have a role.
  std::vector<const ClassKind*> built;
  Phase phase = Phase::kNone;
};
// The role of a stack, from the roles of its frames, innermost first. The innermost role decides,
// except that forward code inside autograd (a recomputed activation) belongs to backward.
[[nodiscard]] StackRole role_of_frames(const std::vector<FrameRole>& roles);

// Finds the role of each stack once and keeps it.
class StackRoles {
 public:
  explicit StackRoles(const PythonStacks& stacks) : stacks_(stacks) {}

  // The reference is valid until the next call.
  [[nodiscard]] const StackRole& role_of(trace::StackId stack) {
    if (const KnownStack* const known = known_.find(number_of(stack))) return roles_[known->role];
    return stack == trace::StackId::kNone ? kUnknown : find_role(stack);
  }
  // The part that a stack with this role has in building modules and optimizers. The answer depends
  // on the stacks read so far, and may change when further ones are read.
  [[nodiscard]] SiteRole site_role_of(const StackRole& role) const;

 private:
  // The kinds of functions that matter beside the roles of their frames.
  enum class Method : std::uint8_t {
    kAny,
    kMove,           // Module._apply
    kConstructor,    // __init__ of a class of the program
    kStep,           // step() of a class of the program
    kForward,        // forward() of a class of the program
    kCallOfStep,     // PyTorch's function around the step of every optimizer
    kCallOfForward,  // PyTorch's function around the forward of every module
    kParameterCopy,
    kTensorCopy,
    kDeepCopy,  // Python's copy.deepcopy()
  };
  struct CodeRole {
    FrameRole role = FrameRole::kNone;
    Method method = Method::kAny;
    // class of the function, for kConstructor, kStep and kForward
    ClassKind* built_class = nullptr;
  };

  struct KnownStack {
    std::uint64_t stack = 0;
    std::size_t role = 0;  // index in roles_
  };

  static inline const StackRole kUnknown = {};

  const StackRole& find_role(trace::StackId stack);
  CodeRole role_of_code(std::uint32_t code);
  CodeRole find_code_role(std::string_view function, std::string_view file);
  // The class to which a method belongs; nullptr if the method's name has no class, as before
  // CPython 3.11.
  [[nodiscard]] ClassKind* class_of(std::string_view method, std::string_view file);
  static void learn_classes(const std::vector<CodeRole>& codes);
  void record_module_copy(const std::vector<CodeRole>& codes, const std::vector<CodePlace>& places,
                          StackRole& role);

  const PythonStacks& stacks_;
  FlatMap<KnownStack, &KnownStack::stack> known_;
  std::vector<StackRole> roles_;
  std::unordered_map<std::uint32_t, CodeRole> known_codes_;
  std::uint32_t first_moved_at_ = ~std::uint32_t{0};
  std::map<std::string, ClassKind> classes_;  // classes by file and qualified name
  std::set<std::uint64_t> module_copies_;     // callers of copy.deepcopy() that copied parameters
};

// - Events come from all threads, in the order in which they took effect.
// - While the forward phase goes on, a stack without a role belongs to it: the loss is often
//   computed outside of the modules.
class Phases {
 public:
  Phases(const PythonStacks& stacks, PhaseClock& clock)
      : stacks_(stacks), roles_(stacks), clock_(clock) {}

  // Takes an event at the time `now` and returns its phase. `may_be_engine`: the event is one of
  // the framework, on another thread than the first; PyTorch runs backward on threads that have no
  // Python frames.
  Phase note(trace::StackId stack, bool may_be_engine, std::uint64_t now) {
    const StackRole& role = roles_.role_of(stack);
    clock_.in_zero_grad = role.zero_grad;
    if (!role.has_python && !(may_be_engine && !stacks_.empty())) return Phase::kNone;
    const Phase phase = role.has_python ? role.phase : Phase::kBackward;
    if (phase == clock_.phase && !phase_was_left_ && !between_passes_) [[likely]]
      return phase;  // the present phase goes on
    return change(role, phase, now);
  }
  // Notes that a Python thread freed a block that the backward phase made, as zero_grad does. The
  // free itself has to show zero_grad, as recorders leave out the stacks of frees. Only the free of
  // a parameter's gradient can show the end of a step.
  void record_gradient_release(bool of_parameter, std::uint64_t now) {
    clock_.in_zero_grad = true;
    if (of_parameter) record_zero_grad(now);
  }
  void record_other_release() { clock_.in_zero_grad = false; }
  // The role of a stack by itself; does not count as an event.
  [[nodiscard]] const StackRole& role_of(trace::StackId stack) const {
    return roles_.role_of(stack);
  }

  [[nodiscard]] SiteRole site_role_of(trace::StackId stack) const {
    return roles_.site_role_of(roles_.role_of(stack));
  }
  // True if the stack makes a parameter, or a block that may turn out to be one.
  [[nodiscard]] bool may_place_parameter(trace::StackId stack) const {
    return !roles_.role_of(stack).built.empty() || site_role_of(stack) == SiteRole::kAsParameter;
  }

  // True once after each step of an optimizer that followed forward or backward work. If the
  // optimizer itself allocates and copies nothing, zero_grad shows that there was a step.
  [[nodiscard]] bool take_step_end() {
    const bool ended = step_ended_;
    step_ended_ = false;
    return ended;
  }
  // True if the trace may end with a step: its optimizer has worked and nothing came after that, or
  // no event shows its optimizer.
  [[nodiscard]] bool has_open_step() const {
    return worked_ && (clock_.phase == Phase::kOptimizer || grads_were_freed_ || is_hidden_);
  }
  // True if a forward or backward phase was seen.
  [[nodiscard]] bool has_worked() const { return has_worked_; }
  // Number of backward passes in the whole run.
  [[nodiscard]] std::uint64_t backward_passes() const { return all_backward_passes_; }

 private:
  Phase change(const StackRole& role, Phase phase, std::uint64_t now);
  void begin(Phase phase, std::uint64_t now);
  void begin_pass(std::uint64_t now);
  void record_zero_grad(std::uint64_t now);
  // True if no event showed an optimizer for several times as many backward passes as a step ever
  // had: the optimizer works in place, and so does zero_grad. From then on each backward pass ends
  // a step.
  [[nodiscard]] bool is_optimizer_hidden() const;
  void end_step();
  void end_seen_step();
  void end_step_by_zero_grad(std::uint64_t now);
  void end_step_without_signs(std::uint64_t now);
  void optimizer_worked(std::uint64_t now);

  const PythonStacks& stacks_;
  mutable StackRoles roles_;  // mutable: look-ups keep their results
  PhaseClock& clock_;
  std::uint32_t backward_passes_ = 0;  // backward passes since the last step ended
  std::uint64_t all_backward_passes_ = 0;
  std::uint32_t longest_step_ = 0;  // most backward passes in a step whose end was seen
  bool phase_was_left_ = false;     // an event without a phase followed the phase's last event
  bool between_passes_ = true;      // in the forward phase, after an event outside of the model
  bool worked_ = false;             // forward or backward ran since the last step ended
  bool grads_were_freed_ = false;   // gradients were freed since the last step ended
  // is_optimizer_hidden() was true, and no end of a step was seen since
  bool is_hidden_ = false;
  bool has_worked_ = false;
  bool step_ended_ = false;
};

}  // namespace gpumemtrace::analyzer
