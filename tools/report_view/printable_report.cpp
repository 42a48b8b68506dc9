// SPDX-License-Identifier: Apache-2.0
#include "tools/report_view/printable_report.hpp"

#include <concepts>
#include <string>
#include <utility>
#include <variant>

#include "analyzer/base/printable.hpp"
#include "analyzer/rows/walk.hpp"

namespace gpumemtrace::tools {
namespace {

namespace rows = analyzer::rows;

// Passes the text in a row through printable(): fields that are text, and text inside other values.
class TextPrinter {
 public:
  template <class T>
  void operator()(const char*, T& value) {
    if constexpr (std::derived_from<T, std::string>) value = analyzer::printable(value);
  }
  void operator()(const char*, std::pair<std::string, std::uint64_t>& number) {
    number.first = analyzer::printable(number.first);
  }
  void operator()(const char*, rows::Evidence& evidence) {
    rows::Evidence shown;
    for (auto [name, value] : evidence.values()) {
      if (auto* const text = std::get_if<std::string>(&value)) *text = analyzer::printable(*text);
      if (auto* const place = std::get_if<rows::CodeLocation>(&value)) rows::walk(*place, *this);
      shown.add(analyzer::printable(name), std::move(value));
    }
    evidence = std::move(shown);
  }
};

}  // namespace

rows::Report printable(rows::Report report) {
  rows::walk(report, TextPrinter());
  return report;
}

}  // namespace gpumemtrace::tools
