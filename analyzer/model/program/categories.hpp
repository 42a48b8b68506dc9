// SPDX-License-Identifier: Apache-2.0
// The category of a framework's block, as a pure function of the phase and the stack of its
// allocation and of its lifetime. docs/concepts.md has the rules in words.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>
#include <unordered_map>

#include "analyzer/base/words.hpp"
#include "analyzer/model/accounts/phase_clock.hpp"
#include "analyzer/stacks/dictionary.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// Sizes of blocks, by which other blocks are recognized.
//
// Two tensors of one size need not lie in blocks of one size: above 1 MiB, PyTorch's allocator may
// leave up to 1 MiB unused at the end of a block.
class SizeSet {
 public:
  void insert(std::uint64_t bytes) {
    if (sizes_.size() < kMost) sizes_.insert(bytes);
  }
  [[nodiscard]] bool empty() const { return sizes_.empty(); }
  [[nodiscard]] bool has_exactly(std::uint64_t bytes) const { return sizes_.count(bytes) != 0; }
  // True if a block of `bytes` may hold a tensor as large as one in a block of a size in the set.
  [[nodiscard]] bool has(std::uint64_t bytes) const {
    const std::uint64_t slack = bytes > kMostExact ? std::min(kSlack, bytes / 4) : 0;
    const auto found = sizes_.lower_bound(bytes - slack);
    return found != sizes_.end() && *found <= bytes + slack;
  }

 private:
  static constexpr std::size_t kMost = 1 << 16;
  static constexpr std::uint64_t kMostExact = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kSlack = std::uint64_t{1} << 20;

  std::set<std::uint64_t> sizes_;
};

// Recognizes the blocks of PyTorch that are workspaces of cuBLAS.
//
// PyTorch makes a handle of cuBLAS for each thread at its first product of matrices, and at once
// asks its own allocator for the workspace of that handle. cuBLAS takes memory of the driver for a
// new handle, and every trace shows the caller of that call: so the next block of the same thread
// at the same Python stack is the handle's workspace. The workspace of cublasLt may follow it.
// Later workspaces, for other streams of the thread, are known by their size.

// The evidence that a block is a workspace.
enum class WorkspaceSign : std::uint8_t {
  kNone,
  kSized,    // the block is as large as a known workspace
  kFollows,  // the block comes after a kGiven block at the same stack, and has a workspace's size
  kGiven,    // the block is its thread's first one after making a cuBLAS handle at the same stack
};

// Events come in the order in which they took effect, each with its writer (thread).
class Workspaces {
 public:
  explicit Workspaces(const Dictionary& dictionary) : dictionary_(dictionary) {}

  void record_allocation(const trace::Allocation& call, std::uint32_t writer) {
    if (is_of_cublas(call.call.caller)) makers_[writer] = {call.call.stack, Next::kGiven};
  }
  void record_block(const trace::Block& block, std::uint32_t writer) {
    // forgets an earlier block at the address, the free of which is missing
    record_release(block.address);
    if (!makers_.empty()) [[unlikely]]
      judge_block(block, writer);
  }
  // Forgets the block at the address: it was freed, and its category was chosen.
  void record_release(std::uint64_t address) {
    if (!signs_.empty()) signs_.erase(address);
  }

  // The evidence that a live block is a workspace.
  [[nodiscard]] WorkspaceSign sign_of(std::uint64_t address, std::uint64_t bytes) const {
    if (const auto found = signs_.find(address); found != signs_.end()) return found->second;
    return sizes_.count(bytes) != 0 ? WorkspaceSign::kSized : WorkspaceSign::kNone;
  }

 private:
  enum class Next : std::uint8_t { kGiven, kFollows };
  // The stack at which a thread has just made a handle of cuBLAS.
  struct Maker {
    trace::StackId stack = trace::StackId::kNone;
    Next next = Next::kGiven;
  };

  [[nodiscard]] bool is_of_cublas(std::uint64_t caller) const;
  void judge_block(const trace::Block& block, std::uint32_t writer);

  const Dictionary& dictionary_;
  // threads that have just made a cuBLAS handle, by writer; removed after their next blocks
  std::unordered_map<std::uint32_t, Maker> makers_;
  std::unordered_map<std::uint64_t, WorkspaceSign> signs_;  // evidence for live blocks, by address
  // sizes of cuBLAS and cublasLt workspaces
  std::set<std::uint64_t> sizes_;
};

enum class Category : std::uint8_t {
  kUnknown,
  kParameter,
  kGradient,
  kOptimizerState,
  kBuffer,
  kActivation,
  kInput,
  kTemporary,
  kWorkspace,
  kOther,
  kGathered,  // parameters and gradients that ranks exchange: unsharded copies and buffers
  kLoaded,    // tensors read from a file, copied to where they are used, and kept
};
constexpr auto names(Category) {
  return std::to_array<std::string_view>({"", "parameter", "gradient", "optimizer_state", "buffer",
                                          "activation", "input", "temporary", "workspace", "other",
                                          "gathered", "loaded"});
}
inline constexpr std::size_t kCategories = word_count(Category());

// kExact: the program itself named the block's content. kInferred: no block of another category is
// allocated by the same kind of code and lives equally long. kHeuristic: the category is likely.
enum class Confidence : std::uint8_t { kNone, kHeuristic, kInferred, kExact };
constexpr auto names(Confidence) {
  return std::to_array<std::string_view>({"", "heuristic", "inferred", "exact"});
}

struct CategoryGuess {
  Category category = Category::kUnknown;
  Confidence confidence = Confidence::kNone;
  friend auto operator<=>(const CategoryGuess&, const CategoryGuess&) = default;
};

// Roles of code that builds modules and optimizers, moves them to a device or copies them.
enum class SiteRole : std::uint8_t {
  kNone,
  kAsParameter,
  kAsBuffer,
  kInModule,  // the constructor of a module class of the program makes a parameter or a buffer
  kAsOptimizerState,
  kAsGradient,  // code that adds up gradients of all ranks for sharded parameters
  kAsGathered,  // code that gathers sharded parameters, or makes buckets of gradients
};

struct BlockFacts {
  Phase born_in = Phase::kNone;
  SiteRole placed = SiteRole::kNone;
  bool receives_input = false;   // copies from the host go to blocks of the same call site
  bool gradient_place = false;   // the program named a gradient of the same size and call site
  bool parameter_sized = false;  // there is a parameter of this size, or no parameter is known
  bool backward_sized = false;   // backward made a block of this size
  WorkspaceSign workspace = WorkspaceSign::kNone;
  bool on_engine = false;       // a thread of PyTorch's autograd engine asked for the block
  bool recomputed = false;      // made by forward code that ran again for backward
  bool is_of_update = false;    // made by an optimizer while it computes with its state
  bool under_autograd = false;  // made under autograd: backward may need it
  bool is_loaded_copy = false;  // the content was read from a file, then copied to another block
  Lifetime life;
};
[[nodiscard]] CategoryGuess categorize(const BlockFacts& block);

}  // namespace gpumemtrace::analyzer
