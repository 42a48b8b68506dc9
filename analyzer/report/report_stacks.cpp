// The call stacks that rows of the report name.
#include <set>

#include "analyzer/report/sections.hpp"

namespace gpumemtrace::analyzer {
namespace {

void collect_ids(const Json& json, std::set<std::string>& ids) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_structured()) collect_ids(value, ids);
    if (json.is_object() && key == "stack" && value.is_string())
      ids.insert(value.get<std::string>());
  }
}

Json frames_json(const std::vector<PythonFrame>& frames) {
  Json rows = Json::array();
  for (const PythonFrame& frame : frames) {
    rows.push_back({{"function", text_or_null(frame.function)},
                    {"file", text_or_null(frame.file)},
                    {"line", frame.line == 0 ? Json(nullptr) : Json(frame.line)},
                    {"module", nullptr},
                    {"offset", nullptr},
                    {"kind", "python"}});
  }
  return rows;
}

}  // namespace

Json report_stacks(const ReportContext& context, const Json& report) {
  std::set<std::string> ids;
  collect_ids(report, ids);
  Json rows = Json::array();
  for (const std::string& id : ids) {
    rows.push_back({{"id", id},
                    {"thread", nullptr},
                    {"frames", frames_json(context.python_frames(id))},
                    {"inferred_from", nullptr}});
  }
  return rows;
}

}  // namespace gpumemtrace::analyzer
