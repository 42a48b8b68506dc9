// SPDX-License-Identifier: Apache-2.0
// Recognizes PyTorch in stack frames: backward passes, copies for which the caller waits, the
// layers of a model.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/stacks/python_stacks.hpp"

namespace gpumemtrace::analyzer {

// The autograd node whose work the function does: AddmmBackward0 for
// torch::autograd::generated::AddmmBackward0::apply(...), MyFunction for
// torch::autograd::CppNode<MyFunction>::apply(...). Empty for every other function.
[[nodiscard]] std::string autograd_node_name(std::string_view function);

// True for PyTorch's Python functions in which a thread waits for a backward pass.
[[nodiscard]] bool is_backward_call(std::string_view file, std::string_view function);

// True for the Python function through which PyTorch's engine calls the backward of an
// autograd.Function. On the engine's own threads it is the outermost frame.
[[nodiscard]] bool is_custom_backward_entry(std::string_view file, std::string_view function);

// True for the frames that stand between each call of a module and the `forward` of its class.
[[nodiscard]] bool is_module_call(std::string_view file, std::string_view function);

// True for the function that moves or converts all tensors of a module.
[[nodiscard]] bool is_module_move(std::string_view file, std::string_view function);

// True for PyTorch's functions that copy to pinned memory and then synchronize with the stream, so
// the caller waits although the copy itself is asynchronous: .item() and what uses it (float(), if
// tensor:), boolean masks.
[[nodiscard]] inline bool waits_for_its_copy(std::string_view function) {
  for (const std::string_view name :
       {"at::native::_local_scalar_dense_cuda", "at::native::nonzero_cuda_out_impl",
        "cuda::memcpy_and_sync"}) {
    if (function.find(name) != std::string_view::npos) return true;
  }
  return false;
}

// The file names of two kinds of frames, made from a snapshot of PyTorch, that are no functions: a
// text that the program attached to an event, and the number of a part of compiled code.
inline constexpr std::string_view kUserMetadataFile = "<user_metadata>";
inline constexpr std::string_view kCompileContextFile = "<compile_context>";
// True for a C++ function: it has no file, or that is a library's name or a C++ file.
[[nodiscard]] bool is_native_file(std::string_view file);
// True for Python functions: not for C++ functions, user metadata or compile contexts.
[[nodiscard]] inline bool is_python_file(std::string_view file) {
  return file != kUserMetadataFile && file != kCompileContextFile && !is_native_file(file);
}

// The layers of a model that a Python stack runs in: the calls of torch.nn.Module in it.

// The classes whose `forward` runs, outermost first: "GPT2Model > GPT2Block > GPT2MLP". Empty
// outside a model, and for the parts of a backward pass that are called within `forward`. `frames`
// are innermost first. If the interpreter tells no class (before CPython 3.11), file and line of
// `forward` stand for it: "modeling_gpt2.py:345".
[[nodiscard]] std::string layers_of(const std::vector<PythonFrame>& frames);

// The number of frames that belong to the model, from the innermost frame to the call of the
// outermost module. 0 outside a model.
[[nodiscard]] std::size_t frames_of_model(const std::vector<PythonFrame>& frames);

}  // namespace gpumemtrace::analyzer
