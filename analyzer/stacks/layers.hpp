// SPDX-License-Identifier: Apache-2.0
// The layers of a model that a Python stack runs in: the calls of torch.nn.Module in it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/stacks/python_stacks.hpp"

namespace gpumemtrace::analyzer {

// The classes whose `forward` runs, outermost first: "GPT2Model > GPT2Block > GPT2MLP". Empty
// outside a model, and for the parts of a backward pass that are called there. `frames` are
// innermost first. If the interpreter gives no class (before CPython 3.11), file and line of
// `forward` stand for it: "modeling_gpt2.py:345".
[[nodiscard]] std::string layers_of(const std::vector<PythonFrame>& frames);

// The number of frames that belong to the model: from the innermost to the call of its outermost
// module. 0 outside a model.
[[nodiscard]] std::size_t frames_of_model(const std::vector<PythonFrame>& frames);

}  // namespace gpumemtrace::analyzer
