// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stacks/pytorch_frames.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "analyzer/owners/owners.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::string_view kApply = "::apply";
constexpr std::string_view kAutograd = "torch::autograd::";
constexpr std::string_view kModuleFile = "/torch/nn/modules/module.py";

// The part of a C++ name behind the last `::` that is not in angle brackets.
std::string_view last_part(std::string_view name) {
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == '>') ++depth;
    if (name[i] == '<') --depth;
    if (depth == 0 && name[i] == ':') return name.substr(i + 1);
  }
  return name;
}

bool is_backward_name(std::string_view name) {
  constexpr std::string_view kBackward = "Backward";
  name = name.substr(0, name.find_last_not_of("0123456789") + 1);
  return name.size() > kBackward.size() && name.ends_with(kBackward);
}

}  // namespace

std::string autograd_node_name(std::string_view function) {
  std::string_view name = bare_function_name(function);
  if (name.size() <= kApply.size() || !name.ends_with(kApply)) return {};
  name.remove_suffix(kApply.size());
  const bool in_autograd = name.starts_with(kAutograd);
  std::string_view node = last_part(name);
  constexpr std::string_view kCppNode = "CppNode<";
  if (node.starts_with(kCppNode) && node.ends_with('>')) {
    return std::string(last_part(node.substr(kCppNode.size(), node.size() - kCppNode.size() - 1)));
  }
  if (!in_autograd && !is_backward_name(node)) return {};
  // These classes are no autograd nodes, although their functions have similar names.
  if (node.empty() || node == "Node" || node == "Engine" || node.starts_with("Function")) {
    return {};
  }
  return std::string(node);
}

bool is_backward_call(std::string_view file, std::string_view function) {
  if (file.find("torch/autograd/") == std::string_view::npos) return false;
  return function == "backward" || function == "grad" || function == "_engine_run_backward" ||
         function == "_make_grads";
}

bool is_custom_backward_entry(std::string_view file, std::string_view function) {
  return file.ends_with("torch/autograd/function.py") &&
         (function == "apply" || function == "BackwardCFunction.apply");
}

bool is_native_file(std::string_view file) {
  static constexpr auto kEnds = std::to_array<std::string_view>(
      {".cpp", ".cc", ".cxx", ".c", ".cu", ".h", ".hpp", ".cuh", ".inl"});
  if (file.ends_with(".py") || file.starts_with('<')) return false;
  // A name without a folder is a library's: the path of a Python file always has a folder.
  const bool has_folder = file.find('/') != std::string_view::npos;
  const bool is_system = file.starts_with("/usr/include/") || file.starts_with("../sysdeps/");
  return !has_folder || is_system ||
         std::ranges::any_of(kEnds, [&](std::string_view end) { return file.ends_with(end); });
}

bool is_module_call(std::string_view file, std::string_view function) {
  return file.ends_with(kModuleFile) &&
         (function.ends_with("_call_impl") || function.ends_with("_slow_forward"));
}

bool is_module_move(std::string_view file, std::string_view function) {
  return file.ends_with(kModuleFile) && function.ends_with("_apply");
}

namespace {

// The name must be exact: decorators of `forward` run between the module's call and `forward`.
bool is_forward(std::string_view function) {
  return function == "forward" || function.ends_with(".forward");
}

// The class of a method: "Net" for "build.<locals>.Net.forward".
std::string_view class_of(std::string_view function) {
  const std::size_t method = function.rfind('.');
  if (method == std::string_view::npos) return {};
  const std::string_view qualified = function.substr(0, method);
  const std::size_t dot = qualified.rfind('.');
  return dot == std::string_view::npos ? qualified : qualified.substr(dot + 1);
}

std::string layer_of(const PythonFrame& forward) {
  const std::string_view name = class_of(forward.function);
  if (!name.empty()) return std::string(name);
  return forward.file.substr(forward.file.rfind('/') + 1) + ":" +
         std::to_string(forward.first_line);
}

}  // namespace

std::size_t frames_of_model(const std::vector<PythonFrame>& frames) {
  for (std::size_t count = frames.size(); count > 0; --count) {
    if (is_module_call(frames[count - 1].file, frames[count - 1].function)) return count;
  }
  return 0;
}

std::string layers_of(const std::vector<PythonFrame>& frames) {
  std::string path;
  bool is_called = false;  // a module's call was seen, but not yet its `forward`
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    // The work of a backward pass does not belong to the layers that called it.
    if (is_backward_call(frame->file, frame->function)) path.clear();
    if (is_module_call(frame->file, frame->function)) {
      is_called = true;
    } else if (is_called && is_forward(frame->function)) {
      is_called = false;
      if (!path.empty()) path += " > ";
      path += layer_of(*frame);
    }
  }
  return path;
}

}  // namespace gpumemtrace::analyzer
