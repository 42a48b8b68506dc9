// SPDX-License-Identifier: Apache-2.0
#include "analyzer/text/sentence.hpp"

#include <algorithm>
#include <cstdio>

#include "analyzer/text/amounts.hpp"
#include "analyzer/text/names.hpp"

namespace gpumemtrace::analyzer {
namespace {

std::string number_text(std::string_view name, std::uint64_t number) {
  if (name.ends_with("bytes")) return size_text(number);
  return name.ends_with("_ns") ? duration_text(number) : format_count(number);
}

std::string fraction_text(std::string_view name, double fraction) {
  const bool is_share = name.ends_with("_share");
  char text[32];
  std::snprintf(text, sizeof text, is_share ? "%.0f %%" : "%.1f", fraction * (is_share ? 100 : 1));
  return text;
}

}  // namespace

std::string Sentence::operator()(std::string_view pattern) const {
  std::string text;
  (void)append(text, pattern);
  return text;
}

void Sentence::add_to(rows::Evidence& evidence, std::initializer_list<const char*> names) const {
  for (const char* const name : names) evidence.add(name, values_.at(name));
}

// The text for a name in a pattern; empty if its value is not known.
std::string Sentence::text_of(std::string_view name) const {
  const auto found = values_.find(name);
  // No value was set for the name: a mistake in the pattern, which tests find.
  if (found == values_.end()) return '{' + std::string(name) + '}';
  const rows::Evidence::Value& value = found->second;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return number_text(name, *number);
  if (const auto* fraction = std::get_if<double>(&value)) return fraction_text(name, *fraction);
  const auto* const location = std::get_if<rows::CodeLocation>(&value);
  return location == nullptr ? std::string() : location_text(*location, own_site_);
}

// Appends the pattern with its names replaced. False if a name in it has no value.
bool Sentence::append(std::string& text, std::string_view pattern) const {
  bool is_known = true;
  while (!pattern.empty()) {
    const std::size_t at = std::min(pattern.find_first_of("{["), pattern.size());
    text += pattern.substr(0, at);
    if (at == pattern.size()) break;
    const bool is_name = pattern[at] == '{';
    const std::size_t end = pattern.find(is_name ? '}' : ']', at);
    const std::string_view inner = pattern.substr(at + 1, end - at - 1);
    pattern.remove_prefix(end + 1);
    std::string part;
    const bool has_value = is_name ? append_name(part, inner) : append(part, inner);
    if (is_name) is_known = is_known && has_value;
    if (is_name || has_value) text += part;
  }
  return is_known;
}

// Appends the text for the part of a pattern in braces: "name", "name|one|many" or "name?one|many".
// False if the name has no value.
bool Sentence::append_name(std::string& text, std::string_view name) const {
  if (name == "site") {
    text += site_text(own_site_);
    return own_site_.has_value();
  }
  const std::size_t sign = std::min(name.find_first_of("|?"), name.size());
  const std::string value = text_of(name.substr(0, sign));
  if (sign == name.size() || name[sign] == '|') text += value;
  if (sign == name.size()) return !value.empty();
  const std::string_view nouns = name.substr(sign + 1);
  const std::size_t middle = nouns.find('|');
  if (name[sign] == '|') text += ' ';
  text += value == "1" ? nouns.substr(0, middle) : nouns.substr(middle + 1);
  return !value.empty();
}

}  // namespace gpumemtrace::analyzer
