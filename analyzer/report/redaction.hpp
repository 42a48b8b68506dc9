// SPDX-License-Identifier: Apache-2.0
// Replaces names of a user, a machine or a program's own code by names without meaning, so that a
// report can be given away. docs/security.md lists what is replaced and what stays.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "analyzer/rows/observations.hpp"
#include "analyzer/rows/report.hpp"

namespace gpumemtrace::analyzer {

using rows::Secret;

// Replaces texts by names without meaning.
// - Equal texts get equal names within a report: function-1, function-2, in order of appearance.
// - Text that is not known to be public is replaced. An empty text stays empty.
class Redaction {
 public:
  [[nodiscard]] std::string replace(Secret secret, const std::string& text);
  // Replaces every name in the rows, in the order of the report. Findings must be made of rows
  // whose names are replaced already.
  void redact(rows::Report& report, rows::Observations& seen);
  void redact(std::vector<rows::Frame>& frames, std::vector<rows::Stack>& stacks);
  // Functions, files and lines of public libraries stay; the folders of their files are left out.
  void redact(rows::Site& site);
  void redact(rows::Frame& frame);
  [[nodiscard]] std::string replace_module(const std::string& file_name);
  // Replaces an owner's name, unless the built-in table of owners has it.
  [[nodiscard]] std::string replace_owner(const std::string& owner);
  // Replaces the name of each class in a path of a model's layers.
  [[nodiscard]] std::string replace_layers(const std::string& layers);
  // Replaces the name of an autograd node, unless it is PyTorch's own.
  [[nodiscard]] std::string replace_node(const std::string& node);
  // Replaces only those words of a sentence that are paths.
  [[nodiscard]] std::string replace_paths(const std::string& sentence);

 private:
  template <class Row>
  void redact_code(Row& row);

  std::array<std::map<std::string, std::string>, names(Secret()).size()> names_;
};

}  // namespace gpumemtrace::analyzer
