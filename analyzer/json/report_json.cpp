// SPDX-License-Identifier: Apache-2.0
#include "analyzer/json/report_json.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/base/parallel.hpp"
#include "analyzer/json/row_values.hpp"
#include "analyzer/rows/walk.hpp"

namespace gpumemtrace::analyzer {
namespace {

void require_frames(const rows::Report& report) {
  for (const rows::Stack& stack : report.stacks) {
    if (!stack.frames.indexes.empty() && !stack.frames.own.empty()) {
      refuse_value("stacks.frames", "has frames and numbers of frames");
    }
    for (const std::uint64_t index : stack.frames.indexes) {
      if (index >= report.frames.size()) {
        refuse_value("stacks.frames", "names a frame that the report does not have");
      }
    }
  }
}

// Writes the report's text in parts, by several threads. A row of a list becomes one line.
class ReportText {
 public:
  template <class Row>
  explicit ReportText(const Row& row) {
    add_object(row, 1);
  }

  [[nodiscard]] std::string write() const {
    std::vector<std::string> texts(parts_.size());
    in_parallel(parts_.size(), [&](std::size_t i) { texts[i] = parts_[i](); });
    std::string whole;
    whole.reserve(
        std::accumulate(texts.begin(), texts.end(), std::size_t{1},
                        [](std::size_t sum, const auto& text) { return sum + text.size(); }));
    for (std::string& text : texts) whole += std::exchange(text, {});
    whole += '\n';
    return whole;
  }

 private:
  template <class Value>
  static constexpr bool kIsObject = requires(const Value& value, RowWriter& out) {
    Value::fields(value, out);
  };

  void add(std::string text) {
    parts_.emplace_back([text = std::move(text)] { return text; });
  }
  static std::string line_at(std::size_t level) { return '\n' + std::string(2 * level, ' '); }

  template <class Row>
  void add_object(const Row& row, std::size_t level) {
    std::string begin = "{";
    rows::for_each_section(row, [&](const char* key, const auto& value) {
      add(begin + line_at(level) + '"' + key + "\": ");
      add_value(value, level);
      begin = ",";
    });
    add(line_at(level - 1) + '}');
  }
  template <class Value>
  void add_value(const Value& value, std::size_t level) {
    if constexpr (kIsObject<Value>) {
      add_object(value, level + 1);
    } else {
      parts_.emplace_back([&value] { return json_text(value, JsonLayout::kLine); });
    }
  }
  template <class Row>
  requires kIsObject<Row>
  void add_value(const std::vector<Row>& list, std::size_t level) {
    constexpr std::size_t kRowsOfPart = 256;
    if (list.empty()) return add("[]");
    for (std::size_t first = 0; first < list.size(); first += kRowsOfPart) {
      const std::size_t end = std::min(first + kRowsOfPart, list.size());
      parts_.emplace_back([&list, first, end, level] {
        std::string text;
        for (std::size_t i = first; i < end; ++i) {
          text += (i == 0 ? '[' : ',') + line_at(level + 1) + json_text(list[i], JsonLayout::kLine);
        }
        return text;
      });
    }
    add(line_at(level) + ']');
  }

  std::vector<std::function<std::string()>> parts_;
};

}  // namespace

std::string to_text(const rows::Report& report) { return ReportText(report).write(); }
std::string to_text(const rows::Partial& partial) { return ReportText(partial).write(); }

rows::Report report_of_text(std::string_view text) {
  auto report = row_of_text<rows::Report>(text, "report");
  require_frames(report);
  return report;
}

rows::Partial partial_of_text(std::string_view text) {
  auto partial = row_of_text<rows::Partial>(text, "partial report");
  require_frames(partial.report);
  return partial;
}

}  // namespace gpumemtrace::analyzer
