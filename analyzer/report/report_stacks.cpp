// SPDX-License-Identifier: Apache-2.0
// The call stacks that rows of the report name.
#include <set>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

void collect_ids(const Json& json, std::set<std::string>& ids) {
  const Json* const stack = json.find("stack");
  if (stack != json.end() && stack->is_string()) ids.insert(stack->text());
  for (const Json& value : json) {
    if (value.is_object() || value.is_array()) collect_ids(value, ids);
  }
}

Json frame_json(const StackFrame& frame) {
  Json offset = nullptr;
  if (!frame.is_python) offset = frame.offset;
  return {{"function", text_or_null(frame.function)},
          {"file", text_or_null(frame.file)},
          {"line", frame.line == 0 ? Json(nullptr) : Json(frame.line)},
          {"module", text_or_null(frame.module)},
          {"offset", std::move(offset)},
          {"kind", frame.is_python ? "python" : "native"}};
}

// A thread's name, or its number where it has none.
Json thread_json(const ThreadName& thread) {
  if (!thread.name.empty()) return thread.name;
  return thread.id == 0 ? Json(nullptr) : Json(thread.id);
}

Json stack_row(const StackNames& names, const std::string& id, std::uint32_t stack) {
  Json frames = Json::array();
  for (const StackFrame& frame : names.frames_of(stack)) frames.push_back(frame_json(frame));
  const std::optional<ThreadName> inferred_from = names.inferred_from(stack);
  return {{"id", id},
          {"thread", thread_json(names.thread_of(stack))},
          {"frames", std::move(frames)},
          {"inferred_from", inferred_from ? thread_json(*inferred_from) : Json(nullptr)}};
}

}  // namespace

Json report_stacks(const ReportContext& context, const Json& report) {
  std::set<std::string> ids;
  collect_ids(report, ids);
  Json rows = Json::array();
  for (const ReportProcess& process : context.processes()) {
    const std::string prefix = process.id + ":";
    for (auto id = ids.lower_bound(prefix);
         id != ids.end() && id->substr(0, prefix.size()) == prefix; ++id) {
      const auto stack = static_cast<std::uint32_t>(std::stoul(id->substr(prefix.size())));
      rows.push_back(stack_row(context.names_of(process), *id, stack));
    }
  }
  return rows;
}

}  // namespace gpumemtrace::analyzer
