// SPDX-License-Identifier: Apache-2.0
// The out-of-memory messages of a log: one message, or what many ranks wrote into one another.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/explain/failure_message.hpp"

namespace gpumemtrace::tools {

// A line of a Python traceback.
struct TracebackLine {
  std::string file;
  std::uint64_t line = 0;
  std::string function;

  GPUMEMTRACE_FIELDS(file, line, function)
};

// Messages with the same sizes.
struct FailureGroup {
  FailureMessage message;
  FailureCause cause;
  std::uint64_t count = 0;
  std::uint64_t line = 0;                  // of the log, of the first message
  std::vector<std::uint64_t> ranks;        // of prefixes "[rank3]:", sorted
  std::vector<std::uint64_t> local_ranks;  // of torchrun's "[default3]:" where no rank stands
  std::vector<std::uint64_t> gpus;
  std::optional<TracebackLine> failed_at;  // the user's innermost, else the innermost
  std::string script;                      // empty: the log has no traceback of one

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, line, count, ranks, local_ranks, gpus, failed_at)
    v.or_null("script", self.script);
    FailureMessage::fields(self.message, v);
    FailureCause::fields(self.cause, v);
  }
};

// Finds the messages in lines.
//
// - A message may be wrapped; lines of other ranks may stand between its lines if all of them have
//   prefixes.
// - Memory is bounded: by kMostGroups, kMostRanks, and a few KiB of each rank.
class FailureLog {
 public:
  static constexpr std::size_t kMostGroups = 1000;
  static constexpr std::size_t kMostRanks = 4096;

  // Reads to the end, once.
  void read(std::istream& input);

  // In the order of the log.
  [[nodiscard]] const std::vector<FailureGroup>& groups() const { return groups_; }
  // Messages beyond the bounds, which are in no group.
  [[nodiscard]] std::uint64_t left_out() const { return left_out_; }
  [[nodiscard]] std::uint64_t lines() const { return lines_; }

 private:
  struct Prefix {
    std::optional<std::uint64_t> rank;
    std::optional<std::uint64_t> local_rank;

    auto operator<=>(const Prefix&) const = default;
  };
  struct Traceback {
    std::optional<TracebackLine> innermost;
    std::optional<TracebackLine> users;
    std::string script;

    void add(const TracebackLine& frame);
  };
  // The lines of one prefix.
  struct Stream {
    std::string last_line;  // its end
    std::string open;       // a message that is not whole yet, with some letters before it
    MessageKind kind = MessageKind::kPyTorch;
    std::size_t words_begin = 0;  // in `open`: the words by which the message was found
    std::size_t words_end = 0;
    std::uint64_t line = 0;
    std::size_t lines = 0;
    Traceback traceback;
  };

  void add_line(const std::string& line);
  static Prefix take_prefix(std::string_view& text);
  void open_message(const std::string& text, std::size_t from, Stream& stream) const;
  void close_messages(const Prefix& prefix, Stream& stream, bool is_at_end);
  void add_message(const Prefix& prefix, Stream& stream, std::string_view text);

  std::map<Prefix, Stream> streams_;
  std::map<std::string, std::size_t> group_of_sizes_;
  std::vector<FailureGroup> groups_;
  std::uint64_t left_out_ = 0;
  std::uint64_t lines_ = 0;
};

}  // namespace gpumemtrace::tools
