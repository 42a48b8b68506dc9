// SPDX-License-Identifier: Apache-2.0
// Writes the report's schema and the page's types from the tables of the rows; the comments of the
// rows are the descriptions:
//   report_types SOURCES          writes docs/report.schema.json and tools/page/src/report.ts
//   report_types SOURCES check    fails if one of them is not up to date
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/schema/row_comments.hpp"
#include "tests/schema/row_definitions.hpp"

namespace gpumemtrace::analyzer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchemaBegin = R"({
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "gpumemtrace report, version 1",
  "description": "One report describes one job: one or several traces. Sizes are integers in bytes, times are integers in nanoseconds since the start of the job's earliest process. A value that is not known is null. A row that a gap in the trace may have falsified has \"exact\": false. Rows are sorted by bytes, then by fingerprint. New keys may appear in any object; a row of an older report lacks the newer ones.",
  "$ref": "#/$defs/Report",
  "$defs": {
)";
constexpr const char* kTypesBegin = R"(// SPDX-License-Identifier: Apache-2.0
// The rows of the report, made by tests/schema/report_types.cpp.

export type Bytes = number;
export type Time = number; // nanoseconds since the start of the job
)";
constexpr std::size_t kColumns = 100;

std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') out += '\\';
    out += letter;
  }
  return out + '"';
}

std::string joined(const Words& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

Words quoted(const Words& words) {
  Words out;
  for (const std::string& word : words) out.push_back(in_quotes(word));
  return out;
}

// A JSON list, broken into several lines if it does not fit in one.
std::string list_of(const Words& words, const std::string& indent) {
  if (indent.size() + joined(words, ", ").size() < 80) return "[" + joined(words, ", ") + "]";
  std::string out = "[";
  std::string line;
  for (const std::string& word : words) {
    const bool is_last = &word == &words.back();
    if (line.empty() || line.size() + word.size() + 2 > kColumns - 2) {
      out += line;
      line = "\n" + indent + "  " + word;
    } else {
      line += " " + word;
    }
    if (!is_last) line += ',';
  }
  return out + line + "\n" + indent + "]";
}

std::string schema_of_value(const Type& type) {
  const bool can_be_null = type.can_be_null && !type.is_list;
  if (!type.words.empty()) {
    Words words = quoted(type.words);
    if (can_be_null) words.emplace_back("null");
    return "\"enum\": " + list_of(words, "          ");
  }
  if (!type.definition.empty()) {
    const std::string reference = "\"$ref\": \"#/$defs/" + type.definition + "\"";
    if (!type.json.empty()) {
      return "\"anyOf\": [{\"type\": " + quoted(type.json).front() + type.limits + "}, {" +
             reference + "}]";
    }
    return can_be_null ? "\"anyOf\": [{\"type\": \"null\"}, {" + reference + "}]" : reference;
  }
  Words names = quoted(type.json);
  if (can_be_null && names.back() != "\"null\"") names.emplace_back("\"null\"");
  return "\"type\": " + (names.size() == 1 ? names.front() : list_of(names, "")) + type.limits;
}

std::string schema_of_key(const Definition& row, const Key& key) {
  if (row.name == "Report" && key.name == "version") return "\"const\": 1";
  if (row.name == "Report" && key.name == "redacted") return "\"const\": true";
  if (key.name == "exact" && !key.is_required) return "\"const\": false";
  if (!key.type.is_list) return schema_of_value(key.type);
  const std::string type = key.type.can_be_null ? R"(["array", "null"])" : R"("array")";
  return "\"type\": " + type + ", \"items\": {" + schema_of_value(key.type) + "}";
}

// The schema of a key with its type and its comment, on several lines if one is too short.
std::string member_of_schema(const Definition& row, const Key& key, const RowComments& comments) {
  const std::string begin = "        " + in_quotes(key.name) + ": {";
  const std::string type = schema_of_key(row, key);
  const std::string comment = comments.of_key(row.name, key.name);
  if (comment.empty()) return begin + type + "}";
  const std::string description = "\"description\": " + in_quotes(comment);
  if (begin.size() + description.size() + type.size() < kColumns - 4) {
    return begin + description + ", " + type + "}";
  }
  return begin + "\n          " + description + ",\n          " + type + "\n        }";
}

std::string schema_of_row(const Definition& row, const RowComments& comments) {
  std::string out = "{\n";
  if (const std::string comment = comments.of_row(row.name); !comment.empty()) {
    out += "      \"description\": " + in_quotes(comment) + ",\n";
  }
  Words required;
  Words members;
  for (const Key& key : row.keys) {
    if (key.is_required) required.push_back(in_quotes(key.name));
    members.push_back(member_of_schema(row, key, comments));
  }
  out += "      \"type\": \"object\",\n";
  if (!required.empty()) out += "      \"required\": " + list_of(required, "      ") + ",\n";
  return out + "      \"properties\": {\n" + joined(members, ",\n") + "\n      }\n    }";
}

std::string schema_of(const std::vector<Definition>& definitions, const RowComments& comments) {
  Words rows;
  for (const Definition& definition : definitions) {
    rows.push_back("    " + in_quotes(definition.name) + ": " +
                   (definition.keys.empty()
                        ? "{\"enum\": " + list_of(quoted(definition.words), "    ") + "}"
                        : schema_of_row(definition, comments)));
  }
  return kSchemaBegin + joined(rows, ",\n") + "\n  }\n}\n";
}

std::string typescript_of_key(const Key& key) {
  const Type& type = key.type;
  Words names = type.words.empty() ? Words{type.typescript} : quoted(type.words);
  if (type.is_list) {
    const std::string one = joined(names, " | ");
    names = {(one.find('|') != std::string::npos ? "(" + one + ")" : one) + "[]"};
  }
  if (type.can_be_null && !names.back().ends_with("null")) names.emplace_back("null");
  return "  " + key.name + (key.is_always_written ? ": " : "?: ") + joined(names, " | ") + ";\n";
}

std::string typescript_of(const std::vector<Definition>& definitions) {
  std::string out = kTypesBegin;
  for (const Definition& definition : definitions) {
    if (definition.keys.empty()) {
      const std::string words = joined(quoted(definition.words), " | ");
      out += "\nexport type " + definition.name + " = " + words + ";\n";
      continue;
    }
    out += "\nexport interface " + definition.name + " {\n";
    for (const Key& key : definition.keys) out += typescript_of_key(key);
    out += "}\n";
  }
  return out;
}

// With `is_check`, returns true if the file has this text; else writes the file and returns true if
// that succeeded.
bool write_or_check(const fs::path& path, const std::string& text, bool is_check) {
  if (!is_check) return static_cast<bool>(std::ofstream(path) << text);
  std::ostringstream found;
  found << std::ifstream(path).rdbuf();
  if (found.str() == text) return true;
  std::cerr << path.string()
            << " is not what the rows say: run report_types with the folder of the "
            << "sources\n";
  return false;
}

bool write_or_check_all(const fs::path& sources, bool is_check) {
  const std::vector<Definition> definitions = definitions_of_report();
  const RowComments comments(sources / "analyzer/rows");
  const std::string schema = schema_of(definitions, comments);
  const bool has_schema = write_or_check(sources / "docs/report.schema.json", schema, is_check);
  const std::string types = typescript_of(definitions);
  return write_or_check(sources / "tools/page/src/report.ts", types, is_check) && has_schema;
}

}  // namespace
}  // namespace gpumemtrace::analyzer

int main(int count, char** arguments) {
  const bool is_check = count == 3 && std::string_view(arguments[2]) == "check";
  if (count != 2 && !is_check) {
    std::cerr << "usage: report_types SOURCES [check]\n";
    return 2;
  }
  return gpumemtrace::analyzer::write_or_check_all(arguments[1], is_check) ? 0 : 1;
}
