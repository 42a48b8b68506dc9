// SPDX-License-Identifier: Apache-2.0
#include "analyzer/base/json_text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "analyzer/base/printable.hpp"

namespace gpumemtrace::analyzer {

using Library = nlohmann::json;

void JsonText::key(std::string_view name) {
  begin_element();
  add_text(name);
  text_ += is_compact_ ? ":" : ": ";
}

void JsonText::null() { add_number("null"); }

void JsonText::boolean(bool value) {
  break_lines();
  add_number(value ? "true" : "false");
}

void JsonText::number(std::uint64_t value) { add_number(std::to_string(value)); }
void JsonText::number(std::int64_t value) { add_number(std::to_string(value)); }
// Writes a double: the text has a point or an exponent also if the number is whole.
void JsonText::number(double value) { add_number(Library(value).dump()); }

void JsonText::text(std::string_view value) {
  break_lines();
  if (!open_.empty() && open_.back().end == ']') begin_element();
  add_text(value);
}

void JsonText::close() {
  const Open closed = open_.back();
  open_.pop_back();
  starts_.resize(closed.first_start);
  if (spaces_ != 0 && !closed.is_empty && !closed.is_on_one_line) start_line(open_.size());
  text_ += closed.end;
}

void JsonText::open(char begin, char end) {
  // A list with an object or a list in it is no list of numbers, so it gets a line for each
  // element.
  if (!open_.empty() && open_.back().end == ']') {
    break_lines();
    begin_element();
  }
  text_ += begin;
  open_.push_back({end, spaces_ != 0, true, starts_.size()});
}

void JsonText::add_number(std::string_view value) {
  if (!open_.empty() && open_.back().end == ']') begin_element();
  text_ += value;
}

void JsonText::add_text(std::string_view value) {
  const bool is_plain = std::ranges::all_of(value, [](char letter) {
    return letter >= ' ' && letter < 0x7f && letter != '"' && letter != '\\';
  });
  const bool may_be_command =
      value.find("##") != std::string_view::npos || value.find("::") != std::string_view::npos;
  if (is_plain && !may_be_command) {
    text_ += '"';
    text_ += value;
    text_ += '"';
  } else {
    const std::string text = Library(value).dump(-1, ' ', false, Library::error_handler_t::replace);
    text_ += with_json_escapes(text);
  }
}

void JsonText::begin_element() {
  Open& parent = open_.back();
  const bool has_space = parent.is_on_one_line || (spaces_ == 0 && !is_compact_);
  if (!parent.is_empty) text_ += has_space ? ", " : ",";
  parent.is_empty = false;
  if (parent.is_on_one_line) {
    starts_.push_back(text_.size());
  } else if (spaces_ != 0) {
    start_line(open_.size());
  }
}

void JsonText::start_line(std::size_t level) {
  text_ += '\n';
  text_.append(spaces_ * level, ' ');
}

void JsonText::break_lines() {
  for (std::size_t level = 0; level < open_.size(); ++level) {
    if (open_[level].is_on_one_line) break_line_of(level);
  }
}

// Puts each element of an open object or list on a line of its own. Objects and lists opened later
// lie in its last element, so the offsets of their elements only move.
void JsonText::break_line_of(std::size_t level) {
  Open& broken = open_[level];
  broken.is_on_one_line = false;
  if (broken.is_empty) return;
  const bool is_last = level + 1 == open_.size();
  const std::size_t first = broken.first_start;
  const std::size_t end = is_last ? starts_.size() : open_[level + 1].first_start;
  const std::string tail = text_.substr(starts_[first]);
  const std::size_t tail_start = starts_[first];
  text_.resize(tail_start);
  for (std::size_t i = first; i < end; ++i) {
    const std::size_t from = starts_[i] - tail_start;
    // an element ends before the ", " of the next one
    const std::size_t to = i + 1 < end ? starts_[i + 1] - tail_start - 2 : tail.size();
    if (i != first) text_ += ',';
    start_line(level + 1);
    text_.append(tail, from, to - from);
  }
  const std::size_t added = text_.size() - tail_start - tail.size();
  for (std::size_t i = end; i < starts_.size(); ++i) starts_[i] += added;
}

}  // namespace gpumemtrace::analyzer
