// SPDX-License-Identifier: Apache-2.0
// Finds sites that grow together for one reason: a kept graph of autograd keeps all that layers
// saved for backward, and a program that keeps results of a model keeps one of each call.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "analyzer/report/stack_names.hpp"
#include "analyzer/rows/leak_rows.hpp"

namespace gpumemtrace::analyzer {

// The frames of a stack by its id in the report, innermost first.
using FramesOf = std::function<std::vector<StackFrame>(const std::string& stack)>;

// A call stack that allocated blocks of the framework while some site grew. The stacks are in the
// order of their last allocations.
struct AllocatingStack {
  rows::OptionalText device;
  std::string stack;
  std::uint64_t allocations = 0;
  std::uint64_t kept = 0;  // the rise of the number of its live blocks that were not freed again
};

// Finds the common origin (`kept_at`) of those rows of one process, given largest first, that grow
// together: the innermost line of the user's code outside of the model, or, if they come from
// several lines of one function, the line with most of the bytes. `stacks` tell a kept graph
// (`keeps_graph`) from kept results: if only results are kept, each call keeps its last block, and
// all other blocks of its layers are freed while the call runs.
void find_growth_causes(std::vector<rows::Growth>& rows, const std::vector<AllocatingStack>& stacks,
                        const FramesOf& frames_of);

}  // namespace gpumemtrace::analyzer
