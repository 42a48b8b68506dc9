// SPDX-License-Identifier: Apache-2.0
// Takes the events of the histories of all processes on a card in the order of time, and makes the
// card's curves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/cards/card_curves.hpp"

namespace gpumemtrace::analyzer {

// The largest number of bytes that the calls of all processes held together.
struct CalledPeak {
  std::uint64_t bytes = 0;
  std::uint64_t time_ns = 0;
};

class CardReplay {
 public:
  // The histories must outlive this object.
  explicit CardReplay(std::span<const rows::CardHistory* const> histories);

  [[nodiscard]] std::span<const rows::CardHistory* const> histories() const { return histories_; }
  [[nodiscard]] const CardCurves& curves() const { return curves_; }
  [[nodiscard]] const CalledPeak& called_peak() const { return called_peak_; }
  // False if a part of the curves lies before a checkpoint and is not known.
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  // The largest number of bytes, at any time, by which the sum of the histories may be wrong
  // because they leave out changes.
  [[nodiscard]] std::uint64_t unknown_bytes() const { return most_unknown_bytes_; }

 private:
  // The progress in one process's history. A process that has ended has two events after those of
  // the history: its last record, and the return of its memory.
  struct Reader {
    std::size_t next_event = 0;
    std::size_t next_sample = 0;
    std::size_t next_listed = 0;
    std::size_t next_late = 0;
    std::size_t next_peak = 0;
    std::uint64_t called_bytes = 0;
    std::uint64_t unknown_bytes = 0;
  };

  void take_all();
  // Takes the process's next event.
  void take_next(std::size_t process);
  [[nodiscard]] bool has_next(std::size_t process) const;
  [[nodiscard]] std::uint64_t time_of_next(std::size_t process) const;
  void take(std::size_t process, const rows::CardEvent& event);
  void take_change(std::size_t process, std::uint64_t time_ns);
  void take_sample(std::size_t process);
  void take_listed(std::size_t process);

  std::span<const rows::CardHistory* const> histories_;
  std::vector<Reader> readers_;  // the progress in the history of each process
  CardCurves curves_;
  std::uint64_t called_bytes_ = 0;
  CalledPeak called_peak_;
  std::uint64_t unknown_bytes_ = 0;
  std::uint64_t most_unknown_bytes_ = 0;
  bool is_whole_ = true;
};

}  // namespace gpumemtrace::analyzer
