// SPDX-License-Identifier: Apache-2.0
// The ledger notes which records a scenario's threads make, and compares them with those that the
// trace's own reader finds in the trace file and the ring.
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

// Each record has a number: a Text in its field `part`, a call in its field `caller`. The numbers
// of one thread rise. The explorer sees no access of these functions.
class Ledger {
 public:
  std::string ring_path() const { return trace_path() + ".ring"; }

  // Forgets all records before an execution.
  void reset();
  void begins(std::uint32_t number);
  void ends(std::uint32_t number, bool is_kept);
  // Counts a dropped record that has no number.
  void drops_unnumbered();
  // Adds a span of records to the trace file.
  void append(const preload::Span& span);
  std::uint32_t dropped() const;

  // Checks what the process left: every record that was kept is there, once and in order; no record
  // is there that was dropped or never made; nothing is damaged. Anything else is a violation.
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
  std::set<std::string> checked_;  // states of ring and file that were found good before
};

}  // namespace gpumemtrace::exploration
