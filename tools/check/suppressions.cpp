// SPDX-License-Identifier: Apache-2.0
#include "tools/check/suppressions.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "analyzer/findings/rule_table.hpp"
#include "tools/base/failure.hpp"
#include "tools/base/text.hpp"

namespace gpumemtrace::tools {
namespace {

// Buffers that libraries make at their first use and keep as long as the process lives. Where the
// library is linked statically, its functions are all that tells it.
constexpr std::string_view kBuiltIn = R"(
leak:^cublasCreate
leak:^cublasLtCreate
leak:^cudnnCreate
leak:^cusolverDnCreate
leak:^cusparseCreate
leak:^ncclCommInit
leak:^cuptiActivity
)";

const analyzer::RuleInfo* find_rule(const std::string& name) {
  for (const analyzer::RuleInfo& rule : analyzer::kRules) {
    if (rule.name == name) return &rule;
  }
  return nullptr;
}

bool is_type(const std::string& type) {
  return std::any_of(
      analyzer::kRules.begin(), analyzer::kRules.end(),
      [&](const analyzer::RuleInfo& rule) { return rule.name == type || rule.family == type; });
}

// Begin of the first place at or after `from` where `part` stands.
std::size_t find_part(std::string_view text, std::string_view part, std::size_t from) {
  return from > text.size() ? std::string_view::npos : text.find(part, from);
}

void add_place(const Json& place, std::vector<std::string>& texts) {
  if (!place.is_object()) return;
  for (const char* key : {"function", "file", "module"}) {
    if (const auto text = text_in(place, key)) texts.push_back(*text);
  }
  const auto file = text_in(place, "file");
  const auto line = number_in(place, "line");
  if (file && line) texts.push_back(format_text("{}:{}", *file, *line));
}

std::vector<std::string> texts_of(const Json& finding, const Json& report) {
  std::vector<std::string> texts;
  add_place(finding.at("site"), texts);
  if (const auto owner = text_in(finding, "owner")) texts.push_back(*owner);
  const auto stack = text_in(finding, "stack");
  if (!stack) return texts;
  for (const Json& row : report.at("stacks")) {
    if (row.at("id") != *stack) continue;
    for (const Json& frame : row.at("frames")) add_place(frame, texts);
  }
  return texts;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
  const bool from_begin = !pattern.empty() && pattern.front() == '^';
  if (from_begin) pattern.remove_prefix(1);
  const bool to_end = !pattern.empty() && pattern.back() == '$';
  if (to_end) pattern.remove_suffix(1);
  std::size_t at = 0;
  bool is_first = true;
  while (true) {
    const std::size_t star = pattern.find('*');
    const std::string_view part = pattern.substr(0, star);
    const bool is_last = star == std::string_view::npos;
    if (is_last && to_end) {
      const bool fits =
          text.size() >= at + part.size() && text.substr(text.size() - part.size()) == part;
      return fits && (!is_first || !from_begin || text.size() == part.size());
    }
    const std::size_t found = find_part(text, part, at);
    if (found == std::string_view::npos || (is_first && from_begin && found != 0)) return false;
    if (is_last) return true;
    at = found + part.size();
    pattern.remove_prefix(star + 1);
    is_first = false;
  }
}

Suppressions::Suppressions() {
  add_text(kBuiltIn, "");
  for (Suppression& row : rows_) row.origin = "built in";
}

void Suppressions::add_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) {
    throw Failure(
        format_text("cannot open the suppressions {}: {}", path.string(), std::strerror(errno)));
  }
  std::ostringstream text;
  text << file.rdbuf();
  add_text(text.str(), path.string());
}

void Suppressions::add_text(std::string_view text, const std::string& origin) {
  std::istringstream stream{std::string(text)};
  std::size_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    while (!line.empty() && (line.back() == ' ' || line.back() == '\r')) line.pop_back();
    line.erase(0, line.find_first_not_of(" \t"));
    if (line.empty() || line.front() == '#') continue;
    const std::size_t colon = line.find(':');
    Suppression row{line.substr(0, colon), "", format_text("{}:{}", origin, number), 0, 0};
    if (colon != std::string::npos) row.pattern = line.substr(colon + 1);
    if (row.pattern.empty() || !is_type(row.type)) {
      throw Failure(format_text("{}: '{}' is no suppression; write leak:PATTERN, transfer:PATTERN, "
                                "growth:PATTERN or RULE:PATTERN",
                                row.origin, line),
                    ExitCode::kUsage);
    }
    rows_.push_back(std::move(row));
  }
}

void Suppressions::add_embedded(const Json& report) {
  std::set<std::string> known;
  for (const Json& process : report.at("processes")) {
    if (!process.contains("suppressions")) continue;
    std::string text;
    for (const Json& line : process.at("suppressions")) {
      const bool is_new = known.insert(line.get<std::string>()).second;
      text += (is_new ? line.get<std::string>() : std::string()) + "\n";
    }
    add_text(text, "in " + text_or(process, "executable", "the program"));
  }
}

const Suppression* Suppressions::use(const Json& finding, const Json& report) {
  const analyzer::RuleInfo* const rule = find_rule(finding.at("rule"));
  const std::vector<std::string> texts = texts_of(finding, report);
  for (Suppression& row : rows_) {
    if (rule == nullptr || (row.type != rule->name && row.type != rule->family)) continue;
    const bool fits = std::any_of(texts.begin(), texts.end(), [&](const std::string& text) {
      return matches_pattern(row.pattern, text);
    });
    if (!fits) continue;
    ++row.count;
    row.bytes += number_or_zero(finding, "bytes");
    return &row;
  }
  return nullptr;
}

std::string suppression_for(const Json& finding) {
  const analyzer::RuleInfo* const rule = find_rule(finding.at("rule"));
  const std::string type(rule == nullptr ? "leak" : rule->family);
  const Json& site = finding.at("site");
  if (site.is_object()) {
    const auto function = text_in(site, "function");
    // Every script has these.
    const bool common = function == "main" || function == "<module>";
    if (function && !common) return type + ":^" + *function + "$";
    if (const auto file = text_in(site, "file")) return type + ":" + *file;
    if (const auto module = text_in(site, "module")) return type + ":^" + *module + "$";
  }
  if (const auto owner = text_in(finding, "owner")) return type + ":^" + *owner + "$";
  return {};
}

}  // namespace gpumemtrace::tools
