// SPDX-License-Identifier: Apache-2.0
// The Python stacks of a process: collected from records in any order, resolved when all records
// were read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

// Finds the source line of a byte code instruction, from a code object's line table. The form of
// the table changed with CPython's versions:
//
//   3.9       co_lnotab: pairs of offset and line increments (Objects/lnotab_notes.txt)
//   3.10      PEP 626 line table: ranges with line increments
//   3.11 on   location table: variable-length entries (Objects/locations.md)
//
// `version` is PY_VERSION_HEX, `instruction` a byte offset into the code. Returns 0 if the table
// gives no line. Never reads past the table's end, even if the table is damaged.
std::uint32_t python_line(std::uint32_t version, std::span<const std::byte> table,
                          std::uint32_t first_line, std::uint32_t instruction);

struct PythonFrame {
  std::string function;  // the qualified name if the interpreter tells it (3.11 on)
  std::string file;
  std::uint32_t line = 0;        // 0 = the line is not known
  std::uint32_t first_line = 0;  // the first line of the function
};

// A frame's position in its code object.
struct CodePlace {
  std::uint32_t code = 0;
  std::uint32_t instruction = 0;  // byte offset into the code
};

class PythonStacks {
 public:
  // Takes Stack and Code records and ignores the rest.
  void add(const trace::RecordHeader& record);

  // The frames of a stack, innermost first; empty for kNone and for stacks that are not in the
  // trace.
  [[nodiscard]] std::vector<PythonFrame> frames_of(trace::StackId stack) const;
  // True if both stacks have Python frames, and the same ones.
  [[nodiscard]] bool are_same(trace::StackId stack, trace::StackId other) const;
  // True if blocks were allocated from the stack while PyTorch's autograd recorded for a backward
  // pass. False also if the recorder did not know this.
  [[nodiscard]] bool is_under_autograd(trace::StackId stack) const;
  [[nodiscard]] bool empty() const { return stacks_.empty(); }
  [[nodiscard]] bool has(trace::StackId stack) const { return stacks_.count(stack) != 0; }
  // The positions in code of a stack's frames, innermost first.
  [[nodiscard]] std::vector<CodePlace> places_of(trace::StackId stack) const;
  // The text of a code object, as far as it was recorded.
  [[nodiscard]] std::string text_of(std::uint32_t code, trace::CodeText which) const;

 private:
  struct Stack {
    std::uint32_t version = 0;
    bool under_autograd = false;
    std::vector<std::uint64_t> frames;
  };
  struct CodeObject {
    std::uint32_t first_line = 0;
    // The code object's texts. A long text comes in several pieces with increasing part numbers.
    std::map<std::pair<trace::CodeText, std::uint32_t>, std::string> pieces;
    [[nodiscard]] std::string text(trace::CodeText which) const;
  };

  std::map<trace::StackId, Stack> stacks_;
  std::map<std::uint32_t, CodeObject> codes_;
};

}  // namespace gpumemtrace::analyzer
