// SPDX-License-Identifier: Apache-2.0
// Follows a training program through its phases, by the stacks of its events.
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

// The program's phase by a Python stack: PyTorch's modules, autograd and optimizers are known by
// their files and functions.
//
// The role of a frame.
enum class FrameRole : std::uint8_t {
  kNone,
  kForward,        // a module's call
  kBackward,       // autograd
  kFirstGradient,  // the same, if it makes the gradient of the loss itself
  kOptimizer,      // an optimizer's step, and the loading of its state
  kUpdate,         // the same, if it computes with the state that it has
  kZeroGrad,
  kPlacement,  // modules are built, moved to a device or loaded; parameters are copied
  kState,      // an optimizer is built
  kReduction,  // gradients of sharded parameters are added up, in backward
  kGathering,  // parameters become whole, or buckets are made for what ranks exchange
  kLoading,    // tensors are read from a file
  kClosure,    // called by an optimizer's step to compute the loss: frames around it do not count
};
// `function` as the interpreter tells it, qualified or not.
[[nodiscard]] FrameRole role_of_frame(std::string_view function, std::string_view file);

// The kind of a class of the program: PyTorch's frames around its methods show it, and it decides
// what the blocks of its constructor are.
enum class ClassKind : std::uint8_t { kUnknown, kModule, kOptimizer };

struct StackRole {
  bool has_python = false;
  bool zero_grad = false;
  bool first_gradient = false;        // that of the loss, which belongs to no parameter
  bool recomputes = false;            // forward, for backward
  bool updates = false;               // kUpdate
  bool loads = false;                 // kLoading, and nothing around it has a role
  SiteRole placed = SiteRole::kNone;  // by the innermost frame that has a role
  std::uint32_t moved_at = 0;         // instruction of Module._apply; 0 if that moves nothing
  std::uint64_t copied_at = 0;  // who called copy.deepcopy(), for a tensor that is no parameter
  // Classes whose constructors run; frames inside have no role.
  std::vector<const ClassKind*> built;
  Phase phase = Phase::kNone;
};
// The role of a stack, by the roles of its frames, innermost first. The innermost decides; only a
// forward inside autograd (a recomputed activation) is backward.
[[nodiscard]] StackRole role_of_frames(const std::vector<FrameRole>& roles);

// Remembers the answer for each stack.
class StackRoles {
 public:
  explicit StackRoles(const PythonStacks& stacks) : stacks_(stacks) {}

  // Valid until the next call.
  [[nodiscard]] const StackRole& role_of(trace::StackId stack) {
    if (const KnownStack* const known = known_.find(number_of(stack))) return roles_[known->role];
    return stack == trace::StackId::kNone ? kUnknown : find_role(stack);
  }
  // Decides by the roles of the stacks read so far: a stack that is read later may change it.
  [[nodiscard]] SiteRole placed_by(const StackRole& role) const;

 private:
  // A function's part beside its role.
  enum class Method : std::uint8_t {
    kAny,
    kMove,           // Module._apply
    kConstructor,    // of a class of the program
    kStep,           // as above
    kForward,        // as above
    kCallOfStep,     // PyTorch's, around the step of every optimizer
    kCallOfForward,  // PyTorch's, around the forward of every module
    kParameterCopy,
    kTensorCopy,
    kDeepCopy,  // Python's
  };
  struct CodeRole {
    FrameRole role = FrameRole::kNone;
    Method method = Method::kAny;
    ClassKind* built_class = nullptr;  // of kConstructor, kStep and kForward
  };

  struct KnownStack {
    std::uint64_t stack = 0;
    std::size_t role = 0;  // index in roles_
  };

  static inline const StackRole kUnknown = {};

  const StackRole& find_role(trace::StackId stack);
  CodeRole role_of_code(std::uint32_t code);
  CodeRole find_code_role(std::string_view function, std::string_view file);
  // The class that a method belongs to; nullptr if its name has none, as before CPython 3.11.
  [[nodiscard]] ClassKind* class_of(std::string_view method, std::string_view file);
  static void learn_classes(const std::vector<CodeRole>& codes);
  void record_module_copy(const std::vector<CodeRole>& codes, const std::vector<CodePlace>& places,
                          StackRole& role);

  const PythonStacks& stacks_;
  FlatMap<KnownStack, &KnownStack::stack> known_;
  std::vector<StackRole> roles_;
  std::unordered_map<std::uint32_t, CodeRole> known_codes_;
  std::uint32_t first_moved_at_ = ~std::uint32_t{0};
  std::map<std::string, ClassKind> classes_;  // by file and qualified name
  std::set<std::uint64_t> module_copies_;     // callers of copy.deepcopy() that copied parameters
};

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
