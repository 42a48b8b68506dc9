// SPDX-License-Identifier: Apache-2.0
// Wraps text into lines of a given width; parts of the text have styles, which a terminal shows as
// colours.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpumemtrace::tools {

enum class Style : std::uint8_t { kPlain, kHeading, kGood, kDoubtful, kBad };

// Text, parts of which have a style.
class StyledText {
 public:
  StyledText() = default;
  // Not explicit: most text has no style.
  StyledText(std::string letters) : letters_(std::move(letters)) {}
  StyledText(const char* letters) : letters_(letters) {}
  StyledText(std::string_view letters, Style style);

  StyledText& operator+=(const StyledText& more);
  friend StyledText operator+(StyledText text, const StyledText& more) { return text += more; }
  // Takes over the styles of `begin`, whose letters this text begins with.
  void take_styles(const StyledText& begin) { spans_ = begin.spans_; }
  void cut(std::size_t width);

  [[nodiscard]] const std::string& letters() const { return letters_; }
  operator const std::string&() const { return letters_; }

  // Calls see(letters, style) for each part, from the left to the right.
  template <class See>
  void for_each_part(See&& see) const {
    const std::string_view all(letters_);
    std::size_t done = 0;
    for (const Span& span : spans_) {
      if (span.begin > done) see(all.substr(done, span.begin - done), Style::kPlain);
      done = std::min(span.end, all.size());
      if (done > span.begin) see(all.substr(span.begin, done - span.begin), span.style);
    }
    if (done < all.size()) see(all.substr(done), Style::kPlain);
  }

 private:
  struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
    Style style = Style::kPlain;
  };

  std::string letters_;
  std::vector<Span> spans_;  // parts with a style, ordered by position
};

[[nodiscard]] inline StyledText heading(std::string_view words) {
  return StyledText(words, Style::kHeading);
}

using Lines = std::vector<StyledText>;

// Splits the text at line ends, which are removed.
[[nodiscard]] Lines lines_of(const StyledText& text);

// The text if it has at most `width` bytes, else its begin followed by `rest`, together at most
// `width` bytes. No UTF-8 character is split.
[[nodiscard]] std::string cut(std::string text, std::size_t width, std::string_view rest = "...");

inline constexpr std::size_t kAllLines = SIZE_MAX;

// Wraps words into lines of at most `width`. The first line begins with `head`; the others are
// indented by its size, or by a few spaces if that leaves no room.
[[nodiscard]] Lines wrapped(const StyledText& head, std::string_view text, std::size_t width);
// Wraps words; `indent` is that of the lines after the first.
[[nodiscard]] Lines wrapped(const StyledText& head, std::string_view text, std::size_t width,
                            std::size_t indent);
// Wraps parts, with `separator` between them; a part is not broken if it fits into a line. If not
// all fit into `most_lines`, the end says how many are left out.
[[nodiscard]] Lines wrapped_parts(const StyledText& head, const std::vector<std::string>& parts,
                                  std::string_view separator, std::size_t width,
                                  std::size_t most_lines = kAllLines);
// Breaks a line into pieces of at most `width`; pieces after the first have a larger indent. Runs
// of spaces, as between columns, are kept, and a long word stays whole.
[[nodiscard]] Lines broken(const StyledText& line, std::size_t width);

}  // namespace gpumemtrace::tools
