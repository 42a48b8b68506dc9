// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/stack_names.hpp"

#include <algorithm>

#include "analyzer/owners/owners.hpp"
#include "analyzer/stacks/pytorch_frames.hpp"

namespace gpumemtrace::analyzer {
namespace {

StackFrame to_frame(const PythonFrame& python) {
  StackFrame frame;
  frame.function = python.function;
  frame.file = python.file;
  frame.line = python.line;
  frame.is_python = is_python_file(python.file);
  return frame;
}

bool is_users(const PythonFrame& frame, const CodeOwners& owners, std::string_view executable) {
  if (!is_native_file(frame.file)) return owners.is_users_python(frame.file, frame.function);
  return !frame.file.empty() && is_users_source_file(frame.file) &&
         owners.is_users_code(frame.file, frame.function, executable);
}

// True for the module of the recorder, whose functions passed the call on to the driver.
bool is_recorder(std::string_view module) { return module.starts_with("libgpumemtrace."); }

}  // namespace

StackNames::StackNames(const ProcessModel& model, Symbolizer& symbolizer, const CodeOwners& owners)
    : model_(model),
      symbolizer_(symbolizer),
      owners_(owners),
      executable_(model.program().dictionary().text(trace::TextKey::kExecutable)) {}

const std::vector<SymbolFrame>& StackNames::symbols_at(const LoadedModule& module,
                                                       std::uint64_t offset) const {
  const std::vector<SymbolFrame>*& known = symbols_[{&module, offset}];
  if (known == nullptr) known = &symbolizer_.frames_at(module.identity, offset);
  return *known;
}

// Each function that was inlined at an address is a frame of its own; the recorder's frames are
// left out.
template <class Visit>
void StackNames::visit_native(trace::StackId stack, Visit&& visit) const {
  const Dictionary& dictionary = model_.program().dictionary();
  const std::uint64_t time = dictionary.native_stacks().time_of(stack);
  for (const std::uint64_t address : dictionary.native_stacks().addresses_of(stack)) {
    if (address == 0) continue;
    // The recorded return address is that of the instruction after the call.
    const std::uint64_t call = address - 1;
    const LoadedModule* module = dictionary.modules().find(call, time);
    StackFrame frame;
    if (module == nullptr) {
      frame.offset = call;
      if (visit(frame, std::string_view())) return;
      continue;
    }
    const std::string& path = module->identity.path;
    frame.module = base_name(path);
    if (is_recorder(frame.module)) continue;
    frame.offset = call - module->base;
    const std::vector<SymbolFrame>& symbols = symbols_at(*module, frame.offset);
    if (symbols.empty() && visit(frame, std::string_view(path))) return;
    for (const SymbolFrame& symbol : symbols) {
      frame.function = symbol.function;
      frame.file = symbol.file;
      frame.line = symbol.line;
      if (visit(frame, std::string_view(path))) return;
    }
  }
}

// A stack of a backward pass is joined with that of the Python thread that waited for it. The
// waiting thread's stack counts only if the recorder saw that thread wait, or if the stack has a
// call of the backward pass.
StackNames::Parts StackNames::parts_of(trace::StackId stack) const {
  const JoinedStack* joined = model_.program().backward_stacks().find(stack);
  if (joined == nullptr) return {stack, stack, 0, false};
  if (!joined->seen_waiting && !calls_backward(joined->inferred)) {
    return {joined->own, joined->own, 0, false};
  }
  return {joined->own, joined->inferred, joined->thread_id, true};
}

bool StackNames::calls_backward(trace::StackId stack) const {
  const std::vector<PythonFrame> frames =
      model_.program().dictionary().python_stacks().frames_of(stack);
  return std::ranges::any_of(frames, [](const PythonFrame& frame) {
    return is_backward_call(frame.file, frame.function);
  });
}

std::vector<PythonFrame> StackNames::python_frames(const Parts& parts) const {
  const PythonStacks& stacks = model_.program().dictionary().python_stacks();
  std::vector<PythonFrame> frames = stacks.frames_of(parts.python);
  if (parts.is_inferred) {
    // A thread of the autograd engine may run Python code: its own frames come before those of the
    // waiting thread.
    const std::vector<PythonFrame> own = stacks.frames_of(parts.own);
    frames.insert(frames.begin(), own.begin(), own.end());
  }
  return frames;
}

bool StackNames::has_native_frames(trace::StackId stack) const {
  return !model_.program().dictionary().native_stacks().addresses_of(parts_of(stack).own).empty();
}

bool StackNames::has_python_frames(trace::StackId stack) const {
  return model_.program().dictionary().python_stacks().has(parts_of(stack).python);
}

std::vector<StackFrame> StackNames::frames_of(trace::StackId stack) const {
  const Parts parts = parts_of(stack);
  std::vector<StackFrame> frames;
  visit_native(parts.own, [&](const StackFrame& frame, std::string_view) {
    frames.push_back(frame);
    return false;
  });
  for (const PythonFrame& python : python_frames(parts)) frames.push_back(to_frame(python));
  return frames;
}

std::string StackNames::owner_of(trace::StackId stack) const {
  const Parts parts = parts_of(stack);
  std::string owner;
  visit_native(parts.own, [&](const StackFrame& frame, std::string_view path) {
    owner = owners_.owner_of_code(path, frame.function, executable_);
    return !owner.empty();
  });
  if (!owner.empty()) return owner;
  for (const PythonFrame& frame : python_frames(parts)) {
    owner = owners_.owner_of_python(frame.file);
    if (!owner.empty()) break;
  }
  return owner;
}

std::optional<StackFrame> StackNames::users_frame(trace::StackId stack) const {
  const Parts parts = parts_of(stack);
  for (const PythonFrame& python : python_frames(parts)) {
    if (is_users(python, owners_, executable_)) return to_frame(python);
  }
  std::optional<StackFrame> found;
  visit_native(parts.own, [&](const StackFrame& frame, std::string_view path) {
    const bool is_users = is_users_source_file(frame.file) &&
                          owners_.is_users_code(path, frame.function, executable_);
    if (is_users) found = frame;
    return found.has_value();
  });
  return found;
}

// The innermost frame of the user's code outside the model that the stack runs in; no value if it
// runs in none.
std::optional<StackFrame> StackNames::models_caller(trace::StackId stack) const {
  const std::vector<PythonFrame> frames = python_frames(parts_of(stack));
  const std::size_t inside = frames_of_model(frames);
  if (inside == 0) return std::nullopt;
  for (std::size_t i = inside; i < frames.size(); ++i) {
    if (owners_.is_users_python(frames[i].file, frames[i].function)) return to_frame(frames[i]);
  }
  return std::nullopt;
}

bool StackNames::is_under_autograd(trace::StackId stack) const {
  return model_.program().dictionary().python_stacks().is_under_autograd(stack);
}

// The autograd node that runs on a thread without Python frames of its own; empty if there is none.
std::string StackNames::autograd_node_of(trace::StackId stack) const {
  const Parts parts = parts_of(stack);
  const std::vector<PythonFrame> frames = python_frames(parts);
  std::string node;
  // A snapshot of PyTorch has C++ functions in the list of Python frames.
  for (const PythonFrame& frame : frames) {
    if (!node.empty() || !is_native_file(frame.file)) break;
    node = autograd_node_name(frame.function);
  }
  if (!node.empty() || (!parts.is_inferred && !frames.empty())) return node;
  visit_native(parts.own, [&](const StackFrame& frame, std::string_view) {
    node = autograd_node_name(frame.function);
    return !node.empty();
  });
  return node;
}

std::string StackNames::layers_of(trace::StackId stack) const {
  return analyzer::layers_of(python_frames(parts_of(stack)));
}

bool StackNames::waits_for_copy(trace::StackId stack) const {
  bool waits = false;
  visit_native(parts_of(stack).own, [&](const StackFrame& frame, std::string_view) {
    waits = waits_for_its_copy(frame.function);
    return waits;
  });
  return waits;
}

std::optional<ThreadName> StackNames::inferred_from(trace::StackId stack) const {
  const Parts parts = parts_of(stack);
  if (!parts.is_inferred) return std::nullopt;
  return model_.program().threads().of_id(parts.inferred_thread);
}

ThreadName StackNames::thread_of(trace::StackId stack) const {
  return model_.program().threads().of_stack(parts_of(stack).own);
}

}  // namespace gpumemtrace::analyzer
