// SPDX-License-Identifier: Apache-2.0
// The program's phase by a Python stack: PyTorch's modules, autograd and optimizers are known by
// their files and functions.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/model/accounts/phase_clock.hpp"
#include "analyzer/model/program/categories.hpp"
#include "analyzer/stacks/python_stacks.hpp"

namespace gpumemtrace::analyzer {

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
  bool is_known = false;  // the trace has the stack
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
    const std::uint32_t number = number_of(stack);
    if (number < known_.size() && known_[number].is_known) return known_[number];
    return stack == trace::StackId::kNone ? kUnknown : find_role(stack);
  }
  // By the roles known now: later stacks may add some.
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
  std::vector<StackRole> known_;  // by stack
  std::unordered_map<std::uint32_t, CodeRole> known_codes_;
  std::uint32_t first_moved_at_ = ~std::uint32_t{0};
  std::map<std::string, ClassKind> classes_;  // by file and qualified name
  std::set<std::uint64_t> module_copies_;     // callers of copy.deepcopy() that copied parameters
};

}  // namespace gpumemtrace::analyzer
