// SPDX-License-Identifier: Apache-2.0
// Which places grow together for one reason: a graph of autograd that is kept keeps what every
// layer saved for backward, and who keeps results of a model keeps one of each call.
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

// A site whose blocks of the framework came while others grew; it may have grown itself.
struct AllocatingPlace {
  rows::OptionalText device;
  std::string stack;
  std::uint64_t allocations = 0;
};

// Of rows of one process, largest first: those that grow together know where they come from
// (`kept_at`). That is the innermost line of the user's, outside of the model, or where they come
// from several lines of one function, the line of most of the bytes. `places` tell a graph from
// results alone (`keeps_graph`): of that all that layers allocate goes on coming and going, but for
// the results.
void find_growth_causes(std::vector<rows::Growth>& rows, const std::vector<AllocatingPlace>& places,
                        const FramesOf& frames_of);

}  // namespace gpumemtrace::analyzer
