// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/stack_roles.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace gpumemtrace::analyzer {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// "Module.to.<locals>.convert" -> "convert"
std::string_view last_name(std::string_view function) {
  const std::size_t dot = function.rfind('.');
  return dot == std::string_view::npos ? function : function.substr(dot + 1);
}

FrameRole role_in_optimizers(std::string_view name, std::string_view file) {
  if (name == "zero_grad") return FrameRole::kZeroGrad;
  if (contains(file, "/lr_scheduler.py") || contains(file, "/swa_utils.py")) {
    return FrameRole::kNone;
  }
  // Optimizers of the user run inside `wrapper`, which PyTorch puts around every step.
  return is_one_of(name, {"step", "wrapper", "load_state_dict"}) ? FrameRole::kOptimizer
                                                                 : FrameRole::kNone;
}

}  // namespace

FrameRole role_of_frame(std::string_view function, std::string_view file) {
  const std::string_view name = last_name(function);
  if (contains(file, "/torch/optim/")) return role_in_optimizers(name, file);
  if (name == "backward") return FrameRole::kBackward;
  if (name == "closure") return FrameRole::kClosure;
  if (contains(file, "/torch/autograd/") &&
      is_one_of(name, {"grad", "_engine_run_backward", "_make_grads"})) {
    return FrameRole::kBackward;
  }
  // Recomputes a forward inside autograd.
  if (contains(file, "/torch/utils/checkpoint.py") && name == "unpack_hook") {
    return FrameRole::kBackward;
  }
  if (name == "forward" || contains(file, "/torch/nn/functional.py")) return FrameRole::kForward;
  if (contains(file, "/torch/nn/modules/module.py") &&
      is_one_of(name, {"_call_impl", "_wrapped_call_impl", "__call__", "_slow_forward"})) {
    return FrameRole::kForward;
  }
  if (contains(file, "/torch/nn/init.py") || contains(file, "/torch/nn/parameter.py")) {
    return FrameRole::kPlacement;
  }
  if (contains(file, "/torch/nn/modules/") &&
      is_one_of(name, {"__init__", "_apply", "to", "cuda", "to_empty", "reset_parameters"})) {
    return FrameRole::kPlacement;
  }
  return FrameRole::kNone;
}

StackRole role_of_frames(const std::vector<FrameRole>& roles) {
  StackRole result;
  result.is_known = true;
  result.has_python = !roles.empty();
  for (const FrameRole role : roles) {
    if (role == FrameRole::kNone) continue;
    if (result.phase == Phase::kForward) {
      if (role == FrameRole::kForward) continue;
      if (role == FrameRole::kBackward) result.phase = Phase::kBackward;
      return result;
    }
    if (role != FrameRole::kForward) {
      result.zero_grad = role == FrameRole::kZeroGrad;
      result.placement = role == FrameRole::kPlacement;
      if (role == FrameRole::kBackward) result.phase = Phase::kBackward;
      if (role == FrameRole::kOptimizer) result.phase = Phase::kOptimizer;
      return result;
    }
    result.phase = Phase::kForward;
  }
  return result;
}

StackRoles::CodeRole StackRoles::role_of_code(std::uint32_t code) {
  const auto [found, added] = known_codes_.try_emplace(code);
  if (!added) return found->second;
  const std::string function = stacks_.text_of(code, trace::CodeText::kName);
  found->second.role = role_of_frame(function, stacks_.text_of(code, trace::CodeText::kFile));
  found->second.moves =
      found->second.role == FrameRole::kPlacement && last_name(function) == "_apply";
  return found->second;
}

const StackRole& StackRoles::find_role(std::uint32_t stack) {
  if (!stacks_.has(stack) || stack >= kMaxStacks) return kUnknown;
  std::vector<FrameRole> roles;
  std::uint32_t moved_at = 0;
  for (const CodePlace& place : stacks_.places_of(stack)) {
    const CodeRole code = role_of_code(place.code);
    roles.push_back(code.role);
    if (code.moves && moved_at == 0) moved_at = place.instruction;
  }
  if (stack >= known_.size()) known_.resize(stack + 1);
  StackRole& role = known_[stack];
  role = role_of_frames(roles);
  if (role.placement && moved_at != 0) {
    role.moved_at = moved_at;
    first_moved_at_ = std::min(first_moved_at_, moved_at);
  }
  return role;
}

}  // namespace gpumemtrace::analyzer
