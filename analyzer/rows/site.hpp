// SPDX-License-Identifier: Apache-2.0
// Where in the program's code something was asked for, and whose code that is: what most rows end
// with.
//
// Every row of the report is a struct in this room: plain data, filled by report/, judged by
// rules/, turned into JSON and back by json/. Its keys stand once, in the table `fields` at its
// end, in the order of the JSON. The verbs of such a table:
//   v("key", value)          always there; null where an optional has no value or a word is empty
//   v.added("key", value)    the same, but older reports of this version lack the key
//   v.only_if_known(...)     there only where the optional has a value
//   v.or_zero(...)           0 where the optional has no value
//   v.or_null(...)           null where the text is empty
//   v.part("key", optional)  the fields of the optional part, which begin with the key, or nothing
//   v.exact(is_exact)        "exact": false, or nothing
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/rows/words.hpp"

namespace gpumemtrace::analyzer::rows {

// null in the report where they have no value: not known, or without meaning for the row.
using OptionalNumber = std::optional<std::uint64_t>;
using OptionalText = std::optional<std::string>;

[[nodiscard]] inline OptionalText text_or_none(std::string text) {
  return text.empty() ? OptionalText() : OptionalText(std::move(text));
}
[[nodiscard]] inline OptionalNumber number_or_none(std::uint64_t number) {
  return number == 0 ? OptionalNumber() : OptionalNumber(number);
}

// A line of code, as far as it is known.
struct Site {
  OptionalText function;
  OptionalText file;
  OptionalNumber line;
  OptionalText module;  // native only
  Language language = Language::kNative;
  OptionalNumber offset;  // in the module, where the line is not known
  OptionalText api;       // the function of CUDA that the code called
  OptionalText node;      // of autograd, where this is the work of a backward pass

  friend bool operator==(const Site&, const Site&) = default;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("function", self.function);
    v("file", self.file);
    v("line", self.line);
    v("module", self.module);
    v("kind", self.language);
    v.added("offset", self.offset);
    v.added("api", self.api);
    v.added("node", self.node);
  }
};

// A second place that a row tells of.
struct CodeLocation {
  Site site;
  OptionalText stack;  // id of a row of stacks[]

  friend bool operator==(const CodeLocation&, const CodeLocation&) = default;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("site", self.site);
    v("stack", self.stack);
  }
};
using OptionalLocation = std::optional<CodeLocation>;

// Whose memory it is and where it was asked for.
struct Origin {
  OptionalText owner;
  std::optional<Site> site;
  OptionalText stack;  // id of a row of stacks[]

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("owner", self.owner);
    v("site", self.site);
    v("stack", self.stack);
  }
};

// What calls gave back of what a row's site had asked for. No value: not known.
struct Releases {
  OptionalNumber count;
  OptionalLocation first_at;
  std::optional<bool> elsewhere;  // not all of them at that one
};

// Numbers by name, in the order of the report.
using NamedNumbers = std::vector<std::pair<std::string, std::uint64_t>>;

}  // namespace gpumemtrace::analyzer::rows
