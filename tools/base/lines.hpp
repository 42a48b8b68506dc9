// SPDX-License-Identifier: Apache-2.0
// Text in lines of a width, with the parts that a terminal shows in colour.
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

// Characters, some of them with a style.
class StyledText {
 public:
  StyledText() = default;
  // Not explicit: most text has no style.
  StyledText(std::string letters) : letters_(std::move(letters)) {}
  StyledText(const char* letters) : letters_(letters) {}
  StyledText(std::string_view letters, Style style);

  StyledText& operator+=(const StyledText& more);
  friend StyledText operator+(StyledText text, const StyledText& more) { return text += more; }
  // Gives it the styles of a text that it begins with.
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
  std::vector<Span> spans_;  // in order
};

[[nodiscard]] inline StyledText heading(std::string_view words) {
  return StyledText(words, Style::kHeading);
}

using Lines = std::vector<StyledText>;

// The text without its line ends.
[[nodiscard]] Lines lines_of(const StyledText& text);

// The text if it has at most `width` characters, else its begin and the sign for the rest.
[[nodiscard]] std::string cut(std::string text, std::size_t width, std::string_view rest = "...");

inline constexpr std::size_t kAllLines = SIZE_MAX;

// Words in lines of at most `width`, the first behind `head` and the others behind as many spaces,
// or behind a few if that leaves no room.
[[nodiscard]] Lines wrapped(const StyledText& head, std::string_view text, std::size_t width);
// The same with the number of spaces.
[[nodiscard]] Lines wrapped(const StyledText& head, std::string_view text, std::size_t width,
                            std::size_t indent);
// The same for parts, which are not broken if a line has room for them, with `separator` between.
// The number of parts that do not fit in `most_lines` stands at the end.
[[nodiscard]] Lines wrapped_parts(const StyledText& head, const std::vector<std::string>& parts,
                                  std::string_view separator, std::size_t width,
                                  std::size_t most_lines = kAllLines);
// A line in pieces of at most `width`, the later ones below its own indent. Columns that stand
// further apart are not moved, and a long word stays whole.
[[nodiscard]] Lines broken(const StyledText& line, std::size_t width);

}  // namespace gpumemtrace::tools
