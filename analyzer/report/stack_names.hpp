// SPDX-License-Identifier: Apache-2.0
// A process's stacks in words: their frames, the owner of the asking code, and its line in the
// user's code.
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
  std::string function;  // empty = not known
  std::string file;
  std::uint32_t line = 0;
  std::string module;        // file name; native frames only
  std::uint64_t offset = 0;  // in the module, of the byte before the return address
  bool is_python = false;
};

// - One process's; the model, the symbolizer and the owners are borrowed.
// - Addresses are resolved when they are asked for, and only once.
// - One thread at a time asks about a process.
class StackNames {
 public:
  StackNames(const ProcessModel& model, Symbolizer& symbolizer, const CodeOwners& owners);

  [[nodiscard]] bool has_native_frames(trace::StackId stack) const;
  // The stack's own frames, or inferred ones.
  [[nodiscard]] bool has_python_frames(trace::StackId stack) const;
  // Innermost first, native before Python.
  [[nodiscard]] std::vector<StackFrame> frames_of(trace::StackId stack) const;
  // The owner of the asking code; empty if the frames do not show it.
  [[nodiscard]] std::string owner_of(trace::StackId stack) const;
  // The innermost frame that is the user's: of Python, else native.
  [[nodiscard]] std::optional<StackFrame> users_frame(trace::StackId stack) const;
  // The innermost frame of the user's Python that calls the model which the stack runs in.
  [[nodiscard]] std::optional<StackFrame> models_caller(trace::StackId stack) const;
  // True if autograd recorded there for a backward pass.
  [[nodiscard]] bool is_under_autograd(trace::StackId stack) const;
  // The autograd node that ran on a thread without Python frames, such as AddmmBackward0; or empty.
  [[nodiscard]] std::string autograd_node_of(trace::StackId stack) const;

  // The layers of a model that it runs in, as layers_of() writes them.
  [[nodiscard]] std::string layers_of(trace::StackId stack) const;

  // True if a framework's function in the stack waits for the copy that was made from it.
  [[nodiscard]] bool waits_for_copy(trace::StackId stack) const;

  // The thread whose Python frames stand in for missing ones, or stand behind its own; nullopt if
  // none do.
  [[nodiscard]] std::optional<ThreadName> inferred_from(trace::StackId stack) const;
  [[nodiscard]] ThreadName thread_of(trace::StackId stack) const;

 private:
  // The recorded stacks behind an id, kNone if there is none.
  struct Parts {
    trace::StackId own = trace::StackId::kNone;
    trace::StackId python = trace::StackId::kNone;  // the same, or that of the thread that waited
    std::uint64_t inferred_thread = 0;
    bool is_inferred = false;
  };

  [[nodiscard]] Parts parts_of(trace::StackId stack) const;
  [[nodiscard]] bool calls_backward(trace::StackId stack) const;
  [[nodiscard]] std::vector<PythonFrame> python_frames(const Parts& parts) const;
  // Calls visit(frame, path of its module) innermost first until it returns true.
  template <class Visit>
  void visit_native(trace::StackId stack, Visit&& visit) const;

  [[nodiscard]] const std::vector<SymbolFrame>& symbols_at(const LoadedModule& module,
                                                           std::uint64_t offset) const;

  const ProcessModel& model_;
  Symbolizer& symbolizer_;
  const CodeOwners& owners_;
  std::string executable_;
  // The symbolizer's answers.
  mutable std::map<std::pair<const LoadedModule*, std::uint64_t>, const std::vector<SymbolFrame>*>
      symbols_;
};

}  // namespace gpumemtrace::analyzer
