// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/program/workspaces.hpp"

#include <string_view>

namespace gpumemtrace::analyzer {
namespace {

// PyTorch's default for cublasLt, if it is not the size that cuBLAS has.
constexpr std::uint64_t kLtBytes = std::uint64_t{1} << 20;

}  // namespace

bool Workspaces::is_of_cublas(std::uint64_t caller) const {
  const LoadedModule* const module = dictionary_.modules().find(caller, ModuleMap::kLatest);
  if (module == nullptr) return false;
  const std::string_view path = module->identity.path;
  return path.substr(path.rfind('/') + 1).starts_with("libcublas.so");
}

void Workspaces::judge_block(const trace::Block& block, std::uint32_t writer) {
  const auto found = makers_.find(writer);
  if (found == makers_.end()) return;
  Maker& maker = found->second;
  const auto bytes = static_cast<std::uint64_t>(block.bytes);
  const PythonStacks& stacks = dictionary_.python_stacks();
  // Threads of the engine have no Python frames.
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

}  // namespace gpumemtrace::analyzer
