// SPDX-License-Identifier: Apache-2.0
// What a Python stack says of the program's phase: PyTorch's modules, autograd and optimizers are
// known by their files and functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyzer/model/accounts/phase_clock.hpp"
#include "analyzer/stacks/python_stacks.hpp"

namespace gpumemtrace::analyzer {

// What a frame stands for.
enum class FrameRole : std::uint8_t {
  kNone,
  kForward,    // a module's call
  kBackward,   // autograd
  kOptimizer,  // an optimizer's step, and the loading of its state
  kZeroGrad,
  kPlacement,  // modules are built, or moved to a device
  kClosure,    // what an optimizer's step calls to compute the loss: frames around it do not count
};
// `function` as the interpreter tells it, qualified or not.
[[nodiscard]] FrameRole role_of_frame(std::string_view function, std::string_view file);

struct StackRole {
  bool is_known = false;  // the trace has told the stack
  bool has_python = false;
  bool zero_grad = false;
  bool placement = false;
  std::uint32_t moved_at = 0;  // instruction of Module._apply; 0 where that moves nothing
  Phase phase = Phase::kNone;
};
// Of the roles of a stack's frames, innermost first. The innermost decides; only a forward inside
// autograd (a recomputed activation) is backward.
[[nodiscard]] StackRole role_of_frames(const std::vector<FrameRole>& roles);

// Remembers the answer for each stack.
class StackRoles {
 public:
  explicit StackRoles(const PythonStacks& stacks) : stacks_(stacks) {}

  // Valid until the next question.
  [[nodiscard]] const StackRole& role_of(std::uint32_t stack) {
    if (stack < known_.size() && known_[stack].is_known) return known_[stack];
    return stack == 0 ? kUnknown : find_role(stack);
  }
  // Module._apply moves the parameters of a module first, its buffers further down.
  [[nodiscard]] bool moves_buffers(const StackRole& role) const {
    return role.moved_at > first_moved_at_;
  }

 private:
  struct CodeRole {
    FrameRole role = FrameRole::kNone;
    bool moves = false;  // Module._apply
  };

  static constexpr StackRole kUnknown = {};

  const StackRole& find_role(std::uint32_t stack);
  CodeRole role_of_code(std::uint32_t code);

  const PythonStacks& stacks_;
  std::vector<StackRole> known_;  // by stack
  std::unordered_map<std::uint32_t, CodeRole> known_codes_;
  std::uint32_t first_moved_at_ = ~std::uint32_t{0};
};

}  // namespace gpumemtrace::analyzer
