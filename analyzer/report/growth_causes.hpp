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

// A call stack whose blocks of the framework came while some site grew, in the order in which the
// stacks asked for their last one.
struct AllocatingStack {
  rows::OptionalText device;
  std::string stack;
  std::uint64_t allocations = 0;
  std::uint64_t kept = 0;  // by which the number of its live blocks rose for good
};

// For the rows of one process, largest first: finds the common origin (`kept_at`) of those that
// grow together. That is the innermost line of the user's, outside of the model; if they come from
// several lines of one function, the line with most of the bytes. `stacks` tell a graph from
// results alone (`keeps_graph`): a call keeps the last block of its results, and all else that
// layers allocate is freed while it runs.
void find_growth_causes(std::vector<rows::Growth>& rows, const std::vector<AllocatingStack>& stacks,
                        const FramesOf& frames_of);

}  // namespace gpumemtrace::analyzer
