// SPDX-License-Identifier: Apache-2.0
// Finds the out-of-memory messages in a log, where several ranks may have written their lines in
// between each other's.
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

// Messages with the same sizes, which count as one failure of several ranks.
struct FailureGroup {
  FailureMessage message;
  FailureCause cause;
  std::uint64_t count = 0;
  std::uint64_t line = 0;            // line number of the first message in the log
  std::vector<std::uint64_t> ranks;  // from prefixes such as "[rank3]:", sorted
  // From torchrun's prefix "[default3]:", if there is no rank.
  std::vector<std::uint64_t> local_ranks;
  std::vector<std::uint64_t> gpus;
  // The innermost frame in the user's code, or else the innermost.
  std::optional<TracebackLine> failed_at;
  std::string script;  // the user's script; empty: no traceback shows one

  static void fields(auto& self, auto& v) {
    GPUMEMTRACE_KEYS(v, line, count, ranks, local_ranks, gpus, failed_at)
    v.or_null("script", self.script);
    FailureMessage::fields(self.message, v);
    FailureCause::fields(self.cause, v);
  }
};

// Finds out-of-memory messages in the lines of a log.
//
// - A message may be wrapped; lines of other ranks may stand between its lines if all of them have
//   prefixes.
// - Memory is bounded: by kMostGroups, kMostRanks, and a few KiB for each rank.
class FailureLog {
 public:
  static constexpr std::size_t kMostGroups = 1000;
  static constexpr std::size_t kMostRanks = 4096;

  // Reads the log to its end. Must be called once only.
  void read(std::istream& input);

  // The groups, in the order in which the log has their first messages.
  [[nodiscard]] const std::vector<FailureGroup>& groups() const { return groups_; }
  // The number of messages beyond the limits, which are in no group.
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
  // The lines that have the same prefix, such as those of one rank.
  struct Stream {
    std::string last_line;  // the last letters of the previous line
    std::string open;       // an incomplete message, with some letters before it
    MessageKind kind = MessageKind::kPyTorch;
    std::size_t words_begin = 0;  // position in `open` of the words by which the message was found
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
