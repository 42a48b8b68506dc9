// SPDX-License-Identifier: Apache-2.0
// The call stacks that rows of the report name.
#include <set>
#include <string_view>

#include "analyzer/report/sections.hpp"
#include "analyzer/rows/walk.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::set<std::string> named_stacks(const rows::Report& sections) {
  std::set<std::string> ids;
  rows::walk(sections, [&](std::string_view key, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const std::string&>) {
      if (key == "stack") ids.insert(value);
    }
  });
  return ids;
}

rows::Frame frame_row(const StackFrame& frame) {
  rows::Frame row;
  row.function = rows::text_or_none(frame.function);
  row.file = rows::text_or_none(frame.file);
  row.line = rows::number_or_none(frame.line);
  row.module = rows::text_or_none(frame.module);
  if (!frame.is_python) row.offset = frame.offset;
  row.language = frame.is_python ? rows::Language::kPython : rows::Language::kNative;
  return row;
}

rows::Thread thread_row(const ThreadName& thread) { return {thread.id, thread.name}; }

rows::Stack stack_row(const StackNames& names, const std::string& id, trace::StackId stack) {
  rows::Stack row;
  row.id = id;
  row.thread = thread_row(names.thread_of(stack));
  for (const StackFrame& frame : names.frames_of(stack)) row.frames.push_back(frame_row(frame));
  if (const auto thread = names.inferred_from(stack)) row.inferred_from = thread_row(*thread);
  return row;
}

}  // namespace

std::vector<rows::Stack> report_stacks(const ReportContext& context, const rows::Report& sections) {
  const std::set<std::string> ids = named_stacks(sections);
  std::vector<rows::Stack> list;
  for (const ReportProcess& process : context.processes()) {
    const std::string prefix = process.id + ":";
    for (auto id = ids.lower_bound(prefix);
         id != ids.end() && id->substr(0, prefix.size()) == prefix; ++id) {
      const trace::StackId stack{static_cast<std::uint32_t>(std::stoul(id->substr(prefix.size())))};
      list.push_back(stack_row(context.names_of(process), *id, stack));
    }
  }
  return list;
}

}  // namespace gpumemtrace::analyzer
