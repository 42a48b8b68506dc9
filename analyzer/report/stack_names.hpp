// SPDX-License-Identifier: Apache-2.0
// A process's stacks in words: their frames, the owner of the code that asked for memory, and the
// line in the user's code.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/model/process/process.hpp"
#include "analyzer/owners/owners.hpp"
#include "analyzer/symbols/symbolizer.hpp"

namespace gpumemtrace::analyzer {

struct StackFrame {
  std::string function;  // empty if the function is not known
  std::string file;
  std::uint32_t line = 0;
  std::string module;        // the module's file name; of native frames only
  std::uint64_t offset = 0;  // the offset in the module of the byte before the return address
  bool is_python = false;
};

// The names of one process's stacks.
// - The model, the symbolizer and the owners are borrowed.
// - Addresses are resolved when they are asked for, and only once.
// - Only one thread at a time may ask about a process.
class StackNames {
 public:
  StackNames(const ProcessModel& model, Symbolizer& symbolizer, const CodeOwners& owners);

  [[nodiscard]] bool has_native_frames(trace::StackId stack) const;
  // True if the stack has Python frames of its own, or inferred ones of a thread that waited.
  [[nodiscard]] bool has_python_frames(trace::StackId stack) const;
  // The stack's frames, innermost first, native frames before Python's.
  [[nodiscard]] std::vector<StackFrame> frames_of(trace::StackId stack) const;
  // The owner of the code that asked for memory; empty if the frames do not show it.
  [[nodiscard]] std::string owner_of(trace::StackId stack) const;
  // The innermost frame of the user's code: a Python frame, or a native one if there is none.
  [[nodiscard]] std::optional<StackFrame> users_frame(trace::StackId stack) const;
  // The innermost frame of the user's Python code that calls the model in which the stack runs.
  [[nodiscard]] std::optional<StackFrame> models_caller(trace::StackId stack) const;
  // True if autograd recorded operations for a backward pass in that stack.
  [[nodiscard]] bool is_under_autograd(trace::StackId stack) const;
  // The autograd node, such as AddmmBackward0, that ran on a thread without Python frames; or
  // empty.
  [[nodiscard]] std::string autograd_node_of(trace::StackId stack) const;

  // The layers of a model that the stack runs in, in the form of layers_of().
  [[nodiscard]] std::string layers_of(trace::StackId stack) const;

  // True if a framework's function in the stack waits for the copy that the stack started.
  [[nodiscard]] bool waits_for_copy(trace::StackId stack) const;

  // The thread whose Python frames stand in for the stack's missing ones, or follow its own;
  // nullopt if no other thread's frames are used.
  [[nodiscard]] std::optional<ThreadName> inferred_from(trace::StackId stack) const;
  [[nodiscard]] ThreadName thread_of(trace::StackId stack) const;

 private:
  // The recorded stacks that one stack id stands for; kNone for a stack that was not recorded.
  struct Parts {
    trace::StackId own = trace::StackId::kNone;
    // Equal to `own`, or the stack of the thread that waited.
    trace::StackId python = trace::StackId::kNone;
    std::uint64_t inferred_thread = 0;
    bool is_inferred = false;
  };

  [[nodiscard]] Parts parts_of(trace::StackId stack) const;
  [[nodiscard]] bool calls_backward(trace::StackId stack) const;
  [[nodiscard]] std::vector<PythonFrame> python_frames(const Parts& parts) const;
  // Calls visit(frame, path of its module) for native frames, innermost first, until it returns
  // true.
  template <class Visit>
  void visit_native(trace::StackId stack, Visit&& visit) const;

  [[nodiscard]] const std::vector<SymbolFrame>& symbols_at(const LoadedModule& module,
                                                           std::uint64_t offset) const;

  const ProcessModel& model_;
  Symbolizer& symbolizer_;
  const CodeOwners& owners_;
  std::string executable_;
  // The symbolizer's answers, by module and offset.
  mutable std::map<std::pair<const LoadedModule*, std::uint64_t>, const std::vector<SymbolFrame>*>
      symbols_;
};

}  // namespace gpumemtrace::analyzer
