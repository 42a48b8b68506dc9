// SPDX-License-Identifier: Apache-2.0
// How much of one card is in use, over all processes of the job: by everything on it, and by the
// job alone. What calls ask for is known at all times; the driver is asked now and then.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

#include "analyzer/model/accounts/accounts.hpp"
#include "trace/ledger/curve_peak.hpp"
#include "trace/ledger/device_samples.hpp"
#include "trace/records.hpp"

namespace gpumemtrace::analyzer {

using ledger::Parts;

// The memory that one process held on the card at one point of time.
struct HeldOnCard {
  Parts parts;
  std::uint64_t rounding_bytes = 0;
  std::int64_t driver_bytes = 0;  // what the driver took for the process beyond its calls
  PeakSnapshot holders;           // of driver memory
};

// A point of the card's curves. Points are swapped, never copied: accounts know their snapshots.
struct CardPoint {
  std::uint64_t called_bytes = 0;  // asked for by all processes, as the driver rounds it
  bool at_sample = false;
  std::uint64_t time = 0;  // in the model time of `process`; 0 = there is none
  std::uint32_t process = 0;
  std::uint64_t other_bytes = 0;     // of processes that are not of the job
  std::uint64_t untraced_bytes = 0;  // of processes of the job that have no trace
  std::deque<HeldOnCard> held;       // by member
};

// A process that may use the card. All is borrowed.
struct CardMember {
  std::uint32_t process = 0;
  std::int32_t ordinal = 0;      // the process's number of the card
  std::uint32_t process_id = 0;  // in the namespace that NVML knows; 0 = not known
  const PresentRecord* present = nullptr;
  Account* driver = nullptr;
  std::function<Parts(std::int32_t ordinal)> parts_now;

  std::uint64_t called_bytes = 0;
  std::uint64_t rounding_bytes = 0;
  std::int64_t driver_bytes = 0;  // by the last sample that told it
  bool is_told = false;           // the driver told the process apart
  bool asked_for_free = false;    // since the driver was last asked about processes
  bool is_listed = false;         // in the present list of NVML
  bool is_ending = false;         // it has no more records
  bool has_ended = false;
};

// The highest point of a member as its checkpoint tells it, with the samples before the cut.
struct GoneOnCard {
  HeldOnCard held;
  std::uint64_t time = 0;
  std::uint64_t total_bytes = 0;  // of the card; 0 = not known
  std::uint64_t most_in_use = 0;  // at any of the samples
  std::uint64_t most_of_process = 0;
  ledger::DriverSample nearest;  // to the highest point
  ledger::DriverSample last;
};

// - One computation for both curves, in the order of the job's time.
// - Bounded: a curve keeps two points, and each of them what was released since.
class CardCurves {
 public:
  using Curve = ledger::CurvePeak<CardPoint>;

  // The member's number.
  std::size_t add(const CardMember& member);
  // What the member's calls hold, `rounding_bytes` of it added by the driver.
  void change(std::size_t member, std::uint64_t called_bytes, std::uint64_t rounding_bytes);
  void sample(std::size_t member, const trace::MemorySample& sample);
  // A row of the list that belongs to the member's last sample.
  void sample(std::size_t member, const trace::ProcessSample& sample);
  // Before the member's records behind a checkpoint.
  void restore(std::size_t member, const GoneOnCard& gone);
  // The member's process has no more records; what it held goes soon.
  void begin_end(std::size_t member) { members_[member].is_ending = true; }
  // The member's process is over, and with it all that it held.
  void end(std::size_t member);
  // As in DeviceSamples.
  void count_in_last_sample(std::size_t member, std::uint64_t more_bytes);

  // What has been asked is complete; before the curves are looked at.
  void finish_round();
  [[nodiscard]] const std::deque<CardMember>& members() const { return members_; }
  [[nodiscard]] const Curve& of_card() const { return card_; }
  // Where the driver never told processes apart, this is not known.
  [[nodiscard]] const Curve& of_job() const { return job_; }

 private:
  // What NVML says of the processes on the card, row by row.
  struct Round {
    bool is_open = false;
    bool has_list = false;
    std::size_t asking = 0;
    std::uint64_t other_bytes = 0;     // of processes that are not the asking one
    std::uint64_t untraced_bytes = 0;  // of its children that have no trace
    std::uint64_t listed_bytes = 0;    // of other members, as the list has them
  };

  void sample_card(std::size_t member, std::uint64_t in_use);
  void begin_round(std::size_t member, const trace::MemorySample& sample);
  void tell(std::size_t member, std::uint64_t bytes);
  // Their number where there is none.
  [[nodiscard]] std::size_t member_with(std::uint32_t process_id) const;
  void take(std::size_t member, CardPoint& point) const;
  // How much the driver took for the member was not known at points that wait or are the highest.
  void tell_late(std::size_t member);
  // Divides what the driver took as the last samples told it.
  void divide(CardPoint& point) const;

  std::deque<CardMember> members_;
  std::uint64_t called_bytes_ = 0;
  std::uint64_t other_bytes_ = 0;
  std::uint64_t untraced_bytes_ = 0;
  Round round_;
  bool best_is_to_divide_ = false;  // of the card, by this round's number of each process
  Curve card_;
  Curve job_;
};

}  // namespace gpumemtrace::analyzer
