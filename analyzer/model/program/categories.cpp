// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/categories.hpp"

#include <string_view>

namespace gpumemtrace::analyzer {
namespace {

// PyTorch's default size of a cublasLt workspace, which may also be as large as the cuBLAS one.
constexpr std::uint64_t kLtBytes = std::uint64_t{1} << 20;

}  // namespace

bool Workspaces::is_of_cublas(std::uint64_t caller) const {
  const LoadedModule* const module = dictionary_.modules().find(caller, ModuleMap::kLatest);
  if (module == nullptr) return false;
  const std::string_view path = module->identity.path;
  return path.substr(path.rfind('/') + 1).starts_with("libcublas.so");
}

// A workspace is the thread's first block after it made a cuBLAS handle, if the stack is the same,
// and the next block if its stack is the same and its size that of a workspace.
void Workspaces::judge_block(const trace::Block& block, std::uint32_t writer) {
  const auto found = makers_.find(writer);
  if (found == makers_.end()) return;
  Maker& maker = found->second;
  const auto bytes = static_cast<std::uint64_t>(block.bytes);
  const PythonStacks& stacks = dictionary_.python_stacks();
  // Two stacks without Python frames, as on autograd's threads, count as the same place.
  const bool is_at_same_place = stacks.are_same(maker.stack, block.stack) ||
                                (!stacks.has(maker.stack) && !stacks.has(block.stack));
  if (is_at_same_place && maker.next == Next::kGiven) {
    signs_[block.address] = WorkspaceSign::kGiven;
    sizes_.insert(bytes);
    sizes_.insert(kLtBytes);
    maker.next = Next::kFollows;
    return;
  }
  if (is_at_same_place && sizes_.count(bytes) != 0) {
    signs_[block.address] = WorkspaceSign::kFollows;
  }
  makers_.erase(found);
}

namespace {

constexpr CategoryGuess inferred(Category category) { return {category, Confidence::kInferred}; }
constexpr CategoryGuess heuristic(Category category) { return {category, Confidence::kHeuristic}; }

// True if the block has signs of a workspace, and no parameter has its size.
bool may_be_workspace(const BlockFacts& block) {
  return block.workspace != WorkspaceSign::kNone && !block.parameter_sized;
}

// True for blocks made by the autograd engine and released by the program: by zero_grad, or at the
// end of the model.
bool is_freed_as_gradient(const BlockFacts& block) {
  if (!block.life.freed_by_zero_grad || block.recomputed) return false;
  return block.life.outlived_phase || (block.on_engine && block.parameter_sized);
}

// The category of a block allocated in backward: a gradient lives until an optimizer has used it, a
// library's workspace lives on and does not have a parameter's size.
CategoryGuess born_in_backward(const BlockFacts& block) {
  if (block.life.outlived_step && may_be_workspace(block)) {
    return heuristic(Category::kWorkspace);
  }
  if (block.recomputed) return heuristic(Category::kActivation);
  if (block.gradient_place && block.life.outlived_phase) return inferred(Category::kGradient);
  if (is_freed_as_gradient(block)) return inferred(Category::kGradient);
  if (block.life.outlived_step) {
    return block.parameter_sized ? inferred(Category::kGradient) : heuristic(Category::kOther);
  }
  if (block.life.freed) return heuristic(Category::kTemporary);
  return block.parameter_sized ? heuristic(Category::kGradient) : CategoryGuess{};
}

// The category of a block allocated in a forward phase. A block that outlives the phase is kept for
// backward, or is a result that the next forward pass replaces.
CategoryGuess born_in_forward(const BlockFacts& block) {
  const bool follows = block.workspace == WorkspaceSign::kFollows && !block.life.freed;
  const bool has_sign = block.workspace != WorkspaceSign::kNone;
  if (follows || (block.life.outlived_next_step && has_sign)) {
    return heuristic(Category::kWorkspace);
  }
  if (block.life.outlived_next_step) return heuristic(Category::kOther);
  if (!block.life.outlived_phase) return heuristic(Category::kActivation);
  return inferred(Category::kActivation);
}

CategoryGuess placed(const BlockFacts& block) {
  switch (block.placed) {
    case SiteRole::kAsBuffer:
      return inferred(Category::kBuffer);
    case SiteRole::kInModule:
      // For each trained parameter, backward allocates a gradient of the same size.
      return heuristic(block.backward_sized ? Category::kParameter : Category::kBuffer);
    case SiteRole::kAsOptimizerState:
      return inferred(Category::kOptimizerState);
    case SiteRole::kAsGradient:
      return inferred(Category::kGradient);
    case SiteRole::kAsGathered:
      return inferred(Category::kGathered);
    default:
      return inferred(Category::kParameter);
  }
}

// The category of a block that is freed in the phase that allocated it. A forward phase can have
// several passes: under autograd, a block that outlives its own pass was kept for backward; without
// autograd, it is unknown why a block outlives the next pass, too.
CategoryGuess freed_in_its_phase(const BlockFacts& block) {
  // The block held data to exchange with other ranks. A reduced gradient lies in another block.
  if (block.placed == SiteRole::kAsGradient || block.placed == SiteRole::kAsGathered) {
    return inferred(Category::kGathered);
  }
  if (block.born_in == Phase::kForward && block.placed == SiteRole::kNone) {
    if (block.life.outlived_pass && block.under_autograd) return heuristic(Category::kActivation);
    if (block.life.outlived_next_pass) return {};
  }
  const bool has_use =
      block.placed != SiteRole::kNone || block.receives_input || block.born_in != Phase::kNone;
  return has_use ? inferred(Category::kTemporary) : CategoryGuess{};
}

}  // namespace

// The first rule that fits decides; docs/concepts.md describes the rules.
CategoryGuess categorize(const BlockFacts& block) {
  const bool is_placed = block.placed != SiteRole::kNone;
  const bool is_gradient = block.born_in == Phase::kBackward && is_freed_as_gradient(block);
  if (block.life.freed && !block.life.outlived_phase && !is_gradient) {
    return freed_in_its_phase(block);
  }
  if (block.is_loaded_copy && block.life.outlived_step) return inferred(Category::kLoaded);
  if (block.workspace == WorkspaceSign::kGiven) return inferred(Category::kWorkspace);
  if (is_placed) return placed(block);
  if (block.born_in == Phase::kOptimizer) {
    if (block.life.outlived_phase) return inferred(Category::kOptimizerState);
    return heuristic(block.is_of_update ? Category::kTemporary : Category::kOptimizerState);
  }
  if (block.born_in == Phase::kBackward) return born_in_backward(block);
  if (block.receives_input) return inferred(Category::kInput);
  if (block.born_in == Phase::kForward) return born_in_forward(block);
  return {};
}

}  // namespace gpumemtrace::analyzer
