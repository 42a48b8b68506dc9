// SPDX-License-Identifier: Apache-2.0
// PyTorch's backward pass as its frames show it.
#pragma once

#include <string>
#include <string_view>

namespace gpumemtrace::analyzer {

// The node that the function carries out: AddmmBackward0 for
// torch::autograd::generated::AddmmBackward0::apply(...), MyFunction for
// torch::autograd::CppNode<MyFunction>::apply(...). Empty for every other function.
[[nodiscard]] std::string autograd_node_name(std::string_view function);

// True for the Python functions of PyTorch from which a thread waits for a backward pass.
[[nodiscard]] bool is_backward_call(std::string_view file, std::string_view function);

// True for the Python function through which the engine enters the backward of an
// autograd.Function. Nothing is below it on the engine's own threads.
[[nodiscard]] bool is_way_into_function(std::string_view file, std::string_view function);

}  // namespace gpumemtrace::analyzer
