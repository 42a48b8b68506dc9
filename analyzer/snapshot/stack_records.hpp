// SPDX-License-Identifier: Apache-2.0
// The stacks of a snapshot as records of a trace, each written before its first use.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "analyzer/snapshot/snapshot.hpp"
#include "trace/file_writer.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer::snapshot {

// Frames of Python alone, as in a trace: those of C++ have no file, and mostly say how PyTorch
// itself works.
class StackRecords {
 public:
  explicit StackRecords(const Snapshot& snapshot)
      : snapshot_(snapshot),
        written_(snapshot.stacks.size() + 1, Written::kNo),
        is_code_written_(snapshot.frames.size() + 1) {}

  // The stack's number in the trace, kNone if it has no Python frames; its records are added to
  // `out` if they are new.
  [[nodiscard]] trace::StackId number_of(StackId stack, std::uint64_t time,
                                         trace::StreamWriter& out);
  // A stack of one frame, which says that the file does not have the real one.
  [[nodiscard]] trace::StackId stack_of_earlier(std::uint64_t time, trace::StreamWriter& out);

 private:
  enum class Written : std::uint8_t { kNo, kYes, kHasNoFrames };

  void add_code(std::uint32_t number, const Frame& frame, std::string_view function,
                std::uint64_t time, trace::StreamWriter& out);

  const Snapshot& snapshot_;
  std::vector<Written> written_;  // by the stack's number
  std::vector<bool> is_code_written_;
};

}  // namespace gpumemtrace::analyzer::snapshot
