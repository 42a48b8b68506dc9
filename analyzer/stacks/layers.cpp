// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stacks/layers.hpp"

#include <string_view>

#include "analyzer/stacks/autograd_nodes.hpp"

namespace gpumemtrace::analyzer {
namespace {

// The frames between every call of a module and the class's own `forward`.
bool is_module_call(const PythonFrame& frame) {
  constexpr std::string_view kFile = "/torch/nn/modules/module.py";
  if (!frame.file.ends_with(kFile)) return false;
  return frame.function.ends_with("_call_impl") || frame.function.ends_with("_slow_forward");
}

// Decorators of `forward` run between the module's call and it.
bool is_forward(std::string_view function) {
  return function == "forward" || function.ends_with(".forward");
}

// "build.<locals>.Net.forward" -> "Net"
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
    if (is_module_call(frames[count - 1])) return count;
  }
  return 0;
}

std::string layers_of(const std::vector<PythonFrame>& frames) {
  std::string path;
  bool is_called = false;  // a module's call, whose forward is still to come
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (is_backward_call(frame->file, frame->function)) path.clear();
    if (is_module_call(*frame)) {
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
