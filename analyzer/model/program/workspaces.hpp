// SPDX-License-Identifier: Apache-2.0
// Recognizes the blocks of PyTorch that are workspaces of cuBLAS.
//
// PyTorch makes a handle of cuBLAS for each thread at its first product of matrices, and at once
// asks its own allocator for the workspace that it gives to the handle. cuBLAS takes memory of the
// driver for a new handle, and every trace shows that call's caller: so the next block of the same
// thread at the same Python stack is the handle's workspace. cublasLt's may follow it. Later ones,
// of other streams of the thread, are known by their size.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>

#include "analyzer/stacks/dictionary.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// The evidence that a block is a workspace.
enum class WorkspaceSign : std::uint8_t {
  kNone,
  kSized,    // as large as one that is known
  kFollows,  // the next block after one, of the same stack, with the size of cublasLt's
  kGiven,    // the block that PyTorch takes for a new handle
};

// Events come in the order in which they took effect, each with its writer (thread).
class Workspaces {
 public:
  explicit Workspaces(const Dictionary& dictionary) : dictionary_(dictionary) {}

  void record_allocation(const trace::Allocation& call, std::uint32_t writer) {
    if (is_of_cublas(call.call.caller)) makers_[writer] = {call.call.stack, Next::kGiven};
  }
  void record_block(const trace::Block& block, std::uint32_t writer) {
    record_release(block.address);  // of one whose free is missing
    if (!makers_.empty()) [[unlikely]]
      judge_block(block, writer);
  }
  // The block at the address is freed, and its category was chosen.
  void record_release(std::uint64_t address) {
    if (!signs_.empty()) signs_.erase(address);
  }

  // The evidence for a live block.
  [[nodiscard]] WorkspaceSign sign_of(std::uint64_t address, std::uint64_t bytes) const {
    if (const auto found = signs_.find(address); found != signs_.end()) return found->second;
    return sizes_.count(bytes) != 0 ? WorkspaceSign::kSized : WorkspaceSign::kNone;
  }

 private:
  enum class Next : std::uint8_t { kGiven, kFollows };
  // A thread that has just made a handle.
  struct Maker {
    trace::StackId stack = trace::StackId::kNone;
    Next next = Next::kGiven;
  };

  [[nodiscard]] bool is_of_cublas(std::uint64_t caller) const;
  void judge_block(const trace::Block& block, std::uint32_t writer);

  const Dictionary& dictionary_;
  std::unordered_map<std::uint32_t, Maker> makers_;         // by writer, until its next blocks
  std::unordered_map<std::uint64_t, WorkspaceSign> signs_;  // of live blocks, by address
  std::set<std::uint64_t> sizes_;                           // of those of handles, and cublasLt's
};

}  // namespace gpumemtrace::analyzer
