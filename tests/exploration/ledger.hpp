// SPDX-License-Identifier: Apache-2.0
// Compares the records of a scenario's threads with the packed ones: the trace's own reader reads
// what is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "preload/ring/packer.hpp"
#include "tests/support/temporary_folder.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::exploration {

// Result of every call that a scenario completes.
inline constexpr int kCallResult = 7;

// A record is known by a number: of a Text its part, of a call its caller. Numbers of one thread
// rise. All functions are unseen by the explorer.
class Ledger {
 public:
  std::string ring_path() const { return trace_path() + ".ring"; }

  // Nothing was recorded yet.
  void reset();
  void begins(std::uint32_t number);
  void ends(std::uint32_t number, bool is_kept);
  // A record that has no number was dropped.
  void drops_unnumbered();
  // The span stands in the trace file.
  void append(const preload::Span& span);
  std::uint32_t dropped() const;

  // Checks the rest of the process: every record that was kept is there, once and in order; none
  // that was dropped or never made; nothing is damaged. Anything else is a violation.
  void check_left(const preload::Ring& ring);

 private:
  enum class State { kBegun, kKept, kDropped };
  struct Appended {
    std::uint32_t writer = 0;
    std::uint32_t sequence = 0;
    std::uint32_t begin = 0;
    std::vector<std::byte> records;
  };

  std::string trace_path() const { return (folder_.path() / "trace.gmt").string(); }
  std::string describe_left(const preload::Ring& ring) const;
  void write_trace() const;
  std::string read_back() const;
  std::string look_at(const trace::RecordHeader& record, std::map<std::uint32_t, int>& seen,
                      std::map<std::uint32_t, std::uint32_t>& last_of_thread) const;

  tests::TemporaryFolder folder_{tests::place_in_memory()};
  std::map<std::uint32_t, State> made_;
  std::uint32_t unnumbered_drops_ = 0;
  std::vector<Appended> appended_;
  std::set<std::string> checked_;  // found good before
};

}  // namespace gpumemtrace::exploration
