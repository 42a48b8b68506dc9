// SPDX-License-Identifier: Apache-2.0
#include "tests/schema/row_comments.hpp"

#include <fstream>
#include <regex>

namespace gpumemtrace::analyzer {
namespace {

const std::regex kComment(R"(^\s*// (.*)$)");
const std::regex kRow(R"(^struct (\w+)(?: : (\w+))? \{$)");
const std::regex kMember(R"(^  ([\w:]+(?:<.+>)?) (\w+)(?: = .*|\{.*\})?;(?:\s+// (.*))?$)");
const std::regex kKey(R"re(v(?:\.\w+)?\("(\w+)", self\.([\w.]+)\))re");
const std::regex kPart(R"(^    (\w+)::fields\(self)");

void append(std::string& text, const std::string& more) {
  if (!text.empty()) text += ' ';
  text += more;
}

}  // namespace

RowComments::RowComments(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) read(entry.path());
}

void RowComments::read(const std::filesystem::path& header) {
  std::ifstream file(header);
  std::string line;
  std::string comment;
  Row* row = nullptr;
  for (std::smatch match; std::getline(file, line);) {
    if (std::regex_match(line, match, kRow)) {
      row = &rows_[match[1]];
      row->comment = std::move(comment);
      if (match[2].matched) row->parts.push_back(match[2]);
      comment.clear();
    } else if (line.starts_with('}')) {
      row = nullptr;
    } else if (row != nullptr) {
      read_line_of_row(line, *row, comment);
    } else if (std::regex_match(line, match, kComment)) {
      append(comment, match[1]);
    } else {
      comment.clear();
    }
  }
}

// Reads a line of a row's struct. `comment` collects comment lines until the member below them.
void RowComments::read_line_of_row(const std::string& line, Row& row, std::string& comment) {
  std::smatch match;
  if (std::regex_match(line, match, kComment)) return append(comment, match[1]);
  if (std::regex_match(line, match, kMember)) {
    if (match[3].matched) append(comment, match[3]);
    row.members[match[2]] = {match[1], comment};
  }
  if (std::regex_search(line, match, kKey)) row.member_of_key[match[1]] = match[2];
  if (std::regex_search(line, match, kPart)) row.parts.push_back(match[1]);
  comment.clear();
}

std::string RowComments::of_row(std::string_view row) const {
  const auto found = rows_.find(row);
  return found == rows_.end() ? std::string() : found->second.comment;
}

std::string RowComments::of_key(std::string_view row, std::string_view key) const {
  const auto found = rows_.find(row);
  if (found == rows_.end()) return {};
  const auto renamed = found->second.member_of_key.find(key);
  const std::string name =
      renamed == found->second.member_of_key.end() ? std::string(key) : renamed->second;
  const std::size_t dot = name.find('.');
  const auto member = found->second.members.find(name.substr(0, dot));
  if (member != found->second.members.end()) {
    if (dot == std::string::npos) return member->second.comment;
    return of_key(member->second.type, name.substr(dot + 1));
  }
  for (const std::string& part : found->second.parts) {
    if (std::string comment = of_key(part, key); !comment.empty()) return comment;
  }
  return {};
}

}  // namespace gpumemtrace::analyzer
