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

// Functions whose buffers libraries allocate at first use and keep until the process ends. They are
// named by function, because a statically linked library has no module of its own.
constexpr std::string_view kBuiltIn = R"(
leak:^cublasCreate
leak:^cublasLtCreate
leak:^cudnnCreate
leak:^cusolverDnCreate
leak:^cusparseCreate
leak:^ncclCommInit
leak:^cuptiActivity
)";

namespace rows = analyzer::rows;

bool is_type(const std::string& type) {
  return std::ranges::any_of(analyzer::kRules, [&](const analyzer::RuleInfo& rule) {
    return rule.name == type || rule.family == type;
  });
}

// Adds the function, file, module and file:line of a site or a frame.
template <class Code>
void add_code(const Code& code, std::vector<std::string>& texts) {
  for (const auto& text : {code.function, code.file, code.module}) {
    if (text) texts.push_back(*text);
  }
  if (code.file && code.line) texts.push_back(format_text("{}:{}", *code.file, *code.line));
}

std::vector<std::string> texts_of(const rows::Finding& finding, const rows::Report& report) {
  std::vector<std::string> texts;
  if (finding.origin.site) add_code(*finding.origin.site, texts);
  if (finding.origin.owner) texts.push_back(*finding.origin.owner);
  if (!finding.origin.stack) return texts;
  for (const rows::Stack& stack : report.stacks) {
    if (stack.id != finding.origin.stack) continue;
    for (const rows::Frame* frame : frames_of(report, stack)) add_code(*frame, texts);
  }
  return texts;
}

// The last two components of a path: "/project/train.py" of "/home/me/project/train.py"; the whole
// path if it is shorter.
std::string last_two_components(const std::string& path) {
  const std::size_t name = path.rfind('/');
  if (name == std::string::npos || name == 0) return path;
  return path.substr(path.rfind('/', name - 1));
}

}  // namespace

// Finds the parts between the stars in the text, each behind the part before.
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
    const std::size_t found = text.find(part, at);
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

void Suppressions::add_embedded(const rows::Report& report) {
  std::set<std::string> known;
  for (const rows::Process& process : report.processes) {
    std::string text;
    // A line that is known already becomes an empty one, so that the later ones keep their numbers.
    for (const std::string& line : process.suppressions) {
      const bool is_new = known.insert(line).second;
      text += (is_new ? line : std::string()) + "\n";
    }
    add_text(text, "in " + process.executable.value_or("the program"));
  }
}

const Suppression* Suppressions::use(const rows::Finding& finding, const rows::Report& report) {
  const analyzer::RuleInfo& rule = describe(finding.rule);
  const std::vector<std::string> texts = texts_of(finding, report);
  for (Suppression& row : rows_) {
    if (row.type != rule.name && row.type != rule.family) continue;
    const bool fits = std::ranges::any_of(
        texts, [&](const std::string& text) { return matches_pattern(row.pattern, text); });
    if (!fits) continue;
    ++row.count;
    row.bytes += finding.bytes.value_or(0);
    return &row;
  }
  return nullptr;
}

std::string suppression_for(const rows::Finding& finding) {
  const std::string type(describe(finding.rule).family);
  if (finding.origin.site) {
    const rows::Site& site = *finding.origin.site;
    // Every program has main or <module>, so a pattern with that name would hide too much.
    const bool common = site.function == "main" || site.function == "<module>";
    if (site.function && !common) return type + ":^" + *site.function + "$";
    // This pattern fits one line of one script, wherever the script is checked out.
    if (site.file && site.line)
      return format_text("{}:{}:{}$", type, last_two_components(*site.file), *site.line);
  }
  return {};
}

}  // namespace gpumemtrace::tools
