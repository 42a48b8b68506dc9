// SPDX-License-Identifier: Apache-2.0
// Names and texts of a trace or a report, made safe for a terminal, a log, XML or a table.
#pragma once

#include <string>
#include <string_view>

namespace gpumemtrace::analyzer {

// The text as one line of UTF-8 that steers nothing that reads it. An escape stands for
// - each control character, line end, mark of the writing direction, and code point that XML
//   forbids: `\x0a`, `\x1b`, `\u202e`;
// - each byte that is no UTF-8: `\xe9`, also if it comes as the surrogate by which Python keeps
//   it;
// - what would make a build server take the text for a command: the first letter of "::" at the
//   begin of a word, and of "##[" and the like.
// The function leaves printable characters as they are.
[[nodiscard]] std::string printable(std::string_view text);

// The same for each line.
[[nodiscard]] std::string printable_lines(std::string_view text);

// For text in JSON: the same letters as `\u202e`, which means the same there. The text is UTF-8 and
// has no control character below U+0020.
[[nodiscard]] std::string with_json_escapes(std::string_view text);

}  // namespace gpumemtrace::analyzer
