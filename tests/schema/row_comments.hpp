// SPDX-License-Identifier: Apache-2.0
// Reads the comments of analyzer/rows, which are the descriptions of the report's rows and keys.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpumemtrace::analyzer {

class RowComments {
 public:
  // Reads the comments of all headers in the folder.
  explicit RowComments(const std::filesystem::path& folder);

  // The comment above `struct row`; empty if it has none.
  [[nodiscard]] std::string of_row(std::string_view row) const;
  // The comment of the member that the row's table of fields writes as `key`. Tables that the row's
  // own table includes are searched, too. Empty if there is no comment.
  [[nodiscard]] std::string of_key(std::string_view row, std::string_view key) const;

 private:
  struct Member {
    std::string type;
    std::string comment;
  };
  struct Row {
    std::string comment;
    std::map<std::string, Member, std::less<>> members;
    std::map<std::string, std::string, std::less<>> member_of_key;  // "kind": "origin.language"
    std::vector<std::string> parts;  // rows whose tables this row's includes, and its base
  };

  void read(const std::filesystem::path& header);
  void read_line_of_row(const std::string& line, Row& row, std::string& comment);

  std::map<std::string, Row, std::less<>> rows_;
};

}  // namespace gpumemtrace::analyzer
