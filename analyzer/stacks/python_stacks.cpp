// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stacks/python_stacks.hpp"

#include "analyzer/stacks/python_lines.hpp"
#include "trace/reader.hpp"

namespace gpumemtrace::analyzer {

void PythonStacks::add(const trace::RecordHeader& record) {
  if (record.kind == trace::RecordKind::kStack) {
    const auto& stack = trace::as<trace::Stack>(record);
    const auto frames = trace::python_frames_of(stack);
    if (frames.empty()) return;
    stacks_[stack.id] = {stack.python_version,
                         (record.flags & trace::kFlagAutograd) != 0,
                         {frames.begin(), frames.end()}};
  } else if (record.kind == trace::RecordKind::kCode) {
    const auto& code = trace::as<trace::Code>(record);
    const auto bytes = trace::bytes_of(code);
    CodeObject& object = codes_[code.id];
    object.first_line = code.first_line;
    object.pieces[{code.text, code.part}].assign(reinterpret_cast<const char*>(bytes.data()),
                                                 bytes.size());
  }
}

std::string PythonStacks::CodeObject::text(trace::CodeText which) const {
  std::string whole;
  for (const auto& [key, piece] : pieces) {
    if (key.first == which) whole += piece;
  }
  return whole;
}

std::vector<CodePlace> PythonStacks::places_of(trace::StackId stack) const {
  const auto found = stacks_.find(stack);
  if (found == stacks_.end()) return {};
  std::vector<CodePlace> places;
  for (const std::uint64_t packed : found->second.frames) {
    places.push_back(
        {static_cast<std::uint32_t>(packed >> 32), static_cast<std::uint32_t>(packed)});
  }
  return places;
}

bool PythonStacks::is_under_autograd(trace::StackId stack) const {
  const auto found = stacks_.find(stack);
  return found != stacks_.end() && found->second.under_autograd;
}

bool PythonStacks::are_same(trace::StackId stack, trace::StackId other) const {
  const auto found = stacks_.find(stack);
  if (found == stacks_.end()) return false;
  const auto found_other = stack == other ? found : stacks_.find(other);
  return found_other != stacks_.end() && found->second.frames == found_other->second.frames;
}

std::string PythonStacks::text_of(std::uint32_t code, trace::CodeText which) const {
  const auto found = codes_.find(code);
  return found == codes_.end() ? std::string() : found->second.text(which);
}

std::vector<PythonFrame> PythonStacks::frames_of(trace::StackId stack) const {
  const auto found = stacks_.find(stack);
  if (found == stacks_.end()) return {};
  std::vector<PythonFrame> frames;
  for (const std::uint64_t packed : found->second.frames) {
    const auto code = codes_.find(static_cast<std::uint32_t>(packed >> 32));
    if (code == codes_.end()) {
      frames.emplace_back();
      continue;
    }
    const std::string table = code->second.text(trace::CodeText::kLineTable);
    PythonFrame frame;
    frame.function = code->second.text(trace::CodeText::kName);
    frame.file = code->second.text(trace::CodeText::kFile);
    frame.first_line = code->second.first_line;
    frame.line = python_line(found->second.version, std::as_bytes(std::span(table)),
                             code->second.first_line, static_cast<std::uint32_t>(packed));
    frames.push_back(std::move(frame));
  }
  return frames;
}

}  // namespace gpumemtrace::analyzer
