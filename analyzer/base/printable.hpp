// SPDX-License-Identifier: Apache-2.0
// Makes names and texts of a trace or a report safe for a terminal, a log, XML or a table.
#pragma once

#include <string>
#include <string_view>

namespace gpumemtrace::analyzer {

// Returns the text as one line of UTF-8 that cannot control a terminal or program that shows it. An
// escape replaces
// - each control character, line end, mark of the writing direction, and code point that XML
//   forbids: `\x0a`, `\x1b`, `\u202e`;
// - each byte that is no UTF-8: `\xe9`, also if it comes as the surrogate by which Python keeps
//   it;
// - the first letter of what a build server takes for a command: of "::" at the begin of a word,
//   and of "##[" and the like.
// The function leaves printable characters as they are.
[[nodiscard]] std::string printable(std::string_view text);

// Does what printable() does for each line of the text, and keeps the line ends.
[[nodiscard]] std::string printable_lines(std::string_view text);

// Escapes in JSON text what printable() escapes, as `\u202e`, which JSON reads as the same letter.
// The text must be UTF-8 without control characters below U+0020.
[[nodiscard]] std::string with_json_escapes(std::string_view text);

}  // namespace gpumemtrace::analyzer
