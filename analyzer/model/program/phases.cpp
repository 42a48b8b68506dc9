// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/phases.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "analyzer/stacks/pytorch_frames.hpp"

namespace gpumemtrace::analyzer {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Returns the last part of a qualified name: "Module.to.<locals>.convert" -> "convert".
std::string_view last_name(std::string_view function) {
  const std::size_t dot = function.rfind('.');
  return dot == std::string_view::npos ? function : function.substr(dot + 1);
}

FrameRole role_in_optimizers(std::string_view name, std::string_view file) {
  if (name == "zero_grad") return FrameRole::kZeroGrad;
  if (contains(file, "/lr_scheduler.py") || contains(file, "/swa_utils.py")) {
    return FrameRole::kNone;
  }
  if (name == "__init__") return FrameRole::kState;
  // Optimizers other than SGD have allocated their state before they call functions of these names.
  const bool computes = name.starts_with("_single_tensor_") || name.starts_with("_multi_tensor_");
  if (computes && !contains(file, "/sgd.py")) return FrameRole::kUpdate;
  // Optimizers of the user run inside `wrapper`, which PyTorch puts around every step.
  return is_one_of(name, {"step", "wrapper", "load_state_dict"}) ? FrameRole::kOptimizer
                                                                 : FrameRole::kNone;
}

// In each list, the first names are functions of fully_shard (_fully_shard/), the others of
// FullyShardedDataParallel.
FrameRole role_in_fsdp(std::string_view name) {
  if (is_one_of(name, {"foreach_reduce", "_reduce_grad"})) return FrameRole::kReduction;
  if (is_one_of(name,
                {"foreach_all_gather", "foreach_all_gather_copy_out", "init_all_gather_outputs",
                 "alloc_all_gather_outputs", "init_unsharded_param", "unshard", "wait_for_unshard",
                 "_alloc_padded_unsharded_flat_param", "_all_gather_flat_param"})) {
    return FrameRole::kGathering;
  }
  return is_one_of(name, {"_init_sharded_param", "flatten_tensors", "shard"})
             ? FrameRole::kPlacement
             : FrameRole::kNone;
}

SiteRole site_role_of(FrameRole role) {
  switch (role) {
    case FrameRole::kPlacement:
      return SiteRole::kAsParameter;
    case FrameRole::kState:
      return SiteRole::kAsOptimizerState;
    case FrameRole::kReduction:
      return SiteRole::kAsGradient;
    case FrameRole::kGathering:
      return SiteRole::kAsGathered;
    default:
      return SiteRole::kNone;
  }
}

// The phase of a stack if its innermost frame with a role has `role`. The caller handles kForward.
Phase phase_of(FrameRole role) {
  switch (role) {
    case FrameRole::kBackward:
    case FrameRole::kFirstGradient:
    case FrameRole::kReduction:
      return Phase::kBackward;
    case FrameRole::kOptimizer:
    case FrameRole::kUpdate:
      return Phase::kOptimizer;
    default:
      return Phase::kNone;
  }
}

}  // namespace

FrameRole role_of_frame(std::string_view function, std::string_view file) {
  if (!is_python_file(file)) {
    const bool is_engine = function.starts_with("torch::autograd::Engine::");
    return is_engine ? FrameRole::kBackward : FrameRole::kNone;
  }
  const std::string_view name = last_name(function);
  if (contains(file, "/torch/optim/")) return role_in_optimizers(name, file);
  if (name == "backward") return FrameRole::kBackward;
  if (name == "closure") return FrameRole::kClosure;
  if (contains(file, "/torch/autograd/")) {
    if (name == "_make_grads") return FrameRole::kFirstGradient;
    if (is_one_of(name, {"grad", "_engine_run_backward"})) return FrameRole::kBackward;
  }
  if (contains(file, "/torch/serialization.py") || contains(file, "/safetensors/")) {
    return is_one_of(name, {"load", "load_file"}) ? FrameRole::kLoading : FrameRole::kNone;
  }
  // unpack_hook() runs a forward again inside autograd.
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
      is_one_of(name, {"__init__", "_apply", "to", "cuda", "to_empty", "reset_parameters",
                       "flatten_parameters"})) {
    return FrameRole::kPlacement;
  }
  if (contains(file, "/torch/distributed/fsdp/")) return role_in_fsdp(name);
  if (contains(file, "/torch/nn/parallel/distributed.py") &&
      is_one_of(name, {"_pre_forward", "_ddp_init_helper"})) {
    return FrameRole::kGathering;
  }
  // _recursive_to() moves a rank's inputs to its device.
  if (contains(file, "/torch/distributed/utils.py") && name == "_recursive_to") {
    return FrameRole::kForward;
  }
  // from_pretrained() of transformers and its kin loads models onto the device.
  if (name == "from_pretrained" && contains(file, "/site-packages/")) return FrameRole::kPlacement;
  return FrameRole::kNone;
}

StackRole role_of_frames(const std::vector<FrameRole>& roles) {
  StackRole result;
  result.has_python = !roles.empty();
  for (const FrameRole role : roles) {
    if (role == FrameRole::kNone) continue;
    result.loads = role == FrameRole::kLoading;
    if (result.loads) continue;
    // A frame further out shows in which phase parameters are gathered.
    if (role == FrameRole::kGathering && result.phase == Phase::kNone) {
      result.placed = SiteRole::kAsGathered;
      continue;
    }
    if (result.phase == Phase::kForward) {
      if (role == FrameRole::kForward) continue;
      result.recomputes = role == FrameRole::kBackward;
      if (result.recomputes) result.phase = Phase::kBackward;
      return result;
    }
    if (role != FrameRole::kForward) {
      result.zero_grad = role == FrameRole::kZeroGrad;
      result.first_gradient = role == FrameRole::kFirstGradient;
      result.updates = role == FrameRole::kUpdate;
      if (result.placed == SiteRole::kNone) result.placed = site_role_of(role);
      result.phase = phase_of(role);
      return result;
    }
    result.phase = Phase::kForward;
  }
  return result;
}

SiteRole StackRoles::site_role_of(const StackRole& role) const {
  // Module._apply moves the parameters of a module first, its buffers by a later instruction.
  if (role.moved_at > first_moved_at_) return SiteRole::kAsBuffer;
  if (role.placed != SiteRole::kNone) return role.placed;
  if (role.phase != Phase::kNone) return SiteRole::kNone;
  if (module_copies_.count(role.copied_at) != 0) return SiteRole::kAsBuffer;
  for (const ClassKind* const kind : role.built) {
    if (*kind == ClassKind::kOptimizer) return SiteRole::kAsOptimizerState;
    if (*kind == ClassKind::kModule) return SiteRole::kInModule;
  }
  return SiteRole::kNone;
}

StackRoles::CodeRole StackRoles::role_of_code(std::uint32_t code) {
  const auto [found, added] = known_codes_.try_emplace(code);
  if (!added) return found->second;
  found->second = find_code_role(stacks_.text_of(code, trace::CodeText::kName),
                                 stacks_.text_of(code, trace::CodeText::kFile));
  return found->second;
}

StackRoles::CodeRole StackRoles::find_code_role(std::string_view function, std::string_view file) {
  CodeRole code{role_of_frame(function, file)};
  const std::string_view name = last_name(function);
  if (contains(file, "/torch/nn/modules/module.py")) {
    if (name == "_apply") code.method = Method::kMove;
    if (is_one_of(name, {"_call_impl", "_slow_forward"})) code.method = Method::kCallOfForward;
  } else if (contains(file, "/torch/optim/optimizer.py") && name == "wrapper") {
    code.method = Method::kCallOfStep;
  } else if (name == "__deepcopy__") {
    if (contains(file, "/torch/nn/parameter.py")) code.method = Method::kParameterCopy;
    if (contains(file, "/torch/_tensor.py")) code.method = Method::kTensorCopy;
  } else if (name == "deepcopy" && file.ends_with("/copy.py")) {
    code.method = Method::kDeepCopy;
  } else if (!contains(file, "/torch/")) {
    if (name == "__init__") code.method = Method::kConstructor;
    if (name == "step") code.method = Method::kStep;
    if (name == "forward") code.method = Method::kForward;
    if (code.method != Method::kAny) code.built_class = class_of(function, file);
  }
  return code;
}

ClassKind* StackRoles::class_of(std::string_view method, std::string_view file) {
  const std::size_t dot = method.rfind('.');
  if (dot == std::string_view::npos) return nullptr;
  return &classes_[std::string(file) + '\n' + std::string(method.substr(0, dot))];
}

// Learns which classes are modules or optimizers: PyTorch's frame around their forward() or step()
// shows it. `codes`: functions of a stack, innermost first.
void StackRoles::learn_classes(const std::vector<CodeRole>& codes) {
  ClassKind* step = nullptr;
  ClassKind* forward = nullptr;
  for (const CodeRole& code : codes) {
    if (code.method == Method::kStep) step = code.built_class;
    if (code.method == Method::kForward) forward = code.built_class;
    if (code.method == Method::kCallOfStep && step != nullptr) *step = ClassKind::kOptimizer;
    if (code.method == Method::kCallOfForward && forward != nullptr) *forward = ClassKind::kModule;
  }
}

// Notes the code that called copy.deepcopy() to copy a tensor. One call copies a whole module: if
// code that copies a tensor also copied a parameter, the tensor is a buffer.
void StackRoles::record_module_copy(const std::vector<CodeRole>& codes,
                                    const std::vector<CodePlace>& places, StackRole& role) {
  const auto copy = std::ranges::find_if(codes, [](const CodeRole& code) {
    return code.method == Method::kParameterCopy || code.method == Method::kTensorCopy;
  });
  if (copy == codes.end()) return;
  std::size_t caller = 0;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i].method == Method::kDeepCopy) caller = i + 1;
  }
  if (caller == 0 || caller >= places.size()) return;
  const std::uint64_t place = std::uint64_t{places[caller].code} << 32 | places[caller].instruction;
  if (copy->method == Method::kParameterCopy) {
    module_copies_.insert(place);
  } else {
    role.copied_at = place;
  }
}

// Reads a stack for the first time. The stack also tells about other stacks: which classes are
// modules, and which code copies or moves parameters.
const StackRole& StackRoles::find_role(trace::StackId stack) {
  if (!stacks_.has(stack)) return kUnknown;
  const std::vector<CodePlace> places = stacks_.places_of(stack);
  std::vector<CodeRole> codes;
  std::vector<FrameRole> roles;
  for (const CodePlace& place : places) {
    codes.push_back(role_of_code(place.code));
    roles.push_back(codes.back().role);
  }
  (void)known_.insert({number_of(stack), roles_.size()});
  StackRole& role = roles_.emplace_back(role_of_frames(roles));
  if (codes.empty()) return role;
  const std::string innermost = stacks_.text_of(places.front().code, trace::CodeText::kFile);
  if (role.phase == Phase::kNone && !is_python_file(innermost)) role.has_python = false;
  learn_classes(codes);
  record_module_copy(codes, places, role);
  std::size_t i = 0;
  for (; i < codes.size() && codes[i].role == FrameRole::kNone; ++i) {
    if (codes[i].method == Method::kConstructor && codes[i].built_class != nullptr) {
      role.built.push_back(codes[i].built_class);
    }
  }
  if (i < codes.size() && codes[i].method == Method::kMove) {
    role.moved_at = places[i].instruction;
    first_moved_at_ = std::min(first_moved_at_, role.moved_at);
  }
  return role;
}

// Goes from the present phase to that of an event, and returns the latter. Ends a step if the
// optimizer phase is over, or if forward follows backward and no event shows the optimizer.
Phase Phases::change(const StackRole& role, Phase phase, std::uint64_t now) {
  if (clock_.phase == Phase::kOptimizer && phase != Phase::kOptimizer && worked_) end_seen_step();
  if (role.zero_grad) record_zero_grad(now);
  if (phase == Phase::kForward && clock_.phase == Phase::kBackward) {
    if (grads_were_freed_) {
      end_step_by_zero_grad(now);
    } else if (is_optimizer_hidden()) {
      end_step_without_signs(now);
    }
  }
  if (phase != Phase::kNone) {
    begin(phase, now);
    return phase;
  }
  const bool belongs_to_forward =
      clock_.phase == Phase::kForward && role.placed == SiteRole::kNone && !role.zero_grad;
  if (clock_.phase != Phase::kForward) phase_was_left_ = true;
  if (belongs_to_forward && !between_passes_) {
    between_passes_ = true;
    clock_.pass_was_over = now;
  }
  return belongs_to_forward ? Phase::kForward : Phase::kNone;
}

void Phases::record_zero_grad(std::uint64_t now) {
  if (!worked_) return;
  grads_were_freed_ = true;
  if (clock_.phase == Phase::kBackward) return end_step_by_zero_grad(now);
  // If zero_grad() follows forward in each step, its first call frees nothing, and its second call
  // frees the first step's gradients within the second step's forward phase, which does not end.
  if (clock_.phase != Phase::kForward || longest_step_ != 0 || backward_passes_ == 0) return;
  end_step_by_zero_grad(now);
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

// Ends a step whose optimizer no event shows, but whose gradients were freed.
void Phases::end_step_by_zero_grad(std::uint64_t now) {
  end_seen_step();
  optimizer_worked(now);
}

// Ends a step that neither optimizer events nor freed gradients show: see is_optimizer_hidden().
void Phases::end_step_without_signs(std::uint64_t now) {
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
  // The phases of several optimizers in a row are one phase.
  const bool goes_on = phase == clock_.phase && (is_work || !worked_);
  phase_was_left_ = false;
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
