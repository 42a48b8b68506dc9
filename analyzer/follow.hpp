// SPDX-License-Identifier: Apache-2.0
// The analyzer's entry point for a running job: reports its memory again and again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "analyzer/base/input_error.hpp"
#include "analyzer/rows/report.hpp"
#include "analyzer/symbols/symbol_files.hpp"

namespace gpumemtrace::analyzer {

struct FollowOptions {
  SymbolOptions symbols;
  std::vector<std::filesystem::path> owner_files;  // docs/concepts.md
  bool redact = false;                             // docs/security.md
};

// The state of a job at a refresh.
struct JobNow {
  // traces[], processes[], devices[], usage[], peak[] without holders, card_peaks[], timeline[],
  // steps[], leaks.growth[] and ranks[], as analyze() has them of the same records, and blocks[] of
  // live memory: a row for each site and use.
  rows::Report report;
  // Known losses and guesses, by process; for CUPTI's records only those that were dropped.
  std::map<std::string, std::vector<rows::Loss>> losses;
  std::map<std::string, std::uint64_t> time_ns;  // up to which the records go, by process
};

// - A refresh costs time for the records since the one before, and a little for live memory; the
//   first one reads the past (analyzer/job/job.hpp, FollowedJob).
// - It only reads. In running processes it takes records that are older than a millisecond.
class Follower {
 public:
  // `inputs`: traces and folders of traces. Throws InputError for files of the options that cannot
  // be read.
  Follower(std::vector<std::filesystem::path> inputs, const FollowOptions& options);
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Throws InputError if no trace can be read.
  [[nodiscard]] JobNow look();
  // The same for a saved job, as it was at a time of its machine's monotonic clock; the times rise.
  [[nodiscard]] JobNow replay(std::uint64_t monotonic_ns);
  // Counts how often the job had to be read from its start; 1 after the first refresh.
  [[nodiscard]] std::uint64_t beginnings() const;

 private:
  [[nodiscard]] JobNow look(std::uint64_t monotonic_ns, bool is_replay);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpumemtrace::analyzer
