// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/failure_log.hpp"

#include <algorithm>
#include <array>

#include "analyzer/base/row_text.hpp"
#include "analyzer/owners/owners.hpp"
#include "tools/base/sizes.hpp"

namespace gpumemtrace::tools {
namespace {

constexpr std::size_t kMostLineBytes = 8192;  // longer lines are taken as several
constexpr std::size_t kMostPrefixBytes = 120;
constexpr std::size_t kMostNameBytes = 1024;
constexpr std::size_t kMostMessageBytes = 4096;
constexpr std::size_t kMostMessageLines = 16;
constexpr std::size_t kBytesBefore = 80;  // bytes kept before a message, to judge the words there
// Bytes kept after a message, which may name the settings' variable.
constexpr std::size_t kBytesAfter = 200;
constexpr std::string_view kDigitLetters = "0123456789";

// Words by which a message is found. All end with kLastWord, which is searched for first.
struct MessageBegin {
  std::string_view words;
  MessageKind kind;
};
constexpr std::string_view kLastWord = "memory";
constexpr auto kMessageBegins = std::to_array<MessageBegin>({
    {"CUDA out of memory", MessageKind::kPyTorch},
    {"HIP out of memory", MessageKind::kPyTorch},
    {"XPU out of memory", MessageKind::kPyTorch},
    {"Error: Out of memory", MessageKind::kPyTorch},
    {"would exceed allowed memory", MessageKind::kCudaMallocAsync},
    {"RESOURCE_EXHAUSTED: Out of memory", MessageKind::kJax},
    {"CUDA error: out of memory", MessageKind::kCudaError},
    // The words of PyTorch before 1.0.
    {"cuda runtime error (2) : out of memory", MessageKind::kCudaError},
});

// The line without colours and other control sequences; control characters become spaces, and
// several spaces become one.
std::string clean_line(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b' && i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && (line[i] < '@' || line[i] > '~')) ++i;
      continue;
    }
    const auto letter = static_cast<unsigned char>(line[i]);
    const bool is_space = letter <= ' ' || letter == 0x7f;
    if (!is_space) {
      text += line[i];
    } else if (!text.empty() && text.back() != ' ') {
      text += ' ';
    }
  }
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

// The text after a leading time such as "2026-11-28T16:24:01.123Z ", which may be in brackets.
std::string_view without_time(std::string_view text) {
  constexpr std::string_view kTime = "dddd-dd-ddTdd:dd:dd";
  const std::string_view time = text.substr(text.starts_with('[') ? 1 : 0);
  if (time.size() < kTime.size()) return text;
  for (std::size_t i = 0; i < kTime.size(); ++i) {
    const bool is_digit = kDigitLetters.find(time[i]) != std::string_view::npos;
    const bool fits = kTime[i] == 'd'   ? is_digit
                      : kTime[i] == 'T' ? time[i] == 'T' || time[i] == ' '
                                        : time[i] == kTime[i];
    if (!fits) return text;
  }
  const std::size_t end = time.find_first_not_of("0123456789.,:+-Z] ", kTime.size());
  return end == std::string_view::npos ? std::string_view() : time.substr(end);
}

// Parses a frame of a Python traceback: `File "train.py", line 12, in step`.
std::optional<TracebackLine> traceback_line(std::string_view text) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = ", in ";
  const std::size_t file = text.find(kFile);
  if (file > kMostPrefixBytes) return std::nullopt;
  const std::size_t line = text.find(kLine, file);
  const std::size_t in = text.find(kIn, line);
  if (line == std::string_view::npos || in == std::string_view::npos) return std::nullopt;
  const std::size_t number = line + kLine.size();
  const auto parsed = parse_number(text.substr(number, in - number));
  if (!parsed) return std::nullopt;
  TracebackLine found;
  found.file =
      text.substr(file + kFile.size(), line - file - kFile.size()).substr(0, kMostNameBytes);
  found.line = *parsed;
  found.function = text.substr(in + kIn.size()).substr(0, kMostNameBytes);
  return found;
}

// The end of the first size in the text that begins at `from` or later; npos if there is none.
std::size_t end_of_size(std::string_view text, std::size_t from) {
  std::size_t end = std::string_view::npos;
  if (from == std::string_view::npos) return end;
  for (const std::string_view unit : {"iB", "bytes"}) {
    const std::size_t found = text.find(unit, from);
    if (found != std::string_view::npos) end = std::min(end, found + unit.size());
  }
  return end;
}

// The end of a message if it is complete, else npos. `begin` is the position after the words by
// which the message was found.
std::size_t end_of_message(std::string_view text, std::size_t begin, MessageKind kind) {
  if (kind == MessageKind::kCudaError) return begin;
  if (kind == MessageKind::kJax) return end_of_size(text, text.find("to allocate ", begin));
  if (kind == MessageKind::kCudaMallocAsync) {
    return end_of_size(text, text.find("memory fraction) : ", begin));
  }
  std::size_t end = std::string_view::npos;
  for (const std::string_view last :
       {"reserved by PyTorch but unallocated", "reserved in total by PyTorch", " cached)"}) {
    const std::size_t found = text.find(last, begin);
    if (found != std::string_view::npos) end = std::min(end, found + last.size());
  }
  return end;
}

struct FoundBegin {
  std::size_t begin = std::string_view::npos;
  std::size_t end = std::string_view::npos;
  MessageKind kind = MessageKind::kPyTorch;
};

// Finds the first of the words in kMessageBegins. They may begin before `from`, but must end after
// it.
FoundBegin begin_of_message(std::string_view text, std::size_t from) {
  FoundBegin first;
  for (const MessageBegin& row : kMessageBegins) {
    const std::size_t size = row.words.size();
    const std::size_t begin = text.find(row.words, from < size ? 0 : from - size + 1);
    if (begin < first.begin) first = {begin, begin + size, row.kind};
  }
  return first;
}

void add_sorted(const std::optional<std::uint64_t>& value, std::vector<std::uint64_t>& values) {
  if (!value || values.size() >= FailureLog::kMostRanks) return;
  const auto place = std::ranges::lower_bound(values, *value);
  if (place == values.end() || *place != *value) values.insert(place, *value);
}

}  // namespace

void FailureLog::read(std::istream& input) {
  std::string line;
  std::array<char, 65536> buffer{};
  while (input.read(buffer.data(), buffer.size()), input.gcount() > 0) {
    const auto size = static_cast<std::size_t>(input.gcount());
    for (const char letter : std::string_view(buffer.data(), size)) {
      if (letter == '\n' || letter == '\r') {  // a progress bar ends its lines by '\r'
        add_line(line);
        line.clear();
        if (letter == '\n') ++lines_;
        continue;
      }
      line += letter;
      if (line.size() < kMostLineBytes) continue;
      const std::size_t space = line.rfind(' ');
      add_line(line.substr(0, space));
      line = space == std::string::npos ? std::string() : line.substr(space + 1);
    }
  }
  if (!line.empty()) {
    add_line(line);
    ++lines_;
  }
  for (auto& [prefix, stream] : streams_) close_messages(prefix, stream, true);
  std::ranges::stable_sort(groups_, {}, &FailureGroup::line);
}

// Removes the prefix "[rank3]: " or "[default3]: ", which may follow a scheduler's own prefix, and
// returns its number.
FailureLog::Prefix FailureLog::take_prefix(std::string_view& text) {
  Prefix prefix;
  std::size_t behind = 0;
  const std::string_view first = text.substr(0, kMostPrefixBytes);
  for (std::size_t begin = first.find('['); begin != std::string_view::npos;
       begin = first.find('[', begin + 1)) {
    for (const std::string_view name : {"[rank", "[default"}) {
      if (!first.substr(begin).starts_with(name)) continue;
      const std::size_t number = begin + name.size();
      const std::size_t end = first.find("]:", number);
      if (end == std::string_view::npos) continue;
      const auto value = parse_number(first.substr(number, end - number));
      if (!value) continue;
      (name == "[rank" ? prefix.rank : prefix.local_rank) = value;
      behind = end + 2;
    }
  }
  text.remove_prefix(behind);
  return prefix;
}

// Adds a line to the stream of its prefix. The line continues an open message, belongs to a
// traceback, or may begin a message.
void FailureLog::add_line(const std::string& line) {
  const std::string clean = clean_line(line);
  std::string_view text = clean;
  const Prefix prefix = take_prefix(text);
  text = without_time(text.substr(text.starts_with(' ') ? 1 : 0));
  if (text.empty()) return;
  if (streams_.size() >= kMostRanks && !streams_.contains(prefix)) {
    if (begin_of_message(text, 0).begin != std::string_view::npos) ++left_out_;
    return;
  }
  Stream& stream = streams_[prefix];
  const std::optional<TracebackLine> frame = traceback_line(text);
  const bool is_begin = text.find("Traceback (most recent call last)") != std::string_view::npos;
  if (!stream.open.empty()) {
    const bool is_other = frame || is_begin;
    if (!is_other) stream.open.append(" ").append(text);
    ++stream.lines;
    close_messages(prefix, stream, is_other);
    if (!is_other) return;
  }
  if (is_begin) stream.traceback = {};
  if (frame) {
    stream.traceback.add(*frame);
  } else if (text.find(kLastWord) != std::string_view::npos) {
    // The words of a message may begin in the line before.
    const std::string with_last = stream.last_line + " " + std::string(text);
    open_message(with_last, stream.last_line.size() + 1, stream);
    close_messages(prefix, stream, false);
  }
  stream.last_line = text.substr(text.size() - std::min(text.size(), kBytesBefore));
}

void FailureLog::Traceback::add(const TracebackLine& frame) {
  innermost = frame;
  if (!analyzer::is_users_python_file(frame.file)) return;
  users = frame;
  if (script.empty() && frame.function == "<module>") script = frame.file;
}

// Finds a message whose words end after `from`, and keeps `text` from shortly before these words on
// in stream.open; without a message, stream.open becomes empty.
void FailureLog::open_message(const std::string& text, std::size_t from, Stream& stream) const {
  const FoundBegin found = begin_of_message(text, from);
  stream.open.clear();
  if (found.begin == std::string::npos) return;
  const std::size_t start = found.begin - std::min(found.begin, kBytesBefore);
  stream.open = text.substr(start);
  stream.words_begin = found.begin - start;
  stream.words_end = found.end - start;
  stream.kind = found.kind;
  stream.line = lines_ + 1;
  stream.lines = 1;
}

// Adds the complete messages in stream.open to the log and keeps the rest open. An incomplete
// message is added as well if it is too long, or if the log ends or a traceback follows
// (`is_at_end`).
void FailureLog::close_messages(const Prefix& prefix, Stream& stream, bool is_at_end) {
  const bool gives_up =
      is_at_end || stream.lines > kMostMessageLines || stream.open.size() > kMostMessageBytes;
  while (!stream.open.empty()) {
    const std::string_view open = stream.open;
    const FoundBegin next = begin_of_message(open, stream.words_end);
    const std::size_t end = std::min(
        next.begin, end_of_message(open.substr(0, next.begin), stream.words_end, stream.kind));
    if (end == std::string_view::npos && !gives_up) return;
    const std::size_t rest = end == std::string_view::npos ? open.size() : end;
    const std::size_t most = std::min(next.begin, rest + kBytesAfter);
    add_message(prefix, stream, open.substr(0, most));
    open_message(std::string(open.substr(rest)), 0, stream);
  }
}

// Adds a message to the log. `text` has some letters before and after the message.
void FailureLog::add_message(const Prefix& prefix, Stream& stream, std::string_view text) {
  const FailureMessage message =
      parse_failure_message(text.substr(stream.words_begin), stream.kind);
  // Text that only mentions out-of-memory errors has no size, and no "Error: " before the words.
  const bool is_error = text.substr(0, stream.words_begin).ends_with("Error: ");
  if (!message.requested && !is_error && stream.kind != MessageKind::kCudaError) return;
  const std::string sizes = analyzer::json_text(message);
  const auto [place, is_new] = group_of_sizes_.try_emplace(sizes, groups_.size());
  if (is_new && groups_.size() == kMostGroups) {
    group_of_sizes_.erase(place);
    ++left_out_;
    return;
  }
  if (is_new) {
    FailureGroup& added = groups_.emplace_back();
    added.message = message;
    added.cause = cause_of(message);
    added.line = stream.line;
  }
  FailureGroup& group = groups_[place->second];
  ++group.count;
  add_sorted(prefix.rank, group.ranks);
  if (!prefix.rank) add_sorted(prefix.local_rank, group.local_ranks);
  add_sorted(message.gpu, group.gpus);
  const Traceback& traceback = stream.traceback;
  if (!group.failed_at) {
    group.failed_at = traceback.users ? traceback.users : traceback.innermost;
    group.script = traceback.script;
  }
  stream.traceback = {};
}

}  // namespace gpumemtrace::tools
