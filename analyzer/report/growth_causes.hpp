// SPDX-License-Identifier: Apache-2.0
// Which places grow together for one reason: a graph of autograd that is kept keeps what every
// layer saved for backward.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "analyzer/report/stack_names.hpp"
#include "analyzer/rows/leak_rows.hpp"

namespace gpumemtrace::analyzer {

// The frames of a stack by its id in the report, innermost first.
using FramesOf = std::function<std::vector<StackFrame>(const std::string& stack)>;

// Of rows of one process, largest first: those that grow together know where they come from
// (`kept_at`). That is the innermost line of the user's, outside of the model, or where they come
// from several lines of one function, the line of most of the bytes.
void find_growth_causes(std::vector<rows::Growth>& rows, const FramesOf& frames_of);

}  // namespace gpumemtrace::analyzer
