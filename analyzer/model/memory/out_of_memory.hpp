// SPDX-License-Identifier: Apache-2.0
// Failures of allocations for lack of memory, and their outcomes.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "analyzer/base/words.hpp"
#include "analyzer/model/accounts/accounts.hpp"

namespace gpumemtrace::analyzer {

// One shortage of memory on one thread: the first failed call and all that followed because of it.
struct OomIncident {
  Level level = Level::kDriver;
  std::int32_t device = kUnknownDevice;
  CallSite site;
  std::uint64_t time = 0;
  std::uint64_t start_ticks = 0;
  std::uint64_t requested_bytes = 0;
  std::uint64_t attempts = 0;
  std::uint64_t flushed_bytes = 0;
  std::uint32_t snapshot = 0;  // index of the snapshot + 1; 0 = none was taken
};

// Incidents of the same level (ledger::Level), device, outcome and caller.
struct OomRow {
  OomIncident first;  // the incident that began first
  OomOutcome outcome = OomOutcome::kUnknown;
  std::uint64_t count = 0;
  std::uint64_t attempts = 0;
  std::uint64_t lost_ticks = 0;
  std::uint64_t flushed_bytes = 0;
};

// An incident of lacking memory is
// - recovered if the same code on the same thread then gets the memory that it asked for, after the
//   framework or the program freed some,
// - raised if the framework reports that it gives up,
// - unknown otherwise: the trace does not show the program's reaction to the error code.
class OutOfMemory {
 public:
  // True if this failure begins an incident of a kind that has no snapshot yet. The caller may then
  // pass a snapshot to set_snapshot().
  [[nodiscard]] bool failed(std::uint32_t writer, const OomIncident& failure);
  void set_snapshot(std::uint32_t writer, std::uint32_t snapshot);

  [[nodiscard]] bool pending() const { return !pending_.empty(); }
  // Notes that memory was freed while an incident of the thread was open.
  void add_freed_bytes(std::uint32_t writer, std::uint64_t bytes);
  void succeeded(std::uint32_t writer, const CallSite& site, std::int32_t device,
                 std::uint64_t bytes, std::uint64_t end_ticks);
  // True if the incident has a new row: the caller may then pass a snapshot to
  // set_raised_snapshot().
  [[nodiscard]] bool raised(std::uint32_t writer, const OomIncident& failure);
  void set_raised_snapshot(std::uint32_t snapshot) { last_raised_->first.snapshot = snapshot; }
  void finish();

  [[nodiscard]] std::vector<OomRow> rows() const;

 private:
  struct Key {
    Level level;
    std::int32_t device;
    OomOutcome outcome;
    CallSite site;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  OomRow& close(const OomIncident& incident, OomOutcome outcome, std::uint64_t end_ticks);

  std::map<std::uint32_t, OomIncident> pending_;  // open incidents by writer
  std::map<Key, OomRow> rows_;
  OomRow* last_raised_ = nullptr;
  std::set<Key> has_snapshot_;
};

}  // namespace gpumemtrace::analyzer
