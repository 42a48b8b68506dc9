// SPDX-License-Identifier: Apache-2.0
// PyTorch as its frames show it: its backward pass, its copies that wait, the layers of a model.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/stacks/python_stacks.hpp"

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

// True for the frames between every call of a module and the class's own `forward`.
[[nodiscard]] bool is_module_call(std::string_view file, std::string_view function);

// True for the function that moves or converts all tensors of a module.
[[nodiscard]] bool is_module_move(std::string_view file, std::string_view function);

// Copies for which the caller waits at once, although the copy itself is asynchronous.
//
// PyTorch's functions that copy to pinned memory and then synchronize with the stream: .item() and
// what uses it (float(), if tensor:), boolean masks.
[[nodiscard]] inline bool waits_for_its_copy(std::string_view function) {
  for (const std::string_view name :
       {"at::native::_local_scalar_dense_cuda", "at::native::nonzero_cuda_out_impl",
        "cuda::memcpy_and_sync"}) {
    if (function.find(name) != std::string_view::npos) return true;
  }
  return false;
}

// A snapshot of PyTorch has more than Python's functions in a stack.
//
// The files that its words for an event have: the program's own, and the number that a part of
// compiled code has.
inline constexpr std::string_view kUserMetadataFile = "<user_metadata>";
inline constexpr std::string_view kCompileContextFile = "<compile_context>";
// True for a function of C++: it has no file, a library's name, or a file of C++.
[[nodiscard]] bool is_native_file(std::string_view file);
// False for those functions, and for words.
[[nodiscard]] inline bool is_python_file(std::string_view file) {
  return file != kUserMetadataFile && file != kCompileContextFile && !is_native_file(file);
}

// The layers of a model that a Python stack runs in: the calls of torch.nn.Module in it.

// The classes whose `forward` runs, outermost first: "GPT2Model > GPT2Block > GPT2MLP". Empty
// outside a model, and for the parts of a backward pass that are called there. `frames` are
// innermost first. If the interpreter gives no class (before CPython 3.11), file and line of
// `forward` stand for it: "modeling_gpt2.py:345".
[[nodiscard]] std::string layers_of(const std::vector<PythonFrame>& frames);

// The number of frames that belong to the model: from the innermost to the call of its outermost
// module. 0 outside a model.
[[nodiscard]] std::size_t frames_of_model(const std::vector<PythonFrame>& frames);

}  // namespace gpumemtrace::analyzer
