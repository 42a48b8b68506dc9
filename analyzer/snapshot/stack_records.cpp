// SPDX-License-Identifier: Apache-2.0
#include "analyzer/snapshot/stack_records.hpp"

#include <algorithm>
#include <string_view>

namespace gpumemtrace::analyzer::snapshot {
namespace {

constexpr std::string_view kEarlier = "allocated before the history";
constexpr std::size_t kMostWords = 255;  // of a record

bool is_python(std::string_view file) { return file.ends_with(".py") || file.starts_with("<"); }

// Texts longer than a record come in several.
void add_text(trace::Code record, trace::CodeText which, std::string_view text,
              trace::StreamWriter& out) {
  constexpr std::size_t kMostBytes = kMostWords * trace::kWordBytes - sizeof(trace::Code);
  record.text = which;
  do {
    const std::string_view piece = text.substr(0, kMostBytes);
    record.bytes = static_cast<std::uint32_t>(piece.size());
    out.add(record, piece);
    ++record.part;
    text.remove_prefix(piece.size());
  } while (!text.empty());
}

// The words after the struct, as text.
void add_stack(trace::Stack record, const std::vector<std::uint64_t>& frames,
               trace::StreamWriter& out) {
  constexpr std::size_t kMostFrames = kMostWords - sizeof(trace::Stack) / trace::kWordBytes;
  const std::size_t count = std::min(frames.size(), kMostFrames);
  if (count < frames.size()) record.record.flags |= trace::kFlagCut;
  record.python_frames = static_cast<std::uint32_t>(count);
  out.add(record, {reinterpret_cast<const char*>(frames.data()), count * trace::kWordBytes});
}

}  // namespace

trace::StackId StackRecords::number_of(StackId stack, std::uint64_t time,
                                       trace::StreamWriter& out) {
  const trace::StackId number{stack.value};
  Written& written = written_[stack.value];
  if (written == Written::kHasNoFrames) return trace::StackId::kNone;
  if (stack.value == 0 || written == Written::kYes) return number;
  std::vector<std::uint64_t> frames;
  for (const std::uint32_t id : snapshot_.stack(stack)) {
    const Frame& frame = snapshot_.frame({id});
    if (!is_python(snapshot_.text(frame.file))) continue;
    add_code(id, frame, snapshot_.text(frame.function), time, out);
    frames.push_back(std::uint64_t{id} << 32);
  }
  written = frames.empty() ? Written::kHasNoFrames : Written::kYes;
  if (frames.empty()) return trace::StackId::kNone;
  trace::Stack record;
  record.record.time = time;
  record.id = number;
  add_stack(record, frames, out);
  return number;
}

trace::StackId StackRecords::stack_of_earlier(std::uint64_t time, trace::StreamWriter& out) {
  const std::uint32_t stack = snapshot_.stacks.size();
  const std::uint32_t code = snapshot_.frames.size();
  if (written_[stack] == Written::kNo) {
    written_[stack] = Written::kYes;
    add_code(code, {}, kEarlier, time, out);
    trace::Stack record;
    record.record.time = time;
    record.id = trace::StackId{stack};
    add_stack(record, {std::uint64_t{code} << 32}, out);
  }
  return trace::StackId{stack};
}

// A code object for each line. Its line is the first one of the function: without a table of lines
// all instructions have that.
void StackRecords::add_code(std::uint32_t number, const Frame& frame, std::string_view function,
                            std::uint64_t time, trace::StreamWriter& out) {
  if (is_code_written_[number]) return;
  is_code_written_[number] = true;
  trace::Code record;
  record.record.time = time;
  record.id = number;
  record.first_line = frame.line;
  add_text(record, trace::CodeText::kName, function, out);
  add_text(record, trace::CodeText::kFile, snapshot_.text(frame.file), out);
}

}  // namespace gpumemtrace::analyzer::snapshot
