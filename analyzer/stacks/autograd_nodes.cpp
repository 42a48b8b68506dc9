// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stacks/autograd_nodes.hpp"

#include "analyzer/owners/owners.hpp"

namespace gpumemtrace::analyzer {
namespace {

constexpr std::string_view kApply = "::apply";
constexpr std::string_view kAutograd = "torch::autograd::";

// The part behind the last `::` outside of brackets.
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
  // Functions that only look alike.
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

bool is_way_into_function(std::string_view file, std::string_view function) {
  return file.ends_with("torch/autograd/function.py") &&
         (function == "apply" || function == "BackwardCFunction.apply");
}

}  // namespace gpumemtrace::analyzer
