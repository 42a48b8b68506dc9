// SPDX-License-Identifier: Apache-2.0
// The category of a framework's block, as a pure function of the phase and the stack that it was
// born in and of its lifetime. docs/concepts.md has the rules in words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "analyzer/base/words.hpp"
#include "analyzer/model/accounts/phase_clock.hpp"
#include "analyzer/model/program/workspaces.hpp"

namespace gpumemtrace::analyzer {

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
  kLoaded,    // read from a file, copied to where it is used, and kept
};
constexpr auto names(Category) {
  return std::to_array<std::string_view>({"", "parameter", "gradient", "optimizer_state", "buffer",
                                          "activation", "input", "temporary", "workspace", "other",
                                          "gathered", "loaded"});
}
inline constexpr std::size_t kCategories = word_count(Category());

// kExact: the program itself named it. kInferred: only this category is born in such a place and
// lives in such a way. kHeuristic: the likely one.
enum class Confidence : std::uint8_t { kNone, kHeuristic, kInferred, kExact };
constexpr auto names(Confidence) {
  return std::to_array<std::string_view>({"", "heuristic", "inferred", "exact"});
}

struct CategoryGuess {
  Category category = Category::kUnknown;
  Confidence confidence = Confidence::kNone;
  friend auto operator<=>(const CategoryGuess&, const CategoryGuess&) = default;
};

// The code that builds modules and optimizers, moves them to a device or copies them.
enum class SiteRole : std::uint8_t {
  kNone,
  kAsParameter,
  kAsBuffer,
  kInModule,  // by the constructor of a module of the program's own: a parameter or a buffer
  kAsOptimizerState,
  kAsGradient,  // code that adds up gradients of all ranks for sharded parameters
  kAsGathered,  // code that makes sharded parameters whole, and buckets of gradients
};

struct BlockFacts {
  Phase born_in = Phase::kNone;
  SiteRole placed = SiteRole::kNone;
  bool receives_input = false;   // copies from the host go to blocks of its call site
  bool gradient_place = false;   // the program named a gradient of its size and call site
  bool parameter_sized = false;  // there is a parameter of its size, or none is known at all
  bool backward_sized = false;   // backward made a block of its size
  WorkspaceSign workspace = WorkspaceSign::kNone;
  bool on_engine = false;       // a thread of PyTorch's autograd asked for it
  bool recomputed = false;      // by forward, run again for backward
  bool is_of_update = false;    // an optimizer made it where it computes with its state
  bool under_autograd = false;  // backward may need it
  bool is_loaded_copy = false;  // read from a file, and then copied to another block
  Lifetime life;
};
[[nodiscard]] CategoryGuess categorize(const BlockFacts& block);

}  // namespace gpumemtrace::analyzer
