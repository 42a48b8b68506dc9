// SPDX-License-Identifier: Apache-2.0
#include "analyzer/snapshot/stack_records.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "analyzer/stacks/pytorch_frames.hpp"

namespace gpumemtrace::analyzer::snapshot {
namespace {

constexpr std::string_view kEarlier = "allocated before the history";
constexpr std::string_view kNoFile = "??";  // PyTorch's file name for C++ functions
constexpr std::size_t kMostWords = 255;     // the most words in a record

struct TracebackLine {
  std::string_view file;
  std::uint32_t line = 0;
  std::string_view function;
};

// Reads a line of a traceback as Python writes it: File "model.py", line 41, in forward
std::optional<TracebackLine> line_of_traceback(std::string_view text) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kFunction = ", in ";
  const std::size_t begin = text.find(kFile);
  const std::size_t end = text.rfind(kLine);
  if (begin == text.npos || end == text.npos || end < begin + kFile.size()) return std::nullopt;
  TracebackLine found;
  found.file = text.substr(begin + kFile.size(), end - begin - kFile.size());
  const std::string_view number = text.substr(end + kLine.size());
  const auto [rest, error] =
      std::from_chars(number.data(), number.data() + number.size(), found.line);
  if (error != std::errc()) return std::nullopt;
  const std::size_t function = text.find(kFunction, end);
  if (function != text.npos) found.function = text.substr(function + kFunction.size());
  return found;
}

// Writes a text; one that is longer than a record is split among several.
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

// Writes a stack record: the frames' words follow the struct, as the record's text.
void add_stack(trace::Stack record, const std::vector<std::uint64_t>& frames,
               trace::StreamWriter& out) {
  constexpr std::size_t kMostFrames = kMostWords - sizeof(trace::Stack) / trace::kWordBytes;
  const std::size_t count = std::min(frames.size(), kMostFrames);
  if (count < frames.size()) record.record.flags |= trace::kFlagCut;
  record.python_frames = static_cast<std::uint32_t>(count);
  out.add(record, {reinterpret_cast<const char*>(frames.data()), count * trace::kWordBytes});
}

}  // namespace

std::uint64_t StackRecords::frames_left_out() const {
  std::uint64_t count = 0;
  for (std::uint32_t id = 1; id < snapshot_.frames.size(); ++id) {
    if (codes_of_frames_[id].empty() && is_native_file(file_of(id))) ++count;
  }
  return count;
}

trace::StackId StackRecords::number_of(StackId stack, std::uint64_t time,
                                       trace::StreamWriter& out) {
  const trace::StackId number{stack.value};
  if (is_written_[stack.value]) return number;
  const std::span<const std::uint32_t> ids = snapshot_.stack(stack);
  if (ids.empty()) return trace::StackId::kNone;
  const bool has_python =
      std::ranges::any_of(ids, [&](std::uint32_t id) { return is_python_file(file_of(id)); });
  std::vector<std::uint64_t> frames;
  for (const std::uint32_t id : ids) {
    if (has_python && is_native_file(file_of(id))) continue;
    for (const std::uint32_t code : codes_of({id}, time, out)) {
      frames.push_back(std::uint64_t{code} << 32);  // the lower 32 bits: instruction 0 of the code
    }
  }
  is_written_[stack.value] = true;
  trace::Stack record;
  record.record.time = time;
  record.id = number;
  add_stack(record, frames, out);
  return number;
}

// The stack of everything that was allocated before the history. Its number follows those of the
// snapshot's stacks.
trace::StackId StackRecords::stack_of_earlier(std::uint64_t time, trace::StreamWriter& out) {
  const std::uint32_t stack = snapshot_.stacks.size();
  if (!is_written_[stack]) {
    is_written_[stack] = true;
    const std::uint32_t code = code_of({kEarlier, {}, 0}, time, out);
    trace::Stack record;
    record.record.time = time;
    record.id = trace::StackId{stack};
    add_stack(record, {std::uint64_t{code} << 32}, out);
  }
  return trace::StackId{stack};
}

const std::vector<std::uint32_t>& StackRecords::codes_of(FrameId id, std::uint64_t time,
                                                         trace::StreamWriter& out) {
  std::vector<std::uint32_t>& codes = codes_of_frames_[id.value];
  if (codes.empty()) {
    for (const Line& line : lines_of(snapshot_.frame(id))) {
      codes.push_back(code_of(line, time, out));
    }
  }
  return codes;
}

// The lines that a frame becomes, innermost first: the lines of the model, the FX node, and the
// frame itself.
std::vector<StackRecords::Line> StackRecords::lines_of(const Frame& frame) const {
  const std::string_view file = snapshot_.text(frame.file);
  const Line own{snapshot_.text(frame.function), file == kNoFile ? "" : file, frame.line};
  std::vector<Line> lines = {own};
  const std::string_view node = snapshot_.text(frame.fx_node);
  if (!node.empty()) lines.push_back({node, own.file, own.line});
  std::string_view rest = snapshot_.text(frame.fx_trace);
  while (!rest.empty()) {
    const std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    if (const auto line = line_of_traceback(text)) {
      lines.push_back({line->function, line->file, line->line});
    }
  }
  std::ranges::reverse(lines);  // a traceback has the innermost line last
  return lines;
}

// Returns the number of the code object for a line, and writes the code object if it is new. The
// line is written as the code's first line: without a line table, all instructions have that line.
std::uint32_t StackRecords::code_of(const Line& line, std::uint64_t time,
                                    trace::StreamWriter& out) {
  const auto [code, is_new] =
      codes_.try_emplace(line, static_cast<std::uint32_t>(codes_.size() + 1));
  if (!is_new) return code->second;
  trace::Code record;
  record.record.time = time;
  record.id = code->second;
  record.first_line = line.line;
  add_text(record, trace::CodeText::kName, line.function, out);
  add_text(record, trace::CodeText::kFile, line.file, out);
  return code->second;
}

}  // namespace gpumemtrace::analyzer::snapshot
