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
  // files of the user's rules for owners, docs/concepts.md
  std::vector<std::filesystem::path> owner_files;
  // private names become meaningless ones, docs/security.md
  bool redact = false;
};

// The state of a job at a refresh.
struct JobNow {
  // Has traces[], processes[], devices[], usage[], peak[] without holders, card_peaks[],
  // timeline[], steps[], leaks.growth[] and ranks[] as analyze() makes them of the same records,
  // and blocks[] of live memory: a row for each site and use.
  rows::Report report;
  // Known losses and guesses, by process, but not those about joining CUPTI's records with calls.
  std::map<std::string, std::vector<rows::Loss>> losses;
  // the time up to which records were read, by process
  std::map<std::string, std::uint64_t> time_ns;
};

// - Follows a running job. Each refresh takes time for the records since the refresh before, and a
//   little for live memory; the first one reads all past records (analyzer/job/job.hpp,
//   FollowedJob).
// - It only reads the traces. Of running processes it takes the records older than a millisecond.
class Follower {
 public:
  // `inputs`: traces and folders of traces. Throws InputError if a file that `options` names cannot
  // be read.
  Follower(std::vector<std::filesystem::path> inputs, const FollowOptions& options);
  ~Follower();
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Returns the state of the job now. Throws InputError if no trace can be read.
  [[nodiscard]] JobNow look();
  // Returns the state of a recorded job as it was at a time of its machine's monotonic clock; the
  // times of successive calls must rise.
  [[nodiscard]] JobNow replay(std::uint64_t monotonic_ns);
  // Counts how often the job had to be read from its start; 1 after the first refresh.
  [[nodiscard]] std::uint64_t full_reads() const;

 private:
  [[nodiscard]] JobNow look(std::uint64_t monotonic_ns, bool is_replay);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gpumemtrace::analyzer
