// SPDX-License-Identifier: Apache-2.0
// Writes the stacks of a snapshot as records of a trace, each before its first use.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "analyzer/snapshot/snapshot.hpp"
#include "trace/file_writer.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer::snapshot {

// The stacks of a snapshot as a trace has them.
// - C++ frames are written only for a stack that has no Python frames: they mostly say how PyTorch
//   itself works.
// - A frame of compiled code that names its FX node is followed by the node, and by the lines of
//   the model that became the node. The innermost line of the user's code is then the model's.
class StackRecords {
 public:
  explicit StackRecords(const Snapshot& snapshot)
      : snapshot_(snapshot),
        is_written_(snapshot.stacks.size() + 1, false),
        codes_of_frames_(snapshot.frames.size()) {}

  // The stack's number in the trace, kNone for an empty stack; its records are added to `out` if
  // the stack is new.
  [[nodiscard]] trace::StackId number_of(StackId stack, std::uint64_t time,
                                         trace::StreamWriter& out);
  // The number of a stack of one frame, which says that the file does not have the real stack.
  [[nodiscard]] trace::StackId stack_of_earlier(std::uint64_t time, trace::StreamWriter& out);
  // The number of distinct C++ frames that are in no record.
  [[nodiscard]] std::uint64_t frames_left_out() const;

 private:
  // A line of a function, which is written as a code object of its own.
  struct Line {
    std::string_view function;
    std::string_view file;
    std::uint32_t line = 0;
    friend auto operator<=>(const Line&, const Line&) = default;
  };

  // The numbers of the code objects that a frame becomes, innermost first.
  [[nodiscard]] const std::vector<std::uint32_t>& codes_of(FrameId id, std::uint64_t time,
                                                           trace::StreamWriter& out);
  [[nodiscard]] std::vector<Line> lines_of(const Frame& frame) const;
  [[nodiscard]] std::uint32_t code_of(const Line& line, std::uint64_t time,
                                      trace::StreamWriter& out);

  [[nodiscard]] std::string_view file_of(std::uint32_t frame) const {
    return snapshot_.text(snapshot_.frame({frame}).file);
  }

  const Snapshot& snapshot_;
  std::vector<bool> is_written_;  // true for written stacks, by the stack's number
  std::vector<std::vector<std::uint32_t>>
      codes_of_frames_;  // code objects, by the frame's number; empty: not written yet
  std::map<Line, std::uint32_t> codes_;
};

}  // namespace gpumemtrace::analyzer::snapshot
