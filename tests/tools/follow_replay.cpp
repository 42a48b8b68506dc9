// SPDX-License-Identifier: Apache-2.0
// follow_replay FOLDER LOOKS: reads a saved job LOOKS times as if it were running, and compares
// each result with that of reading the whole job up to the same time. Prints what differs. Exits
// with 0 if nothing differs and the job was read from its begin only once.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <utility>

#include "analyzer/follow.hpp"
#include "analyzer/job/job.hpp"
#include "analyzer/json/report_json.hpp"

namespace {

using namespace gpumemtrace;

// Returns the times of the job's first and last record, by the machine's monotonic clock.
std::pair<std::int64_t, std::int64_t> times_of(const std::filesystem::path& folder) {
  analyzer::FollowedJob job({folder});
  std::pair<std::int64_t, std::int64_t> times{0, 0};
  constexpr std::uint64_t kNever = ~std::uint64_t{0};
  for (const auto& process : job.look({kNever, false}).processes) {
    const analyzer::RunStatistics& statistics = process->model().statistics();
    const std::int64_t first = process->clock().to_monotonic_ns(statistics.first_time);
    if (times.first == 0 || first < times.first) times.first = first;
    times.second = std::max(times.second, process->clock().to_monotonic_ns(statistics.last_time));
  }
  return times;
}

std::string text_of(const analyzer::JobNow& now) {
  std::string text = analyzer::to_text(now.report);
  for (const auto& [process, losses] : now.losses) {
    for (const auto& loss : losses) {
      text += process + " " + loss.name + " " + std::to_string(loss.count) + '\n';
    }
  }
  for (const auto& [process, time_ns] : now.time_ns) {
    text += process + " " + std::to_string(time_ns) + '\n';
  }
  return text;
}

std::string line_at(const std::string& text, std::size_t offset) {
  const std::size_t begin = text.rfind('\n', offset) + 1;
  return text.substr(begin, text.find('\n', offset) - begin);
}

bool are_equal(const std::string& followed, const std::string& at_once, std::uint64_t look) {
  if (followed == at_once) return true;
  std::size_t at = 0;
  while (at < followed.size() && at < at_once.size() && followed[at] == at_once[at]) ++at;
  std::cout << "look " << look << ":\n  followed " << line_at(followed, at) << "\n  at once  "
            << line_at(at_once, at) << '\n';
  return false;
}

int compare(const std::filesystem::path& folder, std::int64_t looks) {
  const auto [first, last] = times_of(folder);
  analyzer::SymbolOptions symbols;
  analyzer::Follower followed({folder}, {symbols, {}, false});
  bool all_equal = true;
  for (std::int64_t look = 1; look <= looks; ++look) {
    // The last time is one nanosecond after the last record.
    const auto time =
        static_cast<std::uint64_t>(first + (last - first) * look / looks + look / looks);
    analyzer::Follower at_once({folder}, {symbols, {}, false});
    all_equal = are_equal(text_of(followed.replay(time)), text_of(at_once.replay(time)),
                          static_cast<std::uint64_t>(look)) &&
                all_equal;
  }
  std::cout << folder.filename().string() << ": " << looks << " looks, read from the begin "
            << followed.full_reads() << " times\n";
  return all_equal && followed.full_reads() == 1 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  try {
    return compare(arguments[1], std::stoll(arguments[2]));
  } catch (const std::exception& error) {
    std::cout << error.what() << '\n';
    return 1;
  }
}
