// SPDX-License-Identifier: Apache-2.0
#include "tests/programs/support/truth.hpp"

#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>

namespace gpumemtrace::programs {
namespace {

// Joins members of a JSON object or array.
class Members {
 public:
  void add(const std::string& member) { text_ += (text_.empty() ? "" : ", ") + member; }
  void add(const std::string& key, std::uint64_t value) {
    add('"' + key + "\": " + std::to_string(value));
  }
  void add(const std::string& key, const std::string& json) { add('"' + key + "\": " + json); }
  std::string object() const { return '{' + text_ + '}'; }
  std::string array() const { return '[' + text_ + ']'; }

 private:
  std::string text_;
};

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + '"';
}

std::string peak_json(std::uint64_t bytes, bool is_exact) {
  return is_exact ? std::to_string(bytes) : "null";
}

std::string json_of(const KindTruth& kind) {
  Members members;
  members.add("allocations", kind.allocations);
  members.add("frees", kind.frees);
  members.add("ended_with_context", kind.ended_with_context);
  members.add("failed", kind.failed);
  members.add("allocated_bytes_total", kind.allocated_bytes_total);
  members.add("peak_bytes", peak_json(kind.peak_bytes, kind.peak_is_exact));
  members.add("live_bytes_at_end", kind.live_bytes);
  members.add("live_count_at_end", kind.live_count);
  members.add("largest_bytes", kind.largest_bytes);
  return members.object();
}

std::string json_of(const CopyTruth& copies) {
  Members members;
  members.add("count", copies.count);
  members.add("bytes", copies.bytes);
  return members.object();
}

}  // namespace

void Truth::called(const char* symbol, bool succeeded) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CallTruth& calls = calls_[symbol];
  ++(succeeded ? calls.succeeded : calls.failed);
}

void Truth::allocated(const std::string& level, const std::string& kind, std::uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  LevelTruth& total = levels_[level];
  total.live_bytes += bytes;
  total.peak_bytes = std::max(total.peak_bytes, total.live_bytes);
  KindTruth& own = total.kinds[kind];
  ++own.allocations;
  ++own.live_count;
  own.allocated_bytes_total += bytes;
  own.live_bytes += bytes;
  own.peak_bytes = std::max(own.peak_bytes, own.live_bytes);
  own.largest_bytes = std::max(own.largest_bytes, bytes);
}

void Truth::freed(const std::string& level, const std::string& kind, std::uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  LevelTruth& total = levels_[level];
  total.live_bytes -= bytes;
  KindTruth& own = total.kinds[kind];
  ++own.frees;
  --own.live_count;
  own.live_bytes -= bytes;
}

void Truth::ended_with_context(const std::string& level, const std::string& kind,
                               std::uint64_t bytes) {
  freed(level, kind, bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  KindTruth& own = levels_[level].kinds[kind];
  --own.frees;
  ++own.ended_with_context;
}

void Truth::allocation_failed(const std::string& level, const std::string& kind) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++levels_[level].kinds[kind].failed;
}

void Truth::churned(const std::string& level, const std::string& kind, std::uint64_t count,
                    std::uint64_t bytes_each) {
  const std::lock_guard<std::mutex> lock(mutex_);
  LevelTruth& total = levels_[level];
  KindTruth& own = total.kinds[kind];
  own.allocations += count;
  own.frees += count;
  own.allocated_bytes_total += count * bytes_each;
  own.largest_bytes = std::max(own.largest_bytes, bytes_each);
  own.peak_is_exact = false;
  total.peak_is_exact = false;
}

void Truth::called_often(const char* symbol, std::uint64_t count) {
  const std::lock_guard<std::mutex> lock(mutex_);
  calls_[symbol].succeeded += count;
}

void Truth::copied(const std::string& direction, std::uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  CopyTruth& copies = copies_[direction];
  ++copies.count;
  copies.bytes += bytes;
}

void Truth::set(std::uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++sets_.count;
  sets_.bytes += bytes;
}

void Truth::note(const std::string& text) {
  const std::lock_guard<std::mutex> lock(mutex_);
  notes_.push_back(text);
}

std::string Truth::json(const std::string& program) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Members calls;
  for (const auto& [symbol, count] : calls_) {
    Members members;
    members.add("succeeded", count.succeeded);
    members.add("failed", count.failed);
    calls.add(symbol, members.object());
  }
  Members levels;
  for (const auto& [level, total] : levels_) {
    Members kinds;
    for (const auto& [kind, own] : total.kinds) kinds.add(kind, json_of(own));
    Members members;
    members.add("peak_bytes", peak_json(total.peak_bytes, total.peak_is_exact));
    members.add("live_bytes_at_end", total.live_bytes);
    members.add("kinds", kinds.object());
    levels.add(level, members.object());
  }
  Members copies;
  for (const auto& [direction, count] : copies_) copies.add(direction, json_of(count));
  Members notes;
  for (const std::string& text : notes_) notes.add(quoted(text));
  Members content;
  content.add("program", quoted(program));
  content.add("pid", static_cast<std::uint64_t>(getpid()));
  content.add("calls", calls.object());
  content.add("levels", levels.object());
  content.add("copies", copies.object());
  content.add("sets", json_of(sets_));
  content.add("notes", notes.array());
  return "{\"truth\": " + content.object() + "}";
}

Truth& truth() {
  static Truth* const only = new Truth;
  return *only;
}

}  // namespace gpumemtrace::programs
